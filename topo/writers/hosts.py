"""Which hosts of a topology are built alike, so that a drawing for people shows one of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from topo.topology import Topology


def alike_hosts(topology: Topology) -> Mapping[str, str]:
    """For each host that equals an earlier one, that one: same devices, links and rates; names and bus ids apart."""
    place: dict[str, tuple[str, int]] = {}
    signs: dict[str, list[Hashable]] = {}
    for device in topology.devices:
        if device.host is not None:
            parts = signs.setdefault(device.host, [])
            place[device.id] = (device.host, len(parts))
            rate = device.nic.bandwidth_bytes_per_s if device.nic else None
            parts.append((device.kind, device.model, device.numa_node, rate))
    for link in topology.links:
        facts = (link.kind, link.bandwidth_bytes_per_s, link.lanes, link.latency_s, link.state)
        for near, far, way in ((link.src, link.dst, "out"), (link.dst, link.src, "in")):
            if near in place:
                host, number = place[near]
                far_host, far_number = place.get(far, ("", 0))
                end = far_number if far_host == host else topology.device(far).kind
                signs[host].append((number, end, way, facts))
    first: dict[Hashable, str] = {}
    found = {}
    for host, sign in signs.items():
        earlier = first.setdefault(tuple(sign), host)
        if earlier != host:
            found[host] = earlier
    return found
