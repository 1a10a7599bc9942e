"""docs/accuracy.md holds what comes out, for all healthy runs that are shipped."""

from __future__ import annotations

import re

import pytest

from sim.clock.terms import TERMS
from tests.bench.accuracy import MARK, all_scores, text_of
from tests.bench.marks import between
from tests.support import ROOT
from validate.scoring.left_out import digest_of, remembered
from validate.scoring.score import Scores

NUMBER = re.compile(r"(?<![\w.])[+-]?\d[\d,]*(?:\.\d+)?(?![\w.])")
ROUNDING = 0.51
"""Numbers of the page are rounded to whole percents or tenths; other machines round the last place otherwise."""


@pytest.fixture(scope="module")
def scores() -> tuple[Scores, ...]:
    return all_scores()


def test_every_healthy_row_is_scored_or_was_used_for_a_fit(scores: tuple[Scores, ...]) -> None:
    assert [len(one.runs) for one in scores] == [180] * 6
    assert [sum(len(run.rows) for run in one.runs) for one in scores] == [1618] * 6
    assert scores[0].num_rows == 1618
    assert all(run.scored for one in scores for run in one.runs)


def test_the_page_holds_what_comes_out(scores: tuple[Scores, ...]) -> None:
    shown, found = between(ROOT / "docs" / "accuracy.md", MARK), text_of(scores)
    assert NUMBER.sub("#", shown) == NUMBER.sub("#", found), "write it again with `make accuracy`"
    for stated, number in zip(numbers(shown), numbers(found), strict=True):
        assert stated == pytest.approx(number, abs=ROUNDING, rel=1e-3), "write it again with `make accuracy`"


def test_every_class_has_terms_that_its_own_runs_did_not_teach(scores: tuple[Scores, ...]) -> None:
    cases, known = [run.case for run in scores[0].runs], remembered()
    classes = {case.machine_class for case in cases}
    digests = {name: digest_of([case for case in cases if case.machine_class != name]) for name in classes}
    assert set(digests.values()) == set(known), "fit them again with `make profiles`"
    assert all(len(values) == len(TERMS) and min(values) > 0 for values in known.values())


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]
