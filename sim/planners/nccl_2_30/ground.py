"""What stays the same during all searches of one domain: routes with what they charge, NIC lists, PCIe links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sim.planners.nccl_2_30.domains import Domain
from sim.planners.nccl_2_30.facts import MAX_SELECTED_NETS
from sim.planners.nccl_2_30.kinds import LinkKind, NodeKind, PathKind
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.paths import Path
from sim.planners.nccl_2_30.system import Node, System
from sim.planners.nccl_2_30.tables import Table

INTEL_PCI_OVERHEAD = 6 / 5
OLD_GPU_REVERSE_SHARE = 1 / 8


@dataclass(frozen=True, slots=True)
class Route:
    """A path as the search uses it: its kind and that of the way back, and (edge, share of the bandwidth) charged.

    `plain`: every edge is charged once and in full; they are `edges` then.
    """

    kind: PathKind
    back_kind: PathKind
    num_hops: int
    charges: tuple[tuple[int, float], ...]
    edges: tuple[int, ...]
    plain: bool


Routes = tuple[tuple["Route | None", ...], ...]
"""`routes[i][j]`; None where there is no path."""


@dataclass(frozen=True)
class Ground:
    """The domain, prepared for searching. `pci_edges[g]` are the edge of GPU g's PCIe link and the one back."""

    domain: Domain
    gpu_gpu: Routes
    gpu_net: Routes
    net_gpu: Routes
    gpu_switch: Routes
    switch_gpu: Routes
    pci_edges: tuple[tuple[int, int], ...]
    net_groups: tuple[tuple[int, ...], ...]
    net_policy_limit: int | None
    scatter_nets: bool

    @property
    def num_gpus(self) -> int:
        """GPUs of the domain."""
        return len(self.gpu_gpu)

    @property
    def has_switch(self) -> bool:
        """Whether there is an NVSwitch."""
        return bool(self.switch_gpu)

    def select_nets(self, gpu: int | None, kind_inter: PathKind | None) -> tuple[int, ...]:
        """The NICs that a GPU (None: any GPU) may use, preferred ones first, then by path kind up to `kind_inter`."""
        gpus = range(self.num_gpus) if gpu is None else (gpu,)
        chosen = dict.fromkeys(self._preferred(gpus))
        rows = [self.domain.paths.gpu_net[index][:MAX_SELECTED_NETS] for index in gpus]
        for kind in range(0 if kind_inter is None else kind_inter + 1):
            for row in rows:
                for net, path in enumerate(row):
                    if path.kind == kind:
                        chosen[net] = None
        limit = self.net_policy_limit
        return tuple(chosen) if limit is None else tuple(chosen)[: limit * len(gpus)]

    def _preferred(self, gpus: Sequence[int]) -> list[int]:
        local = [self.domain.paths.local_nets[gpu] for gpu in gpus]
        if not self.scatter_nets:
            return [nets.of_channel(channel) for nets in local for channel in range(nets.count)]
        rounds = max((nets.count for nets in local), default=0)
        return [nets.of_channel(channel) for channel in range(rounds) for nets in local if channel < nets.count]


def prepare(domain: Domain, options: NcclOptions) -> Ground:
    """The ground of a domain's searches."""
    paths, system = domain.paths, domain.system
    gpus, nets = system.of_kind(NodeKind.GPU), system.of_kind(NodeKind.NET)
    switches = system.of_kind(NodeKind.NVSWITCH)
    policy = options.netdevs_policy
    return Ground(
        domain=domain,
        gpu_gpu=_routes(system, gpus, paths.gpu_gpu, paths.gpu_gpu),
        gpu_net=_routes(system, gpus, paths.gpu_net, paths.net_gpu),
        net_gpu=_routes(system, nets, paths.net_gpu, paths.gpu_net),
        gpu_switch=_routes(system, gpus, paths.gpu_switch, paths.switch_gpu) if switches else (),
        switch_gpu=_routes(system, switches, paths.switch_gpu, paths.gpu_switch),
        pci_edges=tuple(_pci_edges(system, gpu) for gpu in gpus),
        net_groups=tuple(tuple(other.index for other in nets if same_port(net, other)) for net in nets),
        net_policy_limit=policy.limit if policy.policy == "max" else None,
        scatter_nets=system.num_hosts > 1 and options.scatter_nets,
    )


def same_port(net: Node, other: Node) -> bool:
    """Whether two NET nodes are one port of one card."""
    assert net.net is not None
    assert other.net is not None
    return net.asic == other.asic and net.net.port == other.net.port


def _routes(system: System, sources: tuple[Node, ...], there: Table, back: Table) -> Routes:
    return tuple(
        tuple(_route(system, source, path, back[target][position].kind) for target, path in enumerate(there[position]))
        for position, source in enumerate(sources)
    )


def _route(system: System, source: Node, path: Path, back_kind: PathKind) -> Route | None:
    if path.kind == PathKind.DIS:
        return None
    pci_share = INTEL_PCI_OVERHEAD if _crosses_intel(system, source, path) else 1.0
    charges = []
    for number in path.hops:
        edge = system.edges[number]
        share = pci_share if edge.kind == LinkKind.PCI else 1.0
        charges.append((number, share))
        entered = system.nodes[edge.dst]
        reverse = 0.0
        if entered.kind == NodeKind.DEVICE and entered.compute_capability < 80 and source.kind != NodeKind.GPU:
            reverse += share * OLD_GPU_REVERSE_SHARE
        if entered.cpu is not None and entered.cpu.arch == "ppc64" and edge.kind == LinkKind.NVL:
            reverse += share
        if reverse:
            charges.append((edge.reverse, reverse))
    edges = tuple(edge for edge, _ in charges)
    plain = len(set(edges)) == len(edges) and all(share == 1.0 for _, share in charges)
    return Route(path.kind, back_kind, len(path.hops), tuple(charges), edges, plain)


def _crosses_intel(system: System, source: Node, path: Path) -> bool:
    """Whether PCIe traffic of this path pays for passing the root complex of an Intel CPU."""
    if path.kind != PathKind.PHB or source.kind != NodeKind.GPU:
        return False
    entered = (system.nodes[system.edges[number].dst].cpu for number in path.hops)
    return any(cpu is not None and cpu.arch == "x86_64" and cpu.vendor == "GenuineIntel" for cpu in entered)


def _pci_edges(system: System, gpu: Node) -> tuple[int, int]:
    for number in system.leaving[gpu.device]:
        if system.edges[number].kind == LinkKind.PCI:
            return number, system.edges[number].reverse
    raise AssertionError("a physical GPU hangs on a PCIe link by construction")
