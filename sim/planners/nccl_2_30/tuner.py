"""NCCL's cost model: a latency and a bandwidth for every collective, algorithm and protocol (src/graph/tuning.cc).

Depends on plain values alone, so that another model can take its place beside the same paths and graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sim.planners.nccl_2_30 import tuner_facts as facts
from sim.planners.nccl_2_30.choice_lists import COLLECTIVES
from sim.planners.nccl_2_30.graphs import Graph, Pattern
from sim.planners.nccl_2_30.kinds import PathKind
from sim.planners.nccl_2_30.machine import Machine
from sim.planners.nccl_2_30.options import ALGORITHMS, COLLNET, NVLS, PROTOCOLS, NcclOptions
from sim.planners.nccl_2_30.rules import SIMPLE_ONLY, why_barred, why_missing
from sim.planners.nccl_2_30.trees import floor_log2

GRAPH_OF = {
    "tree": "tree",
    "ring": "ring",
    "collnet-direct": "collnet_direct",
    "collnet-chain": "collnet_chain",
    "nvls": "nvls",
    "nvls-tree": "nvls",
    "pat": "tree",
}
"""On which graph an algorithm runs."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one algorithm and protocol cost: `latency_s` plus bytes over `bytes_per_s`; 0 there: not available."""

    latency_s: float
    bytes_per_s: float


TunerTable = Mapping[tuple[str, str, str], Cost]
"""By (collective, algorithm, protocol)."""


def tune(
    machine: Machine,
    graphs: Mapping[str, Graph],
    options: NcclOptions,
    collectives: Iterable[str] = COLLECTIVES,
) -> TunerTable:
    """The cost of every combination that NCCL has; combinations that it does not have are left out."""
    table = {}
    for collective in collectives:
        for algorithm in ALGORITHMS:
            if why_missing(machine, options, collective, algorithm):
                continue
            graph = graphs[GRAPH_OF[algorithm]]
            for index, protocol in enumerate(PROTOCOLS):
                if protocol != "simple" and algorithm in SIMPLE_ONLY:
                    continue
                bandwidth = 0.0
                if not why_barred(machine, graph, options, collective, algorithm, protocol):
                    bandwidth = _algbw(machine, graph, collective, algorithm, protocol)
                latency = _latency_s(machine, graph, options, collective, algorithm, index)
                table[collective, algorithm, protocol] = Cost(latency, bandwidth)
    return table


def _algbw(machine: Machine, graph: Graph, collective: str, algorithm: str, protocol: str) -> float:
    """Bytes per second as nccl-tests' algbw counts them."""
    busbw = _busbw(machine, graph, collective, algorithm, protocol)
    if algorithm == "ring" or (collective == "all_reduce" and algorithm in NVLS):
        return busbw * machine.num_ranks / num_steps(machine, collective) if machine.num_ranks > 1 else busbw
    return busbw * 0.5 if collective == "all_reduce" else busbw


def num_steps(machine: Machine, collective: str) -> int:
    """How many steps a ring takes, as NCCL counts them."""
    others = machine.num_ranks - 1
    return {"all_reduce": 2 * others, "all_gather": others, "reduce_scatter": others}.get(collective, machine.num_ranks)


def num_inter_steps(machine: Machine, collective: str) -> int:
    """How many of a ring's steps lead from node to node."""
    return (2 if collective == "all_reduce" else 1) * (machine.num_nodes - 1)


def _busbw(machine: Machine, graph: Graph, collective: str, algorithm: str, protocol: str) -> float:
    collnet = algorithm in COLLNET
    intra = machine.num_nodes <= 2 or collnet
    raw = graph.num_channels * (graph.intra_bytes_per_s if intra else graph.inter_bytes_per_s)
    if algorithm == "ring":
        return _ring_busbw(machine, graph, protocol, raw)
    if algorithm == "tree":
        return _tree_busbw(machine, graph, protocol, raw)
    if algorithm == "pat":
        return raw * facts.PAT_SHARE
    if algorithm == "collnet-direct":
        return _direct_busbw(machine, graph, collective, raw)
    if algorithm == "collnet-chain":
        return raw
    return _nvls_busbw(machine, graph, collective, algorithm)


def _ll_cap(machine: Machine) -> float:
    row = machine.generation if machine.num_nodes == 1 else int(machine.amd)
    return facts.LL_MAX_BYTES_PER_S[row][machine.scale]


def _ring_busbw(machine: Machine, graph: Graph, protocol: str, raw: float) -> float:
    if protocol == "ll":
        return min(_ll_cap(machine), raw * facts.RING_LL_SHARE)
    if protocol == "ll128":
        cap = graph.num_channels * facts.RING_LL128_BYTES_PER_S[machine.generation]
        return min(raw * facts.RING_LL128_SHARE, cap)
    return raw


def _tree_busbw(machine: Machine, graph: Graph, protocol: str, raw: float) -> float:
    generation, scale = machine.generation, machine.scale
    busbw = min(raw * facts.TREE_SHARE, graph.num_channels * facts.TREE_BYTES_PER_S[generation][scale])
    if protocol == "ll":
        busbw = min(busbw * facts.TREE_LL_SHARE, _ll_cap(machine))
    elif protocol == "ll128":
        share = facts.TREE_LL128_SHARE_ONE_NODE if machine.num_nodes == 1 else facts.TREE_LL128_SHARE
        busbw = min(busbw * share, graph.num_channels * facts.TREE_LL128_BYTES_PER_S[generation][scale])
    return busbw * facts.TREE_PATTERN_SHARE if graph.pattern == Pattern.TREE else busbw


def _direct_busbw(machine: Machine, graph: Graph, collective: str, raw: float) -> float:
    if collective != "all_reduce":
        if graph.num_channels < machine.max_ranks_per_node:
            return 0.0
        return machine.ranks_per_node * min(graph.intra_bytes_per_s, graph.inter_bytes_per_s * facts.COLLNET_NET_SHARE)
    factor = machine.ranks_per_node / graph.num_channels
    busbw = raw / (factor - (factor - 1) / 2)
    return busbw * facts.COLLNET_SM90_SHARE if machine.min_compute_capability >= 90 else busbw


def _nvls_busbw(machine: Machine, graph: Graph, collective: str, algorithm: str) -> float:
    heads, ranks = graph.num_channels, machine.ranks_per_node
    per_head = graph.intra_bytes_per_s * facts.NVLS_EFFICIENCY[machine.generation] * (heads - 1) / heads
    if collective == "all_reduce":
        per_head *= 2
    else:
        per_head *= (ranks - 1) / ranks
        if machine.num_nodes > 1 and heads < machine.max_ranks_per_node:
            return 0.0
    twice = algorithm == "nvls-tree" and machine.num_nodes <= 2
    per_head = min(per_head, graph.inter_bytes_per_s * (2 if twice else 1))
    if algorithm == "nvls-tree":
        per_head = min(per_head, facts.NVLS_TREE_BYTES_PER_S[machine.generation][machine.scale])
    return per_head * heads


def _latency_s(
    machine: Machine, graph: Graph, options: NcclOptions, collective: str, algorithm: str, index: int
) -> float:
    """Base latency and that of all hops, for the protocol at that index."""
    base = facts.BASE_LATENCY_S[algorithm][index]
    intra = _intra_latency_s(machine, graph, algorithm, index)
    alone = machine.ranks_per_node == 1
    inter = facts.NET_LATENCY_S["tree" if alone else algorithm][index] + graph.latency_inter_s
    if PROTOCOLS[index] == "simple":
        inter += graph.latency_inter_s
    others = machine.ranks_per_node - 1
    depth = floor_log2(machine.num_nodes)
    if algorithm == "ring":
        return base + _ring_latency_s(machine, graph, options, collective, index, intra, inter)
    if algorithm == "tree":
        return base + 2 * (others * intra + depth * inter)
    if algorithm == "collnet-direct":
        return base + 2 * (min(1, others) * intra + others * facts.COLLNET_RANK_S) + inter
    if algorithm == "collnet-chain":
        return base + 2 * others * intra + inter
    if algorithm == "nvls":
        return base + intra + (inter if machine.num_nodes > 1 else 0.0)
    if algorithm == "nvls-tree":
        return base + intra + 2 * depth * inter
    return base + depth * inter * facts.PAT_HOP_SHARE + machine.num_ranks * facts.PAT_RANK_S


def _intra_latency_s(machine: Machine, graph: Graph, algorithm: str, index: int) -> float:
    if graph.kind_intra == PathKind.NVL:
        return facts.NVLINK_LATENCY_S[algorithm][index]
    if algorithm == "tree" and machine.cpu_arch == "ppc64" and PROTOCOLS[index] == "simple":
        return facts.PCI_LATENCY_S["ring"][index]
    return facts.PCI_LATENCY_S[algorithm][index]


def _ring_latency_s(
    machine: Machine, graph: Graph, options: NcclOptions, collective: str, index: int, intra: float, inter: float
) -> float:
    simple = PROTOCOLS[index] == "simple"
    num_nodes, steps = machine.num_nodes, num_steps(machine, collective)
    if collective in ("broadcast", "reduce"):
        row = "tree" if simple and not graph.same_channels else "ring"
        hop = facts.NET_LATENCY_S[row][index] if num_nodes > 1 else _intra_latency_s(machine, graph, row, index)
        return hop if graph.same_channels else steps * hop
    if num_nodes == 1:
        return steps * intra
    overhead = facts.NET_OVERHEAD_AMD_S if machine.amd else facts.NET_OVERHEAD_S
    if options.net_overhead_s is not None:
        overhead = options.net_overhead_s
    if simple:
        overhead *= facts.NET_OVERHEAD_SIMPLE_TIMES
    num_inter = num_inter_steps(machine, collective)
    return (steps - num_inter) * max(intra, overhead) + num_inter * inter
