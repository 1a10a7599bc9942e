"""What each link carries when a plan runs, counted from who sends to whom: no engine is needed for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from sim.collective import collective as find_collective

if TYPE_CHECKING:
    from sim.engines.network import Network
    from sim.engines.routes import Floats
    from sim.plan import Plan

Hop = tuple[int, int, float]
"""From which rank to which, and how many bytes for each byte of the workload."""
Nodes = Sequence[Sequence[int]]
"""The ranks of each of NCCL's nodes."""

IN_RING_STEPS = ("all_reduce", "all_gather", "reduce_scatter")
MOST_PAIRS = 1 << 18
"""Pairs of ranks of which each is looked at where all send to all; of more, nodes at some distances stand for all."""


def link_shares(plan: Plan, network: Network, nodes: Nodes) -> Floats:
    """Bytes on every link of the network for each byte of the workload.

    All 0 for plans of other algorithms than rings, trees, NVLS, CollNet, PAT and direct sends. NVLS and CollNet reduce
    in each node and join nodes head by head.
    """
    carried = np.zeros(len(network.bandwidth_bytes_per_s))
    if plan.num_ranks == 1:
        return carried
    table = np.fromiter(chain.from_iterable(_hops(plan, nodes)), dtype=np.float64).reshape(-1, 3)
    if len(table):
        src, dst = (table[:, column].astype(np.int64) for column in (0, 1))
        routes = network.routes(src, dst)
        shares = np.repeat(table[:, 2], np.diff(routes.first))
        np.add.at(carried, routes.links, shares if routes.weight is None else shares * routes.weight)
    return carried


def _hops(plan: Plan, nodes: Nodes) -> Iterable[Hop]:
    if plan.algorithm == "tree" and plan.trees:
        return _in_trees(plan)
    if plan.algorithm == "ring":
        return _in_rings(plan)
    if plan.algorithm == "pat":
        return _in_pat(plan)
    if plan.algorithm == "nvls-tree":
        return chain(neighbours(nodes, 1.0), _between_heads(nodes))
    if plan.algorithm == "nvls" or plan.algorithm.startswith("collnet"):
        return _in_network(plan.algorithm, nodes)
    if plan.collective == "sendrecv":
        return ((rank, (rank + 1) % plan.num_ranks, 1.0) for rank in range(plan.num_ranks))
    return _among_all(plan.num_ranks, nodes) if plan.algorithm == "direct" else ()


def _in_trees(plan: Plan) -> Iterator[Hop]:
    for tree, count in Counter(plan.trees).items():
        share = count / plan.num_channels
        for rank, up in enumerate(tree.up):
            if up >= 0:
                yield rank, up, share
                yield up, rank, share


def _in_rings(plan: Plan) -> Iterator[Hop]:
    factor = find_collective(plan.collective).busbw_factor(plan.num_ranks)
    stop = None if plan.collective in IN_RING_STEPS else -1
    for ring, count in Counter(plan.rings).items():
        share = factor * count / plan.num_channels
        for src, dst in list(zip(ring, (*ring[1:], ring[0]), strict=True))[:stop]:
            yield src, dst, share


def _in_pat(plan: Plan) -> Iterator[Hop]:
    """A rank sends on each part whose owner is as far away as a binomial tree has it: over 2^k a share of 1 / 2^(k+1).

    Exactly, of the n - 1 distances between a rank and the owners those whose lowest bit is 2^k.
    """
    forward = 1 if plan.collective == "all_gather" else -1
    for ring, count in Counter(plan.rings).items():
        for level in range((plan.num_ranks - 1).bit_length()):
            hop = 1 << level
            num_parts = (plan.num_ranks - 1 + hop) // (2 * hop)
            share = num_parts / plan.num_ranks * count / plan.num_channels
            for place, rank in enumerate(ring):
                yield rank, ring[(place + forward * hop) % plan.num_ranks], share


def _in_network(algorithm: str, nodes: Nodes) -> Iterator[Hop]:
    """Each node's ranks reduce by their switch, or among themselves, and send a part to the network's switch once."""
    size = len(nodes[0])
    yield from neighbours(nodes, 1.0 if algorithm == "nvls" else 2 * (size - 1) / size)
    yield from next_nodes(nodes, 1 / size)


def _between_heads(nodes: Nodes) -> Iterator[Hop]:
    """Each place in a node is the head of a part, half of which goes up and down each of two trees over the nodes."""
    from sim.algorithms.tree import double_binary_parents

    share = 0.5 / len(nodes[0])
    for parents in double_binary_parents(len(nodes)):
        for node, up in enumerate(parents.tolist()):
            for child, parent in zip(nodes[node], nodes[up] if up >= 0 else (), strict=False):
                yield child, parent, share
                yield parent, child, share


def _among_all(num_ranks: int, nodes: Nodes) -> Iterator[Hop]:
    """Each rank sends a part to every other: to all of its node, and to all of other nodes, or of some for the rest."""
    part = 1 / num_ranks
    for node in nodes:
        yield from ((src, dst, part) for src in node for dst in node if src != dst)
    distances = _distances(len(nodes), num_ranks * len(nodes[0]))
    share = part * (len(nodes) - 1) / max(len(distances), 1)
    for distance in distances:
        for index, node in enumerate(nodes):
            other = nodes[(index + distance) % len(nodes)]
            yield from ((src, dst, share) for src in node for dst in other)


def _distances(num_nodes: int, pairs_each: int) -> list[int]:
    """Distances between nodes, all of them or as many as MOST_PAIRS allows, evenly spread."""
    count = min(num_nodes - 1, max(1, MOST_PAIRS // pairs_each))
    return [1 + index * (num_nodes - 1) // count for index in range(count)]


def neighbours(nodes: Nodes, share: float) -> Iterator[Hop]:
    """Each rank sends to the next one of its node: what it sends to all of them over one hub."""
    for node in nodes:
        if len(node) > 1:
            yield from ((src, dst, share) for src, dst in zip(node, (*node[1:], node[0]), strict=True))


def next_nodes(nodes: Nodes, share: float) -> Iterator[Hop]:
    """Each rank sends to its like in the next node: what it sends to others over its NIC."""
    if len(nodes) > 1:
        for node, other in zip(nodes, (*nodes[1:], nodes[0]), strict=True):
            yield from ((src, other[place % len(other)], share) for place, src in enumerate(node))
