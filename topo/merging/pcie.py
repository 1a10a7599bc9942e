"""PCIe links at the rates that other captures tell: what the link can do, over the lanes that it has.

A GPU slows its link down while it idles (to generation 1), so the generation taken is the best that GPU and slot allow
together; lanes never come back by themselves, so those in use now are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from topo import catalog
from topo.errors import UnitError
from topo.finding import Finding, Quote
from topo.matrix_notes import PCIE_RATES
from topo.merging.draft import Draft, address_of
from topo.readers.sysfs_pci import PciTree
from topo.topology import Device, Link, PciFacts

if TYPE_CHECKING:
    from topo.captures import Captures, Output

PCIE_IDLE = "pcie-idle"

SPEEDS = {
    1: "2.5 GT/s PCIe",
    2: "5.0 GT/s PCIe",
    3: "8.0 GT/s PCIe",
    4: "16.0 GT/s PCIe",
    5: "32.0 GT/s PCIe",
    6: "64.0 GT/s PCIe",
}
"""PCIe generations in Linux' words."""


@dataclass(frozen=True, slots=True)
class PortSaid:
    """What one source says of a function's link: generation and lanes now, and the best that both its ends allow."""

    output: Output
    line: int | None
    generation: int | None
    width: int | None
    best_generation: int | None
    best_width: int | None

    def quote(self) -> Quote:
        """Where it says so."""
        return self.output.quote(self.line)


def said_of(captures: Captures, index: int | None, address: str | None) -> tuple[PortSaid, ...]:
    """What queries, lspci and /sys say of the link of a GPU (by NVML's index or address) or another function."""
    return (*_queried(captures, index, address), *_listed(captures, address), *_in_sysfs(captures, address))


def _queried(captures: Captures, index: int | None, address: str | None) -> Iterator[PortSaid]:
    for output, facts in captures.facts("nvidia-smi-query"):
        for row in facts.gpus:
            if (row.index is not None and row.index == index) or (row.address and row.address == address):
                yield PortSaid(
                    output,
                    row.line,
                    row.pcie_generation_current,
                    row.pcie_width_current,
                    _least(row.pcie_generation_max, row.pcie_generation_gpu_max, row.pcie_generation_host_max),
                    row.pcie_width_max,
                )


def _listed(captures: Captures, address: str | None) -> Iterator[PortSaid]:
    for output, facts in captures.facts("lspci"):
        function = facts.function(address) if address else None
        if function is None or not (function.current and function.capable):
            continue
        above = facts.bridges_above(function.address)
        slot = above[0].capable if above else None
        now, best = function.current, function.capable
        yield PortSaid(
            output,
            now.line,
            now.generation,
            now.width,
            _least(best.generation, slot.generation if slot else None),
            _least(best.width, slot.width if slot else None),
        )


def _in_sysfs(captures: Captures, address: str | None) -> Iterator[PortSaid]:
    for output, tree in trees(captures):
        function = tree.functions.get(address or "")
        if function is None:
            continue
        slot = tree.functions.get(function.above[-1]) if function.above else None
        best = function.best
        line = output.text.find(f"{function.address}/current_link_width")
        yield PortSaid(
            output,
            line.line if line else None,
            function.current.generation,
            function.current.width,
            _least(best.generation, slot.best.generation if slot else None),
            _least(best.width, slot.best.width if slot else None),
        )


def trees(captures: Captures) -> Iterator[tuple[Output, PciTree]]:
    """The PCI functions of each snapshot of /sys."""
    from topo.readers import sysfs

    for output in captures.of("sysfs"):
        snapshot = sysfs.snapshot(output.text.content, output.text.source)
        yield output, PciTree(snapshot.files, snapshot.links)


def _least(*numbers: int | None) -> int | None:
    return min((number for number in numbers if number), default=None)


def set_ports(draft: Draft, captures: Captures) -> None:
    """The links of GPUs and NICs at their rates; the note that rates are assumed goes where all are told."""
    told: set[str] = set()
    joined = [bridge.id for bridge in draft.devices("host_bridge") if _is_joined(draft, bridge.id)]
    for device in draft.devices("gpu", "nic", "nic_card"):
        index = device.gpu.index if device.gpu else None
        said = said_of(captures, index, address_of(device))
        if said and _set_port(draft, device, said):
            told.add(device.id)
    told.update(_set_uplinks(draft, captures))
    for bridge_id in joined:
        up, ports = _root_ports(draft, bridge_id)
        draft.set_rate(up, sum(port.bandwidth_bytes_per_s for port in ports), sum(port.lanes for port in ports))
    assumed = {link.src for link in draft.links("pcie") if draft.device(link.src).kind not in ("cpu", "host_bridge")}
    if assumed <= told:
        draft.drop_notes(PCIE_RATES)


def _is_joined(draft: Draft, bridge_id: str) -> bool:
    """Whether the way up from a root is nothing but its ports together, which change with what is plugged there."""
    if not any(draft.device(link.dst).kind == "cpu" for link in draft.links_of(bridge_id, "pcie")):
        return False
    up, ports = _root_ports(draft, bridge_id)
    return bool(ports) and up.lanes == sum(port.lanes for port in ports)


def _root_ports(draft: Draft, bridge_id: str) -> tuple[Link, list[Link]]:
    """A root's link to its processor, and those to what is plugged into its ports."""
    links = list(draft.links_of(bridge_id, "pcie"))
    up = next(link for link in links if draft.device(link.dst).kind == "cpu")
    return up, [link for link in links if link is not up]


def _set_port(draft: Draft, device: Device, said: Iterable[PortSaid]) -> bool:
    """Whether the device's link upwards got its rate."""
    link = next(draft.links_of(device.id, "pcie"), None)
    rows = tuple(said)
    generation = _least(*(row.best_generation for row in rows)) or _least(*(row.generation for row in rows))
    width = _least(*(row.width for row in rows)) or _least(*(row.best_width for row in rows))
    if link is None or generation is None or width is None or not 1 <= width <= 32:
        return False
    _note_idle(draft, device, rows, generation)
    draft.set_rate(link, catalog.pcie_bytes_per_s(generation, width), width)
    facts = device.pci or PciFacts()
    if facts.link_speed is None:
        draft.put(replace(device, pci=replace(facts, link_speed=SPEEDS[generation], link_width=str(width))))
    return True


def _note_idle(draft: Draft, device: Device, rows: Iterable[PortSaid], generation: int) -> None:
    """A source that saw the link slower than it can be: its GPU idled, or it is trained down."""
    slow = [row for row in rows if row.generation and row.generation < generation]
    own = _own_generation(device)
    if device.kind != "gpu" or not (slow or (own and own < generation)):
        return
    seen = min([row.generation for row in slow if row.generation] + ([own] if own else []))
    best = next((row for row in rows if row.best_generation == generation), None)
    quotes = [row.quote() for row in (*slow[:1], *([best] if best else []))]
    sentence = (
        f"{device.name}: its PCIe link ran at generation {seen} and can do {generation}, as idle GPUs do: generation "
        f"{generation} is taken, read again under load"
    )
    draft.findings.append(Finding(PCIE_IDLE, "note", sentence, tuple(dict.fromkeys(quotes)), (device.id,)))


def _own_generation(device: Device) -> int | None:
    try:
        return catalog.pcie_generation(device.pci.link_speed or "") if device.pci else None
    except UnitError:
        return None


def _set_uplinks(draft: Draft, captures: Captures) -> set[str]:
    """Switches of a matrix at the rate of the real one's upstream port, as /sys shows it; returns their ids."""
    found: set[str] = set()
    for _, tree in trees(captures):
        for switch in draft.devices("pcie_switch"):
            if switch.pci is not None:
                continue  # its own source tells its rate
            port = tree.uplink_of(address for end in _below(draft, switch.id) if (address := address_of(end)))
            up = next(draft.links_of(switch.id, "pcie"), None)
            rate = port.current.bytes_per_s if port else None
            if port is not None and up is not None and rate is not None:
                draft.set_rate(up, rate, port.current.width or 1)
                found.add(switch.id)
    return found


def _below(draft: Draft, switch_id: str) -> Iterator[Device]:
    """GPUs and NICs that hang on a switch at any depth. The first link of a switch is the one upwards."""
    for link in list(draft.links_of(switch_id, "pcie"))[1:]:
        if draft.device(link.dst).kind == "pcie_switch":
            yield from _below(draft, link.dst)
        else:
            yield draft.device(link.dst)
