"""What a bisection says: the matrix of pairs, rows for the document, and who or what is to blame in sentences."""

from __future__ import annotations

from typing import Any

from topo.table import Cell, Column, Table
from topo.units import format_size
from topo.words import counted
from validate.arrivals import Arrivals
from validate.bisect import Bisection, PairTime, Suspect
from validate.words import listed

SCHEMA = "validate-bisect/1"


def document(found: Bisection) -> dict[str, Any]:
    """The JSON document's content, without its schema."""
    names = found.names
    return {
        "topology": found.machine.name,
        "num_bytes": found.num_bytes,
        "ranks": list(names),
        "rows": [
            {
                "src": names[row.src],
                "dst": names[row.dst],
                "predicted_s": row.predicted_s,
                "measured_s": row.measured_s,
                "relative_error": row.predicted_s / row.measured_s - 1,
                "verdict": _verdict(found, row),
            }
            for row in found.found.pairs
        ],
        "suspects": [
            {
                "links": list(suspect.links),
                "pairs": [[names[src], names[dst]] for src, dst in suspect.pairs],
                "measured_over_predicted": suspect.ratio,
            }
            for suspect in found.found.suspects
        ],
        "unexplained": [[names[src], names[dst]] for src, dst in found.found.unexplained],
        "scale": found.scale,
        "late_s": list(found.arrivals.late_s),
        "late_ranks": [names[rank] for rank in found.arrivals.late_ranks],
        "num_meetings": found.arrivals.num_meetings,
        "failure": found.failure,
    }


def table(found: Bisection, layout: str) -> Table:
    """For people a matrix, sender by receiver; for programs one row for each pair."""
    return _matrix(found) if layout in ("table", "md") else _list(found)


def _matrix(found: Bisection) -> Table:
    names = found.names
    share = {(row.src, row.dst): 100 / row.ratio for row in found.found.pairs}
    columns = (Column("from \\ to", "src"), *(Column(name, name, ".0f") for name in names))
    rows: list[tuple[Cell, ...]] = [
        (name, *(share.get((src, dst)) for dst in range(len(names)))) for src, name in enumerate(names)
    ]
    size = format_size(found.num_bytes)
    title = f"messages of {size} on {found.machine.name}, each pair alone: measured speed, % of predicted"
    return Table(columns, tuple(rows), title)


def _list(found: Bisection) -> Table:
    columns = (
        Column("from", "src"),
        Column("to", "dst"),
        Column("predicted us", "predicted_us", ",.2f"),
        Column("measured us", "measured_us", ",.2f"),
        Column("measured/predicted", "ratio", ".3f"),
        Column("verdict", "verdict"),
    )
    names = found.names
    rows: list[tuple[Cell, ...]] = [
        (
            names[row.src],
            names[row.dst],
            row.predicted_s * 1e6,
            row.measured_s * 1e6,
            row.ratio,
            _verdict(found, row),
        )
        for row in found.found.pairs
    ]
    return Table(columns, tuple(rows))


def _verdict(found: Bisection, row: PairTime) -> str:
    return "LOW" if row in found.found.slow else "OK"


def notes(found: Bisection) -> list[str]:
    """Who or what is to blame: links first, then ranks that come late, then what remains open."""
    said = [] if found.scale is None else [_of_scale(found, found.scale)]
    begun = len(said)
    said += [_of_suspect(suspect) for suspect in found.found.suspects]
    said += [_of_late(found, rank) for rank in found.arrivals.late_ranks]
    if found.found.unexplained:
        pairs = listed([f"{found.names[src]} to {found.names[dst]}" for src, dst in found.found.unexplained])
        said.append(f"slow, though every link on the way is fast for others: {pairs}; measure again with more -n")
    if len(said) == begun and found.failure is None:
        said.append(_all_well(found))
    if found.failure is not None:
        kept = counted(len(found.found.pairs), "pair")
        said.append(f"{found.failure}; {kept} measured so far {'is' if len(found.found.pairs) == 1 else 'are'} kept")
    return said


def _of_scale(found: Bisection, scale: float) -> str:
    if all(link.kind == "local" for link in found.machine.links):
        return "no topology was given: every pair is held against the median one"
    share = f"{1 / scale:.1%} of what their links are stated to carry"
    return f"the fastest tenth of the pairs gets {share}: all are held against that"


def _of_suspect(suspect: Suspect) -> str:
    links = " or ".join(suspect.links)
    apart = ", which no pair tells apart" if len(suspect.links) > 1 else ""
    take = "pair over it takes" if len(suspect.pairs) == 1 else "pairs over it take"
    return (
        f"slow link {links}{apart}: the {len(suspect.pairs)} {take} {suspect.ratio:.1f} times as long as predicted "
        f"({1 / suspect.ratio:.0%} of the speed)"
    )


def _of_late(found: Bisection, rank: int) -> str:
    """The rank's lateness, and that its messages are as fast as they should be, unless a link is slow there too."""
    rows = [row for row in found.found.pairs if rank in (row.src, row.dst)]
    slow = [row for row in rows if row in found.found.slow]
    name, late_s = found.names[rank], found.arrivals.late_s[rank]
    meetings = counted(found.arrivals.num_meetings, "meeting")
    said = f"late rank {rank} ({name}): comes {late_s * 1e3:.0f} ms after the first (median of {meetings})"
    if not rows:
        return said
    if slow:
        return f"{said}; {len(slow)} of its {len(rows)} pairs are slow besides"
    worst = max(row.ratio for row in rows)
    return f"{said}; its messages take at most {worst:.2f} times what is predicted: late, not on a slow link"


def _all_well(found: Bisection) -> str:
    worst = max((row.ratio for row in found.found.pairs), default=1.0)
    return (
        f"all {counted(len(found.found.pairs), 'pair')} within {found.found.tolerance:.0%} of the prediction (the "
        f"slowest takes {worst:.2f} times as long){_nobody_late(found.arrivals)}: nothing to find"
    )


def _nobody_late(arrivals: Arrivals) -> str:
    return f", nobody comes later than {max(arrivals.late_s) * 1e3:.1f} ms" if arrivals.late_s else ""
