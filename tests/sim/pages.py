"""What tests of the page share: pages by what they show, made once."""

from __future__ import annotations

import json
from functools import cache
from html.parser import HTMLParser
from typing import Any

from sim.algorithms import ALGORITHMS
from sim.page.document import page
from sim.plan import Plan
from sim.predict import Simulator
from sim.prediction import Prediction
from sim.report import report_json
from sim.workload import Workload
from topo.cluster import Cluster
from topo.errors import TopoError
from topo.load import load_topology
from topo.topology import Topology

MIB, GIB = 2**20, 2**30
STAR = "switch:8,bandwidth=200GB/s,latency=1us"
LESSON = ("ring", "parameter-server")

Played = tuple[str, int, str, str]
"""A machine, its nodes, an algorithm and a collective."""


@cache
def simulator_of(machine: str, nodes: int = 1, planner: str = "auto") -> Simulator:
    """What simulates on a machine of that name."""
    return Simulator(load_topology(machine, nodes=nodes), planner=planner)


def played_on(machines: tuple[tuple[str, int], ...], planner: str = "auto") -> list[Played]:
    """Each machine with each algorithm and collective that it has what it needs for, such as switches that reduce."""
    return [
        (*machine, name, one)
        for machine in machines
        for name, row in ALGORITHMS.items()
        for one in row.collectives
        if _can_plan(simulator_of(*machine, planner), name, one)
    ]


def _can_plan(simulator: Simulator, algorithm: str, collective: str) -> bool:
    try:
        simulator.plan(Workload(collective, MIB), algorithm)
    except TopoError:
        return False
    return True


def simulated(
    machine: Topology | Cluster,
    algorithms: tuple[str, ...],
    sizes: tuple[int, ...],
    collective: str = "all_reduce",
    planner: str = "auto",
) -> tuple[Simulator, list[Prediction], list[str]]:
    """A simulator with its predictions, and the algorithm asked for of each."""
    simulator = Simulator(machine, planner=planner)
    todo = [(Workload(collective, num_bytes), name) for num_bytes in sizes for name in algorithms]
    return simulator, [simulator.run(*what) for what in todo], [name for _, name in todo]


@cache
def made(
    machine: str = "dgx-h100",
    algorithms: tuple[str, ...] = LESSON,
    sizes: tuple[int, ...] = (MIB, GIB),
    nodes: int = 1,
    collective: str = "all_reduce",
    planner: str = "auto",
) -> str:
    """The page of these predictions."""
    return page(*simulated(load_topology(machine, nodes=nodes), algorithms, sizes, collective, planner))


@cache
def document(
    machine: str = "dgx-h100", algorithms: tuple[str, ...] = LESSON, sizes: tuple[int, ...] = (MIB, GIB)
) -> dict[str, Any]:
    """The JSON document of the same predictions."""
    simulator, predictions, _ = simulated(load_topology(machine), algorithms, sizes)
    found: dict[str, Any] = json.loads(report_json(simulator, predictions))
    return found


def data_of(text: str) -> Any:
    """What the page's script reads."""
    parser = Parsed()
    parser.feed(text)
    return json.loads(parser.data)


class Parsed(HTMLParser):
    """The tags of a page, each with its attributes, and the text of its data."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._kind: str | None = None

    @property
    def data(self) -> str:
        """The one script element that holds JSON."""
        return self.scripts[0]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps the tag."""
        self.tags.append((tag, dict(attrs)))
        self._kind = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        """Text behind this belongs to no script."""
        self._kind = None

    def handle_data(self, data: str) -> None:
        """Keeps the text of scripts."""
        if self._kind == "script":
            self.scripts[-1] += data


def plan_named(simulator: Simulator, algorithm: str, num_bytes: int = GIB) -> Plan:
    """The plan of an all-reduce."""
    return simulator.plan(Workload("all_reduce", num_bytes), algorithm)
