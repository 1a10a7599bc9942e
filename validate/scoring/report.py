"""Scores as the `published/1` document, as tables for people, and as the page of accuracy in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from topo.table import Cell, Column, Table
from topo.units import format_size
from topo.words import counted
from validate.compare import TOLERANCE
from validate.scoring.errors import REGIMES
from validate.scoring.order import APART, pairs_of
from validate.scoring.score import ScoredRow, ScoredRun, Scores

if TYPE_CHECKING:
    from validate.published.cases import Case
    from validate.published.runs import SetAside

SCHEMA = "published/1"
NUM_WORST = 10

_RANGES = {"latency": "up to 64 KiB", "knee": "up to 16 MiB", "bandwidth": "above 16 MiB"}

ROW_COLUMNS = (
    Column("run", "run"),
    Column("class", "machine_class"),
    Column("collective", "collective"),
    Column("size", "num_bytes", show=format_size),
    Column("measured us", "measured_us", ",.2f"),
    Column("fitted", "fitted"),
)


def collective_of(case: Case) -> str:
    """The collective of a case, by which errors are grouped."""
    return case.collective


def class_of(case: Case) -> str:
    """The class of a case's machine, by which errors are grouped."""
    return case.machine_class


def title(scores: Scores) -> str:
    """What was scored, in one line."""
    learned = ", a class of machines at a time left out of what models learn" if scores.cross_validated else ""
    what = f"{counted(len(scores.runs), 'run')}, {counted(scores.num_rows, 'row')}"
    return f"absolute error of time in %, {what} that no model was fitted to; fit: {scores.fit}{learned}"


def errors_table(scores: Scores, key: Callable[[Case], str], heading: str) -> Table:
    """Median and 90th percentile of each model by regime, of all rows and of each key."""
    columns = [
        Column(heading, heading.replace(" ", "_")),
        Column("regime", "regime"),
        Column("rows", "num_rows"),
    ]
    found = {name: scores.errors(name, key) for name in scores.models}
    for name in scores.models:
        columns.append(Column(f"{name}\nmedian", f"{name}_median_percent", ",.1f"))
        columns.append(Column("p90", f"{name}_p90_percent", ",.0f"))
    rows: list[tuple[Cell, ...]] = []
    for group, by_regime in found[scores.ours].items():
        for regime in REGIMES:
            if regime not in by_regime:
                continue
            cells: list[Cell] = [group, regime, by_regime[regime].num_rows]
            for name in scores.models:
                errors = found[name].get(group, {}).get(regime)
                cells.append(None if errors is None else 100 * errors.median_abs_error)
                cells.append(None if errors is None else 100 * errors.p90_abs_error)
            rows.append(tuple(cells))
    return Table(tuple(columns), tuple(rows), title(scores))


def rows_table(scores: Scores) -> Table:
    """Every row of every run: what was measured, and what each model says."""
    columns = list(ROW_COLUMNS)
    for name in scores.models:
        columns.append(Column(f"{name} us", f"{name}_us", ",.2f"))
        columns.append(Column(f"{name} error %", f"{name}_error_percent", "+,.1f"))
    rows = []
    for run in scores.runs:
        head = (run.case.name, run.case.machine_class, run.case.collective)
        for row in run.rows:
            cells: list[Cell] = [*head, row.num_bytes, row.measured_s * 1e6, "yes" if row.fitted else "no"]
            for name in scores.models:
                predicted_s, error = row.predicted_s[name], row.relative_error(name)
                cells += [None if predicted_s is None else predicted_s * 1e6, None if error is None else 100 * error]
            rows.append(tuple(cells))
    return Table(tuple(columns), tuple(rows), title(scores))


def worst(scores: Scores, count: int = NUM_WORST) -> tuple[ScoredRun, ...]:
    """The runs of the largest median absolute error of ours, worst first."""
    ranked = sorted((run for run in scores.runs if run.scored), key=lambda run: -_median_abs(scores, run))
    return tuple(ranked[:count])


def _median_abs(scores: Scores, run: ScoredRun) -> float:
    return median(abs(scores.counted(row, scores.ours) or 0.0) for row in run.scored)


def worst_table(scores: Scores) -> Table:
    """The worst runs: how far off in the median, and where most."""
    columns = (
        Column("run", "run"),
        Column("class", "machine_class"),
        Column("rows", "num_rows"),
        Column("median error %", "median_error_percent", "+,.0f"),
        Column("worst at", "worst_num_bytes", show=format_size),
        Column("error there %", "worst_error_percent", "+,.0f"),
    )
    rows = []
    for run in worst(scores):
        errors = {row.num_bytes: scores.counted(row, scores.ours) or 0.0 for row in run.scored}
        where = max(errors, key=lambda num_bytes: abs(errors[num_bytes]))
        middle = 100 * median(errors.values())
        rows.append((run.case.name, run.case.machine_class, len(run.scored), middle, where, 100 * errors[where]))
    return Table(columns, tuple(rows), f"the {len(rows)} worst runs of {scores.ours}")


def order_table(scores: Scores) -> Table:
    """How often each model names the faster of two ways that a source forced."""
    columns = (
        Column("model", "model"),
        Column("pairs", "num_pairs"),
        Column("right", "num_right"),
        Column("right %", "right_percent", ",.1f"),
    )
    rows = []
    for name, (num_right, num_pairs) in _orders(scores).items():
        rows.append((name, num_pairs, num_right, 100 * num_right / num_pairs if num_pairs else None))
    apart = f"{100 * (APART - 1):.0f} %"
    return Table(columns, tuple(rows), f"which of two forced ways is faster, where they differ by more than {apart}")


def _orders(scores: Scores) -> dict[str, tuple[int, int]]:
    """Of each model: pairs that it has in the right order, and all."""
    pairs = {name: pairs_of(scores, name) for name in scores.models}
    return {name: (sum(pair.is_right for pair in found), len(found)) for name, found in pairs.items()}


def text(scores: Scores, *, terminal: bool) -> str:
    """The tables for people: by collective, by class of machine, the order of ways, and the worst runs."""
    tables = (
        errors_table(scores, collective_of, "collective"),
        errors_table(scores, class_of, "machine class"),
        order_table(scores),
        worst_table(scores),
    )
    return "\n".join(table.text(terminal=terminal) for table in tables)


def markdown(scores: Scores) -> str:
    """The tables as they stand in docs/accuracy.md."""
    regimes = ", ".join(f"{name} {words}" for name, words in _RANGES.items())
    head = f"{title(scores)[0].upper()}{title(scores)[1:]}. Regimes: {regimes}.\n"
    parts = [
        head,
        errors_table(scores, collective_of, "collective").markdown(),
        errors_table(scores, class_of, "machine class").markdown(),
        "Which of two ways that one source forced is faster, by model:\n",
        order_table(scores).markdown(),
        f"The {len(worst(scores))} runs with the largest median error of `{scores.ours}`:\n",
        worst_table(scores).markdown(),
    ]
    return "\n".join(parts)


def document(scores: Scores, set_aside: Sequence[SetAside], remarks: Sequence[str], quality: str) -> str:
    """The `published/1` document: SI units and shares (0.05 is 5 %)."""
    from topo.jsonio import encode_document

    summaries = {name: scores.errors(name, collective_of) for name in scores.models}
    return encode_document(
        SCHEMA,
        {
            "model": scores.ours,
            "fit": scores.fit,
            "quality": quality,
            "cross_validated": scores.cross_validated,
            "summary": summaries[scores.ours],
            "machine_classes": scores.errors(scores.ours, class_of),
            "baselines": {name: summaries[name] for name in scores.baselines},
            "baseline_machine_classes": {name: scores.errors(name, class_of) for name in scores.baselines},
            "ordering": {
                name: {"num_pairs": num_pairs, "num_right": num_right}
                for name, (num_right, num_pairs) in _orders(scores).items()
            },
            "datasets": [_dataset(scores, run) for run in scores.runs],
            "set_aside": list(set_aside),
            "remarks": list(remarks),
        },
    )


def _dataset(scores: Scores, run: ScoredRun) -> dict[str, Any]:
    case = run.case
    stated = case.run.machine
    return {
        "id": case.run.id,
        "name": case.run.name,
        "source": case.run.source,
        "topology": stated.topology,
        "machine_class": stated.machine_class,
        "num_nodes": stated.nodes,
        "num_ranks": case.num_ranks,
        "collective": case.collective,
        "quality": case.run.quality,
        "fit": run.fit,
        "num_rows": len(run.scored),
        "median_abs_error": _median_abs(scores, run) if run.scored else None,
        "rows": [_row(scores, run, place, row) for place, row in enumerate(run.rows)],
    }


def _row(scores: Scores, run: ScoredRun, place: int, row: ScoredRow) -> dict[str, Any]:
    choice = run.case.choices[place]
    error = row.relative_error(scores.ours)
    return {
        "num_bytes": row.num_bytes,
        "algorithm": choice.algorithm if choice else None,
        "protocol": choice.protocol if choice else None,
        "num_channels": choice.split.num_channels if choice else None,
        "predicted_s": row.predicted_s[scores.ours],
        "measured_s": row.measured_s,
        "relative_error": error,
        "verdict": _verdict(error),
        "fitted": row.fitted,
        "baselines_s": {name: row.predicted_s[name] for name in scores.baselines},
    }


def _verdict(error: float | None) -> str | None:
    """As in a comparison: LOW where it was slower than predicted by more than the tolerance, HIGH where faster."""
    if error is None:
        return None
    return "OK" if abs(error) <= TOLERANCE else "LOW" if error < 0 else "HIGH"
