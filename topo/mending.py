"""A machine without one of its faults, or with traffic forced the long way: what the cost of a fault is told from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from topo import catalog
from topo.containment import containment
from topo.gpu_models import gpu_model
from topo.topology import Device, DeviceKind, Link, Topology

DOWN = " (down)"
"""What the lower half of a part is called that only forwards from above."""


def with_full_nvlinks(topology: Topology, gpu_ids: Iterable[str], lanes: int | None = None) -> Topology:
    """The machine whose given GPUs have as many NVLinks as the best one has (or `lanes`), all of them up."""
    wanted = set(gpu_ids)
    ports = [link for link in topology.links if link.kind == "nvlink"]
    to_switch = {link.src for link in ports if topology.device(link.dst).kind == "nvswitch"}
    most = lanes or max((link.lanes for link in ports), default=0)
    mended = tuple(
        _with_lanes(link, most) if link.kind == "nvlink" and wanted & {link.src, link.dst} else link
        for link in topology.links
    )
    missing = [gpu_id for gpu_id in topology.gpu_ids if gpu_id in wanted and gpu_id not in to_switch]
    switch = next(iter(topology.of_kind("nvswitch")), None)
    if switch is None or not missing or not ports:
        return replace(topology, links=mended)
    like = next(link for link in mended if link.dst == switch.id)
    added = [replace(like, src=gpu_id) for gpu_id in missing]
    back = [replace(like, src=switch.id, dst=gpu_id) for gpu_id in missing]
    return replace(topology, links=(*mended, *added, *back))


def _with_lanes(link: Link, lanes: int) -> Link:
    rate = link.bandwidth_bytes_per_s / link.lanes * lanes
    return replace(link, lanes=lanes, bandwidth_bytes_per_s=rate, state="active") if lanes > link.lanes else link


def with_nvswitch(topology: Topology) -> Topology:
    """The machine whose GPUs all hang on one NVSwitch with the NVLinks of their product."""
    switch = Device("NVS", "nvswitch", vendor="nvidia")
    links: list[Link] = []
    for gpu_id in topology.gpu_ids:
        model = gpu_model(topology.device(gpu_id).model or "")
        lanes = model.nvlink_links if model else 0
        if model is not None and lanes:
            rate = lanes * catalog.nvlink_bytes_per_s(model.compute_capability)
            links += [Link(gpu_id, switch.id, "nvlink", rate, lanes), Link(switch.id, gpu_id, "nvlink", rate, lanes)]
    return replace(topology, devices=(*topology.devices, switch), links=(*topology.links, *links))


def with_lanes_of_pcie(topology: Topology, lanes: Mapping[str, int]) -> Topology:
    """The machine whose given devices have their PCIe links upwards on that many lanes."""
    up = containment(topology).up_link
    pairs = {(up[device].src, up[device].dst): count for device, count in lanes.items() if device in up}
    pairs.update({(dst, src): count for (src, dst), count in tuple(pairs.items())})
    mended = tuple(
        _with_lanes(link, pairs[link.src, link.dst]) if link.kind == "pcie" and (link.src, link.dst) in pairs else link
        for link in topology.links
    )
    return replace(topology, links=mended)


def through_roots(topology: Topology, *, to_cpu: bool) -> Topology:
    """The machine on which no PCIe switch turns traffic around: it climbs to the host bridge, or to the processor.

    Each switch becomes two parts, one that leads up and one that leads down, so that what goes from GPU to GPU crosses
    the switch's uplink twice: as ACS sends it (to the host bridge), or as copies through memory do (`to_cpu`).
    """
    kinds: tuple[DeviceKind, ...] = ("pcie_switch", "host_bridge") if to_cpu else ("pcie_switch",)
    split = {device.id for device in topology.of_kind(*kinds)}
    tree = containment(topology)
    ups = {(link.src, link.dst) for link in tree.up_link.values() if link.kind == "pcie"}
    halves = tuple(replace(topology.device(device_id), id=device_id + DOWN) for device_id in sorted(split))
    links = tuple(_split(link, split, ups) for link in topology.links)
    return replace(topology, devices=(*topology.devices, *halves), links=links, complete=False)


def _split(link: Link, split: set[str], ups: set[tuple[str, str]]) -> Link:
    """A link down leads through the lower halves of what is split, from parts that do not turn traffic around."""
    if link.kind != "pcie" or (link.dst, link.src) not in ups:
        return link
    ends = [end + DOWN if end in split else end for end in (link.src, link.dst)]
    return replace(link, src=ends[0], dst=ends[1])
