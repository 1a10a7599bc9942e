"""Latencies that a user states: what they add to the times of NCCL's kernels, which count every hop as fitted.

A capture states none, since what a hop costs on real hardware is a profile's; only a description or a change does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sim.engines.loads import IN_RING_STEPS, Nodes, neighbours, next_nodes
from sim.slots import SLOTS_PER_CONNECTION
from topo.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sim.engines.network import Network
    from sim.engines.routes import Floats
    from sim.plan import Plan, Tree
    from topo.cluster import Cluster


def states_latency(machine: Topology | Cluster) -> bool:
    """Whether links or fabric have a latency of their own."""
    if isinstance(machine, Topology):
        return any(link.latency_s for link in machine.links)
    return machine.fabric.latency_s > 0 or states_latency(machine.node)


def stated_wait_s(plan: Plan, network: Network, nodes: Nodes) -> float:
    """How much longer a plan's first byte is on its way for the latencies of a network's routes, in seconds.

    It waits for one hop after the other: in a ring on its way around, in a tree up and down the longest branch, where
    switches reduce once into them and out again. What follows waits behind it and adds nothing, as in the engines.
    """
    if plan.num_ranks == 1:
        return 0.0
    if plan.algorithm == "tree" and plan.trees:
        return 2 * max(_longest_branch_s(tree, network) for tree in set(plan.trees))
    if plan.algorithm == "ring":
        return max(_around_s(plan.collective, ring, network) for ring in set(plan.rings))
    inside, away = (
        float(_latencies_s(network, ((src, dst) for src, dst, _ in hops)).max(initial=0.0))
        for hops in (neighbours(nodes, 1.0), next_nodes(nodes, 1.0))
    )
    levels = math.ceil(math.log2(len(nodes)))
    match plan.algorithm:
        case "nvls-tree":
            return 2 * inside + 2 * levels * away
        case "pat":
            return levels * away
        case "direct":
            return max(inside, away)
        case _:
            return 2 * inside + away if levels else inside


def _around_s(collective: str, ring: tuple[int, ...], network: Network) -> float:
    """The most that bytes wait on their way around a ring: an all-reduce leads them twice around, all but two hops.

    Where few hops have a latency they may wait longer for the slots of the slowest: so many steps are on its way at a
    time. In a broadcast or a reduce nobody waits for the whole way, since one follows the other: kernels show one hop.
    """
    after = (*ring[1:], ring[0])
    if collective not in IN_RING_STEPS:
        return float(_latencies_s(network, zip(ring[:-1], after, strict=False)).max())
    found = _latencies_s(network, zip(ring, after, strict=True))
    times = 2 if collective == "all_reduce" else 1
    num_steps = times * (len(ring) - 1)
    for_slots_s = float(found.max()) * math.ceil(num_steps / SLOTS_PER_CONNECTION)
    if times == 2:
        found = found + np.roll(found, 1)
    return max(for_slots_s, float(found.sum() - found.min()))


def _longest_branch_s(tree: Tree, network: Network) -> float:
    """The most that a leaf's bytes wait on their way to the root."""
    ranks = [rank for rank, up in enumerate(tree.up) if up >= 0]
    found = _latencies_s(network, ((rank, tree.up[rank]) for rank in ranks))
    above = dict(zip(ranks, found.tolist(), strict=True))

    def to_root(rank: int) -> float:
        waited = 0.0
        while rank in above:
            waited += above[rank]
            rank = tree.up[rank]
        return waited

    return max(map(to_root, ranks), default=0.0)


def _latencies_s(network: Network, hops: Iterable[tuple[int, int]]) -> Floats:
    """The latency of each hop's route."""
    table = np.array(list(hops), dtype=np.int64).reshape(-1, 2)
    return network.routes(table[:, 0], table[:, 1]).latency_s if len(table) else np.zeros(0)
