"""A topology drawn as text: what hangs below what, with the rate of each link, in 80 columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence

from topo import catalog
from topo.containment import Containment, containment
from topo.finding import INCONSISTENT
from topo.topology import RANK_KINDS, Device, Link, Topology
from topo.words import counted, plural
from topo.writers.hosts import NOT_TAKING_PART, alike_hosts, idle_ids

WIDTH = 80
MAX_ALIKE = 12
"""More neighbours than this that differ in their number alone are drawn as one line."""

NEVER_LIMITS_BYTES_PER_S = 1e12
"""From this rate on a local link is a way of speaking (parts of one chip or card), and its rate is not drawn."""

KIND_WORDS: Mapping[str, str] = {
    "gpu": "GPU",
    "nvswitch": "NVSwitch",
    "pcie_switch": "PCIe switch",
    "host_bridge": "PCIe root",
    "cpu": "NUMA node",
    "nic": "NIC",
    "nic_card": "network card",
    "net_switch": "network switch",
    "host_memory": "memory",
    "process": "CPU process",
}
"""What each kind of device is called."""

LINK_TITLES: Mapping[str, str] = {
    "nvlink": "NVLink",
    "xgmi": "xGMI",
    "c2c": "NVLink-C2C",
    "cpu": "Between processors",
    "network": "Network",
    "pcie": "PCIe",
    "local": "On one chip or host",
}
"""What each kind of link is called."""


def render(topology: Topology) -> str:
    """The drawing: headline, ranks where some are left out, a tree per host, links that join its leaves, findings."""
    tree, like = containment(topology), alike_hosts(topology)
    lines = [headline(topology), *_ranks(topology), *_forest(topology, tree, like), *_peers(topology, tree, like)]
    if topology.remarks:
        lines.append("")
        for remark in topology.remarks:
            lines.extend(textwrap.wrap(f"! {remark}", WIDTH, subsequent_indent="  "))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def headline(topology: Topology) -> str:
    """The topology's name with how many GPUs, NICs and NUMA nodes it has."""
    kinds = (("gpu", "GPU"), ("process", "CPU process"), ("nic", "NIC"), ("cpu", "NUMA node"))
    counts = [(len(topology.of_kind(kind)), word) for kind, word in kinds]  # type: ignore[arg-type]
    parts = [counted(count, word) for count, word in counts if count]
    if idle_ids(topology) and topology.num_ranks:
        parts[0] += f" ({topology.num_ranks} take part)"
    if not topology.complete:
        parts.append("INCOMPLETE")
    if any(finding.rule == INCONSISTENT for finding in topology.findings):
        parts.append("INCONSISTENT")
    return f"{topology.name or 'topology'}: {', '.join(parts)}"


def _ranks(topology: Topology) -> Iterator[str]:
    """Which GPUs are ranks, in the order of the ranks, where these are not all of them in the topology's order."""
    if topology.gpu_ids and topology.gpu_ids != tuple(device.id for device in topology.of_kind(*RANK_KINDS)):
        names = _spans([topology.device(gpu_id).name for gpu_id in topology.gpu_ids])
        yield from textwrap.wrap(f"ranks in order: {names}", WIDTH, subsequent_indent="  ")


def _forest(topology: Topology, tree: Containment, like: Mapping[str, str]) -> Iterator[str]:
    """Each root with its branches, under its host's name; of hosts built alike the first one, and which are like it."""
    host, idle = None, idle_ids(topology)
    for root in tree.roots:
        device = topology.device(root)
        if not tree.children.get(root) and device.kind not in ("cpu", "net_switch"):
            continue
        if device.host != host:
            host = device.host
            if host not in like:
                yield host or ""
                yield from _more_like(topology, host, like)
        if host not in like:
            yield _line("", device, None, _marked(device.name, device, idle))
            yield from _branches(topology, tree, root, "", idle)


def _more_like(topology: Topology, host: str | None, like: Mapping[str, str]) -> Iterator[str]:
    """Which other hosts this one stands for, with their GPUs where these are numbered on."""
    others = [other for other, first in like.items() if first == host]
    if others:
        gpus = [device.name for device in topology.of_kind("gpu") if device.host in others]
        numbered_on = gpus and not any(name.startswith(f"{other}/") for name in gpus for other in others)
        has = f", with {_spans(gpus)}" if numbered_on else ""
        words = f"(and {len(others)} like it: {_spans(others)}{has})"
        yield from textwrap.wrap(words, WIDTH, subsequent_indent=" ")


def _branches(topology: Topology, tree: Containment, parent: str, indent: str, idle: Collection[str]) -> Iterator[str]:
    children = [topology.device(child) for child in tree.children.get(parent, ()) if _is_drawn(topology, child)]
    groups = alike(children, tree, idle=idle)
    for place, group in enumerate(groups):
        last = place == len(groups) - 1
        branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        name = f"{span([device.name for device in group])}  {len(group)} x" if len(group) > 1 else group[0].name
        yield _line(indent + branch, group[0], tree.up_link[group[0].id], _marked(name, group[0], idle))
        if len(group) == 1:
            yield from _branches(topology, tree, group[0].id, indent + below, idle)


def _marked(name: str, device: Device, idle: Collection[str]) -> str:
    return f"{name}  ({NOT_TAKING_PART})" if device.id in idle else name


def _is_drawn(topology: Topology, device_id: str) -> bool:
    """Memory belongs to its NUMA node and would only repeat it."""
    return topology.device(device_id).kind != "host_memory"


def alike(
    devices: Sequence[Device], tree: Containment, most: int = MAX_ALIKE, idle: Collection[str] = ()
) -> list[list[Device]]:
    """The devices in groups: runs of more than `most` childless ones of a kind behind equal links are one group.

    Those whose ids are `idle` are not like the others.
    """
    groups: list[list[Device]] = []
    key = None
    for device in devices:
        link = tree.up_link.get(device.id)
        way_up = (link.kind, link.bandwidth_bytes_per_s) if link else None
        found = (device.kind, way_up, _stem(device.name), device.id in idle, device.id in tree.children)
        if groups and found == key and not found[-1]:
            groups[-1].append(device)
        else:
            groups.append([device])
        key = found
    return [part for group in groups for part in ([group] if len(group) > most else [[one] for one in group])]


def _line(lead: str, device: Device, link: Link | None, name: str) -> str:
    """One device: name and what it is on the left, its link upwards on the right, or below where both do not fit."""
    left = f"{lead}{name}  {describe(device)}"
    whole = textwrap.wrap(left, WIDTH, subsequent_indent=" " * (len(lead) + 2))
    if link is None:
        return "\n".join(whole)
    lanes = f" {catalog.pcie_width_words(link.lanes)}" if link.kind == "pcie" and link.lanes > 1 else ""
    down = " DOWN" if link.state == "inactive" else ""
    hidden = link.kind == "local" and link.bandwidth_bytes_per_s >= NEVER_LIMITS_BYTES_PER_S
    right = f"{link.kind}{lanes}{down} {'' if hidden else _rate(link):>10}"
    room = WIDTH - len(right) - 2
    return f"{left:<{room}}  {right}" if len(left) <= room else "\n".join([*whole, f"{right:>{WIDTH}}"])


def describe(device: Device) -> str:
    """What a device is, in a few words: a NUMA node with its processor, a GPU's model, a NIC's rate, a bus id."""
    words = [KIND_WORDS[device.kind]]
    if device.kind == "cpu":
        words = [f"NUMA node {device.numa_node}" if device.numa_node is not None else "NUMA node", _processor(device)]
    if device.kind == "gpu":
        capability = device.gpu.compute_capability if device.gpu else None
        words = [device.model or (f"GPU sm{capability}" if capability else "GPU")]
    if device.kind == "nic" and device.nic and device.nic.bandwidth_bytes_per_s:
        words.append(f"{device.nic.bandwidth_bytes_per_s * 8 / 1e9:g} Gb/s")
    if device.pci and device.pci.bus_id:
        words.append(device.pci.bus_id)
    return " ".join(word for word in words if word)


def _processor(device: Device) -> str:
    if device.model:
        return device.model
    facts = device.cpu
    if facts is None or device.vendor is None:
        return ""
    return catalog.cpu_model(device.vendor, facts.family, facts.model).name


def _peers(topology: Topology, tree: Containment, like: Mapping[str, str]) -> Iterator[str]:
    """The links that are no branch of the tree, by kind: hubs with their members, else each device with its peers.

    What is inside a host that another stands for is left out.
    """
    hosts = {device.id: device.host for device in topology.devices}
    in_tree = {(link.src, link.dst, link.kind) for link in tree.up_link.values()}
    in_tree |= {(dst, src, kind) for src, dst, kind in in_tree}
    for kind, title in LINK_TITLES.items():
        links = [
            link for link in topology.links if link.kind == kind and (link.src, link.dst, link.kind) not in in_tree
        ]
        shown = [link for link in links if hosts[link.src] not in like or hosts[link.src] != hosts[link.dst]]
        alike_ones = {str(hosts[link.src]) for link in links} - {str(hosts[link.src]) for link in shown}
        if links:
            yield ""
            yield f"{title}, GB/s each way"
            yield from _hubs_and_peers(topology, shown)
            if alike_ones:
                yield from textwrap.wrap(
                    f"  (likewise on {_spans([host for host in like if host in alike_ones])})",
                    WIDTH,
                    subsequent_indent="   ",
                )


def _hubs_and_peers(topology: Topology, links: Sequence[Link]) -> Iterator[str]:
    """Links to a switch in one line per equal rate; all others under the device they start from.

    Each pair stands once, with an arrow for each direction where the two differ or one is missing.
    """
    hubs = {device.id for device in topology.of_kind("nvswitch", "net_switch")}
    said = {(link.src, link.dst): _short(link) for link in links}
    told: set[tuple[str, str]] = set()
    members: dict[tuple[str, str], list[str]] = {}
    peers: dict[str, dict[str, list[str]]] = {}
    for link in links:
        src, dst, rate = topology.device(link.src).name, topology.device(link.dst).name, _short(link)
        is_even = said.get((link.dst, link.src)) == rate
        if is_even and (link.dst, link.src) in told:
            continue
        told.add((link.src, link.dst))
        if link.dst in hubs:
            members.setdefault((f"{dst} {'-' if is_even else '<-'}", rate), []).append(src)
        elif link.src in hubs:
            members.setdefault((f"{src} {'-' if is_even else '->'}", rate), []).append(dst)
        else:
            peers.setdefault(f"{src} {'-' if is_even else '->'}", {}).setdefault(rate, []).append(dst)
    for (hub, rate), names in members.items():
        yield from textwrap.wrap(f"  {hub} {_spans(names)}: {rate} each", WIDTH, subsequent_indent="      ")
    for start, by_rate in peers.items():
        text = "; ".join(f"{_spans(names)} {rate}" for rate, names in by_rate.items())
        yield from textwrap.wrap(f"  {start} {text}", WIDTH, subsequent_indent="      ")


def _short(link: Link) -> str:
    lanes = f" ({link.lanes} {plural('link', link.lanes)})" if link.kind in ("nvlink", "xgmi", "c2c") else ""
    return f"{link.bandwidth_bytes_per_s / 1e9:.4g}{lanes}{' DOWN' if link.state == 'inactive' else ''}"


def _rate(link: Link) -> str:
    return f"{link.bandwidth_bytes_per_s / 1e9:.4g} GB/s"


def _stem(name: str) -> str:
    return re.sub(r"\d+$", "", name)


def _spans(names: Sequence[str]) -> str:
    """Names as text, with runs of consecutive numbers shortened: "GPU0..GPU7, GPU9"."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(span(run) if len(run) > 2 else ", ".join(run) for run in runs)


def span(names: Sequence[str]) -> str:
    """The first and the last of several names with running numbers."""
    return f"{names[0]}..{names[-1]}"


def _follows(before: str, name: str) -> bool:
    """Whether two names have one stem and consecutive numbers."""
    stem = _stem(before)
    digits, next_digits = before[len(stem) :], name[len(stem) :]
    if not (digits and name.startswith(stem) and next_digits.isdecimal()):
        return False
    return int(next_digits) == int(digits) + 1
