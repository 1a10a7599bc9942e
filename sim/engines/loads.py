"""What each link carries when a plan runs, counted from its rings and trees: no engine is needed for that."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from sim.collective import collective as find_collective

if TYPE_CHECKING:
    from sim.engines.network import Network
    from sim.engines.routes import Floats, Pairs
    from sim.plan import Plan

IN_RING_STEPS = ("all_reduce", "all_gather", "reduce_scatter")


def link_shares(plan: Plan, network: Network, ranks_per_node: int) -> Floats:
    """Bytes on every link of the network for each byte of the workload.

    All 0 for plans of other algorithms than rings, trees, NVLS and direct sends.
    `ranks_per_node` are NCCL's nodes: NVLS reduces in each node's NVSwitch and joins nodes head by head.
    """
    carried = np.zeros(len(network.bandwidth_bytes_per_s))
    if plan.num_ranks == 1:
        return carried
    src, dst, shares = _hops(plan, ranks_per_node)
    if len(src):
        routes = network.routes(src, dst)
        np.add.at(carried, routes.links, np.repeat(shares, np.diff(routes.first)))
    return carried


def _hops(plan: Plan, ranks_per_node: int) -> tuple[Pairs, Pairs, Floats]:
    """From which rank to which how many bytes go, for each byte of the workload."""
    share = 1 / plan.num_channels
    if plan.algorithm == "tree" and plan.trees:
        trees = Counter(plan.trees)
        edges = [
            (rank, up, share * count) for tree, count in trees.items() for rank, up in enumerate(tree.up) if up >= 0
        ]
        both = edges + [(dst, src, carried) for src, dst, carried in edges]
        return _columns(both)
    if plan.algorithm == "ring":
        factor = find_collective(plan.collective).busbw_factor(plan.num_ranks)
        rings = Counter(plan.rings)
        stop = None if plan.collective in IN_RING_STEPS else -1
        return _columns(
            [
                (src, dst, share * factor * count)
                for ring, count in rings.items()
                for src, dst in list(zip(ring, (*ring[1:], ring[0]), strict=True))[:stop]
            ]
        )
    if plan.algorithm in ("nvls", "nvls-tree"):
        return _columns(_reduced_in_switches(plan.num_ranks, ranks_per_node, in_network=plan.algorithm == "nvls"))
    if plan.algorithm.startswith("collnet"):
        inside = neighbours(plan.num_ranks, ranks_per_node, 2 * (ranks_per_node - 1) / ranks_per_node)
        return _columns([*inside, *next_nodes(plan.num_ranks, ranks_per_node, 1 / ranks_per_node)])
    if plan.collective == "sendrecv":
        return _columns([(rank, (rank + 1) % plan.num_ranks, 1.0) for rank in range(plan.num_ranks)])
    if plan.algorithm == "direct":
        part = 1 / plan.num_ranks
        inside = neighbours(plan.num_ranks, ranks_per_node, part * (ranks_per_node - 1))
        away = part * (plan.num_ranks - ranks_per_node)
        return _columns([*inside, *next_nodes(plan.num_ranks, ranks_per_node, away)])
    return _columns([])


def _reduced_in_switches(num_ranks: int, per_node: int, *, in_network: bool) -> list[tuple[int, int, float]]:
    """Every GPU sends all its bytes into its switch and takes all out of it, as neighbours on a hub would.

    Between nodes each of a node's ranks takes its part up and down the tree, 2 (nodes - 1) / nodes times on average, or
    once to the network's switch where that reduces.
    """
    num_nodes = num_ranks // per_node
    part = (1 if in_network and num_nodes > 1 else 2 * (num_nodes - 1) / num_nodes) / per_node
    return [*neighbours(num_ranks, per_node, 1.0), *next_nodes(num_ranks, per_node, part)]


def neighbours(num_ranks: int, per_node: int, share: float) -> list[tuple[int, int, float]]:
    """Each rank sends to the next one of its node: what it sends to all of them over one hub."""
    hops = [(rank, rank - rank % per_node + (rank + 1) % per_node, share) for rank in range(num_ranks)]
    return [hop for hop in hops if hop[0] != hop[1]]


def next_nodes(num_ranks: int, per_node: int, share: float) -> list[tuple[int, int, float]]:
    """Each rank sends to its like in the next node: what it sends to all others over its NIC."""
    if num_ranks == per_node:
        return []
    return [(rank, (rank + per_node) % num_ranks, share) for rank in range(num_ranks)]


def _columns(hops: list[tuple[int, int, float]]) -> tuple[Pairs, Pairs, Floats]:
    table = np.array(hops, dtype=np.float64).reshape(-1, 3)
    return table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2]
