"""What a drawing for people tells apart: devices that take no part, and hosts of which one stands for its likes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from topo.topology import RANK_KINDS, Topology

NOT_TAKING_PART = "not taking part"
"""What drawings say of a GPU or process that is no rank."""


def idle_ids(topology: Topology) -> frozenset[str]:
    """The GPUs and processes that take no part: those that are no rank."""
    return frozenset(device.id for device in topology.of_kind(*RANK_KINDS)).difference(topology.gpu_ids)


def alike_hosts(topology: Topology) -> Mapping[str, str]:
    """For each host that equals an earlier one, that one: same devices, ranks, links and rates; names and ids apart."""
    idle = idle_ids(topology)
    place: dict[str, tuple[str, int]] = {}
    signs: dict[str, list[Hashable]] = {}
    for device in topology.devices:
        if device.host is not None:
            parts = signs.setdefault(device.host, [])
            place[device.id] = (device.host, len(parts))
            rate = device.nic.bandwidth_bytes_per_s if device.nic else None
            parts.append((device.kind, device.model, device.numa_node, rate, device.id in idle))
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
