"""Comparisons as tables and as rows of JSON: predicted and measured in columns of their own, always."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topo.cli_common import Column, Table
from topo.units import format_rate, format_size
from validate.compare import Comparison, Delta
from validate.measurement import Measurement
from validate.session import Session

COLUMNS = (
    Column("size", "num_bytes"),
    Column("algorithm", "algorithm"),
    Column("predicted us", "predicted_us", ",.2f"),
    Column("measured us", "measured_us", ",.2f"),
    Column("error %", "error_percent", "+.1f"),
    Column("predicted busbw GB/s", "predicted_busbw_gb_per_s", ".2f"),
    Column("measured busbw GB/s", "measured_busbw_gb_per_s", ".2f"),
    Column("result", "correct"),
    Column("verdict", "verdict"),
    Column("limiting link (predicted)", "limiting_link"),
)

DELTA_COLUMNS = (
    Column("size", "num_bytes"),
    Column("algorithm", "algorithm"),
    Column("before us", "before_us", ",.2f"),
    Column("after us", "after_us", ",.2f"),
    Column("after / before", "ratio", ".3f"),
    Column("95 % from", "low_ratio", ".3f"),
    Column("to", "high_ratio", ".3f"),
    Column("verdict", "verdict"),
)

_RESULT = {True: "exact", False: "WRONG", None: "unchecked"}


def comparison_rows(
    measurements: Sequence[Measurement], comparisons: Sequence[Comparison | None]
) -> list[dict[str, Any]]:
    """One JSON row per measurement, SI units; what is predicted is null where nothing could be."""
    return [_row(found, comparison) for found, comparison in zip(measurements, comparisons, strict=True)]


def _row(found: Measurement, comparison: Comparison | None) -> dict[str, Any]:
    prediction = comparison.prediction if comparison else None
    limiting = prediction.limiting if prediction else None
    return {
        "num_bytes": found.workload.num_bytes,
        "algorithm": found.algorithm,
        "executor": found.executor,
        "predicted_algorithm": prediction.algorithm if prediction else None,
        "predicted_s": prediction.duration_s if prediction else None,
        "measured_s": found.median_s,
        "relative_error": comparison.relative_error if comparison else None,
        "predicted_busbw_bytes_per_s": prediction.busbw_bytes_per_s if prediction else None,
        "measured_busbw_bytes_per_s": found.busbw_bytes_per_s,
        "correct": found.correct,
        "verdict": comparison.verdict if comparison else None,
        "tolerance": comparison.tolerance if comparison else None,
        "reason": comparison.reason if comparison else None,
        "limiting_link": limiting.link if limiting else None,
    }


def comparison_table(
    title: str, measurements: Sequence[Measurement], comparisons: Sequence[Comparison | None]
) -> Table:
    """The same rows in the units people read."""
    rows = []
    for row in comparison_rows(measurements, comparisons):
        error = row["relative_error"]
        rows.append(
            (
                format_size(row["num_bytes"]),
                row["algorithm"],
                _scaled(row["predicted_s"], 1e6),
                _scaled(row["measured_s"], 1e6),
                None if error is None else error * 100,
                _scaled(row["predicted_busbw_bytes_per_s"], 1e-9),
                _scaled(row["measured_busbw_bytes_per_s"], 1e-9),
                _RESULT[row["correct"]],
                row["verdict"],
                row["limiting_link"],
            )
        )
    return Table(COLUMNS, tuple(rows), title)


def delta_rows(deltas: Sequence[Delta]) -> list[dict[str, Any]]:
    """One JSON row per workload measured on both sides."""
    return [
        {
            "collective": delta.after.workload.collective,
            "num_bytes": delta.after.workload.num_bytes,
            "algorithm": delta.after.algorithm,
            "before_s": delta.before.median_s,
            "after_s": delta.after.median_s,
            "ratio": delta.ratio,
            "low_ratio": delta.low_ratio,
            "high_ratio": delta.high_ratio,
            "verdict": delta.verdict,
            "tolerance": delta.tolerance,
            "reason": delta.reason,
        }
        for delta in deltas
    ]


def delta_table(title: str, deltas: Sequence[Delta]) -> Table:
    """The same rows in the units people read."""
    rows = tuple(
        (
            format_size(row["num_bytes"]),
            row["algorithm"],
            row["before_s"] * 1e6,
            row["after_s"] * 1e6,
            row["ratio"],
            row["low_ratio"],
            row["high_ratio"],
            row["verdict"],
        )
        for row in delta_rows(deltas)
    )
    return Table(DELTA_COLUMNS, rows, title)


def session_notes(session: Session) -> list[str]:
    """What a user must know beside the table: where the prediction comes from, what failed, which results are wrong."""
    found = session.found
    notes = []
    if found.point_to_point is not None:
        facts = found.point_to_point
        notes.append(
            "predicted from point-to-point messages alone, no collective was looked at: a pair gets "
            f"{format_rate(facts.pair_bytes_per_s)}, all together {format_rate(facts.total_bytes_per_s)}, a hop costs "
            f"{facts.hop_latency_s * 1e6:.0f} us while all send ({facts.pair_latency_s * 1e6:.0f} us for a pair alone)"
        )
    wrong = [row for row in found.measurements if row.correct is False]
    notes += [f"WRONG result: {row.algorithm} of {row.workload.num_bytes} bytes" for row in wrong]
    if found.failure is not None:
        notes.append(f"{found.failure}; {len(found.measurements)} results so far are kept")
    return notes


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
