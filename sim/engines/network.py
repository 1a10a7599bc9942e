"""The network as an engine sees it: links with their effective rates, and the route of every pair of agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.engines.indexing import distinct
from sim.engines.routes import Router, slowest
from sim.schedule import REDUCE, Rows
from topo.cluster import Cluster
from topo.topology import Device, Link, Topology

if TYPE_CHECKING:
    from sim.profile import Profile

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Path:
    """Links of one pair of agents by their index in the network, and what the hop costs beyond its bytes."""

    links: tuple[int, ...]
    latency_s: float


@dataclass(frozen=True, eq=False)
class Network:
    """Links and paths of a machine or cluster under a profile.

    `path(a, b)` joins agents. `reduce_link[a]` is the index of the pseudo-link that bounds how fast agent a reduces
    what it receives, -1 where nothing bounds it.
    """

    link_ids: Sequence[str]
    bandwidth_bytes_per_s: Floats
    path: Callable[[int, int], Path]
    reduce_link: Ints
    launch_overhead_s: float


@dataclass(frozen=True, eq=False)
class Routing:
    """The distinct routes of a schedule's rows: row i takes route `route[i]`, which crosses
    `links[first[r] : first[r + 1]]` and arrives `latency_s[r]` after its last byte was sent."""

    route: Ints
    first: Ints
    links: Ints
    latency_s: Floats


def routing(network: Network, rows: Rows) -> Routing:
    """The routes that the rows take; a row that reduces also crosses its receiver's reduce link."""
    num_agents = len(network.reduce_link)
    reduces = (rows.op == REDUCE) & (network.reduce_link[rows.dst] >= 0)
    key = (rows.src.astype(np.int64) * num_agents + rows.dst) * 2 + reduces
    keys, route = distinct(key)
    links: list[int] = []
    first, latency_s = [0], []
    for value in keys.tolist():
        pair, reducing = divmod(value, 2)
        src, dst = divmod(pair, num_agents)
        path = network.path(src, dst)
        links += path.links
        if reducing:
            links.append(int(network.reduce_link[dst]))
        first.append(len(links))
        latency_s.append(path.latency_s)
    return Routing(route, np.array(first, dtype=np.int32), np.array(links, dtype=np.int32), np.array(latency_s))


def network_of(machine: Topology | Cluster, profile: Profile, helpers: Sequence[str] = ()) -> Network:
    """The network of a machine or of a cluster kept folded; `helpers` are devices that run agents beside the ranks."""
    if isinstance(machine, Cluster):
        return _cluster_network(machine, profile, helpers)
    router = Router(machine)
    agents = [machine.device(gpu_id) for gpu_id in (*machine.gpu_ids, *helpers)]

    def path(src: int, dst: int) -> Path:
        route = router.route(agents[src].id, agents[dst].id)
        return Path(route.links, latency_of(machine.links, route.links, profile))

    rates = [_effective(link, profile) for link in machine.links]
    return _with_reduce_links([link.id for link in machine.links], rates, path, agents, profile)


def _cluster_network(cluster: Cluster, profile: Profile, helpers: Sequence[str]) -> Network:
    """Links of node k are the template's, shifted; behind them each NIC's way into and out of the fabric."""
    node, per_node = cluster.node, len(cluster.node.links)
    router = Router(node)
    nics = [device for device in node.devices if device.kind == "nic"]
    position = {device.id: index for index, device in enumerate(nics)}
    fabric_at = per_node * cluster.count

    def place(agent: int) -> tuple[int, str]:
        if agent < cluster.num_ranks:
            where, local = divmod(agent, node.num_ranks)
            return where, node.gpu_ids[local]
        return 0, helpers[agent - cluster.num_ranks]

    def port(where: int, nic_id: str) -> int:
        return fabric_at + 2 * (where * len(nics) + position[nic_id])

    def path(src: int, dst: int) -> Path:
        (src_node, src_id), (dst_node, dst_id) = place(src), place(dst)
        if src_node == dst_node:
            route = router.route(src_id, dst_id)
            shifted = tuple(index + per_node * src_node for index in route.links)
            return Path(shifted, latency_of(node.links, route.links, profile))
        src_nic = cluster.nic_of(src % node.num_ranks if src < cluster.num_ranks else 0).id
        dst_nic = cluster.nic_of(dst % node.num_ranks if dst < cluster.num_ranks else 0).id
        leave = tuple(index + per_node * src_node for index in router.route(src_id, src_nic).links)
        enter = tuple(index + per_node * dst_node for index in router.route(dst_nic, dst_id).links)
        fabric = (port(src_node, src_nic), port(dst_node, dst_nic) + 1)
        latency_s = cluster.fabric.latency_s + profile.transport("network").hop_latency_s
        return Path((*leave, *fabric, *enter), latency_s)

    ids = [f"node{where}/{link.src}->node{where}/{link.dst}" for where in range(cluster.count) for link in node.links]
    rates = [_effective(link, profile) for link in node.links] * cluster.count
    efficiency = profile.transport("network").efficiency
    for where in range(cluster.count):
        for nic in nics:
            rate = cluster.port_bytes_per_s(nic) * efficiency
            ids += [f"node{where}/{nic.id}->fabric", f"fabric->node{where}/{nic.id}"]
            rates += [rate, rate]
    agents = [node.device(place(agent)[1]) for agent in range(cluster.num_ranks + len(helpers))]
    return _with_reduce_links(ids, rates, path, agents, profile)


def _with_reduce_links(
    ids: list[str],
    rates: list[float],
    path: Callable[[int, int], Path],
    agents: Sequence[Device],
    profile: Profile,
) -> Network:
    """The network with one pseudo-link per agent whose reductions the profile bounds."""
    reduce_link = np.full(len(agents), -1, dtype=np.int32)
    for agent, device in enumerate(agents):
        bound = profile.gpu_reduce_bytes_per_s if device.kind == "gpu" else profile.host_reduce_bytes_per_s
        if bound is not None:
            reduce_link[agent] = len(ids)
            ids.append(f"reduce on {device.id}")
            rates.append(bound)
    return Network(ids, np.array(rates, dtype=np.float64), path, reduce_link, profile.launch_overhead_s)


def latency_of(all_links: Sequence[Link], route: Sequence[int], profile: Profile) -> float:
    """Stated latencies of the links plus the profile's hop latency of the slowest class among them."""
    links = [all_links[index] for index in route]
    kind = slowest(link.kind for link in links)
    hop = profile.transport(kind).hop_latency_s if kind else 0.0
    return sum(link.latency_s for link in links) + hop


def _effective(link: Link, profile: Profile) -> float:
    return link.bandwidth_bytes_per_s * profile.transport(link.kind).efficiency
