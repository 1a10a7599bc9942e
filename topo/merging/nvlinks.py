"""NVLinks of a topology held against what `nvidia-smi nvlink` counts, and against a path matrix: the fewer count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from topo.finding import Finding, Quote
from topo.merging.draft import Draft, address_of
from topo.topology import Device, Link

if TYPE_CHECKING:
    from topo.captures import Captures, Output
    from topo.readers.nvidia_smi_topo import MatrixFacts
    from topo.readers.nvlink_status import GpuNvlinks

NVLINK_INACTIVE = "nvlink-inactive"
NVLINK_COUNT = "nvlink-count"

CAPABILITY_OF_RATE = ((40e9, 60e9, 100), (13e9, 16e9, 86))
"""Rates of one link (least, most) that one compute capability alone has; others share theirs."""


def capability_by_rate(captures: Captures) -> int | None:
    """What the rate of NVLinks tells of the GPUs: 50 GB/s is Blackwell, 14 GB/s an Ampere card; None for others."""
    rates = {
        link.bytes_per_s
        for _, facts in captures.facts("nvlink-status")
        for gpu in facts.gpus
        for link in gpu.in_state("active")
    }
    fits = (row for row in CAPABILITY_OF_RATE if rates and all(rate and row[0] <= rate <= row[1] for rate in rates))
    return next((capability for _, _, capability in fits), None)


def hold_against_status(draft: Draft, captures: Captures, skeleton: Output) -> None:
    """Takes the active links that `nvlink -s` counts, where the topology has more; says so with both sources."""
    remotes = _remotes(draft, captures)
    for output, facts in captures.facts("nvlink-status"):
        for found in facts.gpus:
            device = None if found.gpu is None else draft.gpu(found.gpu)
            if device is not None:
                _hold_gpu(draft, device, found, output, skeleton, remotes.get(device.id))


def _hold_gpu(
    draft: Draft,
    device: Device,
    found: GpuNvlinks,
    output: Output,
    skeleton: Output,
    remotes: Mapping[str, int] | None,
) -> None:
    links = [link for link in draft.links_of(device.id, "nvlink") if link.state == "active"]
    shown = sum(link.lanes for link in links)
    active = _active(found)
    if active is None or active >= shown:
        return
    evidence = (quote_nvlinks(device, skeleton), _quote_of_less(found, output))
    short = f"{device.name}: {skeleton.title} shows {shown} NVLinks, {output.title} counts {active} active"
    lost = _attributed(draft, device, links, shown - active, remotes)
    if lost is None:
        told = "which of them are down is not shown (add nvidia-smi nvlink -R): all are kept"
    else:
        told = f"{active} are taken"
        for link, lanes in lost:
            draft.set_lanes(link, link.lanes - lanes)
    draft.findings.append(Finding(NVLINK_INACTIVE, "finding", f"{short}: {told}", evidence, (device.id,)))


def _active(found: GpuNvlinks) -> int | None:
    """How many links are up; None where that is not shown."""
    if found.verdict in ("all inactive", "unsupported"):
        return 0
    if found.verdict != "links" or not found.complete or found.in_state("unknown"):
        return None
    return len(found.in_state("active"))


def _quote_of_less(found: GpuNvlinks, output: Output) -> Quote:
    """The line that shows why there are fewer: that of the first link that is down, else what is said instead."""
    down = found.in_state("inactive")
    said = None if down else output.text.find(r"(?i)in-?active|not (?:have or )?support", after=found.line - 1)
    return said or output.quote(down[0].line if down else found.line)


def _attributed(
    draft: Draft, device: Device, links: list[Link], missing: int, remotes: Mapping[str, int] | None
) -> list[tuple[Link, int]] | None:
    """Which connections lost how many lanes; None where nothing tells."""
    if len(links) == 1 or missing == sum(link.lanes for link in links):
        return [(link, min(link.lanes, missing)) for link in links]
    if remotes is None or sum(remotes.values()) != sum(link.lanes for link in links) - missing:
        return None
    lost = [(link, link.lanes - remotes.get(_place(draft, link.dst), 0)) for link in links]
    return [(link, lanes) for link, lanes in lost if lanes > 0]


def _place(draft: Draft, device_id: str) -> str:
    """What `_remotes` calls a device: GPUs by id, all NVSwitches alike."""
    return "nvswitch" if draft.device(device_id).kind == "nvswitch" else device_id


def _remotes(draft: Draft, captures: Captures) -> Mapping[str, Mapping[str, int]]:
    """By device: how many of its links lead to each other device, as `nvlink -R` tells by bus ids."""
    counted: dict[str, dict[str, int]] = {}
    for _, facts in captures.facts("nvlink-remote"):
        for found in facts.gpus:
            device = None if found.gpu is None else draft.gpu(found.gpu)
            if device is None or not found.complete:
                continue
            ends: dict[str, int] = {}
            for address, count in found.links_to.items():
                peer = draft.gpu_at(address)
                place = peer.id if peer else "nvswitch"
                ends[place] = ends.get(place, 0) + count
            counted[device.id] = ends
    return counted


def quote_nvlinks(device: Device, skeleton: Output) -> Quote:
    """The line in which the topology's own source shows a GPU's NVLinks."""
    if skeleton.reader.name == "nvidia-smi-topo":
        return skeleton.quote(skeleton.facts.line(device.name))
    address = address_of(device)
    own = skeleton.text.find(f"(?i){address}") if address else None
    inside = skeleton.text.find("<nvlink", after=own.line or 0) if own and skeleton.reader.name == "nccl-xml" else None
    return inside or own or skeleton.quote(None)


# --- a path matrix beside another source ---


def hold_against_matrix(draft: Draft, output: Output, skeleton: Output) -> None:
    """Takes the NVLinks of a matrix, where the topology of another source has more; says so with both sources."""
    facts: MatrixFacts = output.facts
    gpus: dict[str, Device] = {}
    for gpu in draft.devices("gpu"):
        gpus.setdefault(_label(gpu), gpu)
    counts = {pair: _count(letters) for pair, letters in facts.cells if letters and set(pair) <= gpus.keys()}
    for label, gpu in gpus.items():
        port = _switch_port(draft, gpu)
        counted = [count for pair, count in counts.items() if label in pair]
        if port is not None and counted:
            _compare(draft, (gpu,), port, max(counted), output, skeleton)
    for (one, other), counted_here in counts.items():
        ends = gpus[one], gpus[other]
        if all(_switch_port(draft, end) is None for end in ends):
            _compare(draft, ends, draft.link(ends[0].id, ends[1].id, "nvlink"), counted_here, output, skeleton)


def _compare(
    draft: Draft, ends: Sequence[Device], link: Link | None, counted: int, output: Output, skeleton: Output
) -> None:
    shown = 0 if link is None or link.state == "inactive" else link.lanes
    if shown == counted:
        return
    name, line = "-".join(end.name for end in ends), output.facts.line(_label(ends[0]))
    sentence = (
        f"{name}: {skeleton.title} shows {shown} NVLinks, {output.title} {counted}: {min(shown, counted)} are taken"
    )
    evidence = (quote_nvlinks(ends[0], skeleton), output.quote(line))
    draft.findings.append(Finding(NVLINK_COUNT, "finding", sentence, evidence, tuple(end.id for end in ends)))
    if link is not None and counted < shown:
        draft.set_lanes(link, counted)


def _count(letters: str) -> int:
    return int(letters[2:]) if letters.startswith("NV") else 0


def _label(gpu: Device) -> str:
    return f"GPU{gpu.gpu.index}" if gpu.gpu and gpu.gpu.index is not None else gpu.name


def _switch_port(draft: Draft, gpu: Device) -> Link | None:
    """The GPU's link to an NVSwitch, None where it has none."""
    links = draft.links_of(gpu.id, "nvlink")
    return next((link for link in links if draft.device(link.dst).kind == "nvswitch"), None)
