"""How many channels NVLS takes and how large its chunks are, and its trees over nodes (src/transport/nvls.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sim.planners.nccl_2_30.graphs import Graph
from sim.planners.nccl_2_30.kinds import GIGA
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.trees import NOBODY, double_tree

KIB = 1 << 10


@dataclass(frozen=True, slots=True)
class NvlsShape:
    """Channels and chunk sizes of NVLS and NVLSTree; all 0 where there is no NVLS."""

    num_channels: int = 0
    chunk_bytes: int = 0
    tree_max_chunk_bytes: int = 0


def nvls_shape(
    options: NcclOptions, *, compute_capability: int, num_nodes: int, ranks_per_node: int, net_bytes_per_s: float
) -> NvlsShape:
    """The shape of NVLS on a machine that has it; `net_bytes_per_s` is the slowest GPU's best NIC path."""
    channels, chunk = 16, 128 * KIB
    tree_chunk = 64 * KIB if num_nodes >= 4 else chunk
    if compute_capability >= 100:
        channels = 24
        if num_nodes > 1:
            channels, chunk, tree_chunk = _blackwell(num_nodes, ranks_per_node, net_bytes_per_s, tree_chunk)
    channels = options.nvls_num_channels or channels
    channels = max(min(channels, options.max_ctas or channels), options.min_ctas or 1)
    chunk = options.nvls_chunk_bytes or chunk
    return NvlsShape(channels, chunk, options.nvls_tree_max_chunk_bytes or tree_chunk)


def _blackwell(num_nodes: int, ranks_per_node: int, net_bytes_per_s: float, tree_chunk: int) -> tuple[int, int, int]:
    """Channels and chunk sizes of several Blackwell NVLink domains, by the speed of their NICs."""
    if num_nodes == 2 and net_bytes_per_s >= 48 * GIGA:
        return 32, 128 * KIB, 64 * KIB
    if net_bytes_per_s >= 96 * GIGA:
        return (24, 256 * KIB, 256 * KIB) if ranks_per_node <= 8 else (32, 128 * KIB, tree_chunk)
    return 24, 128 * KIB, tree_chunk


@dataclass(frozen=True, slots=True)
class NvlsTree:
    """A tree over nodes for every head: `up[rank]` is its parent (-1 at the root), `head[rank]` the head it serves."""

    up: tuple[int, ...]
    head: tuple[int, ...]


def build_nvls_trees(graphs: Sequence[Graph], num_copies: int, ranks_per_copy: int) -> tuple[NvlsTree, ...]:
    """Both trees over all nodes; `graphs` are the NVLS graphs of one copy's domains. None without several heads."""
    num_heads = min(graph.num_channels for graph in graphs)
    if num_heads < 1:
        return ()
    heads = [
        [channel.ranks[0] + copy * ranks_per_copy for channel in graph.channels[:num_heads]]
        for copy in range(num_copies)
        for graph in graphs
    ]
    num_ranks = num_copies * ranks_per_copy
    places = [double_tree(node, len(heads)) for node in range(len(heads))]
    trees = []
    for which in (0, 1):
        up, head = [NOBODY] * num_ranks, [NOBODY] * num_ranks
        for node, ranks in enumerate(heads):
            parent = places[node][which].up
            for index, rank in enumerate(ranks):
                head[rank] = index
                up[rank] = NOBODY if parent == NOBODY else heads[parent][index]
        trees.append(NvlsTree(tuple(up), tuple(head)))
    return tuple(trees)
