"""A `Machine` becomes a topology, in the order in which NCCL's topology file would list its parts.

NCCL walks them depth first, each link upwards before the link back; NVLinks, what joins GPUs to their CPU, and what
joins CPUs follow. All NVSwitches are one device, as in NCCL: each GPU spreads its links over them evenly.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from topo import catalog
from topo.errors import TopologyError
from topo.machines.machine import Machine
from topo.machines.parts import NicPart, Port
from topo.topology import CpuFacts, Device, GpuFacts, Link, LinkKind, NicFacts, PciFacts, Provenance, Topology

NVSWITCH_ID = "NVS0"

_HOST_HASH = 0x100
_GUIDS_PER_HOST = 0x10


def build(name: str, machine: Machine) -> Topology:
    """The machine as a topology of that name; rates are nominal, from `topo.catalog`."""
    assembly = _Assembly(machine)
    for host in range(machine.num_hosts):
        _Host(assembly, host).add_numa_nodes()
    assembly.add_gpu_links()
    assembly.join_numa_nodes()
    return Topology(
        tuple(assembly.devices),
        tuple(assembly.links),
        tuple(device.id for device in assembly.devices if device.kind == "gpu"),
        name=name,
        provenance=(Provenance("preset", name),),
    )


class _Assembly:
    """Collects devices and links of all hosts."""

    def __init__(self, machine: Machine) -> None:
        gpu = catalog.gpu_model(machine.gpu.name)
        if gpu is None:
            raise TopologyError(f"the catalogue has no GPU {machine.gpu.name!r}: add its row to topo/gpu_models.py")
        self.machine = machine
        self.gpu = gpu
        self.devices: list[Device] = []
        self.links: list[Link] = []
        self.cpu_of_gpu: dict[str, str] = {}
        self.num_ranks = 0
        self.num_nics = 0

    def add_gpu_links(self) -> None:
        """NVLinks of every GPU in order, to the switches both ways or to each peer; then its C2C to the CPU."""
        lane_rate = catalog.nvlink_bytes_per_s(self.gpu.compute_capability)
        lanes = self.machine.nvswitch_lanes
        if lanes:
            self.devices.append(Device(NVSWITCH_ID, "nvswitch", "nvidia", label=NVSWITCH_ID))
            for gpu_id in self.cpu_of_gpu:
                self.join(gpu_id, NVSWITCH_ID, "nvlink", lanes * lane_rate, lanes)
        both_ways = [*self.machine.peer_lanes, *((high, low, count) for low, high, count in self.machine.peer_lanes)]
        for src, dst, count in sorted(both_ways):
            self.links.append(Link(f"GPU{src}", f"GPU{dst}", "nvlink", count * lane_rate, count))
        if self.machine.c2c:
            mb_per_s, count = self.machine.c2c
            for gpu_id, cpu_id in self.cpu_of_gpu.items():
                self.join(gpu_id, cpu_id, "c2c", mb_per_s * 1e6 * count, count)

    def join_numa_nodes(self) -> None:
        """Every two processors of a host; then each one's share of its socket's memory."""
        cpu = self.machine.processor
        cpu_rate = catalog.cpu_link_bytes_per_s(cpu.vendor, cpu.family, cpu.model)
        cpus = [device for device in self.devices if device.kind == "cpu"]
        for left, right in combinations(cpus, 2):
            if left.host == right.host:
                self.join(left.id, right.id, "cpu", cpu_rate)
        memory_rate = catalog.cpu_memory_bytes_per_s(cpu.vendor, cpu.family, cpu.model) / cpu.nodes_per_socket
        for node in cpus:
            self.devices.append(Device(f"{node.id}/memory", "host_memory", host=node.host, numa_node=node.numa_node))
            self.join(f"{node.id}/memory", node.id, "local", memory_rate)

    def join(self, src: str, dst: str, kind: LinkKind, bytes_per_s: float, lanes: int = 1) -> None:
        """One link and the link back."""
        self.links.append(Link(src, dst, kind, bytes_per_s, lanes))
        self.links.append(Link(dst, src, kind, bytes_per_s, lanes))


class _Host:
    """Adds one host to the assembly; its parts count from 0 again, save ranks and NICs."""

    def __init__(self, assembly: _Assembly, number: int) -> None:
        self._all = assembly
        self._machine = assembly.machine
        self._number = number
        several = self._machine.num_hosts > 1
        self._host = f"host{number}" if several else None
        self._prefix = f"host{number}/" if several else ""
        self._next_bus = self._machine.buses.first
        self._count = {"switches": 0, "gpus": 0, "nics": 0}

    def add_numa_nodes(self) -> None:
        """Every processor with what its layout names."""
        cpu, hashed = self._machine.processor, self._machine.hashed or self._machine.num_hosts > 1
        host_hash = f"{_HOST_HASH + self._number:#x}" if hashed else None
        for node, layout in enumerate(self._machine.layout):
            cpu_id = f"{self._prefix}numa{node}"
            facts = CpuFacts(cpu.arch, cpu.family, cpu.model, host_hash=host_hash)
            self._all.devices.append(Device(cpu_id, "cpu", cpu.vendor, self._host, node, cpu=facts))
            self._add_groups(node, cpu_id, layout)

    def _add_groups(self, node: int, cpu_id: str, layout: str) -> None:
        parent_id, switches = cpu_id, 0
        for part in layout:
            if part == "(":
                parent_id, switches = f"{cpu_id}/switch{switches}", switches + 1
                self._add_switch(node, parent_id, cpu_id)
            elif part == ")":
                parent_id = cpu_id
            elif part == "G":
                self._add_gpu(node, cpu_id, parent_id)
            elif part == "+":
                self._add_rank_beside()
            elif self._machine.nic is not None:
                self._add_nic(node, parent_id, self._machine.nic)

    def _add_switch(self, node: int, switch_id: str, parent_id: str) -> None:
        ids, port = self._machine.switch, self._machine.switch_port or self._machine.port
        pci = PciFacts(
            bus_id=self._bus("switches"),
            device_class="0x060400",
            vendor_id=ids.vendor_id,
            device_id=ids.device_id,
            subsystem_vendor_id=ids.subsystem_vendor_id,
            subsystem_device_id=ids.subsystem_device_id,
            link_speed=port.speed,
            link_width=str(port.width),
        )
        self._attach(Device(switch_id, "pcie_switch", ids.vendor, self._host, node, pci=pci), parent_id, port)

    def _add_gpu(self, node: int, cpu_id: str, parent_id: str) -> None:
        rank, part, port = self._all.num_ranks, self._machine.gpu, self._machine.port
        self._all.num_ranks += 1
        index = self._count["gpus"]
        facts = GpuFacts(index, self._all.gpu.compute_capability, rank=rank, gdr=part.gdr)
        pci = self._pci("gpus", part.device_class, "0x10de", part.device_id, port)
        name = f"GPU{rank}"
        device = Device(
            name, "gpu", "nvidia", self._host, node, label=name, model=self._all.gpu.name, pci=pci, gpu=facts
        )
        self._all.cpu_of_gpu[name] = cpu_id
        self._attach(device, parent_id, port)

    def _add_rank_beside(self) -> None:
        """One more rank on the GPU that was added last, joined to it as parts of one chip are."""
        from topo.readers.nccl_walk import LOCAL_BYTES_PER_S

        rank, owner = self._all.num_ranks, list(self._all.cpu_of_gpu)[-1]
        self._all.num_ranks += 1
        beside = next(device for device in self._all.devices if device.id == owner)
        facts = replace(beside.gpu, rank=rank) if beside.gpu else None
        self._all.devices.append(replace(beside, id=f"GPU{rank}", label=f"GPU{rank}", gpu=facts))
        self._all.join(f"GPU{rank}", owner, "local", LOCAL_BYTES_PER_S)

    def _add_nic(self, node: int, parent_id: str, part: NicPart) -> None:
        port = self._machine.nic_port or self._machine.port
        place, number = self._count["nics"], self._all.num_nics
        self._all.num_nics += 1
        facts = NicFacts(
            index=part.first_index + number,
            bandwidth_bytes_per_s=part.bytes_per_s,
            latency_s=part.latency_s,
            port=1,
            guid=f"{part.guid + _GUIDS_PER_HOST * self._number + place:#x}",
            max_connections=part.max_connections,
            gdr=part.gdr,
            collnet=part.collnet,
        )
        pci = self._pci("nics", part.device_class, part.vendor_id, part.device_id, port)
        name = self._prefix + part.name.format(place)
        self._attach(
            Device(name, "nic", part.vendor, self._host, node, label=name, pci=pci, nic=facts), parent_id, port
        )

    def _pci(self, kind: str, device_class: str, vendor_id: str, device_id: str, port: Port) -> PciFacts:
        return PciFacts(
            bus_id=self._bus(kind),
            device_class=device_class,
            vendor_id=vendor_id,
            device_id=device_id,
            link_speed=port.speed,
            link_width=str(port.width),
        )

    def _bus(self, kind: str) -> str:
        """The bus id of the next part of a kind: its own, or the next number."""
        place = self._count[kind]
        self._count[kind] += 1
        stated: tuple[str, ...] = getattr(self._machine.buses, kind)
        if stated:
            return stated[place]
        self._next_bus += 1
        return f"0000:{self._next_bus - 1:02x}:00.0"

    def _attach(self, device: Device, parent_id: str, port: Port) -> None:
        self._all.devices.append(device)
        rate = catalog.pcie_bytes_per_s(catalog.pcie_generation(port.speed), port.width)
        self._all.join(device.id, parent_id, "pcie", rate, port.width)
