"""Changes made to a machine: a topology or a folded cluster in, another one out, checked like any other.

In a cluster every node is changed alike; only the port of one NIC (`node3/mlx5_0`) can be its own. What NCCL counts
with follows where hardware would say so itself: lanes, PCIe speed and width, the rate of a port, the GPU's model.
`scale` and a bandwidth that is set change what links carry and leave what they say of themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from topo import catalog
from topo.changes import (
    FABRIC_PART,
    AddNic,
    Break,
    JoinBy,
    Lanes,
    MachineChange,
    Nodes,
    Put,
    ReplaceGpu,
    Scale,
)
from topo.cluster import Cluster, Fabric
from topo.containment import containment
from topo.edit_parts import add_nics, replace_gpus
from topo.errors import NameChoiceError, TopologyError
from topo.parts import Part, active, find_part
from topo.topology import Device, Link, LinkKind, PciFacts, Provenance, Topology

Machine = Topology | Cluster

_COUNTED: tuple[LinkKind, ...] = ("nvlink", "xgmi", "c2c")
"""Kinds whose lanes are links of their own, of which some can be lost."""

_PCIE_WIDTHS = (1, 2, 4, 8, 16)

_ONE_NODE = re.compile(r"node(\d{1,7})/(\S+)")


def edit(machine: Machine, change: MachineChange) -> Machine:
    """The machine with the change made. NameChoiceError or TopologyError where it names nothing or makes no machine.

    `Nodes` with several counts are several machines: make each with one count.
    """
    match change:
        case Nodes(counts):
            return with_nodes(machine, counts[0])
        case JoinBy(fabric):
            cluster = _cluster(machine, "a fabric joins nodes")
            return replace(cluster, fabric=_as_stated(fabric, cluster.fabric))
        case Scale(part, _, _) | Put(part, _, _) if part.lower() == FABRIC_PART:
            cluster = _cluster(machine, "the fabric joins nodes")
            return replace(cluster, fabric=_with_fabric_numbers(cluster, change))
        case Scale(part, _, _) | Break(part) | Lanes(part, _) | Put(part, _, _) if _ONE_NODE.fullmatch(part):
            return _one_port(_cluster(machine, f"{part} is a part of one of several nodes"), part, change)
    if isinstance(machine, Cluster):
        return replace(machine, node=_edit_node(machine.node, change))
    return _edit_node(machine, change)


def with_nodes(machine: Machine, count: int) -> Machine:
    """The machine's node, so often; one node without a fabric is a topology."""
    if isinstance(machine, Cluster):
        return machine.node if count == 1 else replace(machine, count=count)
    return machine if count == 1 else Cluster(machine, count)


def node_of(machine: Machine) -> Topology:
    """The machine itself, or one node of a cluster."""
    return machine.node if isinstance(machine, Cluster) else machine


def _cluster(machine: Machine, why: str) -> Cluster:
    if isinstance(machine, Cluster):
        return machine
    raise TopologyError(f"{why}, and there is one node: add --nodes 2 or `nodes 2` before it")


def _edit_node(node: Topology, change: MachineChange) -> Topology:
    match change:
        case Break(part):
            edited = _with_links(node, _links_of(node, part), _broken)
        case Lanes(part, lanes):
            edited = _with_lanes(node, part, lanes)
        case Scale(part, quantity, factor):
            edited = _scaled(node, part, quantity, factor)
        case Put(part, quantity, value):
            edited = _put(node, part, quantity, value)
        case AddNic(place, rate, count):
            edited = add_nics(node, place, rate, count)
        case ReplaceGpu(model):
            edited = replace_gpus(node, model)
        case _:
            raise AssertionError(f"{change} is no change of a node")
    return replace(edited, provenance=(*node.provenance, Provenance("change", repr(change))))


def _links_of(node: Topology, part: str, kinds: tuple[LinkKind, ...] = ()) -> tuple[int, ...]:
    """The links of a part that carry anything (of a device those of the kinds); of a NIC all that it hangs on."""
    found = find_part(node, part, kinds)
    numbers = found.links or tuple(
        number for number, link in enumerate(node.links) if {link.src, link.dst} & set(found.nics)
    )
    left = tuple(number for number in numbers if node.links[number].state == "active")
    if not left:
        raise TopologyError(f"{part} is broken already: mend nothing that is not there, leave this change out")
    return left


def _with_links(node: Topology, numbers: Sequence[int], edited: Callable[[Link], Link]) -> Topology:
    chosen = set(numbers)
    links = (edited(link) if number in chosen else link for number, link in enumerate(node.links))
    return replace(node, links=tuple(links))


def _broken(link: Link) -> Link:
    return replace(link, state="inactive")


def _with_lanes(node: Topology, part: str, lanes: int) -> Topology:
    numbers = _links_of(node, part, _COUNTED)
    links = active(node.links[number] for number in numbers)
    other = next((link for link in links if link.kind not in (*_COUNTED, "pcie")), None)
    if other is not None:
        raise TopologyError(f"{other.id} is a {other.kind} link, whose lanes are not counted: scale its bandwidth")
    if any(link.kind == "pcie" for link in links):
        _require_pcie_width(lanes)
        node = _with_pcie_words(node, numbers, width=lanes)
    return _with_links(
        node,
        numbers,
        lambda link: replace(link, lanes=lanes, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / link.lanes * lanes),
    )


def _scaled(node: Topology, part: str, quantity: str, factor: float) -> Topology:
    found = find_part(node, part)
    if quantity == "latency":
        if not any(node.links[number].latency_s for number in found.links):
            raise _no_latency(part if found.links else FABRIC_PART)
        return _with_links(node, found.links, lambda link: replace(link, latency_s=link.latency_s * factor))
    node = _with_ports(node, found, lambda rate: rate * factor)
    return _with_links(
        node, found.links, lambda link: replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s * factor)
    )


def _no_latency(part: str) -> TopologyError:
    return TopologyError(
        f"{part} states no latency that could be multiplied, since what its hops cost is the profile's: "
        f"set {part} latency=2us adds as much to each of them"
    )


def _put(node: Topology, part: str, quantity: str, value: float) -> Topology:
    found = find_part(node, part)
    match quantity:
        case "bandwidth":
            node = _with_ports(node, found, lambda _: value)
            return _with_links(node, found.links, lambda link: replace(link, bandwidth_bytes_per_s=value))
        case "latency":
            if not found.links:
                raise TopologyError(f"{part} has no links of its own: set fabric latency={value:g}s")
            return _with_links(node, found.links, lambda link: replace(link, latency_s=value))
        case "lanes":
            return _with_lanes(node, part, int(value))
        case _:
            return _with_pcie(node, part, **{quantity: int(value)})


def _require_pcie_width(lanes: int) -> None:
    if lanes not in _PCIE_WIDTHS:
        known = ", ".join(map(str, _PCIE_WIDTHS))
        raise TopologyError(f"no PCIe slot has {lanes} lanes: give one of {known}")


def _with_pcie(node: Topology, part: str, generation: int | None = None, width: int | None = None) -> Topology:
    """PCIe links of another generation or width, in their rates and in what their functions say."""
    numbers = _links_of(node, part, ("pcie",))
    other = next((node.links[number] for number in numbers if node.links[number].kind != "pcie"), None)
    if other is not None:
        raise TopologyError(f"{other.id} is a {other.kind} link, and only PCIe has a generation and a width")
    if width is not None:
        _require_pcie_width(width)

    def edited(link: Link) -> Link:
        lanes = width or link.lanes
        taken = generation or catalog.pcie_generation_of(link.bandwidth_bytes_per_s, link.lanes)
        rate = catalog.pcie_bytes_per_s(taken, lanes) if taken else link.bandwidth_bytes_per_s / link.lanes * lanes
        return replace(link, lanes=lanes, bandwidth_bytes_per_s=rate)

    return _with_links(_with_pcie_words(node, numbers, generation=generation, width=width), numbers, edited)


def _with_pcie_words(
    node: Topology, numbers: Sequence[int], *, generation: int | None = None, width: int | None = None
) -> Topology:
    """The functions at the lower ends of these PCIe links say their new speed and width, where they say any."""
    up = containment(node).up_link
    ends = {(node.links[number].src, node.links[number].dst) for number in numbers}
    below = {child for child, link in up.items() if (child, link.dst) in ends or (link.dst, child) in ends}

    def said(pci: PciFacts) -> PciFacts:
        if pci.link_speed is None:
            return pci
        speed = catalog.pcie_speed_words(generation) if generation else pci.link_speed
        return replace(pci, link_speed=speed, link_width=str(width) if width else pci.link_width)

    return _with_devices(node, lambda one: replace(one, pci=said(one.pci)) if one.id in below and one.pci else one)


def _with_devices(node: Topology, edited: Callable[[Device], Device]) -> Topology:
    return replace(node, devices=tuple(edited(device) for device in node.devices))


def _with_ports(node: Topology, part: Part, rate: Callable[[float], float]) -> Topology:
    """The NICs of the part with ports of another rate."""

    def edited(device: Device) -> Device:
        if device.id not in part.nics or device.nic is None:
            return device
        if device.nic.bandwidth_bytes_per_s is None:
            raise TopologyError(f"the rate of {device.name} is not known: set {device.name} rate=400Gb/s first")
        return replace(device, nic=replace(device.nic, bandwidth_bytes_per_s=rate(device.nic.bandwidth_bytes_per_s)))

    return _with_devices(node, edited) if part.nics else node


def _as_stated(fabric: Fabric, before: Fabric) -> Fabric:
    """The fabric, with the rate and the latency that were stated before where it states none: only its shape is new."""
    return replace(
        fabric,
        bandwidth_bytes_per_s=fabric.bandwidth_bytes_per_s or before.bandwidth_bytes_per_s,
        latency_s=fabric.latency_s or before.latency_s,
    )


def _with_fabric_numbers(cluster: Cluster, change: Scale | Put) -> Fabric:
    fabric = cluster.fabric
    if change.quantity == "latency":
        if isinstance(change, Scale) and not fabric.latency_s:
            raise _no_latency(FABRIC_PART)
        latency_s = change.value if isinstance(change, Put) else fabric.latency_s * change.factor
        return replace(fabric, latency_s=latency_s)
    if change.quantity != "bandwidth":
        raise NameChoiceError("quantity of the fabric", change.quantity, ("bandwidth", "latency"))
    if isinstance(change, Put):
        return replace(fabric, bandwidth_bytes_per_s=change.value)
    fastest = max(cluster.port_bytes_per_s(nic) for nic in cluster.nics)
    return replace(fabric, bandwidth_bytes_per_s=fastest * change.factor)


def _one_port(cluster: Cluster, part: str, change: Scale | Break | Lanes | Put) -> Cluster:
    """One NIC's port of one node at another rate; all else in the node stays what it is everywhere."""
    match = _ONE_NODE.fullmatch(part)
    assert match is not None
    number, name = int(match[1]), match[2]
    if number >= cluster.count:
        raise TopologyError(f"there is no node{number}: nodes are node0 to node{cluster.count - 1}")
    found = find_part(cluster.node, name)
    if not isinstance(change, Scale | Put) or change.quantity != "bandwidth" or len(found.nics) != 1:
        raise TopologyError(
            f"{part}: of a single node only a NIC's port can differ (scale {match[0].partition('/')[0]}/NIC bandwidth "
            f"x0.5): write {name} to change it in every node"
        )
    nic = cluster.node.device(found.nics[0])
    factor = change.factor if isinstance(change, Scale) else change.value / cluster.port_bytes_per_s(nic)
    return cluster.with_port(number, nic.id, factor)
