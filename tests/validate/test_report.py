"""What people see of comparisons: tables that fit a terminal with every number whole, and the sentences beside them."""

from __future__ import annotations

import csv
import io
import re
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.algorithms import ALGORITHMS
from sim.prediction import LinkLoad, Prediction
from sim.workload import Workload
from topo.table import Table
from topo.units import format_size
from validate import sentences
from validate.compare import Comparison, changes
from validate.loopback import PointToPoint
from validate.measurement import Measurement
from validate.measurement_set import MeasurementSet
from validate.report import COLUMNS, comparison_rows, comparison_table, delta_table
from validate.session import Session

SCREEN = 80
LONGEST_NAME = max(ALGORITHMS, key=len)


class Screen(io.StringIO):
    """A standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def on_a_screen(table: Table, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of a table on a terminal of 80 columns, without its bold letters and its heading."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Screen())
        for name, value in {"COLUMNS": str(SCREEN), "TERM": "xterm"}.items():
            patch.setenv(name, value)
        text = table.text(terminal=True)
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()[1:]


def measured(
    *samples_s: float, num_bytes: int = 1 << 20, algorithm: str = LONGEST_NAME, correct: bool | None = True
) -> Measurement:
    workload = Workload("all_reduce", num_bytes, "uint8")
    return Measurement(workload, 4, "gloo", "point-to-point", algorithm, samples_s, correct=correct)


def compared(found: Measurement, duration_s: float, busy_fraction: float = 1.0) -> Comparison:
    load = LinkLoad("a-link-with-a-long-name->another", 1e6, 1e9, busy_fraction)
    prediction = Prediction(found.workload, 4, "ring", "simple", 1, "event", "ideal", duration_s, (load,))
    return Comparison(prediction, found)


times = st.floats(1e-7, 9.999)
"""Seconds, up to what takes 12 places in microseconds."""

shares = st.floats(0.3, 1)
"""Of the longest sample: noise of a factor of three."""


@given(
    times,
    st.lists(shares, min_size=1, max_size=4),
    st.floats(0.01, 1000),
    st.sampled_from([1, 1023, 1024, 999_999, 1_048_577, 1023 << 20, 1 << 33]),
    st.sampled_from([True, False, None]),
)
def test_a_comparison_fits_80_columns_with_every_number_whole(
    longest_s: float, shares: list[float], factor: float, num_bytes: int, correct: bool | None
) -> None:
    samples_s = [longest_s * share for share in shares]
    predicted_s = min(longest_s * factor, 9.999)
    row = compared(measured(*samples_s, num_bytes=num_bytes, correct=correct), predicted_s)
    table = comparison_table("title", [row.measurement], [row])
    with pytest.MonkeyPatch.context() as monkeypatch:
        lines = on_a_screen(table, monkeypatch)
    error = f"{row.relative_error * 100:+,.1f}"
    assert max(map(len, lines)) <= SCREEN
    whole = [format_size(num_bytes), LONGEST_NAME, f"{predicted_s * 1e6:,.2f}", error]
    whole += [f"{row.measurement.median_s * 1e6:,.2f}", "WRONG" if correct is False else row.verdict]
    for cell in whole:
        assert cell in lines[-1]


@given(times, st.lists(shares, min_size=2, max_size=4), st.floats(1, 3))
def test_a_change_fits_80_columns_with_every_number_whole(longest_s: float, shares: list[float], factor: float) -> None:
    samples_s = [longest_s * share for share in shares]
    before, after = measured(*samples_s), measured(*(sample / factor for sample in samples_s))
    table = delta_table("title", changes([before], [after]))
    with pytest.MonkeyPatch.context() as monkeypatch:
        lines = on_a_screen(table, monkeypatch)
    assert max(map(len, lines)) <= SCREEN
    for cell in (LONGEST_NAME, f"{before.median_s * 1e6:,.2f}", f"{after.median_s * 1e6:,.2f}"):
        assert cell in lines[-1]


def test_columns_that_only_several_samples_fill_are_left_out_of_tables_for_people() -> None:
    row = compared(measured(1.0), 1.0)
    assert "spread_percent" not in [column.key for column in comparison_table("", [row.measurement], [row]).columns]
    one = delta_table("", changes([measured(1.0)], [measured(1.0)]))
    assert [column.key for column in one.columns][-2:] == ["ratio", "verdict"]
    full = comparison_table("", [row.measurement], [row], "csv")
    assert full.columns == COLUMNS


def test_programs_get_every_column_and_plain_numbers() -> None:
    row = compared(measured(1e-3, 2e-3, correct=False), 1e-3)
    table = comparison_table("", [row.measurement], [row], "csv")
    (cells,) = csv.DictReader(io.StringIO(table.csv()))
    assert cells["num_bytes"] == str(1 << 20)
    assert (cells["verdict"], cells["correct"]) == ("LOW", "WRONG")
    assert cells["limiting_link"] == "a-link-with-a-long-name->another"
    assert "predicted busbw GB/s" in comparison_table("", [row.measurement], [row], "md").markdown()


def test_the_samples_spread_is_told_in_every_row() -> None:
    row = measured(*(float(sample) for sample in range(1, 12)))
    (plain,) = comparison_rows([row], [None])
    assert (plain["measured_s"], plain["measured_p10_s"], plain["measured_p90_s"]) == (6.0, 2.0, 10.0)
    assert plain["num_samples"] == 11
    assert row.relative_spread == pytest.approx(4 / 6)
    (plain,) = comparison_rows([measured(1.0)], [None])
    assert (plain["measured_p10_s"], plain["measured_p90_s"], plain["num_samples"]) == (None, None, 1)


@given(st.lists(times, min_size=2, max_size=30))
def test_percentiles_lie_between_the_extremes_and_around_the_median(samples_s: list[float]) -> None:
    row = measured(*samples_s)
    assert row.p10_s is not None
    assert row.p90_s is not None
    tiny = 1e-12
    assert min(samples_s) - tiny <= row.p10_s <= row.median_s + tiny
    assert row.median_s - tiny <= row.p90_s <= max(samples_s) + tiny


def sized(*errors: float, busy_fraction: float = 1.0) -> list[Comparison]:
    """Comparisons of doubling sizes from 1 KiB with these relative errors."""
    rows = [measured(1.0, 1.0, num_bytes=1024 << index, algorithm="ring") for index in range(len(errors))]
    return [compared(row, 1 + error, busy_fraction) for row, error in zip(rows, errors, strict=True)]


def test_verdicts_of_neighbouring_sizes_are_one_sentence_about_the_worst() -> None:
    (low, high) = sentences.verdicts(sized(0.0, -0.3, -0.6, -0.5, 0.1, 0.4))
    assert low.startswith("ring 2 KiB to 8 KiB LOW, 3 rows, worst 4 KiB: 40% of the predicted speed")
    assert high.startswith("ring 32 KiB HIGH: 140% of the predicted speed")


def test_what_limits_is_told_by_stretches_of_sizes_and_once_for_algorithms_that_agree() -> None:
    rows = [*sized(0, 0, busy_fraction=0.1), *sized(0, 0, 0)[2:]]
    again = [Comparison(row.prediction, measured(1.0, num_bytes=row.measurement.workload.num_bytes)) for row in rows]
    (sentence,) = sentences.limits([*rows, *again])
    assert sentence == (
        f"ring, {LONGEST_NAME} (predicted as ring), as predicted: 1 KiB to 2 KiB latencies decide, not a link; "
        "4 KiB limited by a-link-with-a-long-name->another"
    )


def test_what_stands_in_for_another_algorithm_says_so() -> None:
    (row,) = sized(0.0)
    instead = replace(row, prediction=replace(row.prediction, instead_of="nvls"))
    assert sentences.limits([instead])[0].startswith("ring (predicted as ring in place of nvls), as predicted: 1 KiB ")


def test_errors_and_verdicts_are_explained_and_the_spread_where_there_is_one() -> None:
    (sentence,) = sentences.legend(sized(0.0))
    assert "error % = predicted / measured - 1, OK within 25%; LOW: measured slower" in sentence
    assert "± %" in sentence
    (sentence,) = sentences.legend([compared(measured(1.0), 1.0)])
    assert "±" not in sentence
    assert sentences.legend([]) == []


def session(*comparisons: Comparison | None, samples_s: tuple[float, ...] = (0.9, 1.0, 1.1)) -> Session:
    found = [row.measurement if row else measured(*samples_s) for row in comparisons]
    facts = PointToPoint(4, 1e-4, 2e-4, 1e9, 1e9)
    return Session(MeasurementSet("x", tuple(found), point_to_point=facts), comparisons)


def test_that_processes_share_the_cores_stands_beside_every_run_on_loopback() -> None:
    noisy = compared(measured(0.5, 1.0, 1.5), 1.3)
    (sentence,) = sentences.noise(session(noisy, compared(measured(1.0, 1.0), 2.0)))
    assert "4 processes share " in sentence
    assert "± 20% in the median row, ± 40% at worst" in sentence
    assert sentence.endswith("1 of 2 LOW or HIGH rows predicted within their 10th to 90th percentile")
    assert "LOW or HIGH" not in sentences.noise(session(compared(measured(1.0, 1.0), 1.0)))[-1]
    assert sentences.noise(session(None, samples_s=(1.0,)))[-1].endswith("use -n")
    told = sentences.of_session(session(noisy), "gloo", gates=False)
    assert sum("share" in text for text in told) == 1
    assert not any("share" in text for text in sentences.of_session(session(noisy), "nccl", gates=False))


def test_a_run_says_what_cannot_be_predicted_what_is_wrong_and_why_it_ended() -> None:
    told = sentences.of_session(session(None), "gloo", gates=False)
    assert any(text.startswith("nothing is predicted: what runs all_reduce here is not known") for text in told)
    failed = MeasurementSet("x", (measured(1.0, correct=False),), failure="rank 1 died")
    told = sentences.of_session(Session(failed, (None,)), "nccl", gates=False)
    assert told[-2:] == [
        f"WRONG result: {LONGEST_NAME} all_reduce of {1 << 20} bytes",
        "rank 1 died; 1 result so far is kept",
    ]


def test_one_rank_has_nobody_to_send_to() -> None:
    alone = replace(measured(1.0), num_ranks=1)
    told = sentences.of_session(Session(MeasurementSet("x", (alone,)), (None,)), "nccl", gates=False)
    assert told[0].startswith("nothing is predicted: one rank has nobody to send to")


def test_samples_far_off_are_told_and_noise_is_not() -> None:
    usual = [1.0, 1.01, 0.99, 1.02, 0.98] * 4
    calm, spiked = measured(*usual), measured(*usual, 3.0)
    assert (calm.num_outliers, spiked.num_outliers) == (0, 1)
    assert sentences.outliers([calm]) == []
    (sentence,) = sentences.outliers([calm, spiked])
    assert sentence.startswith("outliers: 1 sample in 1 row far off, up to 3 times the median")
    assert measured(1.0, 1.0, 1.0).num_outliers == 0
    assert measured(1.0).num_outliers == 0


@given(st.lists(times, min_size=2, max_size=30))
def test_higher_percentiles_are_slower(samples_s: list[float]) -> None:
    row = measured(*samples_s)
    assert row.p90_s is not None
    assert row.p95_s is not None
    assert row.p99_s is not None
    tiny = 1e-12
    assert row.p90_s <= row.p95_s + tiny <= row.p99_s + 2 * tiny <= max(samples_s) + 3 * tiny


def test_where_busbw_is_no_speed_of_a_wire_what_the_link_carried_is_told() -> None:
    row = compared(measured(1e-3, num_bytes=1 << 20), 1e-3)
    assert row.wire_bytes_per_s == pytest.approx(1e9)
    (sentence,) = sentences.wire([row])
    assert sentence.startswith(
        "busbw is no speed of a wire here: at 1 MiB a-link-with-a-long-name->another carried 1 GB/s"
    )
    busbw = row.measurement.busbw_bytes_per_s
    same = replace(row.prediction, link_loads=(LinkLoad("x", busbw * 1e-3, 1e9, 1.0),))
    assert sentences.wire([replace(row, prediction=same)]) == []
    assert sentences.wire([compared(measured(1e-3), 1e-3, busy_fraction=0.1)]) == []
