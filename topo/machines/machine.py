"""The description of one machine: which parts hang where. `topo.machines.build` makes a topology of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations

from topo.errors import TopologyError
from topo.machines.parts import BROADCOM, GpuPart, NicPart, Port, Processor, SwitchPart

PeerLanes = tuple[tuple[int, int, int], ...]
"""NVLinks between GPUs: the lower number, the higher one, and how many."""


@dataclass(frozen=True, slots=True)
class Buses:
    """Bus ids of a node's parts, by kind and in document order; a kind without any is numbered with all the others.

    Those numbers count up in document order from `first`: `0000:01:00.0`, `0000:02:00.0`...
    """

    first: int = 1
    switches: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine, or several equal ones in one NVLink domain.

    `layout` has one text per NUMA node: `G` a GPU, `N` a NIC, `(...)` what shares a PCIe switch, `+` one more rank on
    the GPU before it. `nic_port` and `switch_port` are given where they differ from `port`, the GPUs' own. A node of
    `num_hosts` > 1 (or `hashed`, NCCL's host_hash) is one host of several that NVLink joins. `c2c` is MB/s of one
    NVLink-C2C to the CPU, as the driver reports it, and how many there are.
    """

    layout: tuple[str, ...]
    gpu: GpuPart
    processor: Processor
    port: Port
    nic: NicPart | None = None
    nvswitch_lanes: int = 0
    peer_lanes: PeerLanes = ()
    switch: SwitchPart = BROADCOM
    nic_port: Port | None = None
    switch_port: Port | None = None
    buses: Buses = Buses()
    c2c: tuple[float, int] | None = None
    num_hosts: int = 1
    hashed: bool = False

    def __post_init__(self) -> None:
        for node in self.layout:
            wrong = set(node) - set("()GN+")
            if wrong:
                raise TopologyError(f"layout {node!r} has {min(wrong)!r}: it is made of G, N, ( and ), and +")
            if "N" in node and self.nic is None:
                raise TopologyError(f"layout {node!r} has N, but the machine names no NIC: give it one")
            if re.search(r"(?<![G+])\+", node):
                raise TopologyError(f"layout {node!r} has a + that stands behind no G: it is one more rank on a GPU")

    @property
    def num_ranks(self) -> int:
        """How many ranks it offers."""
        return self.num_hosts * sum(node.count("G") + node.count("+") for node in self.layout)


def full_mesh(num_gpus: int, lanes: int) -> PeerLanes:
    """Every GPU joined to every other one by `lanes` NVLinks."""
    return tuple((low, high, lanes) for low, high in combinations(range(num_gpus), 2))


def bridged_pairs(num_gpus: int, lanes: int) -> PeerLanes:
    """Each GPU of an even number joined to the one behind it: NVLink bridges."""
    return tuple((low, low + 1, lanes) for low in range(0, num_gpus, 2))
