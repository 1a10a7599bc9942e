"""Predictions as a table and as the `simulate/1` document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim.algorithms import ALGORITHMS
from sim.engines import KERNELS
from sim.planners import AUTO
from sim.predict import auto_candidates
from sim.profile import IDEAL
from topo.cli_common import Column, Table
from topo.errors import UnitError
from topo.finding import INCONSISTENT
from topo.topology import Topology
from topo.units import format_size
from topo.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.predict import Simulator
    from sim.prediction import Prediction

MOST_SIZES_NAMED = 4
COLUMNS = (
    Column("size", "num_bytes", show=format_size),
    Column("algorithm", "algorithm"),
    Column("proto", "protocol"),
    Column("chan", "num_channels"),
    Column("time\nus", "time_us", ",.2f"),
    Column("algbw\nGB/s", "algbw_gb_per_s", ".2f"),
    Column("busbw\nGB/s", "busbw_gb_per_s", ".2f"),
    Column("wire\nGB/s", "wire_gb_per_s", ".2f"),
    Column("limiting\nlink", "limiting_link", aside="limiting link {}"),
)
OVERLAPPING = ("broadcast", "reduce")
LARGE_BYTES = 64 * 2**20
"""From here on a link or a kernel's rate decides, and no latency."""
INSTEAD_OF = Column("instead of", "instead_of", aside="instead of {}")
WIRE = "wire_gb_per_s"
EXPECTED = Column("expected", "expected_busbw_gb_per_s")
"""Between which busbw four of five measured ones are expected."""


def refuse_chunks_without_effect(chunks: int | None, names: Sequence[str], collective: str) -> None:
    """Raise UnitError where --chunks is given, and none of the algorithms named pipelines that collective."""
    if chunks is None or not names or any(_may_pipeline(name, collective) for name in names):
        return
    able = [row.name for row in ALGORITHMS.values() if row.pipelines(collective)]
    others = f"{' and '.join(able)} do" if able else "none does"
    raise UnitError(
        f"--chunks {chunks}: {' and '.join(names)} takes no number of chunks for {collective}, {others}: leave it out"
    )


def _may_pipeline(name: str, collective: str) -> bool:
    return name not in ALGORITHMS or ALGORITHMS[name].pipelines(collective)


def notes_before(simulator: Simulator, names: Sequence[str], collective: str) -> list[str]:
    """What the user should know of the plans by algorithms of these names, in sentences."""
    planner = simulator.planner_of(names[0], collective)
    notes = list(planner.notes)
    machine = simulator.machine if isinstance(simulator.machine, Topology) else simulator.machine.node
    if simulator.machine.num_ranks == 1:
        notes.append("one rank needs no exchange: whatever the algorithm, this is a copy on the GPU itself")
    odd = [finding.sentence for finding in machine.findings if finding.rule == INCONSISTENT]
    if odd:
        more = f" (and {len(odd) - 1} more, see topo show)" if len(odd) > 1 else ""
        notes.append(f"{machine.name} contradicts itself, so these times are of what was made of it: {odd[0]}{more}")
    if not machine.complete:
        notes.append(
            f"{machine.name} is shown only in part: what its capture does not show takes no part in these times"
        )
    why = simulator.why_not_nccl
    if why and simulator.profile.name != "ideal":
        notes.append(
            "NCCL's plan is not known here, so these times hold neither its protocols nor its channels, and those of "
            f"small sizes may be off by several times: {why}"
        )
        why = ""
    chooses = AUTO not in names or simulator.planner_of(AUTO, collective).chooses
    if not chooses and len(auto_candidates(collective)) > 1:
        reason = f", since NCCL's choice is not known here: {why}" if why else ""
        notes.append(f"auto takes the faster simulated of {' and '.join(auto_candidates(collective))}{reason}")
    return notes


def _extrapolated(simulator: Simulator, predictions: Sequence[Prediction]) -> list[str]:
    """A sentence on what the profile of these was not fitted to: the machine, or else their kernels at their sizes."""
    if not predictions:
        return []
    strange = simulator.unlike_any_fitted
    if strange:
        return [
            f"EXTRAPOLATED: {simulator.profile.name} was fitted to {strange}; this machine or network is none of them"
        ]
    ways = [f"{run.algorithm} {run.protocol} of {format_size(run.workload.num_bytes)}" for run in predictions]
    shown = ", ".join(ways[:3]) + (f" and {len(ways) - 3} more" if len(ways) > 3 else "")
    return [f"EXTRAPOLATED: {simulator.profile.name} holds no run of {shown} on such GPUs: no range is known"]


def notes_on(simulator: Simulator, predictions: Sequence[Prediction]) -> list[str]:
    """What the user should know of these results, in sentences."""
    notes = []
    for name in dict.fromkeys(run.instead_of for run in predictions if run.instead_of):
        sizes = [format_size(run.workload.num_bytes) for run in predictions if run.instead_of == name]
        notes.append(
            f"NCCL takes {name} for {_from_to(sizes)}, which cannot be simulated yet: the best of the others by NCCL's "
            "own estimate is shown"
        )
    notes += _extrapolated(simulator, [run for run in predictions if run.extrapolated])
    if any(run.engine == KERNELS and run.workload.collective in OVERLAPPING for run in predictions):
        notes.append(
            "broadcasts and reduces are timed as nccl-tests shows them, back to back: those of one root overlap, "
            "and small sizes tell how often it can send"
        )
    notes += _of_idle_links(predictions)
    others = sorted({run.protocol for run in predictions} - {"simple"})
    unknown = [name for name in others if not simulator.profile.knows(name)]
    if unknown and simulator.profile != IDEAL:
        notes.append(f"profile {simulator.profile.name} knows nothing of {' and '.join(unknown)}: timed as simple")
    return notes


def _of_idle_links(predictions: Sequence[Prediction]) -> list[str]:
    """A sentence where the busiest link is idle for most of a large size: then it is not what limits."""
    slow = [run for run in predictions if run.engine == KERNELS and run.workload.num_bytes >= LARGE_BYTES]
    idle = [run for run in slow if run.limiting and run.limiting.is_mostly_idle]
    if not idle:
        return []
    run = max(idle, key=lambda one: one.workload.num_bytes)
    assert run.limiting is not None
    what, idle_share = f"{run.algorithm} of {format_size(run.workload.num_bytes)}", 1 - run.limiting.busy_fraction
    return [
        f"{what}: {run.limiting.link} is the busiest link, but idle for {idle_share:.0%} of the time: what NCCL's "
        "kernels move by themselves decides (the work of its channels), and a faster link changes little"
    ]


def _from_to(sizes: Sequence[str]) -> str:
    return ", ".join(sizes) if len(sizes) <= MOST_SIZES_NAMED else f"{len(sizes)} sizes, {sizes[0]} to {sizes[-1]}"


def report_table(simulator: Simulator, predictions: Sequence[Prediction]) -> Table:
    """One row per prediction, in the units people read."""
    marked = any(run.instead_of for run in predictions)
    ranged = any(run.low_s is not None for run in predictions)
    columns = tuple(EXPECTED if ranged and column.key == WIRE else column for column in COLUMNS)
    rows = tuple(
        (
            run.workload.num_bytes,
            run.algorithm,
            run.protocol,
            run.num_channels,
            run.duration_s * 1e6,
            _giga(run.algbw_bytes_per_s),
            _giga(run.busbw_bytes_per_s),
            _expected(run) if ranged else _giga(run.wire_bytes_per_s),
            run.limiting.link if run.limiting else None,
            *((run.instead_of,) if marked else ()),
        )
        for run in predictions
    )
    machine, profile = simulator.machine, simulator.profile.name
    collective = predictions[0].workload.collective if predictions else ""
    engines = " and ".join(sorted({run.engine for run in predictions}))
    planners = " and ".join(sorted({run.planner for run in predictions}))
    title = (
        f"{collective} on {machine.name}, {counted(machine.num_ranks, 'rank')}: simulated, "
        f"profile {profile}, engine {engines}, planner {planners}"
    )
    return Table((*columns, *((INSTEAD_OF,) if marked else ())), rows, title)


def report_json(simulator: Simulator, predictions: Sequence[Prediction]) -> str:
    """The `simulate/1` document: SI units, one row per prediction."""
    from topo.jsonio import encode_document

    machine = simulator.machine
    return encode_document(
        "simulate/1",
        {
            "topology": machine.name,
            "collective": predictions[0].workload.collective if predictions else None,
            "num_ranks": machine.num_ranks,
            "profile": simulator.profile.name,
            "rows": [_row(run) for run in predictions],
        },
    )


def _row(run: Prediction) -> dict[str, Any]:
    return {
        "num_bytes": run.workload.num_bytes,
        "algorithm": run.algorithm,
        "protocol": run.protocol,
        "planner": run.planner,
        "instead_of": run.instead_of,
        "num_channels": run.num_channels,
        "engine": run.engine,
        "time_s": run.duration_s,
        "low_s": run.low_s,
        "high_s": run.high_s,
        "extrapolated": run.extrapolated,
        "algbw_bytes_per_s": run.algbw_bytes_per_s,
        "busbw_bytes_per_s": run.busbw_bytes_per_s,
        "wire_bytes_per_s": run.wire_bytes_per_s,
        "limiting_link": run.limiting.link if run.limiting else None,
    }


def _expected(run: Prediction) -> str | None:
    """The range of the busbw as people write it, in GB/s."""
    busbw = run.busbw_bytes_per_s
    if run.low_s is None or run.high_s is None or busbw is None:
        return None
    volume = busbw * run.duration_s / 1e9
    return f"{volume / run.high_s:.3g}-{volume / run.low_s:.3g}"


def _giga(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else bytes_per_s / 1e9
