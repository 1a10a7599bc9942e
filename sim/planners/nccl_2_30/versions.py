"""What older versions of NCCL do where 2.30 does something else: constants of the cost model, LL128, chunks of trees.

Versions before 2.9 expect a tree of Simple to cost its chunks at every hop, so that rings are taken where 2.30 takes
trees over many nodes. Published runs of 2.8.4 on Volta with NVLinks show the step times of LL up to 2 MiB and those of
Simple beyond, at each of six numbers of nodes, LL128's at no size, and switch points that come out with the constants
for PCIe: that version did not count their links as NVLinks, which also excludes LL128.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sim.planners.nccl_2_30 import tuner_facts as facts
from sim.planners.nccl_2_30.kinds import GIGA
from sim.planners.nccl_2_30.options import PROTOCOLS
from sim.planners.nccl_2_30.trees import floor_log2
from sim.planners.nccl_2_30.tuner import Cost, num_inter_steps, num_steps

if TYPE_CHECKING:
    from sim.planners.nccl_2_30.graphs import Graph
    from sim.planners.nccl_2_30.machine import Machine
    from sim.planners.nccl_2_30.planner import NcclPlan
    from sim.planners.nccl_2_30.tuner import TunerTable

SINCE = (2, 9)
"""From this version on the planner's own constants stand."""

LL128_ON_BLACKWELL_SINCE = (2, 29, 3)
"""Runs of 2.27 to 2.29.2 show the step times of LL and Simple there at every size, those of 2.29.7 LL128's as well."""

WHOLE_TREE_CHUNKS_SINCE = (2, 22)
"""From this version on a tree of Simple moves whole steps of its buffer."""

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


def as_chosen_by(plan: NcclPlan, version: tuple[int, ...] | None) -> NcclPlan:
    """The plan with what this version does otherwise, as far as that is known; None is a version that is unknown.

    LL128 stays where NCCL_PROTO asks for it, which every version follows.
    """
    if version is None:
        return plan
    if version < SINCE:
        plan = replace(plan, table=_old_costs(plan))
    elif version < LL128_ON_BLACKWELL_SINCE and plan.communicator.machine.min_compute_capability >= _BLACKWELL:
        table = {way: cost for way, cost in plan.table.items() if way[2] != "ll128" or _asks_for_ll128(plan, way[0])}
        plan = replace(plan, table=table)
    if version < WHOLE_TREE_CHUNKS_SINCE:
        plan = replace(plan, communicator=replace(plan.communicator, cuts_tree_chunks=True))
    return plan


def _asks_for_ll128(plan: NcclPlan, collective: str) -> bool:
    return plan.options.protocol_setting(collective, "ll128") is True


def _old_costs(plan: NcclPlan) -> TunerTable:
    """What was there before SINCE by the constants of then; LL128, where it is asked for, by those of 2.30."""
    machine, graphs = plan.communicator.machine, plan.wiring.graphs
    costs = {}
    for (collective, algorithm, protocol), cost in plan.table.items():
        if algorithm not in _BASE_S or not cost.bytes_per_s:
            continue
        way = collective, algorithm, protocol
        if protocol != "ll128":
            costs[way] = _cost(machine, graphs[algorithm], collective, algorithm, PROTOCOLS.index(protocol))
        elif _asks_for_ll128(plan, collective):
            costs[way] = cost
    return costs


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
