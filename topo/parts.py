"""Which links, ports and devices a name in a change means, on one machine."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import get_args

from topo.errors import NameChoiceError, TopologyError
from topo.topology import Device, Link, LinkKind, Topology

NIC_PART = "nic"
"""The part that means every NIC's port."""

_LINK_KINDS: tuple[str, ...] = get_args(LinkKind)


@dataclass(frozen=True, slots=True)
class Part:
    """What a name means: links by their number in the topology, and NICs (by id) whose ports are meant."""

    links: tuple[int, ...] = ()
    nics: tuple[str, ...] = ()


def find_part(topology: Topology, text: str, kinds: Collection[LinkKind] = ()) -> Part:
    """The part that a text names; of a device only its links of these kinds, where any are given.

    A kind of link (`nvlink`, `pcie`...), `nic` (all ports), two devices that a link joins (`GPU0-GPU1`, or one
    direction: `GPU0->GPU1`), a NIC (its port), or another device (all its links). NameChoiceError with the nearest
    names, or TopologyError with what is there, where it means nothing.
    """
    word = text.lower()
    if word in (NIC_PART, "nics"):
        return Part(nics=_ports(topology))
    if word in _LINK_KINDS:
        return _of_kind(topology, word)
    pair = _pair(topology, text)
    if pair is not None:
        return _between(topology, *pair, both="->" not in text)
    device = find_device(topology, text, also=(NIC_PART, *_kinds_there(topology)))
    if device.kind == "nic" and not kinds:
        return Part(nics=(device.id,))
    links = tuple(
        number
        for number, link in enumerate(topology.links)
        if device.id in (link.src, link.dst) and (not kinds or link.kind in kinds)
    )
    if not links:
        of_kind = f" {' or '.join(kinds)}" if kinds else ""
        raise TopologyError(f"no{of_kind} link leads to or from {device.name}: nothing of it can be changed")
    return Part(links)


def find_device(topology: Topology, text: str, *, also: Iterable[str] = ()) -> Device:
    """The device of that id or name, in either case; NameChoiceError where there is none (`also` are further names)."""
    found = _devices(topology, text)
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(device.id for device in found[:4])
        raise TopologyError(f"{text!r} names {len(found)} devices: write one of their ids, such as {ids}")
    names = dict.fromkeys((*(device.name for device in topology.devices), *also))
    raise NameChoiceError("part", text, names, listing="topo show TOPOLOGY")


def _devices(topology: Topology, text: str) -> list[Device]:
    """The devices of that name: by id, else by label or the operating system's name, else in either case."""
    for fold in (str, str.lower):
        for names in (_id_of, _names_of):
            found = [device for device in topology.devices if fold(text) in map(fold, names(device))]
            if found:
                return found
    return []


def _id_of(device: Device) -> tuple[str, ...]:
    return (device.id,)


def _names_of(device: Device) -> tuple[str, ...]:
    return tuple(name for name in (device.label, device.nic.os_name if device.nic else None) if name)


def _pair(topology: Topology, text: str) -> tuple[Device, Device] | None:
    """The two devices of `A-B` or `A->B`; None for a single name. Names may hold a `-` themselves."""
    if _devices(topology, text):
        return None
    joint = "->" if "->" in text else "-"
    cuts = [place for place in range(len(text)) if text.startswith(joint, place)]
    ends = [(text[:place].strip(), text[place + len(joint) :].strip()) for place in cuts]
    for near, far in ends:
        if _devices(topology, near) and _devices(topology, far):
            return find_device(topology, near), find_device(topology, far)
    for near, far in ends:
        if _devices(topology, near) or _devices(topology, far) or len(ends) == 1:
            return find_device(topology, near), find_device(topology, far)
    return None


def _between(topology: Topology, near: Device, far: Device, *, both: bool) -> Part:
    wanted = {(near.id, far.id), *(((far.id, near.id),) if both else ())}
    links = tuple(number for number, link in enumerate(topology.links) if (link.src, link.dst) in wanted)
    if links:
        return Part(links)
    beside = dict.fromkeys(topology.device(link.dst).name for link in topology.links if link.src == near.id)
    says = ", ".join(f"{near.name}-{name}" for name in list(beside)[:8]) or "none"
    raise TopologyError(f"no link joins {near.name} and {far.name}: those of {near.name} are {says}")


def _of_kind(topology: Topology, kind: str) -> Part:
    links = tuple(number for number, link in enumerate(topology.links) if link.kind == kind)
    if not links and kind == "network" and _has_ports(topology):
        return Part(nics=_ports(topology))
    if not links:
        there = ", ".join(_kinds_there(topology)) or "none"
        raise TopologyError(f"there is no link of kind {kind} here: kinds that are there are {there}")
    return Part(links)


def _kinds_there(topology: Topology) -> list[str]:
    return sorted({link.kind for link in topology.links})


def _has_ports(topology: Topology) -> bool:
    return any(device.nic and device.nic.bandwidth_bytes_per_s for device in topology.of_kind("nic"))


def _ports(topology: Topology) -> tuple[str, ...]:
    if not _has_ports(topology):
        raise TopologyError("there is no NIC of known rate here: state one with `add nic to numa0 rate=400Gb/s`")
    return tuple(nic.id for nic in topology.of_kind("nic") if nic.nic and nic.nic.bandwidth_bytes_per_s)


def active(links: Iterable[Link]) -> list[Link]:
    """Those of the links that carry anything."""
    return [link for link in links if link.state == "active"]
