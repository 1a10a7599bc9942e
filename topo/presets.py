"""Well-known machines built from a few facts, in the order in which NCCL's topology file would list their parts.

A preset is what one would capture on the real box, so that a planner can build NCCL's system graph from it: PCIe
facts, compute capability, NIC ports, and each processor's family and model. Rates are nominal, from `topo.catalog`.
All NVSwitches are one device, as in NCCL: each GPU spreads its links over them evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from types import MappingProxyType

from topo import catalog
from topo.errors import NameChoiceError, TopologyError
from topo.synthetic import SHAPES, is_synthetic, synthetic
from topo.topology import CpuFacts, Device, GpuFacts, Link, LinkKind, NicFacts, PciFacts, Provenance, Topology

__all__ = ["PRESETS", "SHAPES", "Preset", "is_synthetic", "preset", "synthetic"]

NVSWITCH_ID = "NVS0"
_PCIE_WIDTH = 16
_LINK_SPEEDS = {3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe"}


@dataclass(frozen=True, slots=True)
class _Processor:
    """One NUMA node's processor as CPUID names it, and how many NUMA nodes its socket is divided into."""

    vendor: str
    family: int
    model: int
    nodes_per_socket: int = 1


@dataclass(frozen=True, slots=True)
class _Box:
    """One machine: every NUMA node has the same groups of GPUs and NICs; a group shares a PCIe switch, or none."""

    gpu_name: str
    gpu_device_id: str
    processor: _Processor
    num_numa_nodes: int
    groups_per_node: int
    gpus_per_group: int
    nics_per_group: int = 0
    nic_bytes_per_s: float = 0.0
    nic_device_id: str = ""
    has_pcie_switches: bool = True
    nvswitch_lanes: int = 0
    peer_lanes: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Preset:
    """A machine by name: one line that describes it, and how to build it."""

    name: str
    description: str
    build: Callable[[], Topology]


class _Assembly:
    """Collects one box's devices and links; NCCL walks them depth first, each link upwards before the link back."""

    def __init__(self, box: _Box) -> None:
        gpu = catalog.gpu_model(box.gpu_name)
        if gpu is None:
            raise TopologyError(f"the catalogue has no GPU {box.gpu_name!r}: add its row to topo/gpu_models.py")
        self.box = box
        self.gpu = gpu
        self.devices: list[Device] = []
        self.links: list[Link] = []
        self._num_functions = 0
        self._num_gpus = 0
        self._num_nics = 0

    def add_numa_node(self, node: int) -> None:
        """One processor with its groups below it."""
        box, cpu_id = self.box, f"numa{node}"
        facts = CpuFacts("x86_64", box.processor.family, box.processor.model)
        self.devices.append(Device(cpu_id, "cpu", box.processor.vendor, numa_node=node, cpu=facts))
        for group in range(box.groups_per_node):
            parent_id = cpu_id
            if box.has_pcie_switches:
                parent_id = f"{cpu_id}/switch{group}"
                self._attach(Device(parent_id, "pcie_switch", numa_node=node, pci=self._pci("0x060400")), cpu_id)
            for _ in range(box.gpus_per_group):
                self._add_gpu(node, parent_id)
            for _ in range(box.nics_per_group):
                self._add_nic(node, parent_id)

    def _add_gpu(self, node: int, parent_id: str) -> None:
        index = self._num_gpus
        self._num_gpus += 1
        name = f"GPU{index}"
        facts = GpuFacts(index, self.gpu.compute_capability, rank=index, gdr=True)
        pci = self._pci("0x030200", "0x10de", self.box.gpu_device_id)
        self._attach(
            Device(name, "gpu", "nvidia", numa_node=node, label=name, model=self.gpu.name, pci=pci, gpu=facts),
            parent_id,
        )

    def _add_nic(self, node: int, parent_id: str) -> None:
        index = self._num_nics
        self._num_nics += 1
        name = f"mlx5_{index}"
        facts = NicFacts(
            index=index,
            bandwidth_bytes_per_s=self.box.nic_bytes_per_s,
            latency_s=0.0,
            port=1,
            guid=f"0x{0x1000 + index:x}",
            max_connections=131072,
            gdr=True,
        )
        pci = self._pci("0x020700", "0x15b3", self.box.nic_device_id)
        self._attach(Device(name, "nic", "mellanox", numa_node=node, label=name, pci=pci, nic=facts), parent_id)

    def _pci(self, device_class: str, vendor_id: str | None = None, device_id: str | None = None) -> PciFacts:
        """The next PCI function in document order; every one runs at the GPU's generation and full width."""
        self._num_functions += 1
        return PciFacts(
            bus_id=f"0000:{self._num_functions:02x}:00.0",
            device_class=device_class,
            vendor_id=vendor_id,
            device_id=device_id or None,
            link_speed=_LINK_SPEEDS[self.gpu.pcie_generation],
            link_width=str(_PCIE_WIDTH),
        )

    def _attach(self, device: Device, parent_id: str) -> None:
        self.devices.append(device)
        rate = catalog.pcie_bytes_per_s(self.gpu.pcie_generation, _PCIE_WIDTH)
        self._join(device.id, parent_id, "pcie", rate, _PCIE_WIDTH)

    def add_nvlinks(self) -> None:
        """Each GPU's NVLinks in order: to the switches both ways, or to each peer, which declares its own back."""
        lane_rate = catalog.nvlink_bytes_per_s(self.gpu.compute_capability)
        if self.box.nvswitch_lanes:
            self.devices.append(Device(NVSWITCH_ID, "nvswitch", "nvidia", label=NVSWITCH_ID))
            for index in range(self._num_gpus):
                lanes = self.box.nvswitch_lanes
                self._join(f"GPU{index}", NVSWITCH_ID, "nvlink", lanes * lane_rate, lanes)
        both_ways = [*self.box.peer_lanes, *((high, low, lanes) for low, high, lanes in self.box.peer_lanes)]
        for src, dst, lanes in sorted(both_ways):
            self.links.append(Link(f"GPU{src}", f"GPU{dst}", "nvlink", lanes * lane_rate, lanes))

    def join_numa_nodes(self) -> None:
        """Every two processors; then each one's share of its socket's memory."""
        cpu = self.box.processor
        cpu_rate = catalog.cpu_link_bytes_per_s(cpu.vendor, cpu.family, cpu.model)
        for left, right in combinations(range(self.box.num_numa_nodes), 2):
            self._join(f"numa{left}", f"numa{right}", "cpu", cpu_rate)
        memory_rate = catalog.cpu_memory_bytes_per_s(cpu.vendor, cpu.family, cpu.model) / cpu.nodes_per_socket
        for node in range(self.box.num_numa_nodes):
            self.devices.append(Device(f"numa{node}/memory", "host_memory", numa_node=node))
            self._join(f"numa{node}/memory", f"numa{node}", "local", memory_rate)

    def _join(self, src: str, dst: str, kind: LinkKind, bytes_per_s: float, lanes: int = 1) -> None:
        self.links.append(Link(src, dst, kind, bytes_per_s, lanes))
        self.links.append(Link(dst, src, kind, bytes_per_s, lanes))


def _build(name: str, box: _Box) -> Topology:
    assembly = _Assembly(box)
    for node in range(box.num_numa_nodes):
        assembly.add_numa_node(node)
    assembly.add_nvlinks()
    assembly.join_numa_nodes()
    gpu_ids = tuple(device.id for device in assembly.devices if device.kind == "gpu")
    return Topology(
        tuple(assembly.devices), tuple(assembly.links), gpu_ids, name=name, provenance=(Provenance("preset", name),)
    )


# (GPU, GPU, NVLinks): each quad of a DGX-1 is fully joined, and each GPU has one partner in the other quad.
_HYBRID_CUBE_MESH = (
    *((0, 1, 1), (0, 2, 1), (0, 3, 2), (1, 2, 2), (1, 3, 1), (2, 3, 2)),
    *((4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2)),
    *((0, 4, 2), (1, 5, 2), (2, 6, 1), (3, 7, 1)),
)

_BROADWELL = _Processor("GenuineIntel", 6, 79)
_SAPPHIRE_RAPIDS = _Processor("GenuineIntel", 6, 143)
_EMERALD_RAPIDS = _Processor("GenuineIntel", 6, 207)
_ROME_NPS2 = _Processor("AuthenticAMD", 23, 49, nodes_per_socket=2)
_MILAN = _Processor("AuthenticAMD", 25, 1)

_DGX1_V100 = _Box(
    *("Tesla V100-SXM2-16GB", "0x1db1", _BROADWELL),
    num_numa_nodes=2,
    groups_per_node=2,
    gpus_per_group=2,
    nics_per_group=1,
    nic_bytes_per_s=12.5e9,
    nic_device_id="0x1013",
    peer_lanes=_HYBRID_CUBE_MESH,
)
_DGX_A100 = _Box(
    *("NVIDIA A100-SXM4-80GB", "0x20b2", _ROME_NPS2),
    num_numa_nodes=4,
    groups_per_node=1,
    gpus_per_group=2,
    nics_per_group=2,
    nic_bytes_per_s=25e9,
    nic_device_id="0x101b",
    nvswitch_lanes=12,
)
_DGX_H100 = _Box(
    *("NVIDIA H100 80GB HBM3", "0x2330", _SAPPHIRE_RAPIDS),
    num_numa_nodes=2,
    groups_per_node=4,
    gpus_per_group=1,
    nics_per_group=1,
    nic_bytes_per_s=50e9,
    nic_device_id="0x1021",
    nvswitch_lanes=18,
)
_DGX_B200 = _Box(
    *("NVIDIA B200", "0x2901", _EMERALD_RAPIDS),
    num_numa_nodes=2,
    groups_per_node=4,
    gpus_per_group=1,
    nics_per_group=1,
    nic_bytes_per_s=50e9,
    nic_device_id="0x1021",
    nvswitch_lanes=18,
)
_PCIE_4GPU = _Box(
    *("NVIDIA RTX A6000", "0x2230", _MILAN),
    num_numa_nodes=2,
    groups_per_node=1,
    gpus_per_group=2,
    has_pcie_switches=False,
)
_PCIE_8GPU = _Box(
    *("NVIDIA L40S", "0x26b9", _MILAN),
    num_numa_nodes=2,
    groups_per_node=2,
    gpus_per_group=2,
    nics_per_group=1,
    nic_bytes_per_s=12.5e9,
    nic_device_id="0x101d",
)

_BOXES: tuple[tuple[str, str, _Box], ...] = (
    ("dgx1-v100", "8 V100, NVLink 2 hybrid cube mesh, 4 NICs of 100 Gb/s, two Broadwell sockets", _DGX1_V100),
    ("dgx-a100", "8 A100, 12 NVLinks each to NVSwitch, 8 NICs of 200 Gb/s, two Rome sockets", _DGX_A100),
    ("dgx-h100", "8 H100, 18 NVLinks each to NVSwitch, 8 NICs of 400 Gb/s, two Sapphire Rapids sockets", _DGX_H100),
    ("dgx-b200", "8 B200, 18 NVLinks each to NVSwitch, 8 NICs of 400 Gb/s, two Emerald Rapids sockets", _DGX_B200),
    ("pcie-4gpu", "4 RTX A6000 on PCIe Gen4, two on each of two Milan sockets, no switch, no NIC", _PCIE_4GPU),
    (
        "pcie-8gpu",
        "8 L40S on PCIe Gen4, two per switch, two switches and 2 NICs of 100 Gb/s per Milan socket",
        _PCIE_8GPU,
    ),
)

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {name: Preset(name, description, partial(_build, name, box)) for name, description, box in _BOXES}
)
"""All machines by name."""


def preset(name: str) -> Topology:
    """The machine of that name; NameChoiceError with the nearest one where there is none."""
    if name not in PRESETS:
        raise NameChoiceError("preset", name, PRESETS)
    return PRESETS[name].build()
