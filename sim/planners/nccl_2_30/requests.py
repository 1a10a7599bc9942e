"""Which graphs NCCL asks its search for, and with how many channels (src/init.cc, initTransportsRank)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Protocol

from sim.planners.nccl_2_30.domains import Domain
from sim.planners.nccl_2_30.graphs import Graph, Pattern, Request
from sim.planners.nccl_2_30.ground import prepare
from sim.planners.nccl_2_30.kinds import NodeKind, PathKind
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.search import search_graph

MAX_SEARCHED_CHANNELS = 32
MAX_DIRECT_HEADS = 8
COLLNET_MAX_LOCAL_RANKS = 8


class GraphSearch(Protocol):
    """What finds the graphs of a domain: `find_graphs`, or something that remembers its answers."""

    def __call__(self, domain: Domain, options: NcclOptions, *, collnet: bool = False) -> Mapping[str, Graph]:
        """The graphs by name."""
        ...


def find_graphs(domain: Domain, options: NcclOptions, *, collnet: bool = False) -> dict[str, Graph]:
    """The graphs of a domain by name: ring, tree, collnet_chain, collnet_direct, nvls; empty ones where not asked."""
    ground = prepare(domain, options)
    ring = search_graph(ground, Request(Pattern.RING, ring_min_channels(domain), MAX_SEARCHED_CHANNELS), options)
    num = ring.num_channels
    graphs = {
        "ring": ring,
        "tree": search_graph(ground, Request(Pattern.BALANCED_TREE, num, num), options),
        "collnet_chain": Graph(Pattern.TREE),
        "collnet_direct": Graph(Pattern.COLLNET_DIRECT),
        "nvls": Graph(Pattern.NVLS),
    }
    num_gpus = ground.num_gpus
    if collnet:
        chain = Request(Pattern.TREE, num, num, collnet=True)
        direct = Request(Pattern.COLLNET_DIRECT, 1, min(MAX_DIRECT_HEADS, num_gpus), collnet=True)
        graphs["collnet_chain"] = search_graph(ground, chain, options)
        graphs["collnet_direct"] = search_graph(ground, direct, options)
    if nvls_works(domain, options):
        most = min(MAX_SEARCHED_CHANNELS, num_gpus)
        graphs["nvls"] = search_graph(ground, Request(Pattern.NVLS, 1 if domain.inter else most, most), options)
    return graphs


@lru_cache(maxsize=32)
def remembered_graphs(domain: Domain, options: NcclOptions, *, collnet: bool = False) -> Mapping[str, Graph]:
    """`find_graphs`, of which the last answers are kept: copies of one node, however many, ask for the same."""
    return MappingProxyType(find_graphs(domain, options, collnet=collnet))


def collnet_works(domains: Sequence[Domain], options: NcclOptions, num_nodes: int) -> bool:
    """Whether NCCL reduces in the network: asked for, enough nodes, and few enough ranks on each."""
    small = all(len(domain.ranks) <= COLLNET_MAX_LOCAL_RANKS for domain in domains)
    return options.collnet_enable and num_nodes >= max(2, options.collnet_node_threshold) and small


def nvls_works(domain: Domain, options: NcclOptions) -> bool:
    """Whether the NVSwitch reduces for this domain."""
    return not why_no_nvls(domain, options)


def why_no_nvls(domain: Domain, options: NcclOptions) -> str:
    """Why the NVSwitch does not reduce for this domain, in words; empty where it does."""
    system = domain.system
    capability = system.min_compute_capability
    if not options.nvls_enable:
        return "NCCL_NVLS_ENABLE=0"
    if not system.of_kind(NodeKind.NVSWITCH):
        return "NVLS needs an NVSwitch, the GPUs here have none"
    if capability < 90:
        return f"NVLS needs compute capability 9.0, here is {capability // 10}.{capability % 10}"
    return "" if len(system.of_kind(NodeKind.GPU)) > 1 else "NVLS needs two GPUs on a node, here is one"


def ring_min_channels(domain: Domain) -> int:
    """2 where exactly two groups of GPUs are joined by NVLink inside and by something else outside, else 1."""
    rows = domain.paths.gpu_gpu
    group = list(range(len(rows)))
    for gpu, row in enumerate(rows):
        for other in range(gpu + 1, len(row)):
            if row[other].kind == PathKind.NVL:
                group[other] = group[gpu]
    sizes = [group.count(name) for name in set(group)]
    return 2 if sum(size >= 2 for size in sizes) == 2 else 1
