"""The algorithms, each one file: a Plan in, a Schedule out. A new one is one file and one line in ALGORITHMS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sim.algorithms.direct import direct
from sim.algorithms.parameter_server import parameter_server
from sim.algorithms.ring import ring
from sim.algorithms.tree import tree
from sim.plan import Plan
from sim.schedule import Schedule
from topo.errors import NameChoiceError


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm: how a schedule is built, whether as a chunk pipeline, and which collectives it runs."""

    name: str
    build: Callable[[Plan], Schedule]
    pipelined: bool
    collectives: tuple[str, ...] = ("all_reduce",)


ALGORITHMS: dict[str, Algorithm] = {
    row.name: row
    for row in (
        Algorithm("ring", ring, pipelined=False),
        Algorithm("tree", tree, pipelined=True),
        Algorithm("parameter-server", parameter_server, pipelined=True),
        Algorithm("direct", direct, pipelined=False, collectives=("all_to_all",)),
    )
}


def algorithm(name: str) -> Algorithm:
    """The algorithm of that name; NameChoiceError with the nearest otherwise."""
    if name not in ALGORITHMS:
        raise NameChoiceError("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]
