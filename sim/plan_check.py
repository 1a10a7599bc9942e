"""A plan of NCCL's beside the log of a real run: every difference, with what most likely made it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sim.plan_causes import Causes
from sim.planners.nccl_2_30.choice_lists import COLLECTIVES
from topo.units import format_size
from topo.words import counted, ranges

if TYPE_CHECKING:
    from sim.plan import Tree
    from sim.planners.nccl_2_30 import NcclPlan
    from topo.readers.nccl_log.facts import Communicator, NcclLog
    from topo.readers.nccl_log.facts import Tree as LoggedTree
    from topo.readers.nccl_log.machine_facts import GraphSearch

WIDTH = 80
SEARCHES = {1: "tree", 2: "tree", 3: "tree", 4: "ring", 5: "nvls"}
"""Which graph a pattern of NCCL's belongs to (the chain of CollNet has the pattern of a tree and is left out)."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that plan and log say differently, in words, and the likely cause."""

    what: str
    planned: str
    logged: str
    cause: str


@dataclass(frozen=True, slots=True)
class Check:
    """What agrees, what differs, and what the log does not show."""

    log: str
    version: str | None
    agreed: tuple[str, ...]
    differences: tuple[Difference, ...]
    not_shown: tuple[str, ...]
    machine: str = ""
    environment: tuple[tuple[str, str], ...] = field(default=())

    @property
    def text(self) -> str:
        """The result for people, 80 columns wide."""
        count = len(self.differences)
        verdict = f"{count} difference{'' if count == 1 else 's'}" if count else "no difference"
        lines = [f"plan of {self.machine} beside {self.log} (NCCL {self.version or 'of unknown version'}): {verdict}"]
        lines += [f"= {sentence}" for sentence in self.agreed]
        last = ""
        for row in self.differences:
            cause = "likely as above" if row.cause == last else row.cause
            lines += [f"! {row.what}", f"    planned {row.planned}", f"    logged  {row.logged}", f"    {cause}"]
            last = row.cause
        lines += [f"? {sentence}" for sentence in self.not_shown]
        return "".join(f"{part}\n" for line in lines for part in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    indent = len(line) - len(line.lstrip())
    return textwrap.wrap(line, WIDTH, subsequent_indent=" " * (indent + 2), drop_whitespace=True) or [""]


def check(plan: NcclPlan, log: NcclLog) -> Check:
    """Rings, trees, channel counts, graphs and choices of the plan beside those of the log's main communicator."""
    return _Comparison(plan, log).result()


class _Comparison:
    """Collects what agrees and what differs; causes are told from what the log says of its run."""

    def __init__(self, plan: NcclPlan, log: NcclLog) -> None:
        self._plan = plan
        self._log = log
        self._agreed: list[str] = []
        self._different: list[Difference] = []
        self._not_shown: list[str] = []
        self._causes = Causes(plan, log)

    def result(self) -> Check:
        """All comparisons in turn; ranks first, since nothing else compares where they differ."""
        main = self._log.main
        if main is None:
            self._not_shown.append("the log shows no communicator")
        elif self._ranks(main):
            self._channels(main)
            self._rings(main)
            self._trees(main)
            self._graphs()
            self._tuning()
            self._choices(main)
        version = self._log.versions[0] if self._log.versions else None
        return Check(self._log.source, version, tuple(self._agreed), tuple(self._different), tuple(self._not_shown))

    def _differs(self, what: str, planned: object, logged: object, *causes: str) -> None:
        known = [cause for cause in causes if cause]
        cause = "; ".join(dict.fromkeys(known[:2])) or "no cause seen in the log: is this the machine it ran on?"
        self._different.append(Difference(what, str(planned), str(logged), f"likely: {cause}"))

    def _ranks(self, main: Communicator) -> bool:
        wiring = self._plan.wiring
        if main.num_ranks is None:
            self._not_shown.append("how many ranks there were: rings and trees are compared as far as they go")
        elif main.num_ranks != wiring.num_ranks:
            self._differs("ranks", wiring.num_ranks, main.num_ranks, "plan as many with --nodes and --gpus")
            return False
        if main.num_nodes is not None and main.num_nodes != wiring.num_nodes:
            self._differs("nodes", wiring.num_nodes, main.num_nodes, self._causes.version(), self._causes.networks())
        return True

    def _channels(self, main: Communicator) -> None:
        planned = self._plan.wiring.num_channels
        if main.num_channels is None:
            self._not_shown.append("the number of channels")
        elif main.num_channels != planned:
            self._differs("channels", planned, main.num_channels, *self._causes.all())
        else:
            self._agreed.append(counted(planned, "channel"))

    def _rings(self, main: Communicator) -> None:
        planned = self._plan.wiring.rings
        same: list[int] = []
        other: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
        for ring in main.rings:
            if ring.channel < len(planned) and planned[ring.channel] == ring.ranks:
                same.append(ring.channel)
            elif ring.channel < len(planned):
                other.setdefault((planned[ring.channel], ring.ranks), []).append(ring.channel)
        if same:
            self._agreed.append(f"{_named('ring', same)}")
        for (ours, theirs), channels in other.items():
            self._differs(
                _named("ring", channels), _short(ours), _short(theirs), self._causes.order(main), *self._causes.all()
            )
        if not main.rings:
            self._not_shown.append("whole rings")
        elif main.open_rings:
            self._not_shown.append(f"{_named('ring', main.open_rings)} wholly")

    def _trees(self, main: Communicator) -> None:
        planned = self._plan.wiring.trees
        same: list[int] = []
        other: dict[tuple[str, str], list[int]] = {}
        for tree in main.trees:
            if tree.channel >= len(planned):
                continue
            wrong = _first_difference(planned[tree.channel], tree)
            if wrong is None:
                same.append(tree.channel)
            else:
                other.setdefault(wrong, []).append(tree.channel)
        if same:
            self._agreed.append(f"{_named('tree', same)} as far as ranks show them")
        for (ours, theirs), channels in other.items():
            self._differs(_named("tree", channels), ours, theirs, self._causes.order(main), *self._causes.all())
        if not main.trees:
            self._not_shown.append("trees")

    def _graphs(self) -> None:
        """The searches of the log; every rank of a host finds the same, so each pattern is compared once."""
        seen: set[str] = set()
        for search in self._log.searches:
            name = SEARCHES.get(search.pattern)
            if name is None or name in seen:
                continue
            seen.add(name)
            planned = self._graph_words(name)
            logged = _search_words(search)
            if planned == logged:
                self._agreed.append(f"the {name} graph: {planned}")
            else:
                self._differs(f"the {name} graph", planned, logged, *self._causes.all())

    def _graph_words(self, name: str) -> str:
        graph = self._plan.wiring.domain_graphs[0][name]
        several = self._plan.wiring.num_nodes > 1
        return _graph_words(graph.num_channels, graph.intra_bytes_per_s, graph.inter_bytes_per_s if several else None)

    def _tuning(self) -> None:
        """The cells of the tuning table, which NCCL prints to one digit: 0 and 0 where there is no such way."""
        wrong: list[tuple[str, str, str]] = []
        num_right = 0
        for cell in self._log.tuning:
            cost = self._plan.table.get((cell.function, cell.algorithm, cell.protocol))
            planned = (cost.latency_s, cost.bytes_per_s) if cost and cost.bytes_per_s else (0.0, 0.0)
            logged = (cell.latency_s, cell.bandwidth_bytes_per_s) if cell.bandwidth_bytes_per_s else (0.0, 0.0)
            if _cost_words(*planned) == _cost_words(*logged):
                num_right += 1
            else:
                where = f"{cell.function} by {cell.algorithm} {cell.protocol}"
                wrong.append((f"tuning of {where}", _cost_words(*planned), _cost_words(*logged)))
        if num_right:
            self._agreed.append(f"{num_right} cells of the tuning table")
        for row in wrong:
            self._differs(*row, *self._causes.all())

    def _choices(self, main: Communicator) -> None:
        wrong: list[tuple[str, str, str]] = []
        num_right = 0
        unnamed = 0
        for chosen in dict.fromkeys((c.function, c.num_bytes, c.algorithm, c.protocol) for c in self._log.choices):
            function, num_bytes, algorithm, protocol = chosen
            if function not in COLLECTIVES:
                unnamed += 1
                continue
            scale = self._plan.wiring.num_ranks if function in ("all_gather", "reduce_scatter") else 1
            choice = self._plan.choose(function, num_bytes * scale, dtype="int8" if num_bytes % 4 else "float32")
            if (choice.algorithm, choice.protocol) == (algorithm, protocol):
                num_right += 1
            else:
                planned = f"{choice.algorithm} {choice.protocol}"
                wrong.append((f"{function} of {format_size(num_bytes * scale)}", planned, f"{algorithm} {protocol}"))
        if num_right:
            self._agreed.append(f"{num_right} choices of algorithm and protocol")
        for row in wrong:
            self._differs(*row, self._causes.tuner_plugin(), *self._causes.all())
        if unnamed:
            self._not_shown.append(f"for which collective {unnamed} choices were made")
        elif not self._log.choices:
            self._not_shown.append("choices (NCCL_DEBUG_SUBSYS=TUNING prints them)")


def _named(noun: str, channels: Sequence[int]) -> str:
    return f"{noun}{'s' if len(channels) > 1 else ''} of channel{'s' if len(channels) > 1 else ''} {ranges(channels)}"


def _short(ranks: Sequence[int]) -> str:
    return " ".join(map(str, ranks[:20])) + (" ..." if len(ranks) > 20 else "")


def _first_difference(planned: Tree, logged: LoggedTree) -> tuple[str, str] | None:
    """The first rank whose place differs, as the plan and the log have it; None where all that is shown agrees."""
    for rank, (up, down) in enumerate(zip(logged.up, logged.down, strict=True)):
        ours = (planned.up[rank], planned.down[rank]) if rank < len(planned.up) else (-1, ())
        theirs = (ours[0] if up is None else up, ours[1] if down is None else tuple(c for c in down if c >= 0))
        if theirs != ours:
            return _place(rank, *ours), _place(rank, *theirs)
    return None


def _place(rank: int, up: int, down: Sequence[int]) -> str:
    parent = f"below {up}" if up >= 0 else "the root"
    return f"rank {rank} {parent}, above {', '.join(map(str, down)) or 'nobody'}"


def _search_words(search: GraphSearch) -> str:
    inter = search.bandwidth_inter_bytes_per_s if any("NET" in part for c in search.channels for part in c) else None
    return _graph_words(search.num_channels, search.bandwidth_intra_bytes_per_s, inter)


def _cost_words(latency_s: float, bytes_per_s: float) -> str:
    return f"{latency_s * 1e6:.1f} us, {bytes_per_s / 1e9:.1f} GB/s"


def _graph_words(num_channels: int, intra_bytes_per_s: float, inter_bytes_per_s: float | None) -> str:
    inter = "" if inter_bytes_per_s is None else f" and {inter_bytes_per_s / 1e9:.1f} between nodes"
    return f"{counted(num_channels, 'channel')} of {intra_bytes_per_s / 1e9:.1f} GB/s inside{inter}"
