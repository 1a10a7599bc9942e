"""Planners: what runs on a machine, by what a library would choose or by the topology alone. PLANNERS is the one table.

`PLANNERS["nccl-2.30"](machine, workload, options)` is a Plan. A new planner is one class and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from topo.errors import NameChoiceError, TopologyError
from topo.topology import Topology

if TYPE_CHECKING:
    from sim.engines.network import Network
    from sim.plan import Plan
    from sim.planners.nccl_2_30.planner import NcclPlan
    from sim.planners.options import Options
    from sim.workload import Workload
    from topo.cluster import Cluster

AUTO = "auto"


class Prepared(Protocol):
    """A planner made ready for one machine and one set of options, to be asked for any number of workloads."""

    name: str
    chooses: bool
    """Whether it has an algorithm of its own choice for `auto`."""
    notes: tuple[str, ...]
    """What it had to assume or cannot follow, in sentences."""
    nccl: NcclPlan | None
    """What NCCL builds, where this is NCCL's planner."""

    def plan(self, workload: Workload, algorithm: str = AUTO, *, runnable: bool = True) -> Plan:
        """What runs for the workload, by that algorithm or the planner's own choice.

        A plan that need not be `runnable` may name an algorithm that has no schedule here.
        """
        ...


@dataclass(frozen=True, slots=True)
class Planner:
    """One planner: a line that describes it, its class as `module:name`, and what it plans (empty: everything).

    One for `machines` takes no bare description.
    """

    name: str
    summary: str
    target: str
    algorithms: tuple[str, ...] = ()
    collectives: tuple[str, ...] = ()
    machines: bool = False

    def on(
        self, machine: Topology | Cluster, options: Options, network: Callable[[], Network] | None = None
    ) -> Prepared:
        """The planner made ready for a machine; `network` gives the one that plans are balanced for, if any is."""
        if self.machines:
            # Asked before the planner's modules are imported, which costs more than to simulate a small description.
            require_machine(machine if isinstance(machine, Topology) else machine.node)
        module, _, name = self.target.partition(":")
        prepared: Prepared = getattr(import_module(module), name)(machine, options, network)
        return prepared

    def plans(self, algorithm: str, collective: str) -> bool:
        """Whether this planner knows the algorithm (`auto`: any) and the collective."""
        knows = not self.algorithms or algorithm in (AUTO, *self.algorithms)
        return knows and (not self.collectives or collective in self.collectives)

    def __call__(
        self, machine: Topology | Cluster, workload: Workload, options: Options | None = None, algorithm: str = AUTO
    ) -> Plan:
        """The plan for one workload; for several on one machine use `on`."""
        return self.on(machine, options or _no_options()).plan(workload, algorithm)


PLANNERS: Mapping[str, Planner] = {
    row.name: row
    for row in (
        Planner(
            "nccl-2.30",
            "what NCCL 2.30.7 builds and chooses, rebuilt",
            "sim.planners.nccl_2_30.plans:NcclPlanner",
            ("ring", "tree", "collnet-direct", "collnet-chain", "nvls", "nvls-tree", "pat"),
            ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"),
            machines=True,
        ),
        Planner("topology", "rings by link rates, chunks by latency and rate", "sim.planners.topology:TopologyPlanner"),
    )
}
"""Planners by name."""

NCCL, TOPOLOGY = "nccl-2.30", "topology"


def require_machine(topology: Topology) -> None:
    """Raise TopologyError where a topology is a bare description, without what NCCL's choices are made of."""
    if topology.synthetic:
        raise TopologyError(
            f"{topology.name or 'this topology'} is a description without PCIe, CPUs and NICs, of which NCCL's choices "
            "are made: take a machine, or another planner"
        )


def planner(name: str) -> Planner:
    """The planner of that name; NameChoiceError with the nearest otherwise."""
    if name not in PLANNERS:
        raise NameChoiceError("planner", name, (AUTO, *PLANNERS))
    return PLANNERS[name]


def prepare(
    name: str, machine: Topology | Cluster, options: Options, network: Callable[[], Network] | None = None
) -> tuple[Prepared, str]:
    """The planner of that name for the machine; `auto` is NCCL's where it can plan the machine, else the topology's.

    The text is why `auto` could not take NCCL's, empty otherwise. Options that only NCCL's planner understands leave no
    such way out: TopologyError says what it lacks.
    """
    if name != AUTO:
        return planner(name).on(machine, options, network), ""
    try:
        return PLANNERS[NCCL].on(machine, options, network), ""
    except TopologyError as error:
        asked = _asked_of_nccl(options)
        if asked:
            raise TopologyError(f"{asked} is for NCCL's planner, which cannot plan this machine: {error}") from None
        return PLANNERS[TOPOLOGY].on(machine, options, network), str(error)


def _asked_of_nccl(options: Options) -> str:
    if options.environment:
        return options.environment[0][0]
    return "--protocol" if options.protocol else ""


def _no_options() -> Options:
    from sim.planners.options import Options

    return Options()
