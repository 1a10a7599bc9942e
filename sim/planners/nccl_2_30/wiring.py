"""What NCCL 2.30.7 builds before any collective runs: domains, graphs, rings and trees. Knows nothing of costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sim.plan import Tree
from sim.planners.nccl_2_30.channels import (
    Orders,
    agree,
    build_rings,
    build_trees,
    final_num_channels,
    nodes_of,
)
from sim.planners.nccl_2_30.domains import Domain, find_domains
from sim.planners.nccl_2_30.fusion import fuse_nics
from sim.planners.nccl_2_30.graphs import Graph
from sim.planners.nccl_2_30.nvls import NvlsTree, build_nvls_trees
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.p2p import PointToPoint, point_to_point
from sim.planners.nccl_2_30.requests import GraphSearch, collnet_works, find_graphs
from sim.planners.nccl_2_30.spec import SystemSpec
from topo.errors import TopologyError


@dataclass(frozen=True)
class Wiring:
    """The communicator's graphs and channels on `num_copies` of a machine.

    `graphs` are what all ranks agreed on, `domain_graphs[d]` what domain d of one copy found by itself. `rings[c]` is
    channel c from rank 0 in sending direction, `trees[c]` its tree. `collnet`: the network reduces.
    """

    domains: tuple[Domain, ...]
    num_nodes: int
    num_ranks: int
    collnet: bool
    domain_graphs: tuple[Mapping[str, Graph], ...]
    graphs: Mapping[str, Graph]
    rings: Orders
    trees: tuple[Tree, ...]
    nvls_trees: tuple[NvlsTree, ...]
    point_to_point: PointToPoint

    @property
    def num_channels(self) -> int:
        """Channels of the communicator."""
        return len(self.rings)

    @property
    def node_ranks(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each node, copy by copy of the machine."""
        per_copy = sum(len(domain.ranks) for domain in self.domains)
        firsts = range(0, self.num_ranks, per_copy)
        return tuple(tuple(first + rank for rank in domain.ranks) for first in firsts for domain in self.domains)


def wire(spec: SystemSpec, num_copies: int, options: NcclOptions, search: GraphSearch = find_graphs) -> Wiring:
    """Everything that NCCL builds on `num_copies` identical copies of a machine (one host, or one NVLink domain).

    `search` finds a domain's graphs; a caller that plans one machine many times may give one that remembers.
    """
    ranks_per_copy = _check_ranks(spec)
    spec = fuse_nics(spec, options)
    domains = find_domains(spec, num_copies, options)
    num_nodes, num_ranks = num_copies * len(domains), num_copies * ranks_per_copy
    collnet = collnet_works(domains, options, num_nodes)
    domain_graphs = tuple(search(domain, options, collnet=collnet) for domain in domains)
    graphs = agree(domain_graphs)
    num_channels = final_num_channels(
        graphs,
        options,
        min_compute_capability=domains[0].system.min_compute_capability,
        num_nodes=num_nodes,
        num_ranks=num_ranks,
    )
    nodes = nodes_of(domain_graphs, graphs["ring"].num_channels, num_copies, ranks_per_copy)
    rings, trees = build_rings(nodes, graphs["ring"].cross_nic), build_trees(nodes)
    return Wiring(
        domains=domains,
        num_nodes=num_nodes,
        num_ranks=num_ranks,
        # Without a NIC that reduces there is no network plugin for it, and NCCL takes it for off.
        collnet=collnet and graphs["collnet_chain"].num_channels > 0,
        domain_graphs=domain_graphs,
        graphs=graphs,
        rings=tuple(rings[channel % len(rings)] for channel in range(num_channels)),
        trees=tuple(trees[channel % len(trees)] for channel in range(num_channels)),
        nvls_trees=build_nvls_trees([found["nvls"] for found in domain_graphs], num_copies, ranks_per_copy),
        point_to_point=point_to_point(domains, options, num_channels=num_channels, num_ranks=num_ranks),
    )


def _check_ranks(spec: SystemSpec) -> int:
    """How many ranks the machine has; TopologyError where they are not 0, 1, 2, ..."""
    ranks = [gpu.rank for gpu in spec.gpus() if gpu.rank is not None]
    if not ranks:
        raise TopologyError("the machine has no GPU that takes part: NCCL needs at least one")
    if sorted(ranks) != list(range(len(ranks))):
        raise TopologyError(f"the ranks of the GPUs are {ranks}: they must be 0 to {len(ranks) - 1}, each once")
    return len(ranks)
