"""From the graphs of all domains to rings and trees over all ranks (connect.cc and init.cc of NCCL 2.30.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sim.plan import Tree
from sim.planners.nccl_2_30.facts import MAX_CHANNELS
from sim.planners.nccl_2_30.graphs import Graph, Pattern
from sim.planners.nccl_2_30.kinds import GIGA
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.trees import NOBODY, Place, double_tree

FEW_CHANNELS = 16
FAST_RING_BYTES_PER_S = 45 * GIGA

Orders = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class NodeGraphs:
    """The ring and tree orders of one node, by channel, in ranks of the whole communicator."""

    rings: Orders
    trees: Orders
    tree_pattern: Pattern


def merged(graphs: Sequence[Graph]) -> Graph:
    """What all ranks agree on: fewest channels, lowest bandwidths, worst path kinds. Channels are the first's."""
    fewest = min(graph.num_channels for graph in graphs)
    return replace(
        graphs[0],
        pattern=max(graph.pattern for graph in graphs),
        cross_nic=max(graph.cross_nic for graph in graphs),
        kind_intra=max(graph.kind_intra for graph in graphs),
        kind_inter=max(graph.kind_inter for graph in graphs),
        same_channels=min(graph.same_channels for graph in graphs),
        intra_bytes_per_s=min(graph.intra_bytes_per_s for graph in graphs),
        inter_bytes_per_s=min(graph.inter_bytes_per_s for graph in graphs),
        channels=graphs[0].channels[:fewest],
    )


def agree(domains: Sequence[Mapping[str, Graph]]) -> dict[str, Graph]:
    """The graphs after all ranks took the worst of every domain; ring and tree get the same number of channels."""
    graphs = {name: merged([domain[name] for domain in domains]) for name in domains[0]}
    num = min(graphs["ring"].num_channels, graphs["tree"].num_channels)
    for name in ("ring", "tree"):
        graphs[name] = replace(graphs[name], channels=graphs[name].channels[:num])
    return graphs


def nodes_of(
    domains: Sequence[Mapping[str, Graph]], num_channels: int, num_copies: int, ranks_per_copy: int
) -> tuple[NodeGraphs, ...]:
    """Every node of the communicator, in the order of its lowest rank."""
    return tuple(
        NodeGraphs(
            rings=_shifted(graphs["ring"], num_channels, copy * ranks_per_copy),
            trees=_shifted(graphs["tree"], num_channels, copy * ranks_per_copy),
            tree_pattern=graphs["tree"].pattern,
        )
        for copy in range(num_copies)
        for graphs in domains
    )


def _shifted(graph: Graph, num_channels: int, offset: int) -> Orders:
    return tuple(tuple(rank + offset for rank in channel.ranks) for channel in graph.channels[:num_channels])


def build_rings(nodes: Sequence[NodeGraphs], cross_nic: int) -> Orders:
    """The ring of every searched channel over all nodes, from rank 0 in sending direction.

    Where rings cross NICs, odd nodes use their channels 2i and 2i+1 the other way round, so that the NIC by which
    one node sends is the one by which the next receives.
    """
    num_channels = len(nodes[0].rings)
    swap = 1 if cross_nic == 2 and num_channels % 2 == 0 else 0
    rings = []
    for channel in range(num_channels):
        order = [rank for node, graphs in enumerate(nodes) for rank in graphs.rings[channel ^ (swap & node)]]
        start = order.index(0)
        rings.append(tuple(order[start:] + order[:start]))
    return tuple(rings)


def build_trees(nodes: Sequence[NodeGraphs]) -> tuple[Tree, ...]:
    """The trees of every searched channel: those of the first binary tree over nodes, then those of the second."""
    num_channels = len(nodes[0].trees)
    places = [double_tree(node, len(nodes)) for node in range(len(nodes))]
    return tuple(
        _build_tree(nodes, channel, [place[which] for place in places])
        for which in (0, 1)
        for channel in range(num_channels)
    )


def _build_tree(nodes: Sequence[NodeGraphs], channel: int, places: Sequence[Place]) -> Tree:
    """Chains inside the nodes, whose entry GPUs are joined as the binary tree over nodes says."""
    orders = [node.trees[channel] for node in nodes]
    num_ranks = sum(map(len, orders))
    up = [NOBODY] * num_ranks
    down: list[list[int]] = [[] for _ in range(num_ranks)]
    for order in orders:
        for parent, child in pairwise(order):
            up[child] = parent
            down[parent].append(child)
    entries = [(_first_entry(node, order), order[0]) for node, order in zip(nodes, orders, strict=True)]
    for node, place in enumerate(places):
        if place.up != NOBODY:
            up[orders[node][0]] = entries[place.up][place.second_child]
        for entry, child in zip(entries[node], place.down, strict=True):
            if child != NOBODY:
                down[entry].append(orders[child][0])
    return Tree(tuple(up), tuple(map(tuple, down)))


def _first_entry(node: NodeGraphs, order: tuple[int, ...]) -> int:
    """The GPU to which the node's first child attaches; its second one attaches to the first of the chain."""
    return order[0] if node.tree_pattern == Pattern.TREE or len(order) == 1 else order[1]


def final_num_channels(
    graphs: Mapping[str, Graph], options: NcclOptions, *, min_compute_capability: int, num_nodes: int, num_ranks: int
) -> int:
    """How many channels the communicator has after doubling, extra channels and the limits of the environment."""
    num = 2 * graphs["ring"].num_channels
    chain = graphs["collnet_chain"]
    if chain.num_channels and chain.intra_bytes_per_s > chain.inter_bytes_per_s and num_ranks > num_nodes:
        num += num // 2
    fast = graphs["ring"].intra_bytes_per_s > FAST_RING_BYTES_PER_S
    if min_compute_capability >= 90 and num_nodes > 1 and fast and num < FEW_CHANNELS:
        num *= 2
    most = min(options.max_ctas or MAX_CHANNELS, MAX_CHANNELS)
    num = min(num, options.max_channels or MAX_CHANNELS, most)
    return min(max(num, options.min_channels or 1, options.min_ctas or 1), most)
