"""Verdicts with their reasons, and what counts as a change between two measurements."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sim.prediction import MOSTLY_IDLE, LinkLoad, Prediction
from sim.workload import Workload
from topo.errors import MeasurementError
from validate.compare import Comparison, changes, compare, differences
from validate.measurement import Measurement, Setting
from validate.sentences import launches

WORKLOAD = Workload("all_reduce", 1_000_000)


def measured(*samples_s: float, algorithm: str = "ring") -> Measurement:
    return Measurement(WORKLOAD, 2, "recorded", "point-to-point", algorithm, samples_s)


def predicted(duration_s: float, busy_fraction: float = 1.0) -> Prediction:
    load = LinkLoad("GPU3->NVS0", 1e6, 1e9, busy_fraction)
    return Prediction(WORKLOAD, 2, "ring", "simple", 1, "event", "ideal", duration_s, (load,))


@pytest.mark.parametrize(
    ("duration_s", "error", "verdict"),
    [(1e-3, 0.0, "OK"), (0.75e-3, -0.25, "OK"), (0.7e-3, -0.3, "LOW"), (1.25e-3, 0.25, "OK"), (1.3e-3, 0.3, "HIGH")],
)
def test_slower_than_predicted_is_low_and_faster_is_high(duration_s: float, error: float, verdict: str) -> None:
    (row,) = compare([predicted(duration_s)], [measured(1e-3)])
    assert row.relative_error == pytest.approx(error)
    assert row.verdict == verdict


def test_a_low_row_says_expected_and_measured_and_which_link_limits() -> None:
    reason = Comparison(predicted(0.5e-3), measured(1e-3)).reason
    assert reason == (
        "50% of the predicted speed, expected 1.5 GB/s to 2.5 GB/s of busbw (tolerance 25%), measured 1 GB/s: limited "
        "by GPU3->NVS0"
    )
    idle, busy = (Comparison(predicted(0.5e-3, share * MOSTLY_IDLE), measured(1e-3)) for share in (0.99, 1.01))
    assert idle.reason.endswith("latencies decide, not a link")
    assert busy.reason.endswith("limited by GPU3->NVS0")
    assert "faster than the topology and profile allow" in Comparison(predicted(2e-3), measured(1e-3)).reason


@given(st.floats(1e-7, 10), st.floats(1e-7, 10), st.floats(0, 2))
def test_the_verdict_is_the_relative_error_against_the_tolerance(
    duration_s: float, median_s: float, tolerance: float
) -> None:
    row = Comparison(predicted(duration_s), measured(median_s), tolerance)
    assert row.relative_error == pytest.approx(duration_s / median_s - 1)
    assume(abs(abs(row.relative_error) - tolerance) > 1e-9)
    assert (row.verdict == "OK") == (abs(row.relative_error) <= tolerance)
    assert (row.verdict == "LOW") == (row.relative_error < -tolerance)


@given(st.floats(1e-7, 10), st.floats(1e-7, 10), st.floats(0, 2), st.none() | st.floats(0.01, 1))
def test_what_is_ok_lies_in_the_range_that_is_expected(
    duration_s: float, median_s: float, tolerance: float, min_ratio: float | None
) -> None:
    row = Comparison(predicted(duration_s), measured(median_s), tolerance, min_ratio)
    fastest_s, slowest_s = row.expected_s
    assert fastest_s <= duration_s <= slowest_s
    low, high = row.expected_busbw_bytes_per_s
    assert low <= high
    assert row.wire_bytes_per_s == pytest.approx(1e6 / median_s)
    edge = 1e-9 * median_s
    if row.verdict == "LOW":
        assert median_s > slowest_s - edge
    elif row.verdict == "HIGH":
        assert median_s < fastest_s + edge or min_ratio is not None
    else:
        assert median_s < slowest_s + edge


@pytest.mark.parametrize(
    ("gpus_per_process", "num_nodes", "version", "launches_us"),
    [
        (8, 1, "2.8.4", 8 * (4.4 + 0.26 * 3)),
        (8, 1, "2.20.5", 8 * (4.4 + 0.03 * 3)),
        (None, 1, "unknown", 8 * (4.4 + 0.26 * 3)),
        (None, 2, "2.20.5", 0),
        (4, 2, "2.20.5", 4 * (4.4 + 0.03 * 3)),
        (1, 1, "2.20.5", 0),
    ],
)
def test_no_size_takes_less_than_one_process_needs_to_launch_on_all_its_gpus(
    gpus_per_process: int | None, num_nodes: int, version: str, launches_us: float
) -> None:
    found = replace(
        measured(1e-5),
        num_ranks=8,
        backend="nccl-tests",
        software=(Setting("nccl", version),),
        gpus_per_process=gpus_per_process,
    )
    row = Comparison(replace(predicted(1e-5), num_ranks=8, num_channels=4), found, num_nodes=num_nodes)
    assert row.launches_s == pytest.approx(launches_us * 1e-6, rel=0.03)
    assert row.expected_s[1] >= row.launches_s


def test_what_only_launches_allow_for_is_told() -> None:
    found = replace(measured(9e-5), num_ranks=8, backend="nccl-tests", gpus_per_process=8)
    row = Comparison(replace(predicted(2e-5), num_ranks=8), found)
    assert (row.verdict, row.is_allowed_for_launches) == ("OK", True)
    (sentence,) = launches([row])
    assert "OK by what launching kernels may cost" in sentence
    assert launches([replace(row, measurement=replace(found, samples_s=(2e-5,)))]) == []
    assert launches([replace(row, measurement=replace(found, samples_s=(9e-4,)))]) == []
    assert launches([replace(row, min_ratio=0.1)]) == []


def test_versions_and_variables_that_differ_are_told() -> None:
    old = replace(measured(1), software=(Setting("nccl", "2.27"), Setting("torch", "2.8")))
    new = replace(measured(1), software=(Setting("nccl", "2.30"),), environment=(Setting("NCCL_ALGO", "Tree"),))
    assert [row.sentence for row in differences([old], [new])] == [
        "nccl was 2.27, now it is 2.30",
        "torch was 2.8 and is no longer set",
        "NCCL_ALGO is new: Tree",
    ]
    assert not differences([old], [old])
    assert not differences([measured(1)], [replace(measured(1), software=(Setting("nccl", "2.27"),))])


def test_unlike_things_are_not_compared() -> None:
    with pytest.raises(MeasurementError, match="2 predictions for 1 measurement: give"):
        compare([predicted(1), predicted(1)], [measured(1)])
    with pytest.raises(MeasurementError, match="3 ranks beside a measurement of all_reduce, 1000000 bytes, 2 ranks"):
        compare([replace(predicted(1), num_ranks=3)], [measured(1)])


BEFORE = (1.00e-3, 1.01e-3, 0.99e-3, 1.02e-3, 0.98e-3)


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, "SAME"), (1.03, "SAME"), (1.2, "SLOWER"), (0.8, "FASTER"), (3.0, "SLOWER")]
)
def test_medians_apart_beyond_noise_are_a_change(factor: float, verdict: str) -> None:
    (delta,) = changes([measured(*BEFORE)], [measured(*(sample * factor for sample in BEFORE))])
    assert delta.ratio == pytest.approx(factor)
    assert delta.verdict == verdict
    assert delta.low_ratio is not None
    assert delta.high_ratio is not None
    assert delta.low_ratio <= delta.ratio <= delta.high_ratio


def test_what_noise_explains_is_no_change() -> None:
    noisy = (1e-3, 5e-3, 1e-3, 6e-3, 1.5e-3)
    (delta,) = changes([measured(*noisy)], [measured(*reversed(noisy), 1.2e-3, 4e-3)])
    assert delta.verdict == "SAME"


def test_single_samples_are_compared_by_the_tolerance_alone() -> None:
    (delta,) = changes([measured(1e-3)], [measured(1.06e-3)])
    assert (delta.verdict, delta.low_ratio, delta.high_ratio) == ("SLOWER", None, None)
    assert "tells nothing of noise" in delta.reason


def test_the_same_samples_give_the_same_interval() -> None:
    sides = [measured(*BEFORE)], [measured(*BEFORE, 2e-3)]
    assert changes(*sides) == changes(*sides)


def test_only_what_both_sides_have_is_compared() -> None:
    both = changes([measured(1), measured(1, algorithm="tree")], [measured(1, algorithm="tree")])
    assert [delta.after.algorithm for delta in both] == ["tree"]
    with pytest.raises(MeasurementError, match="no workload in common"):
        changes([measured(1)], [measured(1, algorithm="tree")])
