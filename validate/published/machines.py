"""The machines of published runs, each built and planned once for all runs on it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.planners.nccl_2_30.choice_lists import COLLECTIVES
from topo.errors import TopologyError

if TYPE_CHECKING:
    from sim.planners.nccl_2_30 import NcclOptions, NcclPlan
    from sim.planners.nccl_2_30.domains import Domain
    from sim.planners.nccl_2_30.graphs import Graph
    from topo.cluster import Cluster
    from topo.topology import Topology
    from validate.published.document import Published
    from validate.published.settings import Settings


_UNSEEN_BY_SEARCH: dict[str, Any] = {
    "algorithms": (),
    "protocols": (),
    "min_channels": None,
    "max_channels": None,
    "simple_buffer_bytes": 4 << 20,
    "not_modelled": (),
}
"""Settings that the search for graphs does not look at, so that runs which differ in them alone share its answer."""


class Machines:
    """Finds and plans machines; what was built for one run is kept for the next."""

    tuned = COLLECTIVES
    """Collectives that NCCL's tuner chooses for."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` is where the paths of runs start; with None presets of the same name stand for the files."""
        self._folder = folder
        self._nodes: dict[str, Topology] = {}
        self._machines: dict[tuple[str, int, int], Topology | Cluster] = {}
        self._graphs: dict[Hashable, Mapping[str, Graph]] = {}
        self._plans: dict[tuple[str, int, int, tuple[tuple[str, str], ...]], NcclPlan] = {}

    def machine_of(self, run: Published) -> Topology | Cluster:
        """The GPUs that took part; TopoError where the machine is missing, too large or mixed, or has too few GPUs."""
        from topo.cli_common import refuse_too_large
        from topo.cluster import Cluster

        stated = run.machine
        key = stated.topology, stated.nodes, stated.gpus_per_node
        if key not in self._machines:
            node = self._node(stated.topology)
            if stated.gpus_per_node > node.num_ranks:
                raise TopologyError(
                    f"{stated.gpus_per_node} GPUs of each node take part, but {stated.topology} has {node.num_ranks}"
                )
            refuse_too_large(f"machine.nodes {stated.nodes}", stated.nodes, stated.nodes * stated.gpus_per_node)
            node = node.take_ranks(range(stated.gpus_per_node))
            _refuse_mixed(node, stated.topology)
            self._machines[key] = node if stated.nodes == 1 else Cluster(node, stated.nodes)
        return self._machines[key]

    def plan(self, run: Published, machine: Topology | Cluster, settings: Settings) -> NcclPlan:
        """What NCCL 2.30 builds on the run's machine under these settings.

        The search for graphs costs most. It sees one node, and only that there are others or not.
        """
        from sim.planners.nccl_2_30.front_door import plan_machine
        from sim.planners.nccl_2_30.requests import find_graphs

        def search(domain: Domain, options: NcclOptions, *, collnet: bool = False) -> Mapping[str, Graph]:
            seen = replace(options, **_UNSEEN_BY_SEARCH)
            one = (stated.topology, stated.gpus_per_node, domain.ranks, domain.inter, collnet, seen)
            if one not in self._graphs:
                self._graphs[one] = find_graphs(domain, options, collnet=collnet)
            return self._graphs[one]

        stated = run.machine
        key = stated.topology, stated.nodes, stated.gpus_per_node, settings.environment
        if key not in self._plans:
            self._plans[key] = plan_machine(machine, dict(settings.environment), search)
        return self._plans[key]

    def _node(self, topology: str) -> Topology:
        if topology not in self._nodes:
            self._nodes[topology] = self._load(topology)
        return self._nodes[topology]

    def _load(self, topology: str) -> Topology:
        from topo.load import load_topology
        from topo.presets import PRESETS, preset

        if self._folder is None:
            stem = Path(topology).stem
            if stem not in PRESETS:
                raise TopologyError(f"no preset is called {stem!r}: say with --machines where {topology} lies")
            return preset(stem)
        path = self._folder / topology
        if not path.exists() and Path(topology).parts[0] == self._folder.name:
            # Whoever names the folder of the machines itself means the one that the paths start in.
            path = self._folder.parent / topology
        if not path.exists():
            raise TopologyError(f"--machines {self._folder} has no {topology}, on which the run was made")
        loaded = load_topology(str(path))
        return loaded if not hasattr(loaded, "node") else loaded.node


def _refuse_mixed(node: Topology, topology: str) -> None:
    """TopologyError where GPUs of several generations take part: which of them a time is of cannot be told."""
    kinds = {device.gpu.compute_capability for name in node.gpu_ids if (device := node.device(name)).gpu is not None}
    if len(kinds) > 1:
        found = " and ".join("unknown" if kind is None else f"{kind / 10}" for kind in sorted(kinds, key=str))
        raise TopologyError(f"{topology} mixes GPUs of compute capability {found}: a run of one kind is needed")
