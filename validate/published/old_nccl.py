"""What NCCL before 2.9 took where 2.30 takes something else: the constants of its cost model, and no LL128.

Those versions expect a tree of Simple to cost its chunks at every hop, so that rings are taken where 2.30 takes trees
over many nodes. Published runs of 2.8.4 on Volta with NVLinks show the step times of LL up to 2 MiB and those of Simple
beyond, at each of six numbers of nodes, LL128's at no size, and switch points that come out with the constants for
PCIe: that version did not count their links as NVLinks, which also excludes LL128.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sim.clock.jobs import Operation, operation_of
from sim.planners.nccl_2_30 import tuner_facts as facts
from sim.planners.nccl_2_30.chunks import KIB
from sim.planners.nccl_2_30.kinds import GIGA
from sim.planners.nccl_2_30.options import PROTOCOLS
from sim.planners.nccl_2_30.trees import floor_log2
from sim.planners.nccl_2_30.tuner import Cost, num_inter_steps, num_steps

if TYPE_CHECKING:
    from sim.planners.nccl_2_30 import Choice, NcclPlan
    from sim.planners.nccl_2_30.graphs import Graph
    from sim.planners.nccl_2_30.machine import Machine

SINCE = (2, 9)
"""From this version on the planner's own constants stand."""

LL128_ON_BLACKWELL_SINCE = (2, 29, 3)
"""Runs of 2.27 to 2.29.2 show the step times of LL and Simple there at every size, those of 2.29.7 LL128's as well."""

WHOLE_TREE_CHUNKS_SINCE = (2, 22)
"""From this version on a tree of Simple moves whole steps of its buffer."""

_SIMPLE_TREE = ("tree", "simple")
_BLACKWELL = 100
_US = 1e-6
_BASE_S = {"tree": (4.4 * _US, 4.4 * _US, 0.0), "ring": (3.6 * _US, 10 * _US, 8.4 * _US)}
"""For ll, ll128 and simple, as in the tables below."""
_GPU_S = {"tree": (1.0 * _US, 1.9 * _US, 28 * _US), "ring": (1.0 * _US, 2.5 * _US, 5.7 * _US)}
_NET_S = {"tree": (5.0 * _US, 7.5 * _US, 50 * _US), "ring": (2.7 * _US, 4.0 * _US, 9.6 * _US)}
_RING_LL_SHARE, _RING_LL_SHARE_ONE_WAY = 1 / 4, 1 / 3
"""Of a ring's bandwidth: in general, and on one node where nothing is reduced twice."""
_TREE_BYTES_PER_S = (110 * GIGA, 110 * GIGA, 80 * GIGA)
"""What a tree moves at most, on one node, two, and more."""


def operation_in(
    plan: NcclPlan, collective: str, num_bytes: int, choice: Choice | None, version: tuple[int, ...] | None
) -> Operation:
    """What this version of NCCL runs by that choice, None where it only sends and receives; None: it is unknown."""
    operation = operation_of(plan, collective, num_bytes, choice)
    return operation if choice is None else replace(operation, chunk_bytes=chunk_bytes(plan, choice, version))


def chunk_bytes(plan: NcclPlan, choice: Choice, version: tuple[int, ...] | None) -> int:
    """The chunk of a choice in this version: before 2.22 trees of Simple cut theirs until many fill the pipeline.

    Its depth counts a node's ranks and the levels over nodes (computeCollWorkFunc, src/enqueue.cc of 2.8 to 2.21).
    """
    chunk: int = choice.chunk_bytes
    if version is None or version >= WHOLE_TREE_CHUNKS_SINCE or (choice.algorithm, choice.protocol) != _SIMPLE_TREE:
        return chunk
    machine = plan.communicator.machine
    depth = floor_log2(machine.num_nodes) + (0 if machine.ranks_per_node == 1 else machine.ranks_per_node)
    for chunks, least in ((8, 128 * KIB), (4, 64 * KIB), (1, 32 * KIB)):
        while choice.num_bytes // (choice.split.num_channels * chunk) < chunks * depth and chunk > least:
            chunk //= 2
    return chunk


def as_chosen_by(plan: NcclPlan, version: tuple[int, ...] | None) -> NcclPlan:
    """The plan with the cost model of this version where that is known to differ; None is a version that is unknown."""
    machine = plan.communicator.machine
    if version is not None and machine.min_compute_capability >= _BLACKWELL and version < LL128_ON_BLACKWELL_SINCE:
        return replace(plan, table={way: cost for way, cost in plan.table.items() if way[2] != "ll128"})
    if version is None or version >= SINCE:
        return plan
    costs: Mapping[tuple[str, str, str], Cost] = {
        (collective, algorithm, protocol): _cost(
            machine, plan.wiring.graphs[algorithm], collective, algorithm, PROTOCOLS.index(protocol)
        )
        for (collective, algorithm, protocol), cost in plan.table.items()
        if algorithm in _BASE_S and protocol != "ll128" and cost.bytes_per_s
    }
    return replace(plan, table=costs)


def _cost(machine: Machine, graph: Graph, collective: str, algorithm: str, protocol: int) -> Cost:
    raw = graph.num_channels * (graph.intra_bytes_per_s if machine.num_nodes <= 2 else graph.inter_bytes_per_s)
    intra_s = _GPU_S[algorithm][protocol]
    inter_s = _NET_S[algorithm][protocol]
    if algorithm == "tree":
        hops_s = (machine.ranks_per_node - 1) * intra_s + floor_log2(machine.num_nodes) * inter_s
        busbw = min(raw * facts.TREE_SHARE, _TREE_BYTES_PER_S[machine.scale])
        return Cost(_BASE_S["tree"][protocol] + 2 * hops_s, busbw * (0.5 if protocol else 0.5 * facts.TREE_LL_SHARE))
    steps = num_steps(machine, collective)
    if collective in ("broadcast", "reduce"):
        hop_s = inter_s if machine.num_nodes > 1 else intra_s
        hops_s = hop_s if graph.same_channels else steps * hop_s
    else:
        away = num_inter_steps(machine, collective)
        hops_s = (steps - away) * intra_s + away * inter_s
    share = 1.0 if protocol else _ring_ll_share(machine, collective)
    return Cost(_BASE_S["ring"][protocol] + hops_s, raw * share * machine.num_ranks / steps)


def _ring_ll_share(machine: Machine, collective: str) -> float:
    reduced = collective in ("all_reduce", "reduce")
    return _RING_LL_SHARE if reduced or machine.num_nodes > 1 else _RING_LL_SHARE_ONE_WAY
