"""The plan that follows the topology alone: ring orders by link rates, chunk counts by a latency-bandwidth balance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sim.algorithms import algorithm as find_algorithm
from sim.plan import Plan
from sim.planners.rings import Order
from topo.cluster import Cluster
from topo.errors import NameChoiceError, TopologyError, UnitError
from topo.topology import Topology

if TYPE_CHECKING:
    from sim.engines.network import Network
    from sim.workload import Workload

MOST_CHUNKS = 64


@dataclass(frozen=True, slots=True)
class Options:
    """What a user fixes; None leaves it to the planner. `server` is `host`, or ranks or GPU names with commas."""

    num_channels: int | None = None
    num_chunks: int | None = None
    server: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("channels", self.num_channels), ("chunks", self.num_chunks)):
            if value is not None and value < 1:
                raise UnitError(f"--{name} {value}: at least 1 is needed")


def plan(
    machine: Topology | Cluster,
    orders: tuple[Order, ...],
    network: Network,
    workload: Workload,
    algorithm: str,
    *,
    options: Options,
) -> Plan:
    """The plan for one algorithm over the machine's ring orders; errors name the option that does not fit."""
    if options.num_channels is not None:
        orders = tuple(orders[channel % len(orders)] for channel in range(options.num_channels))
    draft = Plan(algorithm, machine.num_ranks, orders, workload.collective, protocol="simple")
    if algorithm == "parameter-server":
        servers, helpers = place_servers(machine, options.server or "0")
        return replace(draft, rings=orders[:1], servers=servers, helpers=helpers, num_chunks=options.num_chunks or 1)
    if options.server is not None:
        raise UnitError(f"--server {options.server}: only parameter-server has servers, not {algorithm}")
    if find_algorithm(algorithm).pipelined:
        return replace(draft, num_chunks=options.num_chunks or pipeline_chunks(network, workload, draft))
    return draft


def pipeline_chunks(network: Network, workload: Workload, draft: Plan) -> int:
    """How many chunks balance filling the pipeline against paying a hop per chunk.

    (k + d)(a + s / (k b)) is least at k = sqrt(d s / (a b)), with depth d, bytes s per tree, hop latency a, rate b.
    """
    if draft.num_ranks < 2:
        return 1
    first = network.routes(np.array(draft.rings[0][:1]), np.array(draft.rings[0][1:2]))
    rate, latency_s = float(network.bandwidth_bytes_per_s[first.links].min()), float(first.latency_s[0])
    depth = 2 * math.ceil(math.log2(draft.num_ranks))
    share = workload.num_bytes / (2 * draft.num_channels)
    if latency_s <= 0:
        return MOST_CHUNKS
    return max(1, min(MOST_CHUNKS, round(math.sqrt(depth * share / (latency_s * rate)))))


def place_servers(machine: Topology | Cluster, text: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Server agents and the devices of helpers: from `host`, ranks or GPU names, separated by commas."""
    node = machine.node if isinstance(machine, Cluster) else machine
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
