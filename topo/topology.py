"""Devices, links and the topology they form: facts only, with every structural check.

Nothing here reads files, guesses or computes paths. A `Topology` that exists has passed all checks, so nobody
downstream asks whether its ids are unique or its bandwidths positive.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from topo.errors import TopologyError
from topo.finding import Finding
from topo.nccl_run import NcclRun

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
        raise TopologyError(f"no device {device_id!r}: known are {_some(d.id for d in self.devices)}")

    def of_kind(self, *kinds: DeviceKind) -> tuple[Device, ...]:
        """All devices of the given kinds, in the topology's order."""
        return tuple(device for device in self.devices if device.kind in kinds)

    def take_ranks(self, ranks: Iterable[int]) -> Topology:
        """The same machine of which only the given ranks take part, renumbered in the order given."""
        chosen = tuple(ranks)
        wrong = [rank for rank in chosen if not 0 <= rank < self.num_ranks]
        if wrong:
            raise TopologyError(
                f"rank {wrong[0]} is not on this machine: it has {self.num_ranks} GPUs, 0 to {self.num_ranks - 1}"
            )
        return replace(self, gpu_ids=tuple(self.gpu_ids[rank] for rank in chosen))


def _some(ids: Iterable[str], limit: int = 8) -> str:
    """The first few ids as text, with a count of the rest."""
    listed = list(ids)
    return ", ".join(listed[:limit]) + (f" and {len(listed) - limit} more" if len(listed) > limit else "")


def _unique_device_ids(topology: Topology) -> None:
    """An id names one device."""
    seen: set[str] = set()
    for device in topology.devices:
        if not device.id:
            raise TopologyError(f"a device of kind {device.kind} has an empty id: give it one")
        if device.id in seen:
            raise TopologyError(f"two devices are called {device.id!r}: ids must be unique, rename one")
        seen.add(device.id)


def _known_kinds(topology: Topology) -> None:
    """Kinds are a closed list, since routes and path letters depend on them."""
    device_kinds, link_kinds, link_states = (frozenset(get_args(kind)) for kind in (DeviceKind, LinkKind, LinkState))
    for device in topology.devices:
        if device.kind not in device_kinds:
            raise TopologyError(f"{device.id}: unknown kind {device.kind!r}, one of {', '.join(get_args(DeviceKind))}")
    for link in topology.links:
        if link.kind not in link_kinds:
            raise TopologyError(f"{link.id}: unknown kind {link.kind!r}, one of {', '.join(get_args(LinkKind))}")
        if link.state not in link_states:
            raise TopologyError(f"{link.id}: unknown state {link.state!r}, one of {', '.join(get_args(LinkState))}")


def _links_join_devices(topology: Topology) -> None:
    """A link joins two different devices that exist, and each (src, dst, kind) stands once."""
    ids = {device.id for device in topology.devices}
    seen: set[tuple[str, str, str]] = set()
    for link in topology.links:
        for end in (link.src, link.dst):
            if end not in ids:
                raise TopologyError(
                    f"link {link.id} leads to {end!r}, which is no device: known are {_some(sorted(ids))}"
                )
        if link.src == link.dst:
            raise TopologyError(f"link {link.id} joins {link.src!r} to itself: remove it")
        key = (link.src, link.dst, link.kind)
        if key in seen:
            raise TopologyError(f"two {link.kind} links {link.id}: give one link with the sum of their lanes")
        seen.add(key)


def _physical_numbers(topology: Topology) -> None:
    """Rates are finite and positive, latencies finite and not negative: no engine meets anything else."""
    for link in topology.links:
        if not 0 < (rate := link.bandwidth_bytes_per_s) < math.inf:
            raise TopologyError(f"link {link.id} has bandwidth {rate} B/s: it must be positive and finite")
        if not 0 <= link.latency_s < math.inf:
            raise TopologyError(f"link {link.id} has latency {link.latency_s} s: it must be finite and not negative")
        if link.lanes < 1:
            raise TopologyError(f"link {link.id} has {link.lanes} lanes: at least 1, or leave the link out")
    for device in topology.devices:
        if device.gpu and (device.gpu.compute_capability or 0) < 0:
            raise TopologyError(f"GPU {device.id} has a compute capability below 0: ten times CUDA's is expected")
        port = device.nic.bandwidth_bytes_per_s if device.nic else None
        if not (port is None or 0 < port < math.inf):
            raise TopologyError(f"NIC {device.id} has bandwidth {port} B/s: it must be positive and finite")


def _ranks_are_devices(topology: Topology) -> None:
    """Each rank is one GPU (or CPU process) of this machine."""
    by_id = {device.id: device for device in topology.devices}
    seen: set[str] = set()
    for rank, gpu_id in enumerate(topology.gpu_ids):
        if (device := by_id.get(gpu_id)) is None:
            raise TopologyError(f"rank {rank} is {gpu_id!r}, which is no device: known are {_some(sorted(by_id))}")
        if device.kind not in RANK_KINDS:
            raise TopologyError(f"rank {rank} is {gpu_id!r}, a {device.kind}: a rank is a gpu or a process")
        if gpu_id in seen:
            raise TopologyError(f"{gpu_id!r} stands for two ranks: each device is one rank")
        seen.add(gpu_id)


def _ranks_connected(topology: Topology) -> None:
    """Every two ranks can reach each other, unless the source shows only part of the machine."""
    if not topology.complete or len(topology.gpu_ids) < 2:
        return
    start = topology.gpu_ids[0]
    for forward in (True, False):
        reached = _reachable(topology, start, forward=forward)
        lost = [gpu_id for gpu_id in topology.gpu_ids if gpu_id not in reached]
        if lost:
            way = f"from {start} to" if forward else f"to {start} from"
            raise TopologyError(f"no path {way} {_some(lost)}: add the missing links, or take the GPUs out with --gpus")


def _reachable(topology: Topology, start: str, *, forward: bool) -> set[str]:
    neighbours: defaultdict[str, list[str]] = defaultdict(list)
    for link in topology.links:
        if link.state == "active":
            near, far = (link.src, link.dst) if forward else (link.dst, link.src)
            neighbours[near].append(far)
    reached, todo = {start}, [start]
    while todo:
        new = [far for far in neighbours.pop(todo.pop(), ()) if far not in reached]
        reached.update(new)
        todo += new
    return reached


CHECKS: tuple[Callable[[Topology], None], ...] = (
    _unique_device_ids,
    _known_kinds,
    _links_join_devices,
    _physical_numbers,
    _ranks_are_devices,
    _ranks_connected,
)
"""The structural rules, one function each; a rule's docstring states it."""
