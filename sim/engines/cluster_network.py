"""The network of a cluster kept folded: one node's links and routes, moved to wherever they are needed.

Links are numbered node by node, as in the template; behind them come each node's NIC ports, out of and into the fabric
in turn, and then the links inside the fabric. A route is searched once per pair of places in a node, inside one node
and between two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sim.engines.indexing import distinct, offsets
from sim.engines.routes import Floats, Pairs, Reach, Router, Routes, effective_rates, latency_of
from topo.cluster import Cluster
from topo.errors import TopologyError
from topo.fabric import FLAT_ID
from topo.topology import Device, Topology

if TYPE_CHECKING:
    from sim.profile import Profile

_ANY_PART = -1
"""Of a device that runs an agent but is no rank."""
_OUTSIDE = -1
"""The node of the network's switch."""
_NETWORK = Device(FLAT_ID, "net_switch")


class ClusterLinks:
    """Names, rates and routes of a cluster's links; `helpers` are devices that run agents too.

    A helper is called as in the explicit cluster, `node3/NVS0`, or without its node where that is the first.
    """

    def __init__(self, machine: Topology | Cluster, profile: Profile, helpers: Sequence[str], reach: Reach) -> None:
        """One node alone is a cluster of one. Nothing is searched yet."""
        cluster = Cluster(machine, 1) if isinstance(machine, Topology) else machine
        self._cluster, self._profile = cluster, profile
        found = [_located(helper, cluster) for helper in helpers]
        devices = list(dict.fromkeys(device for _, device in found))
        self._places = [*cluster.node.gpu_ids, *devices]
        self._helper_node = np.array([node for node, _ in found], dtype=np.int64)
        self._helper_place = np.array([devices.index(device) for _, device in found], dtype=np.int64)
        self._inside, self._ports = len(cluster.node.links), 2 * len(cluster.nics)
        self._fabric_at = cluster.count * (self._inside + self._ports)
        self._fabric = cluster.fabric_links()
        self._router = Router(cluster.node, peer_to_peer=reach.peers)
        self._nic_numbers = self._own_nics(len(devices))
        self._pxn = reach.pxn
        parts = reach.apart or [0] * cluster.node.num_ranks
        self._part = np.array([*parts, *[_ANY_PART] * len(devices)], dtype=np.int64)

    def agents(self) -> list[Device]:
        """The device of each agent, of its own node's template."""
        node = self._cluster.node
        helpers = [self._places[node.num_ranks + place] for place in self._helper_place.tolist()]
        ranks = [node.device(gpu_id) for gpu_id in node.gpu_ids] * self._cluster.count
        return [*ranks, *(_NETWORK if place == FLAT_ID else node.device(place) for place in helpers)]

    def rates(self) -> Floats:
        """Effective bytes per second of each link."""
        cluster, shared = self._cluster, self._profile.transport("network").efficiency
        ports = np.repeat([cluster.port_bytes_per_s(nic) * shared for nic in cluster.nics], 2)
        all_ports = np.tile(ports, cluster.count)
        for (where, nic), factor in cluster.port_factors().items():
            all_ports[where * self._ports + 2 * nic : where * self._ports + 2 * nic + 2] *= factor
        inside = np.tile(effective_rates(cluster.node.links, self._profile), cluster.count)
        return np.concatenate([inside, all_ports, [link.bandwidth_bytes_per_s * shared for link in self._fabric]])

    def link_id(self, index: int) -> str:
        """The name of a link."""
        if index >= self._fabric_at:
            return self._fabric[index - self._fabric_at].name
        first_port = self._cluster.count * self._inside
        if index < first_port:
            where, number = divmod(index, self._inside)
            link = self._cluster.node.links[number]
            return f"{self._cluster.device_id(where, link.src)}->{self._cluster.device_id(where, link.dst)}"
        where, port = divmod(index - first_port, self._ports)
        nic = self._cluster.device_id(where, self._cluster.nics[port // 2].id)
        return f"fabric->{nic}" if port % 2 else f"{nic}->fabric"

    def routes(self, src: Pairs, dst: Pairs) -> Routes:
        """The routes between agents."""
        (src_node, src_place), (dst_node, dst_place) = self._locate(src), self._locate(dst)
        src_part, dst_part = self._part[src_place], self._part[dst_place]
        parted = (src_part != dst_part) & (src_part != _ANY_PART) & (dst_part != _ANY_PART)
        crosses = (src_node != dst_node) | parted
        keys, which = distinct((src_place * len(self._places) + dst_place) * 2 + crosses)
        pairs = [divmod(pair, len(self._places)) for pair in (keys >> 1).tolist()]
        joined = _joined(
            [self._template(a, b, cross == 1) for (a, b), cross in zip(pairs, (keys & 1).tolist(), strict=True)]
        ).take(which)
        route = np.repeat(np.arange(len(src)), np.diff(joined.first))
        far, kind = np.divmod(joined.links, self._inside + self._ports)
        where = np.where(far, dst_node[route], src_node[route])
        port = self._cluster.count * self._inside + where * self._ports + kind - self._inside
        links = np.where(kind >= self._inside, port, where * self._inside + kind).astype(np.int32)
        found = Routes(joined.first, links, joined.latency_s, joined.weight)
        if self._fabric:
            between = np.flatnonzero(crosses)
            for places, ways, src_nic, dst_nic in self._ways(src_place[between], dst_place[between]):
                chosen = between[places]
                first, further = self._cluster.fabric_route(src_node[chosen], src_nic, dst_node[chosen], dst_nic)
                lengths = np.zeros(len(src), dtype=np.int64)
                lengths[chosen] = np.diff(first)
                weight = None if ways == 1 else np.full(len(further), 1 / ways)
                found = found.followed_by(offsets(lengths), (self._fabric_at + further).astype(np.int32), weight)
        return found

    def _ways(self, src: Pairs, dst: Pairs) -> Iterator[tuple[Pairs, int, Pairs, Pairs]]:
        """Which pairs of places go over which NICs, and over how many pairs of NICs in all."""
        count = np.array([len(nics) for nics in self._nic_numbers])
        ways = np.lcm(count[src], count[dst])
        for number in np.unique(ways).tolist():
            pairs = np.flatnonzero(ways == number)
            for way in range(number):
                nics = np.array([own[way % len(own)] for own in self._nic_numbers], dtype=np.int64)
                yield pairs, number, nics[src[pairs]], nics[dst[pairs]]

    def _locate(self, agent: Pairs) -> tuple[Pairs, Pairs]:
        """Node and place in it."""
        size, num_ranks = self._cluster.node.num_ranks, self._cluster.num_ranks
        node, place = agent // size, agent % size
        helps = np.flatnonzero(agent >= num_ranks)
        which = agent[helps] - num_ranks
        node[helps], place[helps] = self._helper_node[which], size + self._helper_place[which]
        return node, place

    def _template(self, src: int, dst: int, crosses: bool) -> tuple[dict[int, float], float]:
        """Links with their weights and latency of the way from place to place, inside one node or over the network.

        Links of the source's node have their own number, its ports the numbers behind them; what belongs to the
        destination's node is moved up once by the number of both. Several NICs carry equal parts.
        """
        links = self._cluster.node.links
        if not crosses:
            inside = self._router.route(self._places[src], self._places[dst]).links
            return dict.fromkeys(inside, 1.0), latency_of(links, inside, self._profile)
        src_nics, dst_nics = self._nic_numbers[src], self._nic_numbers[dst]
        ways = math.lcm(len(src_nics), len(dst_nics))
        weights: dict[int, float] = {}
        latencies_s = []
        for way in range(ways):
            crossed, latency_s = self._way(src, src_nics[way % len(src_nics)], dst, dst_nics[way % len(dst_nics)])
            latencies_s.append(latency_s)
            for link in crossed:
                weights[link] = weights.get(link, 0.0) + 1 / ways
        return weights, max(latencies_s)

    def _way(self, src: int, src_nic: int, dst: int, dst_nic: int) -> tuple[tuple[int, ...], float]:
        """Links and latency of the way between nodes over these two NICs, numbered as in `_template`."""
        cluster, links = self._cluster, self._cluster.node.links
        src_id, dst_id = self._places[src], self._places[dst]
        leave: tuple[int, ...] = ()
        enter: tuple[int, ...] = ()
        if src_id != FLAT_ID:
            leave = (*self._way_out(src, src_nic), self._inside + 2 * src_nic)
        if dst_id != FLAT_ID:
            enter = (self._inside + 2 * dst_nic + 1, *self._router.route(cluster.nics[dst_nic].id, dst_id).links)
        # Half of the fabric's latency lies on either side of its switch, what is stated of links on these.
        stated_s = sum(links[index].latency_s for index in (*leave, *enter) if index < self._inside)
        stated_s += cluster.fabric.latency_s * (bool(leave) + bool(enter)) / 2
        latency_s = stated_s + self._profile.transport("network").hop_latency_s
        return (*leave, *(self._inside + self._ports + link for link in enter)), latency_s

    def _way_out(self, src: int, nic: int) -> tuple[int, ...]:
        """The links from a place to a NIC; with PXN over a GPU beside that, where a host would lie between."""
        own = self._to_nic(src, nic)
        if not self._pxn or not self._passes_host(own):
            return own
        for proxy in self._beside(src):
            onward = self._to_nic(proxy, nic)
            if not self._passes_host(onward):
                near = self._router.route(self._places[src], self._places[proxy])
                if near.slowest_kind == "nvlink":
                    return (*near.links, *onward)
        return own

    def _beside(self, place: int) -> list[int]:
        """The ranks of the host of a place: GPUs of another host of the node reach none of its NICs."""
        node = self._cluster.node
        host = node.device(self._places[place]).host
        return [rank for rank, gpu_id in enumerate(node.gpu_ids) if node.device(gpu_id).host == host]

    def _to_nic(self, place: int, nic: int) -> tuple[int, ...]:
        return self._router.route(self._places[place], self._cluster.nics[nic].id).links

    def _passes_host(self, route: Sequence[int]) -> bool:
        node = self._cluster.node
        return any(node.device(node.links[index].dst).kind in ("cpu", "host_bridge") for index in route)

    def _own_nics(self, num_helpers: int) -> list[tuple[int, ...]]:
        """The numbers of the NICs of each place; helpers use the first."""
        number = {nic.id: index for index, nic in enumerate(self._cluster.nics)}
        ranks = range(self._cluster.node.num_ranks)
        own = [tuple(number[nic.id] for nic in self._cluster.nics_of(rank)) if number else (0,) for rank in ranks]
        return [*own, *[(0,)] * num_helpers]


def _joined(templates: Sequence[tuple[dict[int, float], float]]) -> Routes:
    """Routes from the weighted links and the latency of each; without weights where all are 1."""
    found = Routes.of([(tuple(weights), latency_s) for weights, latency_s in templates])
    weight = np.array([weight for weights, _ in templates for weight in weights.values()])
    return found if (weight == 1.0).all() else replace(found, weight=weight)


def _located(helper: str, cluster: Cluster) -> tuple[int, str]:
    """The node of a helper and its name in there; the switch of a flat fabric is in none."""
    if helper == FLAT_ID and cluster.fabric.name == "flat":
        return _OUTSIDE, helper
    if any(helper == device.id for device in cluster.node.devices):
        return 0, helper
    where, _, name = helper.partition("/")
    if not where.removeprefix("node").isdecimal():
        raise TopologyError(f"{cluster.name} has no device {helper}: helpers are called as in its nodes, or node3/NAME")
    return int(where.removeprefix("node")), name
