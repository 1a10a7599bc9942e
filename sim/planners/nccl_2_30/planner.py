"""The front door: what NCCL 2.30.7 builds on a machine, and what it chooses for a collective of a given size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sim.planners.nccl_2_30.channels import (
    Orders,
    Tree,
    agree,
    build_rings,
    build_trees,
    final_num_channels,
    nodes_of,
)
from sim.planners.nccl_2_30.choice_lists import COLLECTIVES
from sim.planners.nccl_2_30.chunks import Split, split
from sim.planners.nccl_2_30.domains import Domain, find_domains
from sim.planners.nccl_2_30.estimate import times_s
from sim.planners.nccl_2_30.graphs import Graph
from sim.planners.nccl_2_30.launch import Communicator, max_threads, num_channels_and_warps, thresholds
from sim.planners.nccl_2_30.nvls import NvlsShape, NvlsTree, build_nvls_trees, nvls_shape
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.p2p import PointToPoint, point_to_point
from sim.planners.nccl_2_30.requests import collnet_works, find_graphs
from sim.planners.nccl_2_30.spec import SystemSpec
from sim.planners.nccl_2_30.tuner import Machine, TunerTable, tune
from sim.workload import ELEMENT_BYTES
from topo.errors import NameChoiceError, TopoError, TopologyError


@dataclass(frozen=True, slots=True)
class Choice:
    """What NCCL takes for one collective and size, and what it expects it to last.

    `num_bytes` is nccl-tests' size. `times_s` are the estimates of everything that was available, by (algorithm,
    protocol). `num_channels` may be used at most; `split` says how many are.
    """

    collective: str
    num_bytes: int
    algorithm: str
    protocol: str
    num_channels: int
    num_warps: int
    estimate_s: float
    times_s: tuple[tuple[tuple[str, str], float], ...]
    split: Split


@dataclass(frozen=True)
class NcclPlan:
    """Everything that NCCL builds for `num_copies` of a machine; `choose` asks its tuner.

    `graphs` are what all ranks agreed on, `domain_graphs[d]` what domain d of one copy found by itself. `rings[c]` is
    channel c from rank 0 in sending direction, `trees[c]` its tree.
    """

    options: NcclOptions
    domains: tuple[Domain, ...]
    domain_graphs: tuple[dict[str, Graph], ...]
    graphs: dict[str, Graph]
    rings: Orders
    trees: tuple[Tree, ...]
    nvls_trees: tuple[NvlsTree, ...]
    communicator: Communicator
    table: TunerTable
    point_to_point: PointToPoint

    @property
    def num_channels(self) -> int:
        """Channels of the communicator."""
        return self.communicator.num_channels

    @property
    def num_ranks(self) -> int:
        """Ranks of all copies."""
        return self.communicator.machine.num_ranks

    @property
    def num_nodes(self) -> int:
        """What NCCL calls nodes: domains whose GPUs need no network among themselves, of all copies."""
        return self.communicator.machine.num_nodes

    def choose(self, collective: str, num_bytes: int, *, dtype: str = "float32", reduction: str = "sum") -> Choice:
        """NCCL's choice for the collective; TopoError where its environment leaves no algorithm.

        One rank is a local copy, for which NCCL says ring, simple and no time.
        """
        if collective not in COLLECTIVES:
            raise NameChoiceError("collective of NCCL's tuner", collective, COLLECTIVES)
        element_bytes = _element_bytes(dtype)
        comm = self.communicator
        scale = self.num_ranks if collective in ("all_gather", "reduce_scatter") else 1
        num_elements = num_bytes // (scale * element_bytes)
        if self.num_ranks == 1:
            times = {("ring", "simple"): 0.0}
            channels, warps = self.num_channels, comm.max_threads["ring", "simple"] // 32 + 1
        else:
            times = times_s(
                self.table, comm.machine, comm.num_channels, collective, num_bytes, dtype=dtype, reduction=reduction
            )
        if not times:
            raise TopoError(
                f"NCCL has no algorithm left for {collective} ({reduction} of {dtype}) under "
                f"NCCL_ALGO and NCCL_PROTO as given: allow one that it knows, or leave them out"
            )
        algorithm, protocol = min(times, key=lambda way: times[way])
        if self.num_ranks > 1:
            channels, warps = num_channels_and_warps(comm, algorithm, protocol, num_bytes)
        return Choice(
            collective=collective,
            num_bytes=num_bytes,
            algorithm=algorithm,
            protocol=protocol,
            num_channels=channels,
            num_warps=warps,
            estimate_s=times[algorithm, protocol],
            times_s=tuple(times.items()),
            split=split(comm, collective, algorithm, protocol, num_elements, element_bytes, channels),
        )


def plan_nccl(spec: SystemSpec, *, num_copies: int = 1, options: NcclOptions | None = None) -> NcclPlan:
    """What NCCL 2.30.7 builds on `num_copies` identical copies of a machine (one host, or one NVLink domain)."""
    options = options or NcclOptions()
    ranks_per_copy = _check_ranks(spec)
    domains = find_domains(spec, num_copies, options)
    num_nodes, num_ranks = num_copies * len(domains), num_copies * ranks_per_copy
    collnet = collnet_works(domains, options, num_nodes)
    domain_graphs = tuple(find_graphs(domain, options, collnet=collnet) for domain in domains)
    graphs = agree(domain_graphs)
    system = domains[0].system
    machine = Machine(
        num_nodes=num_nodes,
        num_ranks=num_ranks,
        max_ranks_per_node=max(len(domain.ranks) for domain in domains),
        min_compute_capability=system.min_compute_capability,
        max_compute_capability=system.max_compute_capability,
        cpu_arch=system.arch,
        cpu_vendor=system.vendor,
        nvls=graphs["nvls"].num_channels > 0,
        collnet=collnet,
    )
    num_channels = final_num_channels(
        graphs,
        options,
        min_compute_capability=machine.min_compute_capability,
        num_nodes=num_nodes,
        num_ranks=num_ranks,
    )
    nodes = nodes_of(domain_graphs, graphs["ring"].num_channels, num_copies, ranks_per_copy)
    rings, trees = build_rings(nodes, graphs["ring"].cross_nic), build_trees(nodes)
    pairs = point_to_point(domains, options, num_channels=num_channels, num_ranks=num_ranks)
    return NcclPlan(
        options=options,
        domains=domains,
        domain_graphs=domain_graphs,
        graphs=graphs,
        rings=tuple(rings[channel % len(rings)] for channel in range(num_channels)),
        trees=tuple(trees[channel % len(trees)] for channel in range(num_channels)),
        nvls_trees=build_nvls_trees([graph["nvls"] for graph in domain_graphs], num_copies, ranks_per_copy),
        communicator=_communicator(machine, graphs, options, num_channels, pairs.net_bytes_per_s),
        table=tune(machine, graphs, options),
        point_to_point=pairs,
    )


def _communicator(
    machine: Machine, graphs: dict[str, Graph], options: NcclOptions, num_channels: int, net_bytes_per_s: float
) -> Communicator:
    shape = NvlsShape()
    if machine.nvls:
        shape = nvls_shape(
            options,
            compute_capability=machine.min_compute_capability,
            num_nodes=machine.num_nodes,
            ranks_per_node=machine.ranks_per_node,
            net_bytes_per_s=net_bytes_per_s,
        )
    return Communicator(
        machine=machine,
        num_channels=num_channels,
        nvls_num_channels=shape.num_channels,
        nvls_num_heads=graphs["nvls"].num_channels,
        nvls_chunk_bytes=shape.chunk_bytes,
        nvls_tree_max_chunk_bytes=shape.tree_max_chunk_bytes,
        max_threads=max_threads(graphs, options),
        thresholds=thresholds(machine.num_ranks, options),
        buffer_bytes={
            "ll": options.ll_buffer_bytes,
            "ll128": options.ll128_buffer_bytes,
            "simple": options.simple_buffer_bytes,
        },
        direct_num_heads=graphs["collnet_direct"].num_channels,
    )


def _check_ranks(spec: SystemSpec) -> int:
    """How many ranks the machine has; TopologyError where they are not 0, 1, 2, ..."""
    ranks: Sequence[int | None] = [gpu.rank for gpu in spec.gpus()]
    if not ranks:
        raise TopologyError("the machine has no GPU that takes part: NCCL needs at least one")
    if sorted(rank for rank in ranks if rank is not None) != list(range(len(ranks))):
        raise TopologyError(f"the ranks of the GPUs are {ranks}: they must be 0 to {len(ranks) - 1}, each once")
    return len(ranks)


def _element_bytes(dtype: str) -> int:
    if dtype not in ELEMENT_BYTES:
        raise NameChoiceError("dtype", dtype, ELEMENT_BYTES)
    return ELEMENT_BYTES[dtype]
