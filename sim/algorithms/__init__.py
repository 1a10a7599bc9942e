"""The algorithms, each one file: a Plan in, a Schedule out. A new one is one file and one line in ALGORITHMS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sim.algorithms.collnet import collnet_direct
from sim.algorithms.direct import direct
from sim.algorithms.halving_doubling import halving_doubling
from sim.algorithms.hierarchical import hierarchical
from sim.algorithms.nvls import nvls, nvls_tree
from sim.algorithms.parameter_server import parameter_server
from sim.algorithms.pat import pat
from sim.algorithms.pipeline import Pipeline, of_chain, of_collnet, of_nvls, of_tree
from sim.algorithms.ring import ring
from sim.algorithms.tree import tree
from sim.schedule import Schedule
from topo.errors import NameChoiceError, ScheduleError

if TYPE_CHECKING:
    from sim.plan import Plan


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm: how a schedule is built, which collectives it runs, and which of these as a pipeline of chunks.

    Where it `reduces_in` the NVSwitches of each node or the one switch of the network, it needs these as helpers.
    `pipeline` is what the best number of chunks hangs on; without one a pipeline has one chunk unless told otherwise.
    Over more than `most_ranks` its transfers, which grow with their square, are more than memory holds.
    """

    name: str
    build: Callable[[Plan], Schedule]
    collectives: tuple[str, ...] = ("all_reduce",)
    pipelined: tuple[str, ...] = ()
    pipeline: Callable[[Plan], Pipeline] | None = None
    reduces_in: Literal["ranks", "nodes", "network"] = "ranks"
    most_ranks: int | None = None

    @property
    def in_switch(self) -> bool:
        """Whether switches reduce and multicast, of a node or of the network."""
        return self.reduces_in != "ranks"

    @property
    def in_network(self) -> bool:
        """Whether the switch that joins the nodes reduces, and none in a node."""
        return self.reduces_in == "network"

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


_IN_PARTS = ("all_reduce", "reduce_scatter", "all_gather")

ALGORITHMS: dict[str, Algorithm] = {
    row.name: row
    for row in (
        Algorithm(
            "ring",
            ring,
            (*_IN_PARTS, "broadcast", "reduce"),
            pipelined=("broadcast", "reduce"),
            pipeline=of_chain,
        ),
        Algorithm("tree", tree, pipelined=("all_reduce",), pipeline=of_tree),
        Algorithm("parameter-server", parameter_server, pipelined=("all_reduce",)),
        Algorithm("halving-doubling", halving_doubling),
        Algorithm("hierarchical", hierarchical),
        Algorithm("nvls", nvls, *2 * (_IN_PARTS,), pipeline=of_nvls, reduces_in="nodes"),
        Algorithm("nvls-tree", nvls_tree, pipelined=("all_reduce",), pipeline=of_nvls, reduces_in="nodes"),
        Algorithm(
            "collnet-direct", collnet_direct, pipelined=("all_reduce",), pipeline=of_collnet, reduces_in="network"
        ),
        Algorithm("pat", pat, ("all_gather", "reduce_scatter"), most_ranks=2048),
        Algorithm("direct", direct, ("all_to_all", "sendrecv")),
    )
}


def algorithm(name: str) -> Algorithm:
    """The algorithm of that name; NameChoiceError with the nearest otherwise."""
    if name not in ALGORITHMS:
        raise NameChoiceError("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]
