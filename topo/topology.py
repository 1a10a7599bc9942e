"""Devices, links and the topology they form: facts only, with every structural check.

Nothing here reads files, guesses or computes paths. A `Topology` that exists has passed all checks, so nobody
downstream asks whether its ids are unique or its bandwidths positive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from topo.errors import TopologyError
from topo.finding import Finding
from topo.nccl_run import NcclRun
from topo.words import counted

if TYPE_CHECKING:
    import networkx as nx

DeviceKind = Literal[
    "gpu",
    "nvswitch",
    "pcie_switch",
    "host_bridge",
    "cpu",
    "nic",
    "nic_card",
    "net_switch",
    "host_memory",
    "process",
]
"""`cpu` is one NUMA node; `host_bridge` a PCIe root of it, where the source tells them apart; `nic` one network
interface as software sees it, `nic_card` the PCIe function that several of them share; `process` a rank that has no
GPU (a CPU process)."""

LinkKind = Literal["nvlink", "xgmi", "c2c", "pcie", "cpu", "network", "local"]
LinkState = Literal["active", "inactive"]

RANK_KINDS: tuple[DeviceKind, ...] = ("gpu", "process")


@dataclass(frozen=True, slots=True)
class PciFacts:
    """What a PCIe function says of itself, verbatim; None where the source is silent.

    `link_speed` and `link_width` are the words of the source ("16.0 GT/s PCIe"), since NCCL reads them its own way.
    """

    bus_id: str | None = None
    device_class: str | None = None
    vendor_id: str | None = None
    device_id: str | None = None
    subsystem_vendor_id: str | None = None
    subsystem_device_id: str | None = None
    link_speed: str | None = None
    link_width: str | None = None


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What a GPU says of itself; `compute_capability` is ten times CUDA's (H100: 90), `index` NVML's."""

    index: int | None = None
    compute_capability: int | None = None
    rank: int | None = None
    gdr: bool | None = None
    mlopart: int | None = None


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """What one NUMA node says of its processor; `affinity` is the cpuset as written in the source."""

    arch: str | None = None
    family: int | None = None
    model: int | None = None
    affinity: str | None = None
    host_hash: str | None = None


@dataclass(frozen=True, slots=True)
class NicFacts:
    """What a network interface says of itself; `bandwidth_bytes_per_s` is its port's rate, one direction.

    `os_name` is what the operating system calls it (`mlx5_0`), where the source's label is another (`NIC0`).
    """

    index: int | None = None
    bandwidth_bytes_per_s: float | None = None
    latency_s: float | None = None
    port: int | None = None
    guid: str | None = None
    max_connections: int | None = None
    gdr: bool | None = None
    collnet: bool | None = None
    os_name: str | None = None
    rail: int | None = None
    plane: int | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """One part of a machine. `id` is unique in its topology; `label` is what the source calls it (`GPU0`, `mlx5_0`)."""

    id: str
    kind: DeviceKind
    vendor: str | None = None
    host: str | None = None
    numa_node: int | None = None
    label: str | None = None
    model: str | None = None
    pci: PciFacts | None = None
    gpu: GpuFacts | None = None
    cpu: CpuFacts | None = None
    nic: NicFacts | None = None

    @property
    def name(self) -> str:
        """The label of the source, or the id where it gave none."""
        return self.label or self.id


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a connection.

    `bandwidth_bytes_per_s` is nominal and counts all `lanes` together (NVLinks, or the width of a PCIe link);
    `latency_s` is what the source states (0 where it states none: hop latencies of real hardware are a profile's).
    """

    src: str
    dst: str
    kind: LinkKind
    bandwidth_bytes_per_s: float
    lanes: int = 1
    latency_s: float = 0.0
    state: LinkState = "active"

    @property
    def id(self) -> str:
        """`src->dst`, with the kind where a reader has to tell parallel links apart."""
        return f"{self.src}->{self.dst}"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a topology comes from: the kind of source (`nvidia-smi topo -m`, `preset`...) and its name."""

    kind: str
    name: str = ""


@dataclass(frozen=True)
class Topology:
    """A machine as a checked value: devices, directed links, and which devices are ranks, in order.

    `gpu_ids[r]` is the device of rank r. `complete` is False when the source shows only part of the machine.
    `findings` say what the source left open or contradicts. `synthetic` marks a description without
    hardware behind it, whose rates are taken as given. `hidden_pairs` are pairs of device names whose relation the
    source does not show. `nccl` is the run that a log of NCCL shows, where that is the source. Not slotted, so that the
    graph can be cached on the value it is derived from.
    """

    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    gpu_ids: tuple[str, ...]
    name: str = ""
    provenance: tuple[Provenance, ...] = ()
    complete: bool = True
    synthetic: bool = False
    findings: tuple[Finding, ...] = ()
    hidden_pairs: tuple[tuple[str, str], ...] = ()
    nccl: NcclRun | None = None

    def __post_init__(self) -> None:
        from topo.structure import CHECKS

        for check in CHECKS:
            check(self)

    @cached_property
    def graph(self) -> nx.MultiDiGraph:
        """The frozen networkx view: nodes are device ids with `device`, edges keyed by link kind with `link`."""
        import networkx as nx

        graph = nx.MultiDiGraph()
        graph.add_nodes_from((device.id, {"device": device}) for device in self.devices)
        graph.add_edges_from((link.src, link.dst, link.kind, {"link": link}) for link in self.links)
        return nx.freeze(graph)

    @cached_property
    def adjacency(self) -> dict[str, tuple[Link, ...]]:
        """The active links that leave each device, by its id, in the topology's order; to be read, never changed."""
        leaving: dict[str, list[Link]] = {device.id: [] for device in self.devices}
        for link in self.links:
            if link.state == "active":
                leaving[link.src].append(link)
        return {device_id: tuple(links) for device_id, links in leaving.items()}

    @cached_property
    def _by_id(self) -> dict[str, Device]:
        return {device.id: device for device in self.devices}

    @property
    def remarks(self) -> tuple[str, ...]:
        """The sentences of all findings."""
        return tuple(finding.sentence for finding in self.findings)

    @property
    def num_ranks(self) -> int:
        """How many ranks the machine offers."""
        return len(self.gpu_ids)

    def device(self, device_id: str) -> Device:
        """The device of that id; TopologyError with the known ids where there is none."""
        if device_id in self._by_id:
            return self._by_id[device_id]
        raise TopologyError(f"no device {device_id!r}: known are {some(d.id for d in self.devices)}")

    def of_kind(self, *kinds: DeviceKind) -> tuple[Device, ...]:
        """All devices of the given kinds, in the topology's order."""
        return tuple(device for device in self.devices if device.kind in kinds)

    def take_ranks(self, ranks: Iterable[int]) -> Topology:
        """The same machine of which only the given ranks take part, renumbered in the order given."""
        chosen = tuple(ranks)
        wrong = [rank for rank in chosen if not 0 <= rank < self.num_ranks]
        if wrong:
            raise TopologyError(
                f"rank {wrong[0]} is not on this machine: it has {counted(self.num_ranks, 'GPU')}, 0 to "
                f"{self.num_ranks - 1}"
            )
        return replace(self, gpu_ids=tuple(self.gpu_ids[rank] for rank in chosen))


def some(ids: Iterable[str], limit: int = 8) -> str:
    """The first few ids as text, with a count of the rest."""
    listed = list(ids)
    return ", ".join(listed[:limit]) + (f" and {len(listed) - limit} more" if len(listed) > limit else "")
