"""The network as an engine sees it: links with their effective rates, and the routes between agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.engines.indexing import distinct, offsets, ragged
from sim.engines.routes import Router, slowest
from sim.schedule import REDUCE, Rows
from topo.cluster import Cluster
from topo.topology import Device, Link, LinkKind, Topology

if TYPE_CHECKING:
    from sim.profile import Profile

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Pairs = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Routes:
    """Routes by number: route r crosses `links[first[r] : first[r + 1]]` and costs `latency_s[r]` beyond its bytes.

    `weight` says, for each of these crossings, for how many transfers one on the route counts; None is one each.
    """

    first: Ints
    links: Ints
    latency_s: Floats
    weight: Floats | None = None

    def take(self, chosen: npt.NDArray[np.integer]) -> Routes:
        """The chosen routes in the order given."""
        return Routes(
            offsets(np.diff(self.first)[chosen]), self.links[ragged(self.first, chosen)], self.latency_s[chosen]
        )

    def followed_by(self, first: Ints, links: Ints) -> Routes:
        """Each route with further links: route r goes on over `links[first[r] : first[r + 1]]`."""
        own, more = np.diff(self.first), np.diff(first)
        joined = offsets(own + more)
        where = np.repeat(joined[:-1] - self.first[:-1], own) + np.arange(len(self.links))
        further = np.repeat(joined[:-1] + own - first[:-1], more) + np.arange(len(links))
        both = np.empty(len(self.links) + len(links), dtype=np.int32)
        both[where], both[further] = self.links, links
        return Routes(joined, both, self.latency_s)

    @classmethod
    def of(cls, routes: Sequence[tuple[tuple[int, ...], float]]) -> Routes:
        """From the links and the latency of each."""
        first = np.cumsum([0, *(len(links) for links, _ in routes)], dtype=np.int32)
        links = [link for links, _ in routes for link in links]
        return cls(
            first, np.array(links, dtype=np.int32), np.array([latency_s for _, latency_s in routes], dtype=float)
        )


@dataclass(frozen=True, eq=False)
class Network:
    """Links and routes of a machine or cluster under a profile.

    `routes(src, dst)` are the routes between agents, given as arrays of the same length. `link_id(i)` names a link.
    `reduce_link[a]` is the pseudo-link that bounds how fast agent a reduces what it receives, -1 where nothing does.
    """

    link_id: Callable[[int], str]
    bandwidth_bytes_per_s: Floats
    routes: Callable[[Pairs, Pairs], Routes]
    reduce_link: Ints
    launch_overhead_s: float


@dataclass(frozen=True, eq=False)
class Routing:
    """The distinct routes of a schedule's rows; row i takes route `route[i]`."""

    route: Ints
    routes: Routes


def routing(network: Network, rows: Rows) -> Routing:
    """The routes that the rows take; a row that reduces also crosses its receiver's reduce link."""
    num_agents = len(network.reduce_link)
    reduces = (rows.op == REDUCE) & (network.reduce_link[rows.dst] >= 0)
    keys, route = distinct((rows.src.astype(np.int64) * num_agents + rows.dst) * 2 + reduces)
    src, dst = np.divmod(keys >> 1, num_agents)
    routes = network.routes(src, dst)
    reducing = np.flatnonzero(keys & 1)
    if len(reducing):
        ends = routes.first[reducing + 1]
        first = routes.first.copy()
        first[1:] += np.cumsum(keys & 1).astype(np.int32)
        links = np.insert(routes.links, ends, network.reduce_link[dst[reducing]])
        routes = Routes(first, links, routes.latency_s)
    return Routing(route, routes)


def network_of(machine: Topology | Cluster, profile: Profile, helpers: Sequence[str] = ()) -> Network:
    """The network of a machine or of a cluster kept folded; `helpers` are devices that run agents beside the ranks."""
    if isinstance(machine, Cluster):
        return _cluster_network(machine, profile, helpers)
    router = Router(machine)
    agents = [machine.device(gpu_id) for gpu_id in (*machine.gpu_ids, *helpers)]
    rates = _effective_rates(machine.links, profile)
    ports = router.ports([agent.id for agent in agents])
    if ports is not None:
        hub = _hub_routes(machine, profile, *ports)
        return _with_reduce_links(lambda index: machine.links[index].id, rates, hub, agents, profile)

    def routes(src: Pairs, dst: Pairs) -> Routes:
        found = (
            router.route(agents[a].id, agents[b].id).links for a, b in zip(src.tolist(), dst.tolist(), strict=True)
        )
        return Routes.of([(links, latency_of(machine.links, links, profile)) for links in found])

    return _with_reduce_links(lambda index: machine.links[index].id, rates, routes, agents, profile)


def _hub_routes(
    machine: Topology, profile: Profile, up: Sequence[int], down: Sequence[int], kind: LinkKind
) -> Callable[[Pairs, Pairs], Routes]:
    """Routes where every pair of agents is joined by the link of one into a switch and the link of the other out."""
    latency_s = np.array([link.latency_s for link in machine.links])
    ups, downs = np.array(up, dtype=np.int32), np.array(down, dtype=np.int32)
    hop_latency_s = profile.transport(kind).hop_latency_s

    def routes(src: Pairs, dst: Pairs) -> Routes:
        links = np.stack([ups[src], downs[dst]], axis=1)
        first = np.arange(len(src) + 1, dtype=np.int32) * 2
        return Routes(first, links.ravel(), latency_s[links].sum(axis=1) + hop_latency_s)

    return routes


def _cluster_network(cluster: Cluster, profile: Profile, helpers: Sequence[str]) -> Network:
    """Links of node k are the template's, moved by k times their number; behind them come each node's NIC ports, then
    the links inside the fabric. A route is searched once per pair of places in a node, inside one and between two.
    """
    node, size, nics = cluster.node, cluster.node.num_ranks, cluster.nics
    places, inside, ports = [*node.gpu_ids, *helpers], len(node.links), 2 * len(nics)
    fabric_at = cluster.count * (inside + ports)
    fabric = cluster.fabric_links()
    template = _Template(cluster, profile, places)

    def locate(agent: Pairs) -> tuple[Pairs, Pairs]:
        """Node and place in it; helpers live in the first node."""
        is_rank = agent < cluster.num_ranks
        return np.where(is_rank, agent // size, 0), np.where(is_rank, agent % size, agent - cluster.num_ranks + size)

    def routes(src: Pairs, dst: Pairs) -> Routes:
        (src_node, src_place), (dst_node, dst_place) = locate(src), locate(dst)
        crosses = src_node != dst_node
        keys, which = distinct((src_place * len(places) + dst_place) * 2 + crosses)
        pairs = [divmod(pair, len(places)) for pair in (keys >> 1).tolist()]
        moved = Routes.of(
            [template.route(a, b, cross == 1) for (a, b), cross in zip(pairs, (keys & 1).tolist(), strict=True)]
        )
        joined = moved.take(which)
        route = np.repeat(np.arange(len(src)), np.diff(joined.first))
        far, kind = np.divmod(joined.links, inside + ports)
        where = np.where(far, dst_node[route], src_node[route])
        port = cluster.count * inside + where * ports + kind - inside
        links = np.where(kind >= inside, port, where * inside + kind).astype(np.int32)
        found = Routes(joined.first, links, joined.latency_s)
        if not fabric:
            return found
        between = np.flatnonzero(crosses)
        first, further = cluster.fabric_route(
            src_node[between],
            template.nic_number[src_place[between]],
            dst_node[between],
            template.nic_number[dst_place[between]],
        )
        lengths = np.zeros(len(src), dtype=np.int64)
        lengths[between] = np.diff(first)
        return found.followed_by(offsets(lengths), (fabric_at + further).astype(np.int32))

    def link_id(index: int) -> str:
        if index >= fabric_at:
            return fabric[index - fabric_at].name
        if index < cluster.count * inside:
            where, link = divmod(index, inside)
            return f"node{where}/{node.links[link].src}->node{where}/{node.links[link].dst}"
        where, port = divmod(index - cluster.count * inside, ports)
        nic = f"node{where}/{nics[port // 2].id}"
        return f"fabric->{nic}" if port % 2 else f"{nic}->fabric"

    shared = profile.transport("network").efficiency
    inside_rates = _effective_rates(node.links, profile)
    port_rates = np.repeat([cluster.port_bytes_per_s(nic) * shared for nic in nics], 2)
    all_ports = np.tile(port_rates, cluster.count)
    for (where, nic), factor in cluster.port_factors().items():
        all_ports[where * ports + 2 * nic : where * ports + 2 * nic + 2] *= factor
    fabric_rates = [link.bandwidth_bytes_per_s * shared for link in fabric]
    rates = np.concatenate([np.tile(inside_rates, cluster.count), all_ports, fabric_rates])
    agents = [node.device(place) for place in (*node.gpu_ids * cluster.count, *helpers)]
    return _with_reduce_links(link_id, rates, routes, agents, profile)


class _Template:
    """Routes between two places of a cluster's node: links of the source's node first, then the destination's.

    A link of the node has its own number, the way of NIC i out of and into the fabric the numbers behind them; what
    belongs to the destination's node is moved up once by their sum. `nic_number` is the NIC of each place.
    """

    def __init__(self, cluster: Cluster, profile: Profile, places: Sequence[str]) -> None:
        self._cluster, self._profile, self._places = cluster, profile, places
        number = {nic.id: index for index, nic in enumerate(cluster.nics)}
        ranks = range(cluster.node.num_ranks)
        nearest = [number[cluster.nic_of(rank).id] for rank in ranks] if number else [0 for _ in ranks]
        self.nic_number = np.array([*nearest, *(0 for _ in places[len(nearest) :])], dtype=np.int64)
        self._far = len(cluster.node.links) + 2 * len(cluster.nics)
        self._router = Router(cluster.node)

    def route(self, src: int, dst: int, crosses: bool) -> tuple[tuple[int, ...], float]:
        """Links and latency of the way from place to place, in one node or from one to another."""
        src_id, dst_id = self._places[src], self._places[dst]
        links = self._cluster.node.links
        if not crosses:
            inside = self._router.route(src_id, dst_id).links
            return inside, latency_of(links, inside, self._profile)
        src_nic, dst_nic = int(self.nic_number[src]), int(self.nic_number[dst])
        leave = (*self._router.route(src_id, self._cluster.nics[src_nic].id).links, len(links) + 2 * src_nic)
        enter = (len(links) + 2 * dst_nic + 1, *self._router.route(self._cluster.nics[dst_nic].id, dst_id).links)
        latency_s = self._cluster.fabric.latency_s + self._profile.transport("network").hop_latency_s
        return (*leave, *(self._far + link for link in enter)), latency_s


def _with_reduce_links(
    link_id: Callable[[int], str],
    rates: Floats,
    routes: Callable[[Pairs, Pairs], Routes],
    agents: Sequence[Device],
    profile: Profile,
) -> Network:
    """The network with one pseudo-link per agent whose reductions the profile bounds."""
    bounds = {"gpu": profile.gpu_reduce_bytes_per_s}
    bound = [bounds.get(device.kind, profile.host_reduce_bytes_per_s) for device in agents]
    bounded = [agent for agent, rate in enumerate(bound) if rate is not None]
    reduce_link = np.full(len(agents), -1, dtype=np.int32)
    reduce_link[bounded] = len(rates) + np.arange(len(bounded), dtype=np.int32)

    def named(index: int) -> str:
        return link_id(index) if index < len(rates) else f"reduction on {agents[bounded[index - len(rates)]].id}"

    extra = np.array([rate for rate in bound if rate is not None])
    return Network(named, np.concatenate([rates, extra]), routes, reduce_link, profile.launch_overhead_s)


def latency_of(all_links: Sequence[Link], route: Sequence[int], profile: Profile) -> float:
    """Stated latencies of the links plus the profile's hop latency of the slowest class among them."""
    links = [all_links[index] for index in route]
    kind = slowest(link.kind for link in links)
    hop = profile.transport(kind).hop_latency_s if kind else 0.0
    return sum(link.latency_s for link in links) + hop


def _effective_rates(links: Sequence[Link], profile: Profile) -> Floats:
    """What of each link's nominal rate the profile lets payload reach."""
    efficiency = {kind: profile.transport(kind).efficiency for kind in {link.kind for link in links}}
    return np.array([link.bandwidth_bytes_per_s * efficiency[link.kind] for link in links])
