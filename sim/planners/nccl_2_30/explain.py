"""Why NCCL takes what it takes for one size: what each way's estimate is made of, what limits it, what is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sim.planners.nccl_2_30 import tuner_facts as facts
from sim.planners.nccl_2_30.estimate import Parts, parts_of
from sim.planners.nccl_2_30.graphs import Graph
from sim.planners.nccl_2_30.kinds import GIGA, PathKind
from sim.planners.nccl_2_30.options import ALGORITHMS, PROTOCOLS
from sim.planners.nccl_2_30.planner import Choice, NcclPlan
from sim.planners.nccl_2_30.rules import SIMPLE_ONLY
from sim.planners.nccl_2_30.trees import floor_log2
from sim.planners.nccl_2_30.tuner import GRAPH_OF, num_inter_steps, num_steps, tune
from topo.words import counted

GENERATIONS = ("GPUs before Ampere", "Ampere", "Hopper", "Blackwell")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way that NCCL could take, with the parts of its estimate.

    `latency_words` says what the latency is spent on, `limit` what bounds the rate of the rest.
    """

    algorithm: str
    protocol: str
    estimate_s: float
    latency_s: float
    transfer_s: float
    bytes_per_s: float
    latency_words: str
    limit: str


@dataclass(frozen=True, slots=True)
class Excluded:
    """Ways that a rule leaves out; `protocols` are those that the algorithm would have had."""

    algorithm: str
    protocols: tuple[str, ...]
    rule: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A choice with all that was weighed, best first, and all that was not."""

    choice: Choice
    candidates: tuple[Candidate, ...]
    excluded: tuple[Excluded, ...]


def explain(plan: NcclPlan, choice: Choice, *, dtype: str = "float32", reduction: str = "sum") -> Explanation:
    """What NCCL weighed for a choice of this plan; one rank has nothing to weigh."""
    comm = plan.communicator
    if plan.wiring.num_ranks == 1:
        return Explanation(choice, (), ())
    parts = parts_of(
        plan.table,
        comm.machine,
        comm.num_channels,
        choice.collective,
        choice.num_bytes,
        dtype=dtype,
        reduction=reduction,
    )
    candidates = [_candidate(plan, choice, way, part) for way, part in parts.items()]
    excluded = []
    for algorithm in ALGORITHMS:
        rules: dict[str, list[str]] = {}
        for protocol in PROTOCOLS:
            rule = plan.why_not(choice.collective, algorithm, protocol, dtype=dtype, reduction=reduction)
            if rule and (protocol == "simple" or algorithm not in SIMPLE_ONLY):
                rules.setdefault(rule, []).append(protocol)
        excluded += [Excluded(algorithm, tuple(protocols), rule) for rule, protocols in rules.items()]
    return Explanation(choice, tuple(sorted(candidates, key=lambda row: row.estimate_s)), tuple(excluded))


def _candidate(plan: NcclPlan, choice: Choice, way: tuple[str, str], parts: Parts) -> Candidate:
    transfer_s = choice.num_bytes / parts.bytes_per_s
    limit = _limit(plan, choice.collective, *way)
    if parts.bandwidth_factor != 1:
        limit += f", of which {parts.bandwidth_factor:.0%} is expected at this size"
    return Candidate(
        *way,
        estimate_s=parts.latency_s + transfer_s,
        latency_s=parts.latency_s,
        transfer_s=transfer_s,
        bytes_per_s=parts.bytes_per_s,
        latency_words=_latency_words(plan, choice.collective, *way, parts.latency_factor),
        limit=limit,
    )


def _latency_words(plan: NcclPlan, collective: str, algorithm: str, protocol: str, factor: float) -> str:
    start_us = facts.BASE_LATENCY_S[algorithm][PROTOCOLS.index(protocol)] * 1e6
    way = _way(plan, collective, algorithm)
    words = f"{start_us:g} us to start, then {way}" if start_us else way
    return words if factor == 1 else f"{words}, {factor:g} times as long over nodes once every rank has a share"


def _way(plan: NcclPlan, collective: str, algorithm: str) -> str:
    """What a byte goes through until all have it."""
    machine, graph = plan.communicator.machine, plan.wiring.graphs[GRAPH_OF[algorithm]]
    link = "NVLink" if graph.kind_intra == PathKind.NVL else "PCIe"
    inside, between = machine.ranks_per_node - 1, floor_log2(machine.num_nodes)
    if algorithm == "ring":
        if collective in ("broadcast", "reduce") and graph.same_channels:
            return f"one step over {link}"
        inter = num_inter_steps(machine, collective)
        return _joined((num_steps(machine, collective) - inter, f"steps over {link}"), (inter, "between nodes"))
    if algorithm == "tree":
        return _joined((2 * inside, f"hops over {link}"), (2 * between, "between nodes"))
    if algorithm == "nvls":
        return "one pass over the NVSwitch" + (" and one over the network" if machine.num_nodes > 1 else "")
    if algorithm == "nvls-tree":
        return f"one pass over the NVSwitch and {2 * between} hops between nodes"
    if algorithm == "pat":
        return f"{counted(between, 'round')} between nodes and work for each of {counted(machine.num_ranks, 'rank')}"
    return "the way to the network's reduction and back"


def _joined(*counts: tuple[int, str]) -> str:
    return " and ".join(f"{count} {words}" for count, words in counts if count) or "nothing"


def _limit(plan: NcclPlan, collective: str, algorithm: str, protocol: str) -> str:
    """What bounds the rate of one way: whichever of NCCL's inputs, made larger, makes the rate larger."""
    name = GRAPH_OF[algorithm]
    graph = plan.wiring.graphs[name]
    machine = plan.communicator.machine
    generation = GENERATIONS[machine.generation]

    def grows(changed: Graph) -> bool:
        graphs: Mapping[str, Graph] = {**plan.wiring.graphs, name: changed}
        way = (collective, algorithm, protocol)
        now = tune(machine, graphs, plan.options, (collective,))[way].bytes_per_s
        return now > plan.table[way].bytes_per_s * (1 + 1e-9)

    one = "head" if name == "nvls" else "channel"
    found = f"{graph.num_channels} {one}{'' if graph.num_channels == 1 else 's'}"
    if grows(replace(graph, intra_bytes_per_s=2 * graph.intra_bytes_per_s)):
        return f"{found} of {graph.intra_bytes_per_s / GIGA:g} GB/s inside a node, as the search found"
    if grows(replace(graph, inter_bytes_per_s=2 * graph.inter_bytes_per_s)):
        return f"{found} of {graph.inter_bytes_per_s / GIGA:g} GB/s between nodes, as the search found"
    if grows(replace(graph, channels=graph.channels * 2)):
        return f"NCCL's cap for {protocol} on each of {found} of {generation}"
    where = f"one node of {generation}" if machine.num_nodes == 1 else "several nodes"
    return f"NCCL's cap for {protocol} on {where}, however many {one}s there are"
