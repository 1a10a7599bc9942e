"""One system tree of a log of NCCL: its parts as devices."""

from __future__ import annotations

from collections.abc import Iterator

from topo.log_machine import MachineParts, bus_id_of, number_of
from topo.readers.nccl_log.machine_facts import SystemLink, SystemNode, SystemTree
from topo.topology import CpuFacts, Device, DeviceKind, NicFacts, PciFacts

_ARCHITECTURES = {"1": "x86_64", "2": "ppc64", "3": "arm64"}
_VENDORS = {("1", "1"): "GenuineIntel", ("1", "2"): "AuthenticAMD", ("1", "3"): "CentaurHauls"}
_VENDOR_OF_ARCHITECTURE = {"2": "IBM", "3": "ARM"}
_INTEL_MODELS = {"1": 0x4F, "2": 0x55, "3": 0x8F, "4": 0xCF}
"""NCCL's numbers for processors, of which a CPU's row has three: architecture, vendor, and, for Intel, one of four
generations (Broadwell, Skylake, Sapphire Rapids, Emerald Rapids), here the CPUID model with which NCCL begins each."""

_NO_NUMA_NODE = 2**32 - 1
"""-1 in hexadecimal is this or more: the machine has no NUMA nodes."""


class TreeParts:
    """One tree (of one host, or of all hosts of an NVLink domain) while its parts become devices."""

    def __init__(self, tree: SystemTree, parts: MachineParts) -> None:
        self._tree = tree
        self._parts = parts
        self._hosts = parts.hosts_of(tree)
        self._nodes = {node.name: node for node in tree.nodes}
        self._up = {link.dst: link.src for link in tree.links if link.kind == "PCI"}
        self._ports: dict[str, list[SystemLink]] = {}
        self._chips: dict[str, list[str]] = {}
        for link in tree.links:
            if link.kind == "NET":
                self._ports.setdefault(link.src, []).append(link)
            elif link.kind == "LOC" and self._nodes[link.src].kind == "DEV" and self._nodes[link.dst].kind == "GPU":
                self._chips.setdefault(link.src, []).append(link.dst)
        self._ids: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def added(self) -> dict[str, str]:
        """The id of each part by its name in the tree; parts that are one device share an id."""
        for node in self._tree.nodes:
            if node.kind == "CPU":
                self._ids[node.name] = self._add_cpu(node, self._hosts[node.system])
        for node in self._tree.nodes:
            host = self._hosts[node.system]
            if node.kind == "DEV":
                self._add_chip(node, host)
            elif node.kind == "GPU" and node.name not in self._ids and not self._on_chip(node.name):
                self._ids[node.name] = self._add_gpu(node, host)
            elif node.kind == "NIC":
                self._add_nic(node, host)
            elif node.kind == "PCI":
                self._ids[node.name] = self._part(node, host, "pcie_switch", "switch")
            elif node.kind == "NVS":
                name = self._parts.take(f"{self._parts.prefix(host) if len(self._hosts) == 1 else ''}NVS0")
                self._ids[node.name] = self._parts.add(Device(name, "nvswitch", "nvidia", host, label=name))
        return self._ids

    def _on_chip(self, name: str) -> bool:
        return any(name in gpus for gpus in self._chips.values())

    def _add_gpu(self, node: SystemNode, host: str | None) -> str:
        return self._parts.add_gpu(self._parts.rank_of(node, host), host, node.local_id)

    def _add_chip(self, node: SystemNode, host: str | None) -> None:
        """A physical GPU and the ranks on it: the first rank's device stands for both."""
        gpus = self._chips.get(node.name, [])
        for name in gpus:
            self._ids[name] = self._add_gpu(self._nodes[name], host)
        self._ids[node.name] = self._ids[gpus[0]] if gpus else self._parts.add_gpu(None, host, node.local_id)

    def _add_nic(self, node: SystemNode, host: str | None) -> None:
        """A card and its ports: one port alone is the card itself."""
        ports = self._ports.get(node.name, [])
        alone = len(ports) == 1
        if not alone:
            self._ids[node.name] = self._part(node, host, "nic_card", "card")
        for link in ports:
            name = self._add_port(self._nodes[link.dst], link, node if alone else None, host)
            self._ids[link.dst] = name
            if alone:
                self._ids[node.name] = name

    def _add_port(self, net: SystemNode, link: SystemLink, card: SystemNode | None, host: str | None) -> str:
        index = number_of(net.local_id)
        label = self._parts.nic_name(host, index)
        name = self._parts.take(f"{self._parts.prefix(host)}{label}")
        said = net.details
        rate = link.bandwidth_bytes_per_s
        if said and (exact := _real(said[-1])):
            rate = exact * 1e9
        facts = NicFacts(
            index=index,
            bandwidth_bytes_per_s=rate or None,
            port=int(said[-2]) if len(said) > 2 and said[-2].isdecimal() else None,
            guid=said[-3] if len(said) > 2 else None,
        )
        pci = None if card is None else PciFacts(bus_id=bus_id_of(card.local_id))
        return self._parts.add(Device(name, "nic", host=host, label=label, pci=pci, nic=facts))

    def _add_cpu(self, node: SystemNode, host: str | None) -> str:
        number = number_of(node.local_id)
        numa = None if number >= _NO_NUMA_NODE else number
        arch, vendor, generation = (*node.details, "", "", "")[:3]
        name = self._parts.take(f"{self._parts.prefix(host)}numa{0 if numa is None else numa}")
        vendor_name = _VENDORS.get((arch, vendor), _VENDOR_OF_ARCHITECTURE.get(arch))
        model = _INTEL_MODELS.get(generation) if vendor_name == "GenuineIntel" else None
        facts = CpuFacts(arch=_ARCHITECTURES.get(arch), family=None if model is None else 6, model=model)
        return self._parts.add(Device(name, "cpu", vendor_name, host, numa, cpu=facts))

    def _part(self, node: SystemNode, host: str | None, kind: DeviceKind, stem: str) -> str:
        """A part without a name of its own: it counts below its NUMA node."""
        below = next(
            (
                self._ids[name]
                for name in self._above(node.name)
                if self._nodes[name].kind == "CPU" and name in self._ids
            ),
            "",
        )
        place = f"{below}/{stem}" if below else f"{self._parts.prefix(host)}{stem}"
        number = self._counts.get(place, 0)
        self._counts[place] = number + 1
        is_bus_id = number_of(node.local_id) > 0xFFF  # a card that hangs on its CPU has a small number instead
        pci = PciFacts(bus_id=bus_id_of(node.local_id)) if is_bus_id else None
        return self._parts.add(Device(self._parts.take(f"{place}{number}"), kind, host=host, pci=pci))

    def _above(self, name: str) -> Iterator[str]:
        """The parts from one up to its CPU."""
        seen = set()
        while (upper := self._up.get(name)) is not None and upper not in seen:
            seen.add(upper)
            yield upper
            name = upper


def _real(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
