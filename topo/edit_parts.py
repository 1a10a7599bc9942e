"""Parts that come new into a machine: more NICs, and GPUs of another model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from topo import catalog
from topo.containment import Containment, containment
from topo.errors import NameChoiceError, TopologyError
from topo.gpu_models import GpuModel, gpu_model_names
from topo.parts import find_device
from topo.topology import Device, Link, NicFacts, PciFacts, Topology

_NUMA_NODE = re.compile(r"(?:node|numa)(\d{1,4})", re.IGNORECASE)
_PLACES = ("cpu", "host_bridge", "pcie_switch", "gpu")
_NIC_LANES = 16
_NIC_CLASS, _NIC_VENDOR, _NIC_DEVICE = "0x020700", "0x15b3", "0x1021"
"""A ConnectX-7, where the machine has no NIC to copy."""


def add_nics(node: Topology, place: str, rate_bytes_per_s: float, count: int = 1) -> Topology:
    """The machine with so many more NICs at a place, each like the NIC that is there already, at its own rate.

    `place` is a processor, a PCIe switch or bridge, or a GPU (beside which the NIC is put); `node0` is NUMA node 0, as
    Linux calls it. Below a processor a NIC takes the switch with the fewest NICs, where there are switches.
    """
    for _ in range(count):
        node = _with_nic(node, place, rate_bytes_per_s)
    return node


def _with_nic(node: Topology, place: str, rate_bytes_per_s: float) -> Topology:
    held = containment(node)
    parent = _place(node, held, place)
    like = _like(node, held, parent)
    number = 1 + max((_number(nic) for nic in node.of_kind("nic")), default=-1)
    taken = {device.id for device in node.devices} | {device.name for device in node.devices}
    name = next(name for name in _names(like, number) if name not in taken)
    index = 1 + max((nic.nic.index or 0 for nic in node.of_kind("nic") if nic.nic), default=-1)
    port = _port(held, parent, like)
    facts = replace(
        (like.nic if like and like.nic else NicFacts(port=1, gdr=True)),
        index=index,
        bandwidth_bytes_per_s=rate_bytes_per_s,
        guid=_free_guid(node),
        os_name=None,
    )
    pci = replace(
        (like.pci if like and like.pci else PciFacts(None, _NIC_CLASS, _NIC_VENDOR, _NIC_DEVICE)),
        bus_id=_free_bus(node, parent),
        link_speed=None,
        link_width=None,
    )
    nic = Device(
        name, "nic", like.vendor if like else "mellanox", parent.host, parent.numa_node, name, pci=pci, nic=facts
    )
    links = tuple(
        Link(src, dst, "pcie", port.bandwidth_bytes_per_s, port.lanes)
        for src, dst in ((name, parent.id), (parent.id, name))
    )
    return replace(node, devices=(*node.devices, nic), links=(*node.links, *links))


def _place(node: Topology, held: Containment, place: str) -> Device:
    """The device that the new NIC hangs below."""
    match = _NUMA_NODE.fullmatch(place)
    device = next((cpu for cpu in node.of_kind("cpu") if match and cpu.numa_node == int(match[1])), None)
    if device is None and match:
        known = [f"node{cpu.numa_node}" for cpu in node.of_kind("cpu")]
        raise NameChoiceError("NUMA node", place, known)
    device = device or find_device(node, place)
    if device.kind not in _PLACES:
        raise TopologyError(
            f"{device.name} is a {device.kind}: a NIC is put below a processor, a switch or beside a GPU"
        )
    if device.kind == "gpu":
        return node.device(held.up_link[device.id].dst)
    if device.kind != "cpu":
        return device
    switches = [below for below in _below(node, held, device.id) if below.kind == "pcie_switch"]
    return min(switches, key=lambda switch: _num_nics(node, held, switch.id), default=device)


def _below(node: Topology, held: Containment, parent: str) -> Iterator[Device]:
    for child in held.children.get(parent, ()):
        yield node.device(child)
        yield from _below(node, held, child)


def _num_nics(node: Topology, held: Containment, parent: str) -> int:
    return sum(device.kind == "nic" for device in _below(node, held, parent))


def _like(node: Topology, held: Containment, parent: Device) -> Device | None:
    """A NIC to copy: one at the same place, else the machine's first on PCIe."""
    nics = [nic for nic in node.of_kind("nic") if nic.pci is not None]
    beside = [nic for nic in nics if nic.id in held.children.get(parent.id, ())]
    return next(iter(beside or nics), None)


def _port(held: Containment, parent: Device, like: Device | None) -> Link:
    """The PCIe link of the NIC that is copied, else that of whatever hangs at the place, else of 16 lanes there."""
    near = [held.up_link[child] for child in held.children.get(parent.id, ()) if held.up_link[child].kind == "pcie"]
    own = held.up_link.get(like.id) if like else None
    rate = catalog.pcie_bytes_per_s(catalog.DEFAULT_PCIE_GENERATION, _NIC_LANES)
    return own or next(iter(near), None) or Link("nic", parent.id, "pcie", rate, _NIC_LANES)


def _number(nic: Device) -> int:
    match = re.search(r"(\d+)\D*$", nic.name)
    return int(match[1]) if match else 0


def _names(like: Device | None, number: int) -> Iterator[str]:
    """Names in the style of the machine's own, counted on."""
    style = re.sub(r"\d+(?=\D*$)", "{}", like.name) if like else "NIC{}"
    style = style if "{}" in style else f"{style}_{{}}"
    while True:
        yield style.format(number)
        number += 1


def _free_bus(node: Topology, parent: Device) -> str:
    """A bus id that no function has, beside the others."""
    taken = {device.pci.bus_id for device in node.devices if device.pci}
    domain = (parent.pci.bus_id if parent.pci and parent.pci.bus_id else "0000:").split(":")[0]
    return next(
        bus
        for prefix in (domain, "fffe")
        for number in range(1, 256)
        if (bus := f"{prefix}:{number:02x}:00.0") not in taken
    )


def _free_guid(node: Topology) -> str:
    stated = [nic.nic.guid or "" for nic in node.of_kind("nic") if nic.nic]
    guids = [int(guid, 16) for guid in stated if re.fullmatch(r"(0x)?[0-9a-fA-F]+", guid)]
    return f"{max(guids, default=0xFFF) + 1:#x}"


def replace_gpus(node: Topology, name: str) -> Topology:
    """The machine with GPUs of another model: compute capability, NVLinks and, where the model is slower, PCIe.

    Each connection keeps its share of a GPU's NVLinks, at the new model's rate per link. The PCIe slots stay.
    """
    model = catalog.gpu_model(name)
    if model is None:
        raise NameChoiceError("GPU model", name, gpu_model_names())
    if model.compute_capability is None:
        raise TopologyError(f"{model.name} is joined by xGMI, which no slot of this machine has: take another machine")
    gpus = {device.id: device for device in node.of_kind("gpu")}
    if not gpus:
        raise TopologyError("this machine has no GPU to replace: take another machine")
    links = tuple(_relinked(link, gpus, model) for link in node.links)
    devices = tuple(_renamed(device, model) if device.id in gpus else device for device in node.devices)
    return replace(node, devices=devices, links=links)


def _renamed(device: Device, model: GpuModel) -> Device:
    gpu = device.gpu and replace(device.gpu, compute_capability=model.compute_capability)
    pci = device.pci
    if pci is not None and pci.link_speed is not None and _generation(pci.link_speed) > model.pcie_generation:
        pci = replace(pci, link_speed=catalog.pcie_speed_words(model.pcie_generation))
    return replace(device, model=model.name, gpu=gpu, pci=pci, vendor="nvidia")


def _generation(speed: str) -> int:
    try:
        return catalog.pcie_generation(speed)
    except ValueError:
        return 0


def _relinked(link: Link, gpus: dict[str, Device], model: GpuModel) -> Link:
    gpu = gpus.get(link.src) or gpus.get(link.dst)
    if gpu is None:
        return link
    if link.kind == "nvlink" and link.state == "active":
        lanes = _lanes(link, gpu, model)
        rate = catalog.nvlink_bytes_per_s(model.compute_capability)
        return replace(link, lanes=lanes, bandwidth_bytes_per_s=lanes * rate)
    if link.kind == "pcie":
        slower = catalog.pcie_bytes_per_s(model.pcie_generation, link.lanes)
        return replace(link, bandwidth_bytes_per_s=min(link.bandwidth_bytes_per_s, slower))
    return link


def _lanes(link: Link, gpu: Device, model: GpuModel) -> int:
    """The share of the new model's NVLinks that the old one's had here; refused where the new one has none."""
    old = catalog.gpu_model(gpu.model) if gpu.model else None
    if not model.nvlink_links:
        raise TopologyError(
            f"{model.name} has no NVLink, and {link.id} is one: break nvlink before it, or take a model with it"
        )
    if old is None or not old.nvlink_links:
        return min(link.lanes, model.nvlink_links)
    return max(1, link.lanes * model.nvlink_links // old.nvlink_links)
