"""One node repeated and joined by a fabric, kept folded: nothing here grows with the number of nodes.

Rank r is local rank r % g of node r // g, where g is the node's number of ranks. Every node is the same machine, and
its parts are called `node3/GPU0`. `explicit()` writes the whole cluster out for the sizes that allow it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from topo.errors import TopologyError
from topo.fabric import EXAMPLE, FABRICS, FLAT, FLAT_ID, SPINE_ID, Fabric, FabricLink, Wiring, parse_fabric
from topo.nic_choice import deal_nics, is_on_pcie
from topo.synthetic import MAX_LINKS
from topo.topology import Device, Link, Topology
from topo.words import counted

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from topo.fabric import Numbers

__all__ = ["FABRICS", "FLAT_ID", "Cluster", "Fabric", "FabricLink", "parse_fabric"]


@dataclass(frozen=True, slots=True)
class PortChange:
    """The port of one NIC in one node works at `factor` of its rate, both ways."""

    node_number: int
    nic_id: str
    factor: float


@dataclass(frozen=True)
class Cluster:
    """`count` copies of `node`, joined by `fabric`. Not slotted, so that what follows from it is computed once.

    With more than one node, the node needs a NIC that leads out of it (`nics`): TopologyError otherwise. `changes` are
    ports that differ from their copies in the other nodes; all else stays folded.
    """

    node: Topology
    count: int
    fabric: Fabric = FLAT
    changes: tuple[PortChange, ...] = ()

    def __post_init__(self) -> None:
        if self.count < 1:
            raise TopologyError(f"a cluster of {self.count} nodes does not exist: give --nodes a whole number from 1")
        if not self.node.gpu_ids:
            raise TopologyError(f"{self._node_text} has no GPU, so a cluster of it has no rank: take another machine")
        if self.count > 1 and not self.nics:
            raise TopologyError(self._no_way_out())
        known = {nic.id for nic in self.nics}
        for change in self.changes:
            where = f"node{change.node_number}/{change.nic_id}"
            if not 0 <= change.node_number < self.count or change.nic_id not in known:
                raise TopologyError(f"there is no port {where} to change: nodes 0 to {self.count - 1}, {sorted(known)}")
            if not (math.isfinite(change.factor) and change.factor > 0):
                raise TopologyError(f"port {where} cannot work at {change.factor} of its rate: more than 0 is needed")

    def with_port(self, node_number: int, nic_id: str, factor: float) -> Cluster:
        """The same cluster with one NIC's port at `factor` of its rate."""
        return replace(self, changes=(*self.changes, PortChange(node_number, nic_id, factor)))

    def port_factors(self) -> dict[tuple[int, int], float]:
        """The factor of each changed port by (node number, number of the NIC among `nics`)."""
        number = {nic.id: index for index, nic in enumerate(self.nics)}
        factors: dict[tuple[int, int], float] = {}
        for change in self.changes:
            place = change.node_number, number[change.nic_id]
            factors[place] = factors.get(place, 1.0) * change.factor
        return factors

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
            raise TopologyError(f"rank {rank} is not in this cluster: it has {counted(self.num_ranks, 'rank')}, from 0")
        return divmod(rank, self.node.num_ranks)

    def device_id(self, node_number: int, local_id: str) -> str:
        """What `explicit()` calls a node's device: `node3/GPU0`, or just `GPU0` where there is one node."""
        return local_id if self.count == 1 else f"node{node_number}/{local_id}"

    def gpu_id(self, rank: int) -> str:
        """The device of a rank, as `explicit()` calls it."""
        node_number, local_rank = self.place_of(rank)
        return self.device_id(node_number, self.node.gpu_ids[local_rank])

    @cached_property
    def nics(self) -> tuple[Device, ...]:
        """The node's NICs that lead out of it, in order: on PCIe and of known rate. Their position is a NIC's number.

        The loopback device, bridges and other software interfaces do not count, nor does a NIC whose link is broken.
        Empty where there is none.
        """
        joined = {link.src for link in self.node.links if link.state == "active"}
        return tuple(
            nic
            for nic in self.node.of_kind("nic")
            if nic.id in joined and is_on_pcie(self.node, nic) and self._port_rate(nic) is not None
        )

    @cached_property
    def _wiring(self) -> Wiring:
        return Wiring(self.fabric, self.count, tuple(self.port_bytes_per_s(nic) for nic in self.nics))

    def fabric_links(self) -> tuple[FabricLink, ...]:
        """The links inside the fabric, by number: each leaf's uplink and the link back; none in `flat`."""
        return self._wiring.links()

    def fabric_route(
        self, src_node: Numbers, src_nic: Numbers, dst_node: Numbers, dst_nic: Numbers
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Which `fabric_links` lie between NICs, beyond the ports: pair i crosses links[first[i]:first[i + 1]].

        Returns `(first, links)`. The arguments are arrays of one length: nodes from 0, and NICs as numbered by `nics`.
        """
        return self._wiring.route(src_node, src_nic, dst_node, dst_nic)

    def nic_of(self, rank: int) -> Device:
        """The NIC (a device of the node) over which a rank speaks to other nodes: the first of `nics_of`."""
        return self.nics_of(rank)[0]

    def nics_of(self, rank: int) -> tuple[Device, ...]:
        """The NICs that are dealt to a rank's GPU (`topo.nic_choice`), the one that it uses first.

        RouteError where no path leads to a NIC.
        """
        return self._nics_by_local_rank[self.place_of(rank)[1]]

    def port_bytes_per_s(self, nic: Device) -> float:
        """Bytes/s of a NIC's port to the fabric in one direction: the lower of the NIC's rate and the fabric's."""
        rate = self._port_rate(nic)
        if rate is None:
            raise TopologyError(
                f"{self._node_text} does not say the rate of NIC {nic.name}: state it, as in --fabric {EXAMPLE}"
            )
        return rate

    def _port_rate(self, nic: Device) -> float | None:
        rates = (nic.nic.bandwidth_bytes_per_s if nic.nic else None, self.fabric.bandwidth_bytes_per_s)
        return min((rate for rate in rates if rate is not None), default=None)

    def explicit(self) -> Topology:
        """The whole cluster as one topology: every node's parts, and NIC links to the fabric's switches.

        A fabric of one switch is called `fabric`; else NICs lead to `rail0` or `leaf0`..., and these to `spine`. Half
        the fabric's latency stands on each NIC link. One node is returned as it is. TopologyError for more links than
        `MAX_LINKS`.
        """
        if self.count == 1:
            return self.node
        num_links = self.count * (len(self.node.links) + 2 * len(self.nics))
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
            devices=(*devices, *self._switches()),
            links=(*node_links, *self._port_links(), *self._uplinks()),
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

    def _switches(self) -> Iterator[Device]:
        leaves = [self._wiring.leaf_id(leaf) for leaf in range(self._wiring.num_leaves)]
        for switch in (*leaves, *((SPINE_ID,) if len(leaves) > 1 else ())):
            yield Device(switch, "net_switch", label=switch)

    def _port_links(self) -> Iterator[Link]:
        factors = self.port_factors()
        for number in range(self.count):
            for place, nic in enumerate(self.nics):
                leaf_id = self._wiring.leaf_id(self._wiring.leaf_of(number, place))
                nic_id = self.device_id(number, nic.id)
                rate = self.port_bytes_per_s(nic) * factors.get((number, place), 1.0)
                yield Link(nic_id, leaf_id, "network", rate, latency_s=self.fabric.latency_s / 2)
                yield Link(leaf_id, nic_id, "network", rate, latency_s=self.fabric.latency_s / 2)

    def _uplinks(self) -> Iterator[Link]:
        for link in self.fabric_links():
            src, _, dst = link.name.partition("->")
            yield Link(src, dst, "network", link.bandwidth_bytes_per_s)

    @property
    def _node_text(self) -> str:
        return f"machine {self.node.name!r}" if self.node.name else "this machine"

    def _no_way_out(self) -> str:
        """Why no NIC leads out of the node, and what to do."""
        on_pcie = [nic for nic in self.node.of_kind("nic") if is_on_pcie(self.node, nic)]
        if on_pcie and all(self._port_rate(nic) is not None for nic in on_pcie):
            return f"none of the {len(on_pcie)} NICs of {self._node_text} has a link that works: leave one"
        if on_pcie:
            names = ", ".join(nic.name for nic in on_pcie[:4]) + (" ..." if len(on_pcie) > 4 else "")
            return f"{self._node_text} does not say the rate of NIC {names}: state it, as in --fabric {EXAMPLE}"
        inside = [nic.name for nic in self.node.of_kind("nic")]
        has = f"has no NIC on PCIe ({', '.join(inside[:4])} leads nowhere)" if inside else "has no NIC"
        return (
            f"{self._node_text} {has}, so copies of it cannot be joined: take a machine with NICs "
            "(topo presets lists some), or describe the whole as one switch:COUNT,bandwidth=RATE"
        )

    @cached_property
    def _nics_by_local_rank(self) -> tuple[tuple[Device, ...], ...]:
        return deal_nics(self.node, self.nics, [self.port_bytes_per_s(nic) for nic in self.nics])
