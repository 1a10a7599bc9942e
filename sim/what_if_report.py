"""Cases side by side as a table, as the `what-if/1` document, and in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sim.engines import KERNELS
from sim.planners import AUTO
from sim.what_if import BASELINE, BREAKS_BELOW, bounds_of, scalings
from topo.table import Column, Table
from topo.units import format_duration, format_size
from topo.words import counted

if TYPE_CHECKING:
    from sim.what_if import Outcome, Priced, Scaling

EXTRAPOLATED = "EXTRAPOLATED"

MOST_RANKS_WITH_RINGS = 128
"""Ranks up to which the document lists the rings."""


def percent(share: float) -> str:
    """A relative change with its sign: `+20.1 %`, `0 %`."""
    text = f"{100 * share:+,.1f}"
    return "0 %" if float(text.replace(",", "")) == 0 else f"{text} %"


_ALWAYS = (
    Column("change", "change"),
    Column("size", "num_bytes", show=format_size),
    Column("time us", "time_us", ",.2f"),
    Column("busbw\nGB/s", "busbw_gb_per_s", ".2f"),
    Column("time\nchange", "time_change", show=percent),
)
_RANGE = (
    Column("at\nleast", "time_change_low", show=percent, aside="at least {}"),
    Column("at\nmost", "time_change_high", show=percent, aside="at most {}"),
)
_PLANNED = (
    Column("algorithm", "algorithm"),
    Column("proto", "protocol", aside="{}"),
    Column("chan", "num_channels", aside="channels: {}"),
)
_RINGS = Column("rings", "new_rings", aside="rings: {}")
_EFFICIENCY = Column("efficiency", "efficiency", show=lambda cell: f"{cell:.0%}")
_LIMIT = Column("limiting\nlink", "limiting_link", aside="limiting link {}", at_last=True)
_REMARK = Column("remark", "remark", aside="{}")


def what_if_table(rows: Sequence[Outcome]) -> Table:
    """One line per case and size, the baseline first; columns that say nothing are left out."""
    bounded = any(any(_range(row)) for row in rows)
    ringed = any(row.num_new_rings for row in rows)
    swept = any(row.efficiency is not None for row in rows)
    remarks = [_remark(row) for row in rows]
    remarked = any(remarks)
    columns = (
        *_ALWAYS,
        *(_RANGE if bounded else ()),
        *_PLANNED,
        *((_RINGS,) if ringed else ()),
        *((_EFFICIENCY,) if swept else ()),
        _LIMIT,
        *((_REMARK,) if remarked else ()),
    )
    cells = tuple(
        (
            row.variant.label,
            row.prediction.workload.num_bytes,
            row.prediction.duration_s * 1e6,
            _giga(row.prediction.busbw_bytes_per_s),
            row.delta,
            *(_range(row) if bounded else ()),
            row.prediction.algorithm,
            row.prediction.protocol,
            row.prediction.num_channels,
            *((_rings(row),) if ringed else ()),
            *((row.efficiency,) if swept else ()),
            row.prediction.limiting.link if row.prediction.limiting else None,
            *((remark,) if remarked else ()),
        )
        for row, remark in zip(rows, remarks, strict=True)
    )
    return Table(columns, cells, _title(rows))


def _title(rows: Sequence[Outcome]) -> str:
    base = rows[0]
    machine = base.variant.case.machine
    profiles = " and ".join(sorted({row.prediction.profile for row in rows}))
    return (
        f"{base.prediction.workload.collective} on {machine.name}, {counted(machine.num_ranks, 'rank')}, and what if: "
        f"simulated, profile {profiles}"
    )


def _range(row: Outcome) -> tuple[float, float] | tuple[None, None]:
    """The ends of the change, none where nothing changes."""
    bounds = row.delta_bounds
    return bounds if bounds and any(bounds) else (None, None)


def _rings(row: Outcome) -> str | None:
    if row.variant.label == BASELINE or not row.num_new_rings:
        return None
    return f"{row.num_new_rings} of {len(row.plan.rings)} new"


def _remark(row: Outcome) -> str | None:
    """What is to be said of a row."""
    words = ["fastest"] if row.fastest else []
    words += [EXTRAPOLATED] if row.extrapolated else []
    if row.by_schedule:
        words.append(f"beside {_whose(row)} by schedule, {row.baseline.duration_s * 1e6:,.2f} us")
    elif row.asked != AUTO and row.baseline.algorithm != row.prediction.algorithm:
        words.append(f"beside {_whose(row)}")
    if row.prediction.instead_of:
        words.append(f"instead of {row.prediction.instead_of}")
    return ", ".join(words) or None


def _whose(row: Outcome) -> str:
    """What a row is compared with: the baseline, and its algorithm where that is another."""
    same = row.baseline.algorithm == row.prediction.algorithm
    return "the baseline" if same else f"the baseline's {row.baseline.algorithm}"


def what_if_json(rows: Sequence[Outcome]) -> str:
    """The `what-if/1` document: SI units, one row per case and size, and what sweeps over nodes show."""
    from topo.jsonio import encode_document

    base = rows[0]
    return encode_document(
        "what-if/1",
        {
            "topology": base.variant.case.machine.name,
            "collective": base.prediction.workload.collective,
            "rows": [_row(row) for row in rows],
            "scaling": list(scalings(rows)),
        },
    )


def _row(row: Outcome) -> dict[str, Any]:
    run, bounds = row.prediction, bounds_of(row.prediction)
    found = {
        "change": row.variant.label,
        "num_bytes": run.workload.num_bytes,
        "num_ranks": run.num_ranks,
        "algorithm": run.algorithm,
        "protocol": run.protocol,
        "num_channels": run.num_channels,
        "planner": run.planner,
        "instead_of": run.instead_of,
        "profile": run.profile,
        "engine": run.engine,
        "time_s": run.duration_s,
        "time_low_s": bounds.low_s if bounds else None,
        "time_high_s": bounds.high_s if bounds else None,
        "algbw_bytes_per_s": run.algbw_bytes_per_s,
        "busbw_bytes_per_s": run.busbw_bytes_per_s,
        "wire_bytes_per_s": run.wire_bytes_per_s,
        "limiting_link": run.limiting.link if run.limiting else None,
        "baseline_time_s": row.baseline.duration_s,
        "baseline_engine": row.baseline.engine,
        "baseline_algorithm": row.baseline.algorithm,
        "time_change": row.delta,
        "time_change_low": row.delta_bounds[0] if row.delta_bounds else None,
        "time_change_high": row.delta_bounds[1] if row.delta_bounds else None,
        "extrapolated": row.extrapolated,
        "fastest": row.fastest,
        "efficiency": row.efficiency,
        "num_new_rings": row.num_new_rings,
    }
    return found | ({"rings": row.plan.rings} if run.num_ranks <= MOST_RANKS_WITH_RINGS else {})


def plan_notes(cases: Sequence[Priced]) -> list[str]:
    """What planning says of a changed machine alone: a host that NCCL splits, a setting that is not followed."""
    known = set(cases[0].simulator.planner.notes)
    found = []
    for priced in cases[1:]:
        new = [sentence for sentence in priced.simulator.planner.notes if sentence not in known]
        known.update(new)
        found += [f"with {priced.variant.label!r}: {sentence}" for sentence in new]
    return found


def what_if_notes(rows: Sequence[Outcome]) -> list[str]:
    """What the user should know of these results, in sentences."""
    return [*_fastest_sentences(rows), *(_scaling_sentence(found) for found in scalings(rows))]


def _fastest_sentences(rows: Sequence[Outcome]) -> Iterator[str]:
    """For each size which of several algorithms is fastest, and which changes make it another."""
    by_size: dict[int, list[Outcome]] = {}
    for row in rows:
        if row.fastest:
            by_size.setdefault(row.prediction.workload.num_bytes, []).append(row)
    for num_bytes, (own, *others) in by_size.items():
        changed = [row for row in others if row.prediction.algorithm != own.prediction.algorithm]
        parts = [_fastest(row) for row in (own, *changed)]
        rest = "" if changed else ", with every change too" if others else ""
        aside = "".join(_by_links(best, rows) for best in (own, *changed))
        yield f"{format_size(num_bytes)}: fastest is {'; '.join(parts)}{rest}{aside}"


def _fastest(row: Outcome) -> str:
    timed = f"{row.prediction.algorithm} ({format_duration(row.prediction.duration_s)})"
    return timed if row.variant.label == BASELINE else f"{timed} with {row.variant.label!r}"


def _by_links(best: Outcome, rows: Sequence[Outcome]) -> str:
    """The quickest of the same case that is no match for the best, as its links alone are timed; empty without one."""
    case = best.variant.label, best.prediction.workload
    same = [row for row in rows if (row.variant.label, row.prediction.workload) == case]
    quickest = min(same, key=lambda row: row.prediction.duration_s)
    if best.prediction.engine != KERNELS or quickest.prediction.engine == KERNELS:
        return ""
    return f"; {_fastest(quickest)} is timed by its links alone"


def _scaling_sentence(found: Scaling) -> str:
    by = "" if found.algorithm == AUTO else f" by {found.algorithm}"
    what = f"{found.sweep}, {format_size(found.num_bytes)}{by}"
    if found.breaks_at_nodes is None:
        return (
            f"{what}: busbw stays above {BREAKS_BELOW:.0%} of that of {counted(found.first_nodes, 'node')} to the "
            f"last, {counted(found.holds_up_to_nodes, 'node')}"
        )
    return (
        f"{what}: scaling holds up to {counted(found.holds_up_to_nodes, 'node')} and breaks at "
        f"{found.breaks_at_nodes}, where busbw is {found.efficiency or 0.0:.0%} of that of "
        f"{counted(found.first_nodes, 'node')}, limited by {found.limiting_link or 'no link'}"
    )


def _giga(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else bytes_per_s / 1e9
