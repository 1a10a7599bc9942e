"""A `Topology` as the tree that NCCL's topology file would hold, with what had to be assumed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sim.planners import require_machine
from sim.planners.nccl_2_30.rates import port_of
from sim.planners.nccl_2_30.spec import C2cSpec, CpuSpec, GpuSpec, NetSpec, NicSpec, NvlinkSpec, PciSpec, SystemSpec
from topo.catalog import gpu_model, pcie_generation_of
from topo.containment import Containment, containment
from topo.errors import TopologyError
from topo.topology import Device, Link, Topology

NCCL_LOG = "NCCL log"
"""Provenance of topologies whose rates are those that NCCL counts, not nominal ones."""
NCCL_NET_BYTES_PER_S = 10_000 * 125_000.0
"""NCCL's own figure for a NIC that states no speed: 10 Gb/s."""
_SPEED_WORDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
_NO_PCIE_BYTES_PER_S = 1e12
_FUNCTION_KINDS = ("gpu", "nic", "nic_card", "pcie_switch")
_CLASSES = {"gpu": "0x030200", "nic": "0x020700", "nic_card": "0x020700", "pcie_switch": "0x060400"}


def spec_from_topology(topology: Topology) -> SystemSpec:
    """The machine as NCCL's search sees it: rank r is `gpu_ids[r]`, everything else keeps the topology's order.

    `assumed` of the result says what the topology leaves open and NCCL would know. TopologyError where that is
    something its decisions hang on, or where the topology is no machine with NVIDIA GPUs.
    """
    return _Translation(topology).spec()


class _Translation:
    """Walks the containment of a topology from its CPUs downwards."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._ranks = {gpu_id: rank for rank, gpu_id in enumerate(topology.gpu_ids)}
        self._check()
        self._held: Containment = containment(topology)
        self._from: dict[str, list[Link]] = {}
        for link in topology.links:
            if link.state == "active":
                self._from.setdefault(link.src, []).append(link)
        self._numbers = _count_by_host(topology)
        self._assumed: dict[str, list[str]] = {}
        self._counted = any(source.kind == NCCL_LOG for source in topology.provenance)

    def spec(self) -> SystemSpec:
        """The finished tree."""
        cpus = tuple(self._cpu(device) for device in self._topology.of_kind("cpu"))
        spec = SystemSpec(cpus, self._topology.name)
        missing = set(self._ranks.values()) - {gpu.rank for gpu in spec.gpus()}
        if missing:
            lost = [self._topology.gpu_ids[rank] for rank in sorted(missing)]
            raise TopologyError(
                f"{_some(lost)}: NCCL finds no way down from a CPU over PCIe switches (a NIC is a dead end): "
                "place the GPUs below a CPU or a switch"
            )
        assumed = tuple(f"{_some(names)}: {what}" for what, names in self._assumed.items())
        return SystemSpec(cpus, self._topology.name, assumed)

    def _check(self) -> None:
        topology = self._topology
        require_machine(topology)
        if not topology.of_kind("cpu"):
            raise TopologyError("the topology has no CPU, from which NCCL's topology hangs: capture a whole machine")
        for gpu_id in topology.gpu_ids:
            device = topology.device(gpu_id)
            if device.kind != "gpu" or (device.vendor or "nvidia").lower() != "nvidia":
                raise TopologyError(f"rank {self._ranks[gpu_id]} is {gpu_id}, no NVIDIA GPU: NCCL runs on those alone")

    def _assume(self, device: Device, what: str) -> None:
        self._assumed.setdefault(what, []).append(device.name)

    def _cpu(self, device: Device) -> CpuSpec:
        facts = device.cpu
        peers = [link for link in self._from.get(device.id, ()) if link.kind == "cpu"]
        unknown = facts is None or facts.arch is None
        if unknown and peers:
            self._assume(device, "processor unknown, the rate to its peers is taken as the topology states it")
        return CpuSpec(
            numa_node=-1 if device.numa_node is None else device.numa_node,
            host=device.host or "",
            arch=facts.arch if facts else None,
            vendor=device.vendor,
            family=(facts.family if facts else None) or 0,
            model=(facts.model if facts else None) or 0,
            peer_bytes_per_s=min((link.bandwidth_bytes_per_s for link in peers), default=0.0) if unknown else 0.0,
            children=tuple(self._below(device)),
        )

    def _below(self, parent: Device) -> Iterable[PciSpec | NicSpec]:
        """What hangs below a device; host bridges are folded into their CPU, as NCCL has no node for them."""
        for child_id in self._held.children.get(parent.id, ()):
            if self._held.up_link[child_id].state != "active":
                continue
            child = self._topology.device(child_id)
            if child.kind == "host_bridge":
                yield from self._below(child)
            elif child.kind in _FUNCTION_KINDS and self._held.up_link[child_id].kind == "pcie":
                if child.pci is None and self._held.up_link[child_id].bandwidth_bytes_per_s >= _NO_PCIE_BYTES_PER_S:
                    yield self._nic(child)
                else:
                    yield self._function(child)

    def _function(self, device: Device) -> PciSpec:
        pci = device.pci
        words, width = self._port(device)
        is_nic = device.kind in ("nic", "nic_card")
        below = self._below(device) if device.kind == "pcie_switch" else ()
        return PciSpec(
            bus_id=(pci.bus_id or device.id) if is_nic and pci else device.id,
            device_class=(pci.device_class if pci else None) or _CLASSES[device.kind],
            ids=_ids(device),
            link_speed=words,
            link_width=width,
            children=tuple(child for child in below if isinstance(child, PciSpec)),
            gpus=tuple(self._gpus(device)) if device.kind == "gpu" else (),
            nic=self._nic(device) if is_nic else None,
            peers=tuple(link.dst for link in self._from.get(device.id, ()) if self._joins_switches(link)),
        )

    def _port(self, device: Device) -> tuple[str, int]:
        """The words of the PCIe link upwards; where the source gives none, those of the link's own rate."""
        pci, link = device.pci, self._held.up_link[device.id]
        if pci is not None and pci.link_speed is not None:
            width = pci.link_width or ""
            return pci.link_speed, int(width) if width.isdecimal() else 0
        counted = port_of(link.bandwidth_bytes_per_s) if self._counted else None
        if counted is not None:
            return counted
        generation = pcie_generation_of(link.bandwidth_bytes_per_s, link.lanes)
        if generation is None:
            self._assume(device, "PCIe speed unknown, taken as 8 GT/s as NCCL does")
            return "", link.lanes
        return f"{_SPEED_WORDS[generation]} GT/s PCIe", link.lanes

    def _joins_switches(self, link: Link) -> bool:
        ends = {self._topology.device(link.src).kind, self._topology.device(link.dst).kind}
        return link.kind == "local" and ends == {"pcie_switch"}

    def _gpus(self, owner: Device) -> Iterable[GpuSpec]:
        """The ranks on one physical GPU; the first one that takes part declares its links."""
        beside = (self._topology.device(child) for child in self._held.children.get(owner.id, ()))
        devices = [owner, *(device for device in beside if device.kind == "gpu")]
        taking_part = [device for device in devices if device.id in self._ranks]
        for position, device in enumerate(taking_part):
            yield self._gpu(device, owner, first=position == 0)

    def _gpu(self, device: Device, owner: Device, *, first: bool) -> GpuSpec:
        facts = device.gpu
        if facts is not None and facts.mlopart is not None:
            raise TopologyError(f"{device.id} is a part of a split GPU (mlopart), which this planner does not model")
        links = self._from.get(owner.id, ()) if first else ()
        if facts is None or facts.gdr is None:
            self._assume(device, "taken as able to do GPUDirect RDMA")
        index = facts.index if facts and facts.index is not None else self._numbers[device.id]
        return GpuSpec(
            rank=self._ranks[device.id],
            index=index,
            compute_capability=_compute_capability(device),
            gdr=facts is None or facts.gdr is not False,
            nvlinks=tuple(self._nvlink(link) for link in links if link.kind == "nvlink"),
            c2c=tuple(C2cSpec(link.bandwidth_bytes_per_s) for link in links if link.kind == "c2c"),
        )

    def _nvlink(self, link: Link) -> NvlinkSpec:
        kind = self._topology.device(link.dst).kind
        return NvlinkSpec(link.dst, kind if kind in ("nvswitch", "cpu") else "gpu", link.lanes)

    def _nic(self, device: Device) -> NicSpec:
        if device.kind == "nic":
            return NicSpec((self._net(device),) if device.nic else ())
        below = (self._topology.device(child) for child in self._held.children.get(device.id, ()))
        return NicSpec(tuple(self._net(net) for net in below if net.kind == "nic" and net.nic))

    def _net(self, device: Device) -> NetSpec:
        facts = device.nic
        assert facts is not None
        if facts.bandwidth_bytes_per_s is None:
            self._assume(device, "port speed unknown, taken as 10 Gb/s as NCCL does")
        if facts.gdr is None:
            self._assume(device, "taken as able to do GPUDirect RDMA")
        return NetSpec(
            index=self._numbers[device.id] if facts.index is None else facts.index,
            bandwidth_bytes_per_s=facts.bandwidth_bytes_per_s or NCCL_NET_BYTES_PER_S,
            latency_s=facts.latency_s or 0.0,
            port=facts.port or 0,
            guid=_hex(facts.guid),
            gdr=facts.gdr is not False,
            collnet=bool(facts.collnet),
            rail=facts.rail,
            plane=facts.plane,
            name=facts.os_name or device.name,
        )


def _count_by_host(topology: Topology) -> Mapping[str, int]:
    """The number of each GPU and each NIC among those of its host."""
    numbers: dict[str, int] = {}
    counts: dict[tuple[str, str | None], int] = {}
    for device in topology.of_kind("gpu", "nic"):
        key = (device.kind, device.host)
        numbers[device.id] = counts.get(key, 0)
        counts[key] = numbers[device.id] + 1
    return numbers


def _compute_capability(device: Device) -> int:
    stated = device.gpu.compute_capability if device.gpu else None
    if stated is None:
        model = gpu_model(device.model) if device.model else None
        stated = model.compute_capability if model else None
    if stated is None:
        raise TopologyError(
            f"the model of {device.id} is unknown, but NCCL's choices hang on its compute capability: add the names "
            "of the GPUs (the output of nvidia-smi -L in the same folder) or take an NCCL topology file"
        )
    return stated


def _ids(device: Device) -> int:
    """Vendor, device and subsystem ids in 16 bits each; 0 for what is not known."""
    pci = device.pci
    words = (pci.vendor_id, pci.device_id, pci.subsystem_vendor_id, pci.subsystem_device_id) if pci else ()
    ids = 0
    for word in words:
        ids = ids << 16 | ((_hex(word) or 0) & 0xFFFF)
    return ids


def _hex(text: str | None) -> int | None:
    """A hexadecimal number as NCCL reads it; None where there is none."""
    try:
        return int(text, 16) if text else None
    except ValueError:
        return None


def _some(names: list[str], limit: int = 4) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
