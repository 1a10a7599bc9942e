"""One node repeated and joined by a fabric, kept folded: nothing here grows with the number of nodes.

Rank r is local rank r % g of node r // g, where g is the node's number of ranks. Every node is the same machine, and
its parts are called `node3/GPU0`. `explicit()` writes the whole cluster out for the sizes that allow it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from topo.errors import NameChoiceError, RouteError, TopologyError
from topo.synthetic import MAX_LINKS, read_settings
from topo.topology import Device, Link, LinkKind, Topology

FABRIC_ID = "fabric"
FABRICS: Mapping[str, str] = {"flat": "one switch without contention inside, to which every NIC has its own port"}
"""Fabrics by name, with a line that describes each."""

_TO_NIC_KINDS: tuple[LinkKind, ...] = ("pcie", "cpu", "local", "c2c")
_EXAMPLE = "flat,bandwidth=400Gb/s,latency=2us"


@dataclass(frozen=True, slots=True)
class Fabric:
    """What joins the nodes: no contention inside (`flat`).

    `bandwidth_bytes_per_s` is that of one port and direction (None: the NIC's own rate; the lower of both counts);
    `latency_s` is from NIC to NIC.
    """

    name: str = "flat"
    bandwidth_bytes_per_s: float | None = None
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in FABRICS:
            raise NameChoiceError("fabric", self.name, FABRICS)
        rate = self.bandwidth_bytes_per_s
        if rate is not None and not (math.isfinite(rate) and rate > 0):
            raise TopologyError(f"fabric {self.name} has bandwidth {rate} B/s: it must be positive and finite")
        if not (math.isfinite(self.latency_s) and self.latency_s >= 0):
            raise TopologyError(
                f"fabric {self.name} has latency {self.latency_s} s: it must be finite and not negative"
            )


def parse_fabric(text: str) -> Fabric:
    """The fabric of `NAME[,bandwidth=RATE][,latency=DURATION]`: `flat`, `flat,bandwidth=400Gb/s,latency=2us`.

    NameChoiceError for an unknown name or key, UnitError for an unreadable value.
    """
    name, *settings = text.split(",")
    if name.strip() not in FABRICS:
        raise NameChoiceError("fabric", name.strip(), FABRICS)
    values = read_settings(text, settings, _EXAMPLE)
    return Fabric(name.strip(), values.get("bandwidth"), values.get("latency", 0.0))


@dataclass(frozen=True)
class Cluster:
    """`count` copies of `node`, joined by `fabric`. Not slotted, so that what follows from it is computed once.

    With more than one node, the node needs a NIC and every NIC a known rate: TopologyError otherwise.
    """

    node: Topology
    count: int
    fabric: Fabric = Fabric()

    def __post_init__(self) -> None:
        if self.count < 1:
            raise TopologyError(f"a cluster of {self.count} nodes does not exist: give --nodes a whole number from 1")
        if not self.node.gpu_ids:
            raise TopologyError(f"{self._node_text} has no GPU, so a cluster of it has no rank: take another machine")
        if self.count > 1:
            for nic in self._all_nics:
                self.port_bytes_per_s(nic)

    @property
    def name(self) -> str:
        """The node's name with how often it stands."""
        return self.node.name if self.count == 1 else f"{self.count} x {self.node.name or 'node'}"

    @property
    def num_ranks(self) -> int:
        """How many ranks all nodes offer together."""
        return self.count * self.node.num_ranks

    @property
    def synthetic(self) -> bool:
        """Whether the node is a description without hardware behind it."""
        return self.node.synthetic

    def place_of(self, rank: int) -> tuple[int, int]:
        """The node's number and the local rank of a rank; TopologyError for a rank that is not there."""
        if not 0 <= rank < self.num_ranks:
            raise TopologyError(f"rank {rank} is not in this cluster: it has {self.num_ranks} ranks, from 0")
        return divmod(rank, self.node.num_ranks)

    def device_id(self, node_number: int, local_id: str) -> str:
        """What `explicit()` calls a node's device: `node3/GPU0`, or just `GPU0` where there is one node."""
        return local_id if self.count == 1 else f"node{node_number}/{local_id}"

    def gpu_id(self, rank: int) -> str:
        """The device of a rank, as `explicit()` calls it."""
        node_number, local_rank = self.place_of(rank)
        return self.device_id(node_number, self.node.gpu_ids[local_rank])

    def nic_of(self, rank: int) -> Device:
        """The NIC (a device of the node) over which a rank speaks to other nodes: the first of `nics_of`."""
        return self.nics_of(rank)[0]

    def nics_of(self, rank: int) -> tuple[Device, ...]:
        """The NICs nearest to a rank's GPU that are its own: by path class, then by bandwidth, then in order.

        GPUs to which the same NICs are equally near share them in turn: each gets its own where there are enough, and
        NICs that are left over are dealt out further. RouteError where no path leads to a NIC.
        """
        return self._nics_by_local_rank[self.place_of(rank)[1]]

    def port_bytes_per_s(self, nic: Device) -> float:
        """Bytes/s of a NIC's port to the fabric in one direction: the lower of the NIC's rate and the fabric's."""
        rates = (nic.nic.bandwidth_bytes_per_s if nic.nic else None, self.fabric.bandwidth_bytes_per_s)
        known = [rate for rate in rates if rate is not None]
        if not known:
            raise TopologyError(
                f"{self._node_text} does not say the rate of NIC {nic.name}: state it, as in --fabric {_EXAMPLE}"
            )
        return min(known)

    def explicit(self) -> Topology:
        """The whole cluster as one topology: every node's parts, and NIC links to one switch called `fabric`.

        Half the fabric's latency stands on each NIC link. One node is returned as it is. TopologyError for more
        links than `MAX_LINKS`.
        """
        if self.count == 1:
            return self.node
        num_links = self.count * (len(self.node.links) + 2 * len(self._all_nics))
        if num_links > MAX_LINKS:
            raise TopologyError(f"{self.name} has {num_links} links, more than {MAX_LINKS}: keep it folded")
        numbers = range(self.count)
        devices = tuple(self._device(number, device) for number in numbers for device in self.node.devices)
        node_links = tuple(
            replace(link, src=self.device_id(number, link.src), dst=self.device_id(number, link.dst))
            for number in numbers
            for link in self.node.links
        )
        return replace(
            self.node,
            devices=(*devices, Device(FABRIC_ID, "net_switch", label=FABRIC_ID)),
            links=(*node_links, *self._fabric_links()),
            gpu_ids=tuple(self.gpu_id(rank) for rank in range(self.num_ranks)),
            name=self.name,
            hidden_pairs=tuple(
                (f"node{number}/{left}", f"node{number}/{right}")
                for number in numbers
                for left, right in self.node.hidden_pairs
            ),
        )

    def _device(self, number: int, device: Device) -> Device:
        host = f"node{number}" + (f"/{device.host}" if device.host else "")
        label = f"node{number}/{device.label}" if device.label else None
        return replace(device, id=self.device_id(number, device.id), host=host, label=label)

    def _fabric_links(self) -> Iterator[Link]:
        for number in range(self.count):
            for nic in self._all_nics:
                nic_id, rate = self.device_id(number, nic.id), self.port_bytes_per_s(nic)
                yield Link(nic_id, FABRIC_ID, "network", rate, latency_s=self.fabric.latency_s / 2)
                yield Link(FABRIC_ID, nic_id, "network", rate, latency_s=self.fabric.latency_s / 2)

    @property
    def _node_text(self) -> str:
        return f"machine {self.node.name!r}" if self.node.name else "this machine"

    @cached_property
    def _all_nics(self) -> tuple[Device, ...]:
        nics = self.node.of_kind("nic")
        if not nics:
            raise TopologyError(
                f"{self._node_text} has no NIC, so copies of it cannot be joined: take a machine with NICs "
                "(topo presets lists some), or describe the whole as one switch:COUNT,bandwidth=RATE"
            )
        return nics

    @cached_property
    def _nics_by_local_rank(self) -> tuple[tuple[Device, ...], ...]:
        nearest = [self._nearest(gpu_id) for gpu_id in self.node.gpu_ids]
        shared: dict[tuple[Device, ...], list[int]] = {}
        for local_rank, nics in enumerate(nearest):
            shared.setdefault(nics, []).append(local_rank)
        dealt: dict[int, tuple[Device, ...]] = {}
        for nics, local_ranks in shared.items():
            for turn, local_rank in enumerate(local_ranks):
                dealt[local_rank] = nics[turn :: len(local_ranks)] or (nics[turn % len(nics)],)
        return tuple(dealt[local_rank] for local_rank in range(self.node.num_ranks))

    def _nearest(self, gpu_id: str) -> tuple[Device, ...]:
        """All NICs of the best path class and bandwidth, in the node's order."""
        reached = _reach(self.node, gpu_id)
        score = {}
        for nic in self._all_nics:
            if nic.id in reached:
                path_class, rate = reached[nic.id]
                own = nic.nic.bandwidth_bytes_per_s if nic.nic else None
                score[nic.id] = (path_class, -min(rate, own or rate))
        if not score:
            raise RouteError(
                f"no path of PCIe leads from {gpu_id} to a NIC: add the missing links, or take it out with --gpus"
            )
        best = min(score.values())
        return tuple(nic for nic in self._all_nics if score.get(nic.id) == best)


def _reach(node: Topology, start: str) -> dict[str, tuple[int, float]]:
    """Path class (0 one switch, 1 several, 2 through a CPU, 3 across CPUs) and bytes/s from `start` to each device.

    The path with the fewest links between CPUs is taken, then with the fewest CPUs and the fewest switches; no path
    leads through another GPU.
    """
    outgoing: dict[str, list[Link]] = {}
    for link in node.links:
        if link.kind in _TO_NIC_KINDS and link.state == "active":
            outgoing.setdefault(link.src, []).append(link)
    reached: dict[str, tuple[int, float]] = {}
    todo: list[tuple[tuple[int, int, int], float, str]] = [((0, 0, 0), -math.inf, start)]
    while todo:
        (cpu_links, cpus, switches), negative_rate, device_id = heapq.heappop(todo)
        if device_id in reached:
            continue
        path_class = 3 if cpu_links else 2 if cpus else 1 if switches > 1 else 0
        reached[device_id] = (path_class, -negative_rate)
        if device_id != start and node.device(device_id).kind in ("gpu", "process"):
            continue
        for link in outgoing.get(device_id, ()):
            kind = node.device(link.dst).kind
            steps = (
                cpu_links + (link.kind == "cpu"),
                cpus + (kind in ("cpu", "host_bridge")),
                switches + (kind == "pcie_switch"),
            )
            heapq.heappush(todo, (steps, max(negative_rate, -link.bandwidth_bytes_per_s), link.dst))
    return reached
