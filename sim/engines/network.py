"""The network as an engine sees it: links with their effective rates, and the routes between agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from sim.engines.indexing import distinct
from sim.engines.routes import (
    ALL_LINKS,
    Floats,
    Ints,
    Pairs,
    Reach,
    Router,
    Routes,
    effective_rates,
    latency_of,
)
from sim.schedule import REDUCE, Rows
from topo.topology import Device, LinkKind, Topology

if TYPE_CHECKING:
    from sim.profile import Profile
    from topo.cluster import Cluster


@dataclass(frozen=True, eq=False)
class Network:
    """Links and routes of a machine or cluster under a profile.

    `routes(src, dst)` are the routes between agents, given as arrays of the same length. `link_id(i)` names a link.
    `reduce_link[a]` is the pseudo-link that bounds how fast agent a reduces what it receives, -1 where nothing does.
    `start_s[a]` is how much later than the first agent a starts: before that it neither sends nor takes anything in.
    None: all start together.
    """

    link_id: Callable[[int], str]
    bandwidth_bytes_per_s: Floats
    routes: Callable[[Pairs, Pairs], Routes]
    reduce_link: Ints
    launch_overhead_s: float
    start_s: Floats | None = None

    @property
    def last_start_s(self) -> float:
        """When the last agent starts."""
        return self.launch_overhead_s + (0.0 if self.start_s is None else float(self.start_s.max(initial=0.0)))


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
        weight = None if routes.weight is None else np.insert(routes.weight, ends, 1.0)
        routes = Routes(first, links, routes.latency_s, weight)
    return Routing(route, routes)


def network_of(
    machine: Topology | Cluster,
    profile: Profile,
    helpers: Sequence[str] = (),
    reach: Reach = ALL_LINKS,
) -> Network:
    """The network of a machine or of a cluster kept folded; `helpers` are devices that run agents beside the ranks."""
    if not isinstance(machine, Topology) or len(set(reach.apart)) > 1:
        from sim.engines.cluster_network import ClusterLinks

        cluster = ClusterLinks(machine, profile, helpers, reach)
        return _with_reduce_links(cluster.link_id, cluster.rates(), cluster.routes, cluster.agents(), profile)
    router = Router(machine, peer_to_peer=reach.peers)
    agents = [machine.device(gpu_id) for gpu_id in (*machine.gpu_ids, *helpers)]
    rates = effective_rates(machine.links, profile)
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


def _with_reduce_links(
    link_id: Callable[[int], str],
    rates: Floats,
    routes: Callable[[Pairs, Pairs], Routes],
    agents: Sequence[Device],
    profile: Profile,
) -> Network:
    """The network with one pseudo-link per agent whose reductions the profile bounds."""
    bounds = {"gpu": profile.gpu_reduce_bytes_per_s, "nvswitch": None, "net_switch": None}
    bound = [bounds.get(device.kind, profile.host_reduce_bytes_per_s) for device in agents]
    bounded = [agent for agent, rate in enumerate(bound) if rate is not None]
    reduce_link = np.full(len(agents), -1, dtype=np.int32)
    reduce_link[bounded] = len(rates) + np.arange(len(bounded), dtype=np.int32)

    @cache
    def named(index: int) -> str:
        return link_id(index) if index < len(rates) else f"reduction on {agents[bounded[index - len(rates)]].id}"

    extra = np.array([rate for rate in bound if rate is not None])
    return Network(named, np.concatenate([rates, extra]), routes, reduce_link, profile.launch_overhead_s)
