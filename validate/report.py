"""Comparisons as tables and as rows of JSON: predicted and measured in columns of their own, always.

A table for people fits a terminal of 80 columns: what it has no room for is in JSON, CSV and Markdown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from topo.table import Cell, Column, Table
from topo.units import format_size
from validate.compare import Comparison, Delta
from validate.measurement import Measurement

FOR_PEOPLE = "table"

COLUMNS = (
    Column("size", "num_bytes", show=format_size),
    Column("algorithm", "algorithm"),
    Column("predicted\nus", "predicted_us", ",.2f"),
    Column("measured\nus", "measured_us", ",.2f"),
    Column("±\n%", "spread_percent", ".0f"),
    Column("error\n%", "error_percent", "+,.1f"),
    Column("verdict", "verdict"),
    Column("result", "correct"),
    Column("predicted busbw\nGB/s", "predicted_busbw_gb_per_s", ".2f"),
    Column("measured busbw\nGB/s", "measured_busbw_gb_per_s", ".2f"),
    Column("limiting link\n(predicted)", "limiting_link"),
    Column("expected busbw\nfrom GB/s", "expected_low_gb_per_s", ".2f"),
    Column("to GB/s", "expected_high_gb_per_s", ".2f"),
    Column("ratio\n%", "ratio_percent", ".0f"),
    Column("wire\nGB/s", "wire_gb_per_s", ".2f"),
    Column("p50\nus", "p50_us", ",.2f"),
    Column("p95\nus", "p95_us", ",.2f"),
    Column("p99\nus", "p99_us", ",.2f"),
    Column("executor", "executor"),
    Column("protocol", "protocol"),
    Column("NCCL took", "library_choice"),
    Column("NCCL expected\nus", "library_estimate_us", ",.2f"),
)
NUM_SHOWN = 7
"""Columns of a table for people; a wrong result stands in the verdict there."""

DELTA_COLUMNS = (
    Column("size", "num_bytes", show=format_size),
    Column("algorithm", "algorithm"),
    Column("before\nus", "before_us", ",.2f"),
    Column("after\nus", "after_us", ",.2f"),
    Column("after/\nbefore", "ratio", ".3f"),
    Column("95 %\nfrom", "low_ratio", ".3f"),
    Column("to", "high_ratio", ".3f"),
    Column("verdict", "verdict"),
)
MAY_BE_EMPTY = ("spread_percent", "low_ratio", "high_ratio")
"""Keys of columns that only several samples fill, and that a table for people leaves out where none does."""

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
        "measured_p10_s": found.p10_s,
        "measured_p90_s": found.p90_s,
        "measured_p95_s": found.p95_s,
        "measured_p99_s": found.p99_s,
        "num_samples": len(found.samples_s),
        "num_outliers": found.num_outliers,
        "timing": found.timing,
        "protocol": found.protocol,
        "library_algorithm": found.choice.algorithm if found.choice else None,
        "library_protocol": found.choice.protocol if found.choice else None,
        "library_channels": found.choice.num_channels if found.choice else None,
        "library_estimate_s": found.choice.estimate_s if found.choice else None,
        "relative_error": comparison.relative_error if comparison else None,
        "predicted_busbw_bytes_per_s": prediction.busbw_bytes_per_s if prediction else None,
        "measured_busbw_bytes_per_s": found.busbw_bytes_per_s,
        **_expected(comparison),
        "correct": found.correct,
        "verdict": comparison.verdict if comparison else None,
        "tolerance": comparison.tolerance if comparison else None,
        "min_ratio": comparison.min_ratio if comparison else None,
        "reason": comparison.reason if comparison else None,
        "limiting_link": limiting.link if limiting else None,
    }


def _expected(comparison: Comparison | None) -> dict[str, Any]:
    """What is still OK, and what the limiting link carried; a bound that is infinite is null."""
    if comparison is None:
        names = ("expected_low_s", "expected_high_s", "expected_low_busbw_bytes_per_s")
        return dict.fromkeys((*names, "expected_high_busbw_bytes_per_s", "ratio", "wire_bytes_per_s"))
    fastest_s, slowest_s = comparison.expected_s
    low, high = comparison.expected_busbw_bytes_per_s
    return {
        "expected_low_s": fastest_s,
        "expected_high_s": slowest_s if math.isfinite(slowest_s) else None,
        "expected_low_busbw_bytes_per_s": low,
        "expected_high_busbw_bytes_per_s": high,
        "ratio": comparison.ratio,
        "wire_bytes_per_s": comparison.wire_bytes_per_s,
    }


def comparison_table(
    title: str,
    measurements: Sequence[Measurement],
    comparisons: Sequence[Comparison | None],
    layout: str = FOR_PEOPLE,
) -> Table:
    """The same rows in the units people read, as far as they have room in the layout (a name of --format)."""
    rows = []
    for found, row in zip(measurements, comparison_rows(measurements, comparisons), strict=True):
        cells: tuple[Cell, ...] = (
            row["num_bytes"],
            f"{row['algorithm']} {row['protocol']}" if row["protocol"] else row["algorithm"],
            _scaled(row["predicted_s"], 1e6),
            row["measured_s"] * 1e6,
            _scaled(found.relative_spread, 100),
            _scaled(row["relative_error"], 100),
            "WRONG" if layout == FOR_PEOPLE and row["correct"] is False else row["verdict"],
            _RESULT[row["correct"]],
            _scaled(row["predicted_busbw_bytes_per_s"], 1e-9),
            row["measured_busbw_bytes_per_s"] * 1e-9,
            row["limiting_link"],
            _scaled(row["expected_low_busbw_bytes_per_s"], 1e-9),
            _scaled(row["expected_high_busbw_bytes_per_s"], 1e-9),
            _scaled(row["ratio"], 100),
            _scaled(row["wire_bytes_per_s"], 1e-9),
            row["measured_s"] * 1e6,
            _scaled(row["measured_p95_s"], 1e6),
            _scaled(row["measured_p99_s"], 1e6),
            row["executor"],
            row["protocol"],
            _choice(found),
            _scaled(row["library_estimate_s"], 1e6),
        )
        rows.append(cells)
    if layout != FOR_PEOPLE:
        return Table(COLUMNS, tuple(rows), title)
    return _without_empty(Table(COLUMNS[:NUM_SHOWN], tuple(row[:NUM_SHOWN] for row in rows), title))


def _choice(found: Measurement) -> str | None:
    """What the library took, in one word: `nvls/simple/16`."""
    if found.choice is None or found.choice.algorithm is None:
        return None
    parts = (found.choice.algorithm, found.choice.protocol, found.choice.num_channels)
    return "/".join(str(part) for part in parts if part is not None)


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


def delta_table(title: str, deltas: Sequence[Delta], layout: str = FOR_PEOPLE) -> Table:
    """The same rows in the units people read."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            row["num_bytes"],
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
    table = Table(DELTA_COLUMNS, rows, title)
    return table if layout != FOR_PEOPLE else _without_empty(table)


def _without_empty(table: Table) -> Table:
    """The table without those columns of MAY_BE_EMPTY that no row fills."""
    kept = [
        index
        for index, column in enumerate(table.columns)
        if column.key not in MAY_BE_EMPTY or any(row[index] is not None for row in table.rows)
    ]
    rows = tuple(tuple(row[index] for index in kept) for row in table.rows)
    return Table(tuple(table.columns[index] for index in kept), rows, table.title)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
