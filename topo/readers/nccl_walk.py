"""The walk over an NCCL topology file: elements become devices, and attributes and nesting become links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from topo import catalog
from topo.errors import CaptureError
from topo.finding import Finding, Quote, notes
from topo.readers import nccl_facts as facts
from topo.readers.nccl_names import Names
from topo.readers.xml_tree import Element
from topo.topology import Device, Link, LinkKind

LOCAL_BYTES_PER_S = 5000e9
"""What joins the parts of one chip or card never limits: NCCL's own figure for such links."""

NVSWITCH_ID = "NVS0"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the walk stands: the host (None on a single one) with its number, the NUMA node and its cpu device."""

    host: str | None
    host_number: int
    numa_node: int | None
    cpu_id: str


class Walk:
    """Collects devices and links in document order; NVLinks and what joins CPUs come after all nesting is known."""

    def __init__(self, names: Names, hosts: Mapping[str, int], source: str) -> None:
        self.names = names
        self.devices: list[Device] = []
        self.links: dict[tuple[str, str, LinkKind], Link] = {}
        self.findings: list[Finding] = []
        self._peers: dict[tuple[str, str, LinkKind], Element] = {}
        self._hosts = hosts
        self._source = source
        self._cpus: list[tuple[int, Device]] = []
        self._gpus: list[tuple[Element, str, Place]] = []
        self._device_at: dict[tuple[int, int | None], str] = {}
        self._pcilinks: list[tuple[Element, str, Place]] = []
        self._notes: dict[str, list[str]] = {}
        self._nvswitches: set[int | None] = set()

    def add_cpu(self, element: Element) -> None:
        """One NUMA node and everything below it."""
        number = self._hosts[element.attributes.get("host_hash", "")]
        numa_node = facts.optional_whole(element, "numaid", self._source)
        place = Place(
            host=f"host{number}" if len(self._hosts) > 1 else None,
            host_number=number,
            numa_node=None if numa_node is None or numa_node < 0 else numa_node,
            cpu_id=self.names.of[element],
        )
        device = Device(
            place.cpu_id,
            "cpu",
            vendor=element.attributes.get("vendor"),
            host=place.host,
            numa_node=place.numa_node,
            cpu=facts.cpu_facts(element, self._source),
        )
        self.devices.append(device)
        self._cpus.append((number, device))
        for child in element.children:
            if child.tag == "pci":
                self._add_pci(child, place.cpu_id, place)
            else:
                self._add_nic(child, None, place.cpu_id, place)

    def _add_pci(self, element: Element, parent_id: str, place: Place) -> None:
        """One PCI function: a GPU, a NIC, or a switch with what is below it."""
        device_class = element.attributes.get("class", "")
        inner = element.of("pci")
        if element.of("gpu"):
            below = self._add_gpus(element, parent_id, place)
        elif element.of("nic"):
            below = self._add_nic(element.of("nic")[0], element, parent_id, place)
        elif facts.is_gpu_class(device_class):
            below = self._add_bare_gpu(element, parent_id, place)
        elif device_class.startswith(facts.NIC_CLASS):
            below = self._device(Device(self.names.count("nic", place.cpu_id), "nic"), element, place)
            self._join_pcie(below, element, parent_id)
        elif device_class.startswith((facts.NVSWITCH_CLASS, facts.IBM_BRIDGE_CLASS)) and not inner:
            return
        else:
            below = self._device(Device(self.names.count("switch", place.cpu_id), "pcie_switch"), element, place)
            self._join_pcie(below, element, parent_id)
            self._pcilinks.extend((link, below, place) for link in element.of("pcilink"))
        for child in inner:
            self._add_pci(child, below, place)

    def _device(self, device: Device, pci: Element | None, place: Place) -> str:
        """Adds a device at a place, with the facts of its PCI function where it has one; returns its id."""
        device = replace(device, host=place.host, numa_node=place.numa_node)
        if pci is not None:
            said = facts.pci_facts(pci, self._source)
            vendor = device.vendor or facts.VENDORS.get((said.vendor_id or "").lower())
            device = replace(device, pci=said, vendor=vendor)
            self._device_at.setdefault((place.host_number, facts.bus_number(said.bus_id or "")), device.id)
        self.devices.append(device)
        return device.id

    def _add_gpus(self, pci: Element, parent_id: str, place: Place) -> str:
        """The rank or ranks of one physical GPU: the first owns its links, the others hang on the first."""
        bus_id = facts.bus_number(facts.pci_facts(pci, self._source).bus_id or "")
        other = self._device_at.get((place.host_number, bus_id))
        if other is not None:
            raise CaptureError(
                f"bus id {pci.attributes['busid']} is taken by {other}: give each GPU one <pci>",
                source=self._source,
                line=pci.line,
            )
        owner = ""
        for gpu in pci.of("gpu"):
            gpu_id = self._add_gpu(gpu, pci, place)
            if owner:
                self._join(gpu_id, owner, "local", LOCAL_BYTES_PER_S)
            else:
                owner = gpu_id
                self._join_pcie(owner, pci, parent_id)
            self._gpus.append((gpu, owner, place))
        return owner

    def _add_gpu(self, gpu: Element, pci: Element, place: Place) -> str:
        gpu_id = self.names.of.get(gpu)
        if gpu_id is None:
            gpu_id = self.names.take(f"GPU{gpu.attributes.get('dev', '')}")
            self._note("no rank, so they take no part", gpu_id)
        architecture = facts.amd_architecture(gpu)
        device = Device(
            gpu_id,
            "gpu",
            label=gpu_id,
            vendor="amd" if architecture else None,
            model=architecture,
            gpu=facts.gpu_facts(gpu, self._source),
        )
        return self._device(device, pci, place)

    def _add_bare_gpu(self, pci: Element, parent_id: str, place: Place) -> str:
        """A PCI function of a GPU's class without a <gpu>: one of unknown kind."""
        gpu_id = self.names.of.get(pci)
        if gpu_id is None:
            gpu_id = self.names.count("gpu", place.cpu_id)
            self._note("no <gpu> of their own, so they take no part", gpu_id)
        self._device(Device(gpu_id, "gpu", label=gpu_id), pci, place)
        self._join_pcie(gpu_id, pci, parent_id)
        return gpu_id

    def _add_nic(self, nic: Element, pci: Element | None, parent_id: str, place: Place) -> str:
        """The interfaces of one card: one alone is the card itself, several share a `nic_card`."""
        nets = [net for net in nic.of("net") if net.attributes.get("dev") and net.attributes.get("net") != "0"]
        alone = len(nets) == 1
        card_id = self.names.of[nets[0]] if alone else self.names.count("card", place.cpu_id)
        if not alone:
            self._device(Device(card_id, "nic_card"), pci, place)
        for net in nets:
            said = facts.nic_facts(net, self._source)
            label = net.attributes.get("name") if self.names.of[net] == net.attributes.get("name") else None
            device = Device(self.names.of[net], "nic", label=label or self.names.of[net], nic=said)
            self._device(device, pci if alone else None, place)
            if not alone:
                self._join(device.id, card_id, "local", LOCAL_BYTES_PER_S)
        if pci is None:
            self._join(card_id, parent_id, "pcie", LOCAL_BYTES_PER_S)
        else:
            self._join_pcie(card_id, pci, parent_id)
        return card_id

    def add_gpu_links(self) -> None:
        """NVLinks and xGMI of all GPUs, then C2C, then what joins PCIe switches: NCCL's order."""
        for gpu, gpu_id, place in self._gpus:
            for element in gpu.of("nvlink"):
                self._add_nvlink(element, gpu, gpu_id, place)
            for element in gpu.of("xgmi"):
                rate = catalog.xgmi_bytes_per_s(facts.amd_architecture(gpu))
                self._add_peer_link(element, "xgmi", gpu_id, rate, place)
        for gpu, gpu_id, place in self._gpus:
            for element in gpu.of("c2c"):
                self._add_c2c(element, gpu_id, place)
        for element, switch_id, place in self._pcilinks:
            peer = self._find(element, place)
            if peer is not None:
                self._link(switch_id, peer, "local", LOCAL_BYTES_PER_S, 1)
        self._note_one_way()

    def _add_nvlink(self, element: Element, gpu: Element, gpu_id: str, place: Place) -> None:
        """NVLinks to a peer (each side declares its own), or both ways to the switches or to the CPU."""
        target_class = element.attributes.get("tclass", "")
        rate = catalog.nvlink_bytes_per_s(facts.gpu_facts(gpu, self._source).compute_capability)
        lanes = self._count(element)
        if lanes == 0:
            return
        if target_class.startswith(facts.IBM_BRIDGE_CLASS):
            self._join(gpu_id, place.cpu_id, "nvlink", lanes * rate, lanes)
        elif facts.is_gpu_class(target_class):
            self._add_peer_link(element, "nvlink", gpu_id, rate, place)
        else:
            self._add_nvswitch(facts.bus_number(element.attributes.get("target", "")))
            self._join(gpu_id, NVSWITCH_ID, "nvlink", lanes * rate, lanes)

    def _add_peer_link(self, element: Element, kind: LinkKind, gpu_id: str, lane_rate: float, place: Place) -> None:
        peer, lanes = self._find(element, place), self._count(element)
        if peer is not None and lanes:
            self._link(gpu_id, peer, kind, lanes * lane_rate, lanes)
            self._peers[gpu_id, peer, kind] = element

    def _add_nvswitch(self, bus: int | None) -> None:
        """All NVSwitches are one device, as in NCCL: the links of a GPU are spread over them evenly."""
        if not self._nvswitches:
            self.devices.append(Device(self.names.take(NVSWITCH_ID), "nvswitch", vendor="nvidia", label=NVSWITCH_ID))
        self._nvswitches.add(bus)

    def _add_c2c(self, element: Element, gpu_id: str, place: Place) -> None:
        """NVLink-C2C to the CPU, both ways; the file gives MB/s per link."""
        rate = facts.optional_real(element, "bw", self._source)
        lanes = self._count(element)
        if rate and lanes:
            self._join(gpu_id, place.cpu_id, "c2c", rate * 1e6 * lanes, lanes)

    def _count(self, element: Element) -> int:
        count = facts.whole_number(element, "count", self._source)
        if count < 0:
            raise CaptureError(
                f'<{element.tag} count="{count}">: expected 0 or more links', source=self._source, line=element.line
            )
        return count

    def _find(self, element: Element, place: Place) -> str | None:
        """The device that `target` names on the same host; None, and a finding, where the file has none."""
        target = element.attributes.get("target", "")
        device_id = self._device_at.get((place.host_number, facts.bus_number(target)))
        if device_id is None:
            self._note(f"<{element.tag}> to it, but the file has no such device: left out", target or "no target")
        return device_id

    def join_cpus(self) -> None:
        """Every two NUMA nodes of a host are joined, at the rate of the sending side's processor."""
        for (host, left), (other_host, right) in combinations(self._cpus, 2):
            if host == other_host:
                for src, dst in ((left, right), (right, left)):
                    said = src.cpu
                    family, model = (said.family, said.model) if said else (None, None)
                    self._link(src.id, dst.id, "cpu", catalog.cpu_link_bytes_per_s(src.vendor, family, model), 1)

    def _note_one_way(self) -> None:
        for (src, dst, kind), link in self.links.items():
            back = self.links.get((dst, src, kind))
            if kind in ("nvlink", "xgmi") and (back is None or back.lanes != link.lanes):
                there, here = link.lanes, back.lanes if back else 0
                if there > here:
                    said = f"{src} declares {there} {kind} links to {dst}, which declares {here} back"
                    quotes = (self._quote(self._peers.get(ends)) for ends in ((src, dst, kind), (dst, src, kind)))
                    evidence = tuple(quote for quote in quotes if quote)
                    sentence = f"{said}: taken as they stand"
                    self.findings.append(Finding("nvlink-one-way", "finding", sentence, evidence, (src, dst)))

    def _quote(self, element: Element | None) -> Quote | None:
        """An element as evidence."""
        if element is None:
            return None
        words = "".join(f' {name}="{value}"' for name, value in element.attributes.items())
        return Quote(self._source, element.line, f"<{element.tag}{words}>")

    def all_findings(self) -> tuple[Finding, ...]:
        """What the file leaves open or contradicts, a sentence each; equal remarks share one sentence."""
        merged = [f"{_some(subjects)}: {remark}" for remark, subjects in self._notes.items()]
        return (*notes(merged), *self.findings)

    def _note(self, remark: str, subject: str) -> None:
        self._notes.setdefault(remark, []).append(subject)

    def _join_pcie(self, device_id: str, element: Element, parent_id: str) -> None:
        """The PCIe link from a device up to its parent and back, at the rate its speed and width give."""
        generation = facts.pcie_generation(element.attributes.get("link_speed"))
        width = facts.pcie_width(element.attributes.get("link_width"))
        if generation is None:
            self._note("no known PCIe speed: taken as 8 GT/s, as NCCL does", device_id)
        if width is None:
            self._note("no PCIe width: taken as x16, as NCCL does", device_id)
        lanes = width or facts.DEFAULT_WIDTH
        rate = catalog.pcie_bytes_per_s(generation or catalog.DEFAULT_PCIE_GENERATION, lanes)
        self._join(device_id, parent_id, "pcie", rate, lanes)

    def _join(self, src: str, dst: str, kind: LinkKind, bytes_per_s: float, lanes: int = 1) -> None:
        self._link(src, dst, kind, bytes_per_s, lanes)
        self._link(dst, src, kind, bytes_per_s, lanes)

    def _link(self, src: str, dst: str, kind: LinkKind, bytes_per_s: float, lanes: int) -> None:
        """One direction; what the file declares twice adds up, as in NCCL."""
        known = self.links.get((src, dst, kind))
        if known is not None:
            bytes_per_s, lanes = bytes_per_s + known.bandwidth_bytes_per_s, lanes + known.lanes
        self.links[src, dst, kind] = Link(src, dst, kind, bytes_per_s, lanes)


def _some(subjects: Sequence[str], limit: int = 4) -> str:
    """The first few, and how many more."""
    distinct = list(dict.fromkeys(subjects))
    more = f" and {len(distinct) - limit} more" if len(distinct) > limit else ""
    return ", ".join(distinct[:limit]) + more
