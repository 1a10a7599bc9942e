"""The GPUs that one rank's search covers, and the bandwidths it starts from (trim and speeds of paths.cc, topo.cc)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sim.planners.nccl_2_30.facts import LOCAL_BYTES_PER_S
from sim.planners.nccl_2_30.kinds import LinkKind, NodeKind, PathKind
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.spec import SystemSpec
from sim.planners.nccl_2_30.system import System, build_system, without_gpus
from sim.planners.nccl_2_30.tables import Paths
from sim.planners.nccl_2_30.transports import find_paths
from topo.errors import TopologyError

MOST_REMEMBERED = 32


@dataclass(frozen=True)
class Domain:
    """One of NCCL's "nodes": GPUs that reach each other without the network.

    `inter` says that there are ranks outside it. `max_` and `total_bytes_per_s` bound one channel and all of them.
    """

    paths: Paths
    inter: bool
    max_bytes_per_s: float
    total_bytes_per_s: float

    @property
    def system(self) -> System:
        """The system with the GPUs of this domain alone."""
        return self.paths.system

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of this domain, by GPU index."""
        return tuple(node.rank for node in self.system.of_kind(NodeKind.GPU))


def find_domains(spec: SystemSpec, num_copies: int, options: NcclOptions) -> tuple[Domain, ...]:
    """The domains of one copy of the machine, in order of their lowest rank, among `num_copies` in all."""
    found = _paths_by_domain(spec, options)
    num_nodes = num_copies * len(found)
    if num_nodes > 1 and not found[0].system.of_kind(NodeKind.NET):
        raise TopologyError(
            f"the machine has no NIC, but NCCL has to join {num_nodes} nodes: add a NIC with its rate, or plan one node"
        )
    return tuple(_domain(paths, num_nodes > 1) for paths in found)


@lru_cache(maxsize=MOST_REMEMBERED)
def _paths_by_domain(spec: SystemSpec, options: NcclOptions) -> tuple[Paths, ...]:
    """The paths in each domain of a machine, whatever stands beside it; the last few answers are kept."""
    system = build_system(spec)
    paths = find_paths(system, options)
    gpus = system.of_kind(NodeKind.GPU)
    everyone = set(range(len(gpus)))
    found = []
    for indices in sorted(_members(paths), key=lambda indices: min(gpus[index].rank for index in indices)):
        trimmed = without_gpus(system, everyone.difference(indices))
        found.append(paths if trimmed is system else find_paths(trimmed, options))
    return tuple(found)


def _members(paths: Paths) -> list[list[int]]:
    """GPU indices of each domain: a GPU joins the first domain that it reaches from a lower index."""
    domain: list[int] = []
    for gpu in range(len(paths.gpu_gpu)):
        reached = [domain[other] for other in range(gpu) if paths.gpu_gpu[gpu][other].kind < PathKind.NET]
        domain.append(min(reached, default=gpu))
    return [[gpu for gpu, own in enumerate(domain) if own == name] for name in dict.fromkeys(domain)]


def _domain(paths: Paths, inter: bool) -> Domain:
    if not inter and len(paths.gpu_gpu) == 1:
        return Domain(paths, inter, float(LOCAL_BYTES_PER_S), float(LOCAL_BYTES_PER_S))
    rows = paths.device_net if inter else paths.device_device
    fastest = max((path.bandwidth_bytes_per_s for row in rows for path in row if path.hops), default=0.0)
    return Domain(paths, inter, fastest, _total_bytes_per_s(paths.system))


def _total_bytes_per_s(system: System) -> float:
    """What the best connected physical GPU can move: its PCIe link, or all its NVLinks."""
    best = 0.0
    for device in system.of_kind(NodeKind.DEVICE):
        edges = [system.edges[number] for number in system.leaving[device.number]]
        nvlinks = sum(edge.bandwidth_bytes_per_s for edge in edges if edge.kind == LinkKind.NVL)
        pcie = [edge.bandwidth_bytes_per_s for edge in edges if edge.kind == LinkKind.PCI]
        best = max(best, nvlinks, *pcie)
    return best
