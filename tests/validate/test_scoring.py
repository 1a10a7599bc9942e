"""Scoring: which rows are fitted and which scored, what an error is, and that no model sees what it is scored on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from defusedxml import ElementTree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.validate.published_documents import cases_from, document
from topo.cluster import Cluster
from topo.errors import NameChoiceError
from topo.presets import preset
from validate.published.cases import Case
from validate.scoring.errors import REGIMES, by_regime, errors_of, regime_of
from validate.scoring.fits import FITS, Fit, fit_of, rows_of
from validate.scoring.models import MODELS, Model, model
from validate.scoring.nccl_model import nccl_model
from validate.scoring.plot import render
from validate.scoring.scaled import ScaledModel, Terms
from validate.scoring.score import blind, score
from validate.scoring.textbook import node_bytes_per_s, textbook_terms, vendor_bytes_per_s

Numbers = npt.NDArray[np.float64]
unhurried = settings(suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""
SIZES = tuple(8 << shift for shift in range(0, 28, 3))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def run_of(*sizes: int, time_s: float = 1e-5, name: str = "mine", **changes: Any) -> dict[str, Any]:
    samples = [{"num_bytes": size, "time_s": time_s * (1 + size / 2**20)} for size in sizes]
    return document(samples=samples, name=name, **changes)


@pytest.fixture(scope="module")
def case(folder: Path) -> Case:
    return cases_from(folder / "one", run_of(*SIZES)).cases[0]


def with_sizes(case: Case, sizes: Sequence[int]) -> Case:
    """The case with samples of these sizes, which is all that fits look at."""
    return replace(case, samples=tuple(replace(case.samples[0], num_bytes=size) for size in sizes))


@pytest.mark.parametrize(
    ("sizes", "fit", "used", "rows"),
    [
        ((8, 64, 1024), "none", "none", ()),
        ((64, 8, 1024), "overhead", "overhead", (1,)),
        ((8,), "overhead", "none", ()),
        ((8, 8), "three", "none", ()),
        ((8, 64), "three", "overhead", (0,)),
        ((8, 64, 1024), "three", "overhead", (0,)),
        ((8, 1 << 19, 1 << 22, 1 << 30), "three", "three", (0, 1, 3)),
        ((1 << 31, 1 << 30, 1 << 33, 1 << 32), "three", "three", (1, 0, 2)),
    ],
)
def test_a_fit_takes_the_rows_it_says_and_leaves_some(
    case: Case, sizes: tuple[int, ...], fit: Fit, used: Fit, rows: tuple[int, ...]
) -> None:
    made = with_sizes(case, sizes)
    assert (fit_of(made, fit), rows_of(made, fit)) == (used, rows)


@unhurried
@given(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=12), st.sampled_from(FITS))
def test_whatever_the_sizes_a_row_is_left_to_score(sizes: list[int], fit: Fit) -> None:
    made: Any = SimpleNamespace(samples=[SimpleNamespace(num_bytes=size) for size in sizes])
    rows = rows_of(made, fit)
    assert len(set(rows)) == len(rows) < len(sizes)
    assert len(rows) == {"none": 0, "overhead": 1, "three": 3}[fit_of(made, fit)]


@pytest.mark.parametrize(
    ("num_bytes", "regime"),
    [(1, "latency"), (64 << 10, "latency"), (65537, "knee"), (16 << 20, "knee"), ((16 << 20) + 1, "bandwidth")],
)
def test_a_size_has_one_regime(num_bytes: int, regime: str) -> None:
    assert regime_of(num_bytes) == regime


@unhurried
@given(st.lists(st.tuples(st.integers(1, 1 << 36), st.floats(-1, 1e6)), max_size=30))
def test_regimes_share_out_all_rows(rows: list[tuple[int, float]]) -> None:
    found = by_regime(rows)
    assert sum(errors.num_rows for errors in found.values()) == len(rows)
    assert list(found) == [name for name in REGIMES if name in found]
    for errors in found.values():
        assert 0 <= errors.median_abs_error <= errors.p90_abs_error


def test_errors_are_medians_and_the_ninetieth_percentile() -> None:
    found = errors_of([-0.1, 0.2, -0.3, 0.4, 1.0])
    assert found is not None
    assert (found.median_abs_error, found.num_rows, found.median_error) == (0.3, 5, 0.2)
    assert found.p90_abs_error == pytest.approx(0.76)
    assert errors_of([]) is None


class Spy:
    """A model that answers one second, and keeps what it was shown."""

    def __init__(self) -> None:
        self.seen: list[Numbers] = []
        self.fitted: list[Numbers] = []

    def times_s(self, case: Case) -> Numbers:
        self.seen.append(case.measured_s)
        return np.where(case.num_bytes > 1 << 20, 1.0, np.nan)

    def adapted(self, case: Case, rows: tuple[int, ...]) -> Spy:
        self.fitted.append(case.measured_s)
        return self


@pytest.mark.parametrize("fit", FITS)
def test_no_model_is_shown_a_time_that_it_is_scored_on(case: Case, fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy()
    monkeypatch.setattr(Model, "predictor", lambda self: spy)
    (run,) = score([case], MODELS["nccl"], (), fit).runs
    assert all(np.isnan(times).all() for times in spy.seen)
    for times in spy.fitted:
        assert np.flatnonzero(np.isfinite(times)).tolist() == sorted(rows_of(case, fit))
    assert [row.fitted for row in run.rows] == [place in rows_of(case, fit) for place in range(len(SIZES))]
    assert [row.measured_s for row in run.rows] == case.measured_s.tolist()


def test_a_row_without_a_prediction_costs_ours_a_full_error_and_a_baseline_nothing(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Model, "predictor", lambda self: Spy())
    scores = score([case], MODELS["engines"], [MODELS["nccl"]])
    ours, theirs = (scores.errors(name, lambda row: row.collective)["all"] for name in ("engines", "nccl"))
    assert ours["latency"].median_abs_error == ours["latency"].p90_abs_error == 1.0
    assert "latency" not in theirs
    assert theirs["bandwidth"] == ours["bandwidth"]
    assert scores.num_rows == sum(errors.num_rows for errors in ours.values()) == len(SIZES)


def test_a_model_must_answer_for_each_sample(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spy, "times_s", lambda self, case: np.ones(1))
    monkeypatch.setattr(Model, "predictor", lambda self: Spy())
    with pytest.raises(ValueError, match="one each is needed"):
        score([case], MODELS["nccl"], ())


def test_a_class_that_is_left_out_teaches_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [run_of(8, 1 << 20, name=name, machine={"class": name}) for name in ("first", "second", "third")]
    cases = cases_from(folder / "three", *documents).cases
    taught: list[list[str]] = []

    def train(self: Model, known: Sequence[Case]) -> Spy:
        taught.append([row.machine_class for row in known])
        return Spy()

    monkeypatch.setattr(Model, "train", train)
    scores = score(cases, MODELS["nccl"], (), leave_class_out=True)
    assert taught == [["second", "third"], ["first", "third"], ["first", "second"]]
    assert scores.cross_validated
    assert list(scores.errors("nccl", lambda row: row.machine_class)) == ["all", "first", "second", "third"]


LATENCY_S = np.array([1e-5, 1e-5, 2e-5, 2e-5, 4e-5])
MOVING_S = np.array([0.0, 1e-5, 1e-4, 1e-3, 1e-2])


@unhurried
@given(st.floats(0, 20e-6), st.floats(0.5, 2.0), st.floats(0.7, 1.5))
def test_three_rows_bring_a_formula_close_to_what_it_came_from(
    launch_s: float, latency_factor: float, moving_factor: float
) -> None:
    truth_s = launch_s + latency_factor * LATENCY_S + moving_factor * MOVING_S
    made: Any = SimpleNamespace(measured_s=truth_s)
    fitted = ScaledModel(lambda case: Terms(LATENCY_S, MOVING_S)).trained((made,))
    assert np.abs(fitted.times_s(made) / truth_s - 1).max() < 0.2


def test_outliers_leave_a_formula_to_the_rows_that_follow_it() -> None:
    truth_s = 1.2 * LATENCY_S + 1.1 * MOVING_S
    good: Any = SimpleNamespace(measured_s=truth_s)
    bad: Any = SimpleNamespace(measured_s=truth_s / 50)
    fitted = ScaledModel(lambda case: Terms(LATENCY_S, MOVING_S)).trained((good, good, good, bad))
    assert np.abs(fitted.times_s(good) / truth_s - 1).max() < 0.1


@pytest.mark.parametrize("measured_s", [1e-5, 5e-5, 1e-7])
def test_one_row_sets_the_overhead_and_leaves_the_rate(case: Case, measured_s: float) -> None:
    samples = tuple(replace(row, time_s=measured_s) for row in case.samples)
    formula, known = nccl_model(), replace(case, samples=samples)
    fitted = formula.adapted(known, (0,))
    assert fitted.times_s(known)[0] == pytest.approx(max(measured_s, fitted.terms(known).moving_s[0]))
    assert fitted.moving_factor == formula.moving_factor


def test_nccl_as_a_baseline_says_what_its_tuner_says(case: Case) -> None:
    estimates = [choice.estimate_s for choice in case.choices if choice]
    assert nccl_model().times_s(case) == pytest.approx(estimates)


def test_the_textbook_is_steps_of_three_microseconds_and_bytes(case: Case) -> None:
    terms = textbook_terms(case)
    assert terms.latency_s.tolist() == [6e-6] * len(SIZES)
    assert terms.moving_s == pytest.approx(case.num_bytes / 300e9)


@pytest.mark.parametrize(
    ("name", "gpus", "gb_per_s"),
    [
        ("dgx-h100", 8, 450),
        ("dgx-b200", 8, 900),
        ("hgx-a100-4gpu-mesh", 4, 300),
        ("dgx1-v100", 8, 150),
        ("pcie-8xl40s-intel", 2, 32),
    ],
)
def test_the_vendor_s_rate_of_a_machine(name: str, gpus: int, gb_per_s: float) -> None:
    node = preset(name).take_ranks(range(gpus))
    assert node_bytes_per_s(node) / 1e9 == pytest.approx(gb_per_s, rel=0.03)


def test_over_several_nodes_the_nics_limit() -> None:
    cluster = Cluster(preset("dgx-h100"), 2)
    assert vendor_bytes_per_s(cluster, "all_reduce") == pytest.approx(400e9)
    assert vendor_bytes_per_s(cluster, "all_to_all") == pytest.approx(50e9)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "textbook"])
@pytest.mark.parametrize("fit", FITS)
def test_every_model_keeps_the_rules(folder: Path, name: str, fit: Fit) -> None:
    cases = cases_from(folder / "rules", run_of(8, 1 << 16, 1 << 20, 1 << 22)).cases
    scores = score(cases, MODELS[name], [MODELS["textbook"]], fit)
    for run in scores.runs:
        for row in run.rows:
            predicted_s = row.predicted_s[name]
            assert predicted_s is not None
            assert math.isfinite(predicted_s)
            assert predicted_s > 0
    assert scores.models == (name, "textbook")
    assert MODELS[name].train(cases).times_s(cases[0]).shape == (4,)


def test_an_unknown_model_is_named_with_the_nearest() -> None:
    with pytest.raises(NameChoiceError, match="did you mean 'nccl'"):
        model("ncl")


def test_a_blind_case_keeps_all_but_the_times(case: Case) -> None:
    shown = blind(case, (2,))
    assert np.flatnonzero(np.isfinite(shown.measured_s)).tolist() == [2]
    assert shown.num_bytes.tolist() == case.num_bytes.tolist()
    assert shown.choices == case.choices


def test_the_picture_has_a_point_for_each_scored_row(case: Case) -> None:
    scores = score([case], MODELS["nccl"], (), "overhead")
    root = ElementTree.fromstring(render(scores))
    titles = [row.text for row in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 1 + len(SIZES) - 1
    assert "900-mine, 64 B: predicted" in titles[1]
