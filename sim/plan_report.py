"""NCCL's plan as text that fits 80 columns, as a table of choices, and as the `plan/1` document."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim.plan_sockets import socket_lines
from topo.cli_common import Column, Table
from topo.table_grid import phrased
from topo.units import format_size
from topo.words import counted, ranges

if TYPE_CHECKING:
    from sim.plan import Tree
    from sim.plan_check import Check
    from sim.plan_decisions import Decision, Switch
    from sim.plan_sockets import Sockets
    from sim.planners.nccl_2_30 import NcclPlan
    from sim.planners.nccl_2_30.explain import Explanation
    from topo.cluster import Cluster
    from topo.topology import Topology

WIDTH = 80
MOST_SHOWN = 8
"""Distinct rings or trees that the text shows; the document has them all."""
NUM_CHILDREN = 3
"""NCCL gives every rank of a tree so many places for children; -1 stands in an empty one."""
PLANNER, VERSION = "nccl-2.30", "2.30.7"

CHOICES = (
    Column("size", "num_bytes", show=format_size),
    Column("algorithm", "algorithm"),
    Column("proto", "protocol"),
    Column("chan", "num_channels"),
    Column("NCCL's us", "nccl_estimate_us", ".1f"),
    Column("next best", "runner_up"),
    Column("is slower by", "gap_percent", ".0f", show=lambda percent: f"{percent:.0f} %"),
)


@dataclass(frozen=True)
class PlanReport:
    """All that is told of a plan; `explanations` and `check` where they were asked for."""

    machine: Topology | Cluster
    plan: NcclPlan
    collective: str
    dtype: str
    decisions: tuple[Decision, ...]
    switches: tuple[Switch, ...]
    environment: Mapping[str, str]
    explanations: tuple[Explanation, ...] = ()
    check: Check | None = None
    sockets: Sockets | None = None

    @property
    def title(self) -> str:
        """What was planned, in one line."""
        wiring = self.plan.wiring
        return (
            f"NCCL {VERSION} on {self.machine.name}: {counted(wiring.num_ranks, 'rank')}, "
            f"{counted(wiring.num_nodes, 'node')}, {counted(wiring.num_channels, 'channel')} (planned"
            f"{', extrapolated' if self.plan.extrapolated else ''})"
        )


def plan_text(report: PlanReport) -> str:
    """Graphs, channels, choices, switch points and all estimates."""
    parts = [
        "".join(f"{line}\n" for line in phrased(report.title, WIDTH)),
        _graphs_table(report.plan).text(terminal=False),
        "".join(f"{line}\n" for line in _channel_lines(report.plan)),
        "".join(f"{line}\n" for line in socket_lines(report.sockets)),
        choices_table(report).text(terminal=False),
        "".join(f"{line}\n" for line in _switch_lines(report.switches) if len(report.decisions) > 1),
        "".join(f"{line}\n" for line in _estimate_lines(report)),
    ]
    return "\n".join(part for part in parts if part)


def choices_table(report: PlanReport) -> Table:
    """One row per size: what NCCL takes, and what it takes next best."""
    rows = tuple(
        (
            row.choice.num_bytes,
            row.choice.algorithm,
            row.choice.protocol,
            row.choice.split.num_channels,
            row.choice.estimate_s * 1e6,
            None if row.runner_up is None else " ".join(row.runner_up),
            None if row.gap is None else row.gap * 100,
        )
        for row in report.decisions
    )
    mark = ", extrapolated" if report.plan.extrapolated else ""
    return Table(CHOICES, rows, f"{report.collective} of {report.dtype} by NCCL's own estimate{mark} (not measured)")


def _graphs_table(plan: NcclPlan) -> Table:
    columns = (
        Column("graph", "graph"),
        Column("pattern", "pattern"),
        Column("channels", "num_channels"),
        Column("GB/s each inside", "inside", "g"),
        Column("between nodes", "between", "g"),
        Column("worst paths", "paths"),
    )
    rows = []
    for name, graph in plan.wiring.graphs.items():
        if graph.num_channels:
            several = plan.wiring.num_nodes > 1
            inter = graph.inter_bytes_per_s / 1e9 if several else None
            paths = f"{graph.kind_intra.name}/{graph.kind_inter.name}" if several else graph.kind_intra.name
            pattern = graph.pattern.name.lower().replace("_", "-")
            row = (name.replace("_", "-"), pattern, graph.num_channels, graph.intra_bytes_per_s / 1e9, inter, paths)
            rows.append(row)
    return Table(columns, tuple(rows), "searched graphs, of which ring and tree channels are doubled")


def _channel_lines(plan: NcclPlan) -> Iterable[str]:
    rings = {ring: " ".join(map(str, ring)) for ring in plan.wiring.rings}
    yield from _listed("rings, from rank 0 in sending direction", plan.wiring.rings, rings, plan)
    trees = {tree: _chains(tree) for tree in plan.wiring.trees}
    yield from _listed("trees, parent>child", plan.wiring.trees, trees, plan)


def _listed(title: str, channels: Sequence[Any], words: Mapping[Any, str], plan: NcclPlan) -> Iterable[str]:
    """Each distinct ring or tree with its channels, cut to the width."""
    yield title
    for number, (channel, text) in enumerate(words.items()):
        if number == MOST_SHOWN:
            yield f"  ... {counted(len(words) - number, 'other')}: --format json has them all"
            return
        numbers = ranges([place for place, other in enumerate(channels) if other == channel])
        line = f"  {numbers:<7} {text}"
        if len(line) > WIDTH:
            rest = f" ... ({plan.wiring.num_ranks} ranks)"
            line = line[: WIDTH - len(rest)].rpartition(" ")[0] + rest
        yield line


def _chains(tree: Tree) -> str:
    """The tree as chains: the first child goes on, every further one begins a new chain at its parent."""
    todo: list[tuple[int, ...]] = [(rank,) for rank, up in enumerate(tree.up) if up < 0]
    chains = []
    while todo:
        chain = list(todo.pop(0))
        while tree.down[chain[-1]]:
            first, *others = tree.down[chain[-1]]
            todo += [(chain[-1], other) for other in others]
            chain.append(first)
        chains.append(">".join(map(str, chain)))
    return " ".join(chains)


def _switch_lines(switches: Sequence[Switch]) -> list[str]:
    # A line breaks between switches, never inside of one.
    words = [f"{row.algorithm} {row.protocol} from {_about(row.num_bytes)}".replace(" ", "\xa0") for row in switches]
    lines = textwrap.wrap(f"switches: {', '.join(words)}", WIDTH, subsequent_indent="  ")
    return [line.replace("\xa0", " ") for line in lines]


def _about(num_bytes: int) -> str:
    """A size in words, to four digits where it is no round number (the document has it to the byte)."""
    exact = format_size(num_bytes)
    if not exact.endswith("iB") and num_bytes >= 1 << 10:
        power = min((num_bytes.bit_length() - 1) // 10, 4)
        return f"{num_bytes / (1 << 10 * power):.4g} {'KMGT'[power - 1]}iB"
    return exact


def _estimate_lines(report: PlanReport) -> Iterable[str]:
    """Every way that is available for every size, in as many blocks of columns as the width asks for."""
    ways = list(dict.fromkeys(way for row in report.decisions for way, _ in row.choice.times_s))
    if not ways:
        return
    yield "every estimate in us, * the choice"
    per_block = (WIDTH - 9) // 10
    for first in range(0, len(ways), per_block):
        block = ways[first : first + per_block]
        yield f"{'':9}" + "".join(f"{way[0][-9:]:>9} " for way in block).rstrip()
        yield f"{'size':>8} " + "".join(f"{way[1]:>9} " for way in block).rstrip()
        for row in report.decisions:
            times = dict(row.choice.times_s)
            chosen = (row.choice.algorithm, row.choice.protocol)
            cells = (f"{_microseconds(times.get(way)):>9}{'*' if way == chosen else ' '}" for way in block)
            yield f"{format_size(row.choice.num_bytes):>8} " + "".join(cells).rstrip()


def _microseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e6:.1f}" if seconds < 0.1 else f"{seconds * 1e6:.0f}"


def explanation_text(explanation: Explanation) -> str:
    """In words why NCCL takes what it takes for one size."""
    choice = explanation.choice
    lines = [
        f"{choice.collective} of {format_size(choice.num_bytes)}: NCCL takes {choice.algorithm} {choice.protocol} on "
        f"{counted(choice.split.num_channels, 'channel')}, in chunks of {format_size(choice.chunk_bytes)}; it expects "
        f"{choice.estimate_s * 1e6:.1f} us"
    ]
    if not explanation.candidates:
        lines.append("one rank copies by itself: there is nothing to weigh")
    for row in explanation.candidates:
        late = row.estimate_s / choice.estimate_s - 1
        lines += [
            f"* {row.algorithm} {row.protocol}: {row.estimate_s * 1e6:.1f} us"
            + (f" ({late:+.0%})" if late > 0 else "")
            + f" = {row.latency_s * 1e6:.1f} us latency + {row.transfer_s * 1e6:.1f} us for the bytes",
            f"  latency: {row.latency_words}",
            f"  bytes: at {row.bytes_per_s / 1e9:.4g} GB/s by {row.limit}",
        ]
    if explanation.excluded:
        lines.append("not weighed:")
    for rule in dict.fromkeys(row.rule for row in explanation.excluded):
        names = ", ".join(
            _excluded_name(row.algorithm, row.protocols) for row in explanation.excluded if row.rule == rule
        )
        lines.append(f"* {names}: {rule}")
    return "".join(f"{part}\n" for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="    "))


def _excluded_name(algorithm: str, protocols: Sequence[str]) -> str:
    whole = len(protocols) == 3 or (protocols == ("simple",) and algorithm in ("nvls", "nvls-tree", "pat"))
    return algorithm if whole else f"{algorithm} {'/'.join(protocols)}"


def plan_json(report: PlanReport) -> str:
    """The `plan/1` document."""
    from topo.jsonio import encode_document

    wiring = report.plan.wiring
    return encode_document(
        "plan/1",
        {
            "topology": report.machine.name,
            "planner": PLANNER,
            "nccl_version": VERSION,
            "extrapolated": report.plan.extrapolated,
            "environment": report.environment,
            "notes": report.plan.notes,
            "num_ranks": wiring.num_ranks,
            "num_nodes": wiring.num_nodes,
            "num_channels": wiring.num_channels,
            "graphs": {name: _graph(graph) for name, graph in wiring.graphs.items()},
            "rings": wiring.rings,
            "trees": [tree_document(tree) for tree in wiring.trees],
            "choices": [_choice(row) for row in report.decisions],
            "switches": report.switches,
            "explanations": [_explanation(row) for row in report.explanations],
            "check": report.check,
            "sockets": report.sockets,
        },
    )


def tree_document(tree: Tree) -> dict[str, Any]:
    """A tree as NCCL's logs print it: parents by rank, and three places for children, -1 where there is none."""
    down = [[*children, *[-1] * (NUM_CHILDREN - len(children))] for children in tree.down]
    return {"up": list(tree.up), "down": down}


def _graph(graph: Any) -> dict[str, Any]:
    return {
        "pattern": graph.pattern.name.lower().replace("_", "-"),
        "num_channels": graph.num_channels,
        "bandwidth_intra_bytes_per_s": graph.intra_bytes_per_s,
        "bandwidth_inter_bytes_per_s": graph.inter_bytes_per_s,
        "latency_inter_s": graph.latency_inter_s,
        "type_intra": graph.kind_intra.name,
        "type_inter": graph.kind_inter.name,
        "cross_nic": graph.cross_nic,
        "same_channels": bool(graph.same_channels),
        "channels": [{"ranks": channel.ranks, "nets": channel.nets} for channel in graph.channels],
    }


def _choice(row: Decision) -> dict[str, Any]:
    choice = row.choice
    return {
        "collective": choice.collective,
        "num_bytes": choice.num_bytes,
        "algorithm": choice.algorithm,
        "protocol": choice.protocol,
        "num_channels": choice.split.num_channels,
        "max_channels": choice.num_channels,
        "chunk_bytes": choice.chunk_bytes,
        "nccl_estimate_s": choice.estimate_s,
        "runner_up": None
        if row.runner_up is None
        else {"algorithm": row.runner_up[0], "protocol": row.runner_up[1], "nccl_estimate_s": row.runner_up_s},
        "gap": row.gap,
        "estimates": [
            {"algorithm": algorithm, "protocol": protocol, "nccl_estimate_s": seconds}
            for (algorithm, protocol), seconds in choice.times_s
        ],
    }


def _explanation(explanation: Explanation) -> dict[str, Any]:
    choice = explanation.choice
    return {
        "collective": choice.collective,
        "num_bytes": choice.num_bytes,
        "algorithm": choice.algorithm,
        "protocol": choice.protocol,
        "candidates": explanation.candidates,
        "excluded": explanation.excluded,
    }
