"""hwloc's objects -> Topology: NUMA nodes, PCIe bridges and switches, GPUs and NICs; NVLinks are not hwloc's to show.

A PCIe switch is two levels of bridges, its upstream port and one downstream port per device: hwloc shows each port. So
of the bridges below a host bridge the first, third, ... are ports that only lead on, the second, fourth, ... switches.
A port under which several functions stand is one as well: they share its link.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from topo import catalog
from topo.finding import notes
from topo.readers.hwloc_objects import VENDORS, HwlocFacts, HwlocObject
from topo.topology import CpuFacts, Device, GpuFacts, Link, LinkKind, NicFacts, PciFacts, Provenance, Topology

WIDTHS = (16, 8, 4, 2, 1)
_SPEEDS = {
    1: "2.5 GT/s PCIe",
    2: "5.0 GT/s PCIe",
    3: "8.0 GT/s PCIe",
    4: "16.0 GT/s PCIe",
    5: "32.0 GT/s PCIe",
    6: "64.0 GT/s PCIe",
}
"""PCIe generations in Linux' words."""

_NO_MAIN_MEMORY = ("GPUMemory", "HBM", "MCDRAM", "CXL", "NVM", "DAX", "SPM")
"""Kinds of NUMA nodes that are memory beside that of a processor."""


def to_topology(facts: HwlocFacts) -> Topology:
    """The topology of a machine as hwloc sees it, `complete` only where it has no GPUs, whose NVLinks are not shown.

    Ids are `numa0` (the operating system's number), `numa0/bridge0`, the PCI address of a switch, `GPU0` (in NVML's
    order, which is that of PCI addresses), and what Linux calls a NIC.
    """
    return _Machine(facts).topology()


class _Machine:
    """Builds devices and links in order; each method adds one kind of thing."""

    def __init__(self, facts: HwlocFacts) -> None:
        self._facts = facts
        self._parent = {child: parent for parent in facts.machine.walk() for child in parent.children}
        functions = [found for found in facts.machine.walk() if found.kind == "pci"]
        self._gpus = _in_order([found for found in functions if found.is_gpu])
        self._labels = {gpu: f"GPU{rank}" for rank, gpu in enumerate(self._gpus)}
        for nic in (found for found in functions if found.is_nic and found not in self._labels):
            self._labels[nic] = self._nic_label(nic)
        self._strangers = [
            found for found in functions if found.is_display and found.vendor_id is None and found not in self._labels
        ]
        self._ends: list[Device] = []
        self._parts: list[Device] = []
        self._links: list[Link] = []
        self._of_unknown_rate: list[str] = []
        self._loose: list[str] = []
        self._nodes = self._numa_nodes()

    def topology(self) -> Topology:
        """All devices and links, with what is left open."""
        self._add_nodes()
        for one, other in combinations(dict.fromkeys(self._nodes.values()), 2):
            self._join(one, other, "cpu", catalog.cpu_link_bytes_per_s(*self._processor(next(iter(self._nodes)))))
        numbers: dict[str, int] = {}
        for root in self._roots():
            node_id = self._node_of(root)
            numbers[node_id] = numbers.get(node_id, -1) + 1
            self._add_root(root, node_id, f"{node_id}/bridge{numbers[node_id]}")
        order = {label: place for place, label in enumerate(self._labels.values())}
        return Topology(
            devices=(*sorted(self._ends, key=lambda device: order[device.id]), *self._parts),
            links=tuple(self._links),
            gpu_ids=tuple(self._labels[gpu] for gpu in self._gpus),
            provenance=(Provenance(self._facts.form, self._facts.source),),
            complete=not self._gpus and not self._strangers,
            findings=notes(self._findings()),
        )

    # --- NUMA nodes ---

    def _numa_nodes(self) -> dict[HwlocObject, str]:
        """The id of each NUMA node that is a processor's memory; the machine itself where it shows none."""
        found = [node for node in self._facts.machine.walk() if node.kind == "numa"]
        main = [node for node in found if not node.subtype.startswith(_NO_MAIN_MEMORY)]
        if not main:
            return {self._facts.machine: "numa0"}
        return {node: f"numa{place if node.number is None else node.number}" for place, node in enumerate(main)}

    def _add_nodes(self) -> None:
        for node, node_id in self._nodes.items():
            vendor, family, model = self._processor(node)
            said = self._said_above(node)
            facts = CpuFacts(said.get("Architecture"), family, model, node.cpuset)
            number = node.number if node.kind == "numa" else None
            self._parts.append(Device(node_id, "cpu", vendor, numa_node=number, model=said.get("CPUModel"), cpu=facts))

    def _processor(self, node: HwlocObject) -> tuple[str | None, int | None, int | None]:
        """Vendor, family and model of the processor that a node belongs to, as far as hwloc tells them."""
        said = self._said_above(node)
        model = said.get("CPUModel", "")
        vendor = said.get("CPUVendor") or ("IBM" if model.startswith("POWER") else None)
        if vendor is None and (said.get("CPUImplementer") or said.get("Architecture") in ("aarch64", "arm64")):
            vendor = "ARM"
        numbers = [said.get(name, "") for name in ("CPUFamilyNumber", "CPUModelNumber")]
        family, number = (int(digits) if digits.isdecimal() and len(digits) < 6 else None for digits in numbers)
        return vendor, family, number

    def _said_above(self, found: HwlocObject) -> dict[str, str]:
        """What is said of an object, of all that contain it, and of packages in it; the nearest word counts."""
        chain = [found, *self._above(found)]
        below = [package for package in found.walk() if package.kind == "package"][:1]
        return {key: words for one in (*reversed(chain), *below) for key, words in one.said.items()}

    def _above(self, found: HwlocObject) -> Iterator[HwlocObject]:
        while (parent := self._parent.get(found)) is not None:
            yield parent
            found = parent

    def _node_of(self, root: HwlocObject) -> str:
        """The NUMA node that a host bridge belongs to: the nearest above it, else the first of those beside it."""
        chain = [root, *self._above(root)]
        for above in chain:
            near = [above, *above.children, *(inner for child in above.children for inner in _cached(child))]
            node = next((node for node in near if node in self._nodes), None)
            if node is not None:
                return self._nodes[node]
        for above in chain:
            below = [node for node in above.walk() if node in self._nodes]
            if below:
                if len(below) > 1:
                    self._loose.append(f"{self._nodes[below[0]]}: {', '.join(self._labels_below(root))}")
                return self._nodes[below[0]]
        return next(iter(self._nodes.values()))

    # --- PCIe ---

    def _roots(self) -> list[HwlocObject]:
        """The host bridges above GPUs and NICs, and what else holds such directly (where bridges were left out)."""
        bridges = ("pci_bridge", "pci", "os")
        return [
            found
            for found in self._facts.machine.walk()
            if found.kind not in bridges
            and any(child.kind in bridges and self._labels_below(child) for child in found.children)
        ]

    def _add_root(self, root: HwlocObject, node_id: str, bridge_id: str) -> None:
        """A host bridge, whose way to its NUMA node carries what all its ports can send."""
        self._parts.append(Device(bridge_id, "host_bridge", numa_node=self._number_of(node_id)))
        place = len(self._links)
        self._add_below(root, bridge_id, node_id, is_port=True)
        ports = [link for link in self._links[place:] if link.dst == bridge_id]
        rate, lanes = sum(link.bandwidth_bytes_per_s for link in ports), sum(link.lanes for link in ports)
        self._join(bridge_id, node_id, "pcie", rate, lanes)

    def _number_of(self, node_id: str) -> int | None:
        return next(node.number for node, known in self._nodes.items() if known == node_id)

    def _add_below(self, parent: HwlocObject, above: str, node_id: str, *, is_port: bool) -> None:
        """All that hangs below a bridge; `is_port` says that bridges found there only lead on to one place."""
        for child in parent.children:
            if child in self._labels:
                self._add_end(child, above, self._number_of(node_id))
            elif child.kind == "pci_bridge" and self._labels_below(child):
                shares = sum(bool(self._labels_below(found)) for found in child.children) > 1
                if is_port and not shares:
                    self._add_below(child, above, node_id, is_port=False)
                else:
                    switch_id = self._add_switch(child, above, node_id)
                    self._add_below(child, switch_id, node_id, is_port=not is_port)

    def _add_switch(self, bridge: HwlocObject, above: str, node_id: str) -> str:
        count = sum(device.kind == "pcie_switch" for device in self._parts)
        switch_id = bridge.address or f"{node_id}/switch{count}"
        pci = _pci_facts(bridge)
        self._parts.append(Device(switch_id, "pcie_switch", numa_node=self._number_of(node_id), pci=pci))
        self._plug(bridge, switch_id, above)
        return switch_id

    def _labels_below(self, found: HwlocObject) -> list[str]:
        return [self._labels[inner] for inner in found.walk() if inner in self._labels]

    def _plug(self, found: HwlocObject, device_id: str, above: str) -> None:
        """The link of a function or a switch upwards, at the rate that hwloc states."""
        rate = found.bytes_per_s
        if rate is None:
            self._of_unknown_rate.append(device_id)
            rate = catalog.pcie_bytes_per_s(catalog.DEFAULT_PCIE_GENERATION, WIDTHS[0])
        self._join(device_id, above, "pcie", rate, _widest(rate)[1])

    def _add_end(self, found: HwlocObject, above: str, numa_node: int | None) -> None:
        label = self._labels[found]
        pci, vendor = _pci_facts(found), VENDORS.get(found.vendor_id or "")
        if found in self._gpus:
            model = _model(found)
            known = catalog.gpu_model(model) if model else None
            gpu = GpuFacts(
                index=self._gpus.index(found), compute_capability=known.compute_capability if known else None
            )
            self._ends.append(
                Device(label, "gpu", vendor or found.driver_vendor, None, numa_node, label, model, pci=pci, gpu=gpu)
            )
        else:
            self._ends.append(Device(label, "nic", vendor, None, numa_node, label, pci=pci, nic=NicFacts()))
        self._plug(found, label, above)

    def _nic_label(self, nic: HwlocObject) -> str:
        """What RDMA calls a NIC, else what the network does, else its address; told apart where two are the same."""
        names = [row.name for kind in ("openfabrics", "network") for row in nic.software if row.subtype == kind]
        stem = next(iter(filter(None, names)), nic.address or f"nic@{nic.line}")
        return f"{stem}@{nic.line}" if stem in self._labels.values() else stem

    def _join(self, one: str, other: str, kind: LinkKind, bytes_per_s: float, lanes: int = 1) -> None:
        self._links.append(Link(one, other, kind, bytes_per_s, lanes))
        self._links.append(Link(other, one, kind, bytes_per_s, lanes))

    # --- findings ---

    def _findings(self) -> list[str]:
        found: list[str] = []
        if self._gpus:
            found.append("hwloc does not show NVLinks or XGMI: give nvidia-smi topo -m as well")
        if self._strangers:
            named = ", ".join(row.address or f"line {row.line}" for row in self._strangers)
            found.append(f"functions of a display's class at {named} name no vendor of GPUs: not taken for GPUs")
        beside = [row for row in self._facts.machine.walk() if row.kind == "numa" and row not in self._nodes]
        if beside:
            named = ", ".join(f"{row.number} ({row.subtype})" for row in beside)
            found.append(f"NUMA nodes {named} are memory without processors: left out")
        found += [f"to which NUMA node a host bridge belongs is not shown, taken for {words}" for words in self._loose]
        if self._of_unknown_rate:
            named = ", ".join(self._of_unknown_rate)
            found.append(f"PCIe rates of {named} are not shown: 8 GT/s x{WIDTHS[0]} is assumed, as NCCL does")
        if len(self._of_unknown_rate) < len(self._ends):
            found.append("hwloc states PCIe bandwidths, not widths: the widest link of that bandwidth is assumed")
        if self._nodes.keys() == {self._facts.machine}:
            found.append("hwloc shows no NUMA nodes: one is assumed")
        if len(self._nodes) > 1:
            found.append("rates between NUMA nodes are the catalog's for the processor")
        return found


def _widest(bytes_per_s: float) -> tuple[int | None, int]:
    """Generation and lanes of the widest link of this bandwidth (31.5e9: 4 x16, before 5 x8); None and 1 if none."""
    found = ((catalog.pcie_generation_of(bytes_per_s, width), width) for width in WIDTHS)
    return next(((generation, width) for generation, width in found if generation), (None, 1))


def _pci_facts(found: HwlocObject) -> PciFacts:
    """What a PCI function says of itself, in Linux' words; of its link, the widest that has the bandwidth."""
    generation, width = (None, 1) if found.bytes_per_s is None else _widest(found.bytes_per_s)
    is_code = len(found.class_code) == 4 and found.class_code.isalnum() and found.class_code[0].isdigit()
    return PciFacts(
        found.address,
        f"0x{found.class_code}00" if is_code else None,
        f"0x{found.vendor_id}" if found.vendor_id else None,
        f"0x{found.device_id}" if found.device_id else None,
        link_speed=_SPEEDS[generation] if generation else None,
        link_width=str(width) if generation else None,
    )


def _cached(found: HwlocObject) -> Iterable[HwlocObject]:
    """The NUMA nodes below a memory-side cache, which hwloc puts between a processor and its memory."""
    return found.children if found.kind == "other" and all(child.kind == "numa" for child in found.children) else ()


def _in_order(gpus: Sequence[HwlocObject]) -> list[HwlocObject]:
    """GPUs as NVML or ROCm number them, where all are numbered, else by PCI address."""
    for software in ("nvml", "rsmi"):
        numbers = {gpu: gpu.index_by(software) for gpu in gpus}
        if None not in numbers.values() and len(set(numbers.values())) == len(gpus):
            return sorted(gpus, key=lambda gpu: numbers[gpu] or 0)
    return sorted(gpus, key=lambda gpu: (gpu.address is None, gpu.address or ""))


def _model(gpu: HwlocObject) -> str | None:
    """The product's name: as the driver says it, else as the PCI database does."""
    spoken = [row.said["GPUModel"] for row in gpu.software if row.said.get("GPUModel")]
    return next(iter(spoken), gpu.said.get("PCIDevice") or gpu.name or None)
