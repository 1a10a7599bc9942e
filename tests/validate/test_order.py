"""Which of two forced ways is faster: only ways of one source, machine and size that differ are held together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from validate.published.cases import Case, cases_of
from validate.published.runs import shipped_runs
from validate.scoring.order import pairs_of
from validate.scoring.score import ScoredRow, ScoredRun, Scores


@pytest.fixture(scope="module")
def cases() -> tuple[Case, ...]:
    """Ring and tree of one source on 8 x B300."""
    return cases_of(run for run in shipped_runs() if run.id in ("203", "204")).cases


def scored(case: Case, factor: float = 1.0) -> ScoredRun:
    rows = tuple(
        ScoredRow(sample.num_bytes, sample.time_s, {"clock": sample.time_s * factor}) for sample in case.samples
    )
    return ScoredRun(case, "none", rows)


def test_a_model_that_knows_the_times_has_every_pair_right(cases: tuple[Case, ...]) -> None:
    scores = Scores(tuple(scored(case) for case in cases), "clock", (), "none")
    pairs = pairs_of(scores, "clock")
    assert len(pairs) >= 8
    assert all(pair.is_right for pair in pairs)
    assert all(pair.measured_s[1] > 1.05 * pair.measured_s[0] for pair in pairs)


def test_a_model_that_has_it_the_wrong_way_round_is_wrong(cases: tuple[Case, ...]) -> None:
    ring, tree = cases
    scores = Scores((scored(ring, 100.0), scored(tree)), "clock", (), "none")
    assert not any(pair.is_right for pair in pairs_of(scores, "clock"))


def test_equal_ways_and_other_sources_are_no_pairs(cases: tuple[Case, ...]) -> None:
    ring, tree = cases
    same = replace(tree, run=replace(tree.run, algorithm=ring.run.algorithm))
    elsewhere = replace(tree, run=replace(tree.run, source="another"))
    for other in (same, elsewhere):
        assert not pairs_of(Scores((scored(ring), scored(other)), "clock", (), "none"), "clock")
    silent = ScoredRun(tree, "none", tuple(replace(row, predicted_s={"clock": None}) for row in scored(tree).rows))
    assert not pairs_of(Scores((scored(ring), silent), "clock", (), "none"), "clock")
