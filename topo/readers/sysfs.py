"""What Linux says of a machine without GPUs (captured /sys and /proc files) as a topology of CPU processes.

Ranks are processes, one per core that may be used. Processes of one machine exchange messages over loopback, so each
is joined to its NUMA node at loopback's rate, which is assumed (`catalog.LOOPBACK_BYTES_PER_S`) and said to be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from topo import catalog, jsonio
from topo.errors import CaptureError, UnitError
from topo.finding import notes
from topo.topology import CpuFacts, Device, Link, LinkKind, NicFacts, PciFacts, Provenance, Topology
from topo.words import counted

FORMAT = "Linux /sys"
SCHEMA = "sysfs/1"
LOOPBACK = "lo"

GPU_VENDORS = {"0x10de": "nvidia", "0x1002": "amd"}

_CLAIM = re.compile(r'"schema"\s*:\s*"sysfs/')
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Captured text, not yet understood.

    `files` maps paths below / to contents, `links` symbolic links to what they point to; `affinity` lists the CPUs
    that processes may use.
    """

    files: dict[str, str]
    links: dict[str, str]
    affinity: tuple[int, ...]
    architecture: str


def sniff(text: str) -> bool:
    """Whether the text is a JSON object that claims to be a snapshot of /sys."""
    return text.lstrip("\ufeff \t\r\n").startswith("{") and _CLAIM.search(text) is not None


def read(text: str, source: str = "") -> Topology:
    """The topology of a snapshot (schema `sysfs/1`): NUMA nodes, NICs, and one process per usable core as ranks.

    `complete` is False where the machine has GPUs, since /sys does not tell how they are joined. CaptureError where
    the snapshot is malformed or names no usable core.
    """
    machine = _Machine(snapshot(text, source), source)
    if not machine.snapshot.affinity:
        raise CaptureError("$.affinity names no usable CPU: capture it again", source=source)
    machine.add_numa_nodes()
    machine.add_processes()
    machine.add_nics()
    gpus = machine.pci_gpus()
    if gpus:
        machine.findings.append(
            f"/sys shows {counted(len(gpus), 'GPU')} ({', '.join(gpus)}) but not how they are joined: "
            "run nvidia-smi topo -m"
        )
    return Topology(
        devices=tuple(machine.devices),
        links=tuple(machine.links),
        gpu_ids=tuple(device.id for device in machine.devices if device.kind == "process"),
        provenance=(Provenance(FORMAT, source),),
        complete=not gpus,
        findings=notes(machine.findings),
    )


def snapshot(text: str, source: str = "") -> Snapshot:
    """The files and links of a snapshot as they were captured; CaptureError where it is malformed."""
    return jsonio.decode(text, Snapshot, SCHEMA, source)


def parse_cpu_list(text: str, source: str = "") -> tuple[int, ...]:
    """The CPU numbers of a list as Linux writes it: "0-3,8" gives (0, 1, 2, 3, 8), an empty text ()."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None:
            raise CaptureError(f"{part!r} is no list of CPUs, expected such as 0-3,8", source=source)
        numbers.extend(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(numbers)


@dataclass(slots=True)
class _Machine:
    """What has been understood so far."""

    snapshot: Snapshot
    source: str
    devices: list[Device] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    cpu_of_node: dict[int, str] = field(default_factory=dict)
    node_of_core: dict[int, int] = field(default_factory=dict)

    def add_numa_nodes(self) -> None:
        """One cpu device per NUMA node that has cores; every two are joined."""
        lists = self._node_lists()
        if not lists:
            lists = {0: ",".join(map(str, self.snapshot.affinity))}
            self.findings.append("the kernel shows no NUMA nodes: one is assumed")
        said = _cpuinfo(self.snapshot.files.get("proc/cpuinfo", ""))
        vendor = said.get("vendor_id") or ("ARM" if self.snapshot.architecture in ("aarch64", "arm64") else None)
        family, model = _whole(said.get("cpu family")), _whole(said.get("model"))
        for node, cores in sorted(lists.items()):
            self.cpu_of_node[node] = f"numa{node}"
            self.node_of_core.update(dict.fromkeys(parse_cpu_list(cores, self.source), node))
            facts = CpuFacts(self.snapshot.architecture, family, model, cores)
            device = Device(f"numa{node}", "cpu", vendor, numa_node=node, model=said.get("model name"), cpu=facts)
            self.devices.append(device)
        for left, right in combinations(self.cpu_of_node.values(), 2):
            self._join(left, right, "cpu", catalog.cpu_link_bytes_per_s(vendor, family, model))

    def add_processes(self) -> None:
        """One rank per usable core, joined to its NUMA node at the rate of the loopback device, which is shown, too."""
        rate = catalog.LOOPBACK_BYTES_PER_S
        first = next(iter(self.cpu_of_node.values()))
        for rank, core in enumerate(self.snapshot.affinity):
            node = self.node_of_core.get(core)
            process = Device(f"P{rank}", "process", numa_node=node, label=f"P{rank}")
            self.devices.append(process)
            self._join(process.id, first if node is None else self.cpu_of_node[node], "local", rate)
        self.devices.append(Device(LOOPBACK, "nic", label=LOOPBACK))
        self._join(LOOPBACK, first, "local", rate)
        self.findings.append(
            f"processes are assumed to exchange {rate / 1e9:g} GB/s each over loopback: measure and calibrate"
        )

    def add_nics(self) -> None:
        """Every NIC with a device behind it; a port of InfiniBand or RoCE stands for its network interface."""
        addresses: set[str] = set()
        for name, address in self._class_devices("infiniband"):
            addresses.add(address)
            rate = _ib_rate(self.snapshot.files.get(f"sys/class/infiniband/{name}/ports/1/rate", ""))
            self._add_nic(name, address, rate)
        for name, address in self._class_devices("net"):
            if address not in addresses:
                mbit_per_s = _whole(self.snapshot.files.get(f"sys/class/net/{name}/speed"))
                self._add_nic(name, address, mbit_per_s * 1e6 / 8 if mbit_per_s and mbit_per_s > 0 else None)

    def pci_gpus(self) -> list[str]:
        """The PCI addresses of GPUs: display controllers and accelerators of a vendor that makes them."""
        files = self.snapshot.files
        found = []
        for path, content in files.items():
            match = re.fullmatch(r"sys/bus/pci/devices/([^/]+)/class", path)
            vendor = files.get(path.removesuffix("class") + "vendor", "")
            if match and content.startswith(("0x03", "0x12")) and vendor in GPU_VENDORS:
                found.append(match[1])
        return sorted(found)

    def _add_nic(self, name: str, address: str, bytes_per_s: float | None) -> None:
        said = {
            key: self.snapshot.files.get(f"sys/bus/pci/devices/{address}/{key}")
            for key in ("class", "vendor", "device", "numa_node", "current_link_speed", "current_link_width")
        }
        node = _whole(said["numa_node"])
        parent = self.cpu_of_node.get(-1 if node is None else node) or next(iter(self.cpu_of_node.values()))
        facts = PciFacts(
            address,
            said["class"],
            said["vendor"],
            said["device"],
            link_speed=said["current_link_speed"],
            link_width=said["current_link_width"],
        )
        nic = NicFacts(bandwidth_bytes_per_s=bytes_per_s)
        known_node = node if node in self.cpu_of_node else None
        self.devices.append(Device(name, "nic", numa_node=known_node, label=name, pci=facts, nic=nic))
        rate, lanes = self._pcie(name, facts)
        self._join(name, parent, "pcie", rate, lanes)
        if bytes_per_s is None:
            self.findings.append(f"{name} states no speed")

    def _pcie(self, name: str, facts: PciFacts) -> tuple[float, int]:
        """Rate and lanes of a NIC's PCIe link; 8 GT/s x16, and a finding, where it states none (virtual machines)."""
        width = _whole(facts.link_width)
        try:
            generation = catalog.pcie_generation(facts.link_speed or "")
        except UnitError:
            generation = catalog.DEFAULT_PCIE_GENERATION
            self.findings.append(f"{name} states no PCIe speed, taken as 8 GT/s x16 as NCCL does")
            width = None
        lanes = width if width and 1 <= width <= 32 else 16
        return catalog.pcie_bytes_per_s(generation, lanes), lanes

    def _node_lists(self) -> dict[int, str]:
        """The cores of each NUMA node that has any, as written."""
        lists = {}
        for path, content in self.snapshot.files.items():
            match = re.fullmatch(r"sys/devices/system/node/node(\d+)/cpulist", path)
            if match and content:
                lists[int(match[1])] = content
        return lists

    def _class_devices(self, class_name: str) -> list[tuple[str, str]]:
        """The devices of a class that sit on PCI, with the address of the function nearest to them."""
        found = []
        for path, target in sorted(self.snapshot.links.items()):
            match = re.fullmatch(rf"sys/class/{class_name}/([^/]+)", path)
            addresses = _PCI_ADDRESS.findall(target)
            if match and addresses:
                found.append((match[1], addresses[-1]))
        return found

    def _join(self, src: str, dst: str, kind: LinkKind, bytes_per_s: float, lanes: int = 1) -> None:
        self.links.append(Link(src, dst, kind, bytes_per_s, lanes))
        self.links.append(Link(dst, src, kind, bytes_per_s, lanes))


def _cpuinfo(text: str) -> Mapping[str, str]:
    """The first processor's lines of /proc/cpuinfo."""
    pairs = (line.partition(":") for line in text.split("\n\n", maxsplit=1)[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _whole(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"-?\d{1,9}", text.strip()) else None


def _ib_rate(text: str) -> float | None:
    """Bytes per second of a port's rate as Linux writes it: "400 Gb/sec (4X NDR)"."""
    match = re.match(r"(\d+(?:\.\d+)?) Gb/sec", text)
    return float(match[1]) * 1e9 / 8 if match and float(match[1]) > 0 else None


def render(files: Mapping[str, str], links: Mapping[str, str], affinity: Sequence[int], architecture: str) -> str:
    """The snapshot as its JSON document: what a capture stores and `read` takes."""
    return jsonio.encode(Snapshot(dict(files), dict(links), tuple(affinity), architecture), SCHEMA)
