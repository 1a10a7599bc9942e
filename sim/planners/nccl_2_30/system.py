"""NCCL's system graph: nodes, and links whose order decides ties (src/graph/topo.cc of NCCL 2.30.7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from sim.planners.nccl_2_30.kinds import LinkKind, NodeKind
from sim.planners.nccl_2_30.spec import CpuSpec, NetSpec, SystemSpec


@dataclass(frozen=True, slots=True)
class Node:
    """One node; `number` counts all nodes, `index` those of its kind. What does not apply is left at its default.

    `device` is the number of the physical GPU of a GPU node; `asic` tells cards apart (the guid, or else `net_id`).
    """

    kind: NodeKind
    number: int
    index: int
    host: int
    rank: int = -1
    dev: int = -1
    compute_capability: int = 0
    gdr: bool = False
    device: int = -1
    net_id: int = -1
    asic: int = -1
    net: NetSpec | None = None
    cpu: CpuSpec | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """One direction of a link; `reverse` is the first link of the same kind back, -1 where there is none."""

    src: int
    dst: int
    kind: LinkKind
    bandwidth_bytes_per_s: float
    reverse: int = -1


@dataclass(frozen=True)
class System:
    """The graph: `nodes[number]`, `edges`, and for each node the edges that leave it, in NCCL's order."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    leaving: tuple[tuple[int, ...], ...]
    num_hosts: int

    def of_kind(self, kind: NodeKind) -> tuple[Node, ...]:
        """The nodes of that kind, by index."""
        return self._by_kind.get(kind, ())

    @cached_property
    def _by_kind(self) -> dict[NodeKind, tuple[Node, ...]]:
        found: dict[NodeKind, list[Node]] = {}
        for node in self.nodes:
            found.setdefault(node.kind, []).append(node)
        return {kind: tuple(nodes) for kind, nodes in found.items()}

    @property
    def arch(self) -> str | None:
        """The architecture of the first CPU."""
        return self._first_cpu.arch if self._first_cpu else None

    @property
    def vendor(self) -> str | None:
        """The vendor of the first CPU."""
        return self._first_cpu.vendor if self._first_cpu else None

    @cached_property
    def _first_cpu(self) -> CpuSpec | None:
        cpus = self.of_kind(NodeKind.CPU)
        return cpus[0].cpu if cpus else None

    @property
    def min_compute_capability(self) -> int:
        """The lowest compute capability of all physical GPUs, whether their ranks take part or not."""
        return min((node.compute_capability for node in self.of_kind(NodeKind.DEVICE)), default=0)

    @property
    def max_compute_capability(self) -> int:
        """The highest one."""
        return max((node.compute_capability for node in self.of_kind(NodeKind.DEVICE)), default=0)


def build_system(spec: SystemSpec) -> System:
    """The system graph of the machine, links in NCCL's order."""
    from sim.planners.nccl_2_30.builder import Builder

    builder = Builder(spec)
    builder.add_cpus()
    builder.add_nvlinks()
    builder.add_c2c()
    builder.add_pci_peers()
    builder.flatten_broadcom()
    builder.join_cpus()
    builder.sort_links()
    return builder.freeze()


def without_gpus(system: System, removed: Iterable[int]) -> System:
    """The same system without those GPU nodes (by index); everything else stays, order included."""
    gone = {system.of_kind(NodeKind.GPU)[index].number for index in removed}
    if not gone:
        return system
    kept = [node for node in system.nodes if node.number not in gone]
    new_number = {node.number: number for number, node in enumerate(kept)}
    edges = [number for number, edge in enumerate(system.edges) if edge.src not in gone and edge.dst not in gone]
    new_edge = {old: new for new, old in enumerate(edges)}
    counts = dict.fromkeys(NodeKind, 0)
    nodes = []
    for node in kept:
        nodes.append(
            replace(
                node,
                number=new_number[node.number],
                index=counts[node.kind],
                device=new_number.get(node.device, -1),
            )
        )
        counts[node.kind] += 1
    return System(
        nodes=tuple(nodes),
        edges=tuple(
            replace(edge, src=new_number[edge.src], dst=new_number[edge.dst], reverse=new_edge.get(edge.reverse, -1))
            for edge in (system.edges[number] for number in edges)
        ),
        leaving=tuple(
            tuple(new_edge[number] for number in system.leaving[node.number] if number in new_edge) for node in kept
        ),
        num_hosts=system.num_hosts,
    )
