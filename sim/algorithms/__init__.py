"""The algorithms, each one file: a Plan in, a Schedule out. A new one is one file and one line in ALGORITHMS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.algorithms.collnet import collnet_direct
from sim.algorithms.direct import direct
from sim.algorithms.halving_doubling import halving_doubling
from sim.algorithms.hierarchical import hierarchical
from sim.algorithms.nvls import nvls, nvls_tree
from sim.algorithms.parameter_server import parameter_server
from sim.algorithms.pat import pat
from sim.algorithms.ring import ring
from sim.algorithms.tree import tree
from sim.schedule import Schedule
from topo.errors import NameChoiceError, ScheduleError

if TYPE_CHECKING:
    from sim.plan import Plan


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm: how a schedule is built, which collectives it runs, and which of these as a pipeline of chunks.

    With `in_switch` it needs switches that reduce and multicast, as helpers. Over more than `most_ranks` its transfers,
    which grow with their square, are more than memory holds.
    """

    name: str
    build: Callable[[Plan], Schedule]
    collectives: tuple[str, ...] = ("all_reduce",)
    pipelined: tuple[str, ...] = ()
    in_switch: bool = False
    most_ranks: int | None = None

    def require(self, num_ranks: int) -> None:
        """Raise ScheduleError for more ranks than it can be written out for."""
        if self.most_ranks is not None and num_ranks > self.most_ranks:
            raise ScheduleError(
                f"{self.name} over {num_ranks} ranks has too many transfers to simulate: use at most {self.most_ranks} "
                "ranks, or another --algorithm"
            )

    def pipelines(self, collective: str) -> bool:
        """Whether the number of chunks of that collective is free to choose."""
        return collective in self.pipelined


ALGORITHMS: dict[str, Algorithm] = {
    row.name: row
    for row in (
        Algorithm(
            "ring",
            ring,
            ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce"),
            pipelined=("broadcast", "reduce"),
        ),
        Algorithm("tree", tree, pipelined=("all_reduce",)),
        Algorithm("parameter-server", parameter_server, pipelined=("all_reduce",)),
        Algorithm("halving-doubling", halving_doubling),
        Algorithm("hierarchical", hierarchical),
        Algorithm("nvls", nvls, *2 * (("all_reduce", "reduce_scatter", "all_gather"),), in_switch=True),
        Algorithm("nvls-tree", nvls_tree, pipelined=("all_reduce",), in_switch=True),
        Algorithm("collnet-direct", collnet_direct, pipelined=("all_reduce",), in_switch=True),
        Algorithm("pat", pat, ("all_gather", "reduce_scatter"), most_ranks=2048),
        Algorithm("direct", direct, ("all_to_all", "sendrecv")),
    )
}


def algorithm(name: str) -> Algorithm:
    """The algorithm of that name; NameChoiceError with the nearest otherwise."""
    if name not in ALGORITHMS:
        raise NameChoiceError("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]
