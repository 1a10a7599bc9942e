"""How verdicts fare on published runs: how many healthy rows are LOW, and what degraded runs are suspected of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from topo.errors import TopoError
from topo.table import Column, Table
from validate.better import better_ways
from validate.predicting import hold_against
from validate.suspects import Machine, harmless, suspects

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from validate.compare import Comparison
    from validate.published.document import Published

SCHEMA = "validate-verdicts/1"
HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class Judged:
    """One run with its rows beside their predictions; of one that is not healthy, what is suspected."""

    name: str
    quality: str
    num_nodes: int
    rows: tuple[Comparison, ...]
    suspects: tuple[str, ...] = ()

    def count(self, verdict: str) -> int:
        """How many rows have this verdict."""
        return sum(row.verdict == verdict for row in self.rows)


def judge(runs: Iterable[Published], machines: Path | None = None) -> Iterator[Judged]:
    """Each run that can be predicted, judged as `topo validate compare` does it; others are left out.

    `machines` is where the paths of their machines start, None takes presets of the same name.
    """
    from validate.documents import from_published
    from validate.published.machines import Machines

    built = Machines(machines)
    for run in runs:
        try:
            machine = built.machine_of(run)
            found = from_published(run, run.name)
            rows = hold_against(found, machine)
        except TopoError:
            continue
        why = _why(rows, Machine(machine)) if run.quality != HEALTHY else ()
        yield Judged(found.name, run.quality, run.machine.nodes, rows, tuple(why))


def _why(rows: Sequence[Comparison], machine: Machine) -> list[str]:
    """What a comparison says about rows that are LOW, else about what costs speed and is not the machine's fault."""
    return suspects(rows, machine) or [*better_ways(rows, machine), *harmless(rows)]


@dataclass(frozen=True, slots=True)
class Count:
    """Verdicts on all rows of one quality, on one node or several."""

    quality: str
    nodes: str
    num_runs: int
    num_rows: int
    ok: int
    low: int
    high: int
    num_runs_low: int

    @property
    def low_share(self) -> float:
        """Which share of the rows is LOW; 0 of none."""
        return self.low / self.num_rows if self.num_rows else 0.0


def counts(judged: Sequence[Judged]) -> tuple[Count, ...]:
    """By quality, on one node and on several."""
    groups: dict[tuple[str, str], list[Judged]] = {}
    for run in judged:
        groups.setdefault((run.quality, "one" if run.num_nodes == 1 else "several"), []).append(run)
    return tuple(_counted(*key, group) for key, group in sorted(groups.items()))


def _counted(quality: str, nodes: str, runs: Sequence[Judged]) -> Count:
    ok, low, high = (sum(run.count(verdict) for run in runs) for verdict in ("OK", "LOW", "HIGH"))
    return Count(
        quality,
        nodes,
        len(runs),
        sum(len(run.rows) for run in runs),
        ok,
        low,
        high,
        sum(run.count("LOW") > 0 for run in runs),
    )


def counts_table(found: Sequence[Count]) -> Table:
    """Verdicts by quality and nodes."""
    columns = (
        Column("runs are", "quality"),
        Column("nodes", "nodes"),
        Column("runs", "num_runs"),
        Column("rows", "num_rows"),
        Column("OK", "ok"),
        Column("LOW", "low"),
        Column("HIGH", "high"),
        Column("LOW of rows", "low_share", ".1%"),
        Column("runs with LOW", "num_runs_low"),
    )
    rows = tuple(
        (row.quality, row.nodes, row.num_runs, row.num_rows, row.ok, row.low, row.high, row.low_share, row.num_runs_low)
        for row in found
    )
    return Table(columns, rows, "verdicts on published runs")


def sentences(judged: Sequence[Judged]) -> list[str]:
    """Which healthy runs have rows that are called LOW, and the first suspect of each degraded run."""
    notes = []
    for run in judged:
        sizes = f"{run.name}, {run.count('LOW')} of {len(run.rows)} rows LOW"
        if run.quality == HEALTHY and run.count("LOW"):
            notes.append(f"false alarm: {sizes}")
        elif run.quality == "degraded":
            notes.append(f"degraded: {sizes}" + (f": {run.suspects[0]}" if run.suspects else ""))
    return notes


def document(judged: Sequence[Judged]) -> dict[str, Any]:
    """All of it as plain values."""
    from topo.jsonio import to_plain

    rows = [
        {
            "name": run.name,
            "quality": run.quality,
            "num_nodes": run.num_nodes,
            "num_rows": len(run.rows),
            "low_bytes": [row.measurement.workload.num_bytes for row in run.rows if row.verdict == "LOW"],
            "num_high": run.count("HIGH"),
            "suspects": list(run.suspects),
        }
        for run in judged
    ]
    return {"summary": [{**to_plain(row), "low_share": row.low_share} for row in counts(judged)], "rows": rows}
