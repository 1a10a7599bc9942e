"""The plan that follows the topology alone: ring orders by link rates, chunk counts by a latency-bandwidth balance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sim.algorithms import algorithm as find_algorithm
from sim.algorithms.hierarchical import inner_cycles
from sim.plan import Plan
from sim.planners.options import Options
from sim.planners.rings import Order, ring_orders
from sim.planners.switches import nodes_of, with_switches
from topo.errors import NameChoiceError, ScheduleError, TopologyError, UnitError
from topo.topology import Topology

if TYPE_CHECKING:
    from sim.engines.network import Network
    from sim.workload import Workload
    from topo.cluster import Cluster

__all__ = ["Options", "TopologyPlanner"]

ALWAYS_CHUNKS = 64
"""So many chunks any pipeline may have."""
MOST_TRANSFERS = 32_768
"""A tree has more only while they make no more transfers than this, since each costs time."""
MOST_IN_A_CHAIN = 16_384
"""Chunks of a chain, of which the steady engine walks a few."""


class TopologyPlanner:
    """Plans for one machine; `network` is the one for whose rates and latencies pipelines are balanced."""

    name = "topology"
    chooses = False
    notes: tuple[str, ...] = ()
    nccl = None

    def __init__(
        self, machine: Topology | Cluster, options: Options, network: Callable[[], Network] | None = None
    ) -> None:
        """Refuses what only a library has: protocols and its environment."""
        if options.protocol is not None or options.environment:
            asked = "--protocol" if options.protocol is not None else options.environment[0][0]
            raise UnitError(
                f"{asked} steers what NCCL plans, and this is planned by the {self.name} alone: leave it out, or take "
                "a collective and an algorithm that NCCL has"
            )
        self._machine = machine
        self._options = options
        self._network = network or _default_network(machine)

    @cached_property
    def _orders(self) -> tuple[Order, ...]:
        return ring_orders(self._machine)

    def plan(self, workload: Workload, algorithm: str = "auto", *, runnable: bool = True) -> Plan:
        """The plan for one algorithm over the machine's ring orders; errors name the option that does not fit."""
        if algorithm == "auto":
            raise ScheduleError("the planner topology chooses no algorithm: name one, such as ring")
        find_algorithm(algorithm).require(self._machine.num_ranks)
        options, orders = self._options, self._orders
        if options.num_channels is not None:
            orders = tuple(orders[channel % len(orders)] for channel in range(options.num_channels))
        draft = Plan(algorithm, self._machine.num_ranks, orders, workload.collective, planner=self.name)
        if algorithm == "parameter-server":
            servers, helpers = place_servers(self._machine, options.server or "0")
            chunks = options.num_chunks or 1
            return replace(draft, rings=orders[:1], servers=servers, helpers=helpers, num_chunks=chunks)
        if options.server is not None:
            raise UnitError(f"--server {options.server}: only parameter-server has servers, not {algorithm}")
        if algorithm == "halving-doubling":
            return replace(draft, rings=orders[:1])
        if algorithm == "hierarchical":
            draft = replace(draft, groups=nodes_of(self._machine))
            return replace(draft, rings=tuple(inner_cycles(draft).values()))
        row = find_algorithm(algorithm)
        if row.in_switch:
            draft = with_switches(replace(draft, rings=orders[:1]), self._machine)
        if row.pipelines(workload.collective):
            return replace(draft, num_chunks=options.num_chunks or pipeline_chunks(self._network(), workload, draft))
        return draft


def _default_network(machine: Topology | Cluster) -> Callable[[], Network]:
    def made() -> Network:
        from sim.engines.network import network_of
        from sim.profile import load_profile

        return network_of(machine, load_profile("auto", machine))

    return made


def pipeline_chunks(network: Network, workload: Workload, draft: Plan) -> int:
    """How many chunks balance filling the pipeline against paying a hop per chunk.

    (k + d)(a + s / (k b)) is least at k = sqrt(d s / (a b)), with depth d, bytes s per pipeline, hop latency a, rate b.
    """
    pipeline = find_algorithm(draft.algorithm).pipeline
    if draft.num_ranks < 2 or pipeline is None:
        return 1
    shape = pipeline(draft)
    most = MOST_IN_A_CHAIN
    if not shape.chain:
        most = max(ALWAYS_CHUNKS, MOST_TRANSFERS // (2 * draft.num_ranks * shape.count))
    share = workload.num_bytes / shape.count
    first = network.routes(np.array(draft.rings[0][:1]), np.array(draft.rings[0][1:2]))
    rate, latency_s = float(network.bandwidth_bytes_per_s[first.links].min()), float(first.latency_s[0])
    if latency_s <= 0:
        return ALWAYS_CHUNKS
    return max(1, min(most, round(math.sqrt(shape.depth * share / (latency_s * rate)))))


def place_servers(machine: Topology | Cluster, text: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Server agents and the devices of helpers: from `host`, ranks or GPU names, separated by commas."""
    node = machine if isinstance(machine, Topology) else machine.node
    names = {node.device(gpu_id).name: rank for rank, gpu_id in enumerate(node.gpu_ids)}
    servers: list[int] = []
    helpers: list[str] = []
    for word in (part.strip() for part in text.split(",")):
        if word == "host":
            helpers.append(host_device(node))
            servers.append(machine.num_ranks + len(helpers) - 1)
        elif word.isdecimal() and int(word) < machine.num_ranks:
            servers.append(int(word))
        elif word in names:
            servers.append(names[word])
        else:
            raise NameChoiceError("server", word, ["host", *names])
    if len(set(servers)) < len(servers):
        raise UnitError(f"--server {text}: a server is named twice")
    return tuple(servers), tuple(helpers)


def host_device(node: Topology) -> str:
    """The host memory of the machine, or its first CPU where memory is not modelled."""
    for kind in ("host_memory", "cpu"):
        found = node.of_kind(kind)
        if found:
            return found[0].id
    raise TopologyError(f"{node.name or 'this topology'} shows no CPU: a server on the host needs one, use --server 0")
