"""Which device of one topology is which of another: by bus id, by name, by number, each as far as both state it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from topo.topology import Device, DeviceKind, Topology

Key = Callable[[Device], Hashable | None]


def match_devices(before: Topology, after: Topology, kinds: Collection[DeviceKind]) -> Mapping[str, str]:
    """The id in `after` of each device of `before` that is there, too; only of the given kinds.

    Bus ids come first, since a GPU that falls off the bus renumbers those behind it; then names (a NIC's own and the
    operating system's), a GPU's number on its host, a NUMA node's number, and ids. A key counts only where it tells
    the devices of its side apart, and bus ids only where all of the side with fewer devices are on the other side, too:
    two machines share some by chance.
    """
    found: dict[str, str] = {}
    hosts = [_host_numbers(topology) for topology in (before, after)]
    for kind in kinds:
        left, right = list(before.of_kind(kind)), list(after.of_kind(kind))
        for key in (_bus_id, _name, _system_name, _number):
            ours, theirs = (_by_key(key, side, of) for side, of in zip((left, right), hosts, strict=True))
            pairs = {ours[own].id: theirs[own].id for own in ours.keys() & theirs.keys()}
            if key is _bus_id and len(pairs) < min(len(left), len(right)):
                continue
            found.update(pairs)
            taken = set(pairs.values())
            left = [device for device in left if device.id not in pairs]
            right = [device for device in right if device.id not in taken]
    return {device.id: found[device.id] for device in before.devices if device.id in found}


def _host_numbers(topology: Topology) -> Mapping[str | None, int]:
    """Each host's number in order of appearance, since sources call hosts as they like."""
    hosts = dict.fromkeys(device.host for device in topology.devices if device.kind in ("gpu", "cpu", "process"))
    return {host: number for number, host in enumerate(hosts)}


def _by_key(key: Key, devices: Sequence[Device], hosts: Mapping[str | None, int]) -> dict[Hashable, Device]:
    """The devices by host and key, as far as no two share it."""
    keyed = [((hosts.get(device.host), key(device)), device) for device in devices if key(device) is not None]
    count = Counter(own for own, _ in keyed)
    return {own: device for own, device in keyed if count[own] == 1}


def _bus_id(device: Device) -> Hashable | None:
    """The PCI bus id as numbers: "0000:1B:00.0", "1b:00.0" and "00000000:1B:00.0" are one."""
    text = device.pci.bus_id if device.pci else None
    match = re.fullmatch(r"(?:([0-9a-fA-F]+):)?([0-9a-fA-F]+):([0-9a-fA-F]+)\.([0-7])", text or "")
    return tuple(int(part or "0", 16) for part in match.groups()) if match else None


def _name(device: Device) -> Hashable | None:
    """The name without its host."""
    name = device.name
    return name.removeprefix(f"{device.host}/") if device.host else name


def _system_name(device: Device) -> Hashable | None:
    """A NIC as the operating system calls it, which is its name where the source states no other."""
    return device.nic.os_name or _name(device) if device.nic else None


def _number(device: Device) -> Hashable | None:
    """A GPU's index on its host, a NUMA node's number."""
    if device.kind == "cpu":
        return device.numa_node
    return device.gpu.index if device.gpu else None
