"""The front door: what NCCL 2.30.7 builds on a machine, and what it chooses for a collective of a given size."""

from __future__ import annotations

from dataclasses import dataclass

from sim.planners.nccl_2_30.choice_lists import COLLECTIVES
from sim.planners.nccl_2_30.chunks import Split, split
from sim.planners.nccl_2_30.estimate import times_s
from sim.planners.nccl_2_30.launch import WARP, Communicator, max_threads, num_channels_and_warps, thresholds
from sim.planners.nccl_2_30.nvls import NvlsShape, nvls_shape
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.spec import SystemSpec
from sim.planners.nccl_2_30.tuner import Machine, TunerTable, tune
from sim.planners.nccl_2_30.wiring import Wiring, wire
from sim.workload import ELEMENT_BYTES
from topo.errors import NameChoiceError, TopoError


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
    """What NCCL builds on a machine (`wiring`) and the cost model that `choose` asks."""

    wiring: Wiring
    communicator: Communicator
    table: TunerTable

    def choose(self, collective: str, num_bytes: int, *, dtype: str = "float32", reduction: str = "sum") -> Choice:
        """NCCL's choice for the collective; TopoError where its environment leaves no algorithm.

        One rank is a local copy, for which NCCL says ring, simple and no time.
        """
        if collective not in COLLECTIVES:
            raise NameChoiceError("collective of NCCL's tuner", collective, COLLECTIVES)
        if dtype not in ELEMENT_BYTES:
            raise NameChoiceError("dtype", dtype, ELEMENT_BYTES)
        times = self.times_s(collective, num_bytes, dtype=dtype, reduction=reduction)
        algorithm, protocol = min(times, key=lambda way: times[way])
        comm, num_ranks = self.communicator, self.wiring.num_ranks
        channels, warps = comm.num_channels, comm.max_threads["ring", "simple"] // WARP + 1
        if num_ranks > 1:
            channels, warps = num_channels_and_warps(comm, algorithm, protocol, num_bytes)
        scale = num_ranks if collective in ("all_gather", "reduce_scatter") else 1
        num_elements = num_bytes // (scale * ELEMENT_BYTES[dtype])
        return Choice(
            collective=collective,
            num_bytes=num_bytes,
            algorithm=algorithm,
            protocol=protocol,
            num_channels=channels,
            num_warps=warps,
            estimate_s=times[algorithm, protocol],
            times_s=tuple(times.items()),
            split=split(comm, collective, algorithm, protocol, num_elements, ELEMENT_BYTES[dtype], channels),
        )

    def times_s(
        self, collective: str, num_bytes: int, *, dtype: str = "float32", reduction: str = "sum"
    ) -> dict[tuple[str, str], float]:
        """NCCL's estimate in seconds of every available (algorithm, protocol); TopoError where there is none."""
        if self.wiring.num_ranks == 1:
            return {("ring", "simple"): 0.0}
        comm = self.communicator
        times = times_s(
            self.table, comm.machine, comm.num_channels, collective, num_bytes, dtype=dtype, reduction=reduction
        )
        if not times:
            raise TopoError(
                f"NCCL has no algorithm left for {collective} ({reduction} of {dtype}) under "
                "NCCL_ALGO and NCCL_PROTO as given: allow one that it knows, or leave them out"
            )
        return times


def plan_nccl(spec: SystemSpec, *, num_copies: int = 1, options: NcclOptions | None = None) -> NcclPlan:
    """What NCCL 2.30.7 builds on `num_copies` identical copies of a machine (one host, or one NVLink domain)."""
    options = options or NcclOptions()
    wiring = wire(spec, num_copies, options)
    machine = machine_of(wiring)
    return NcclPlan(
        wiring=wiring,
        communicator=communicator_of(wiring, machine, options),
        table=tune(machine, wiring.graphs, options),
    )


def machine_of(wiring: Wiring) -> Machine:
    """What a cost model knows of the machine besides its graphs."""
    system = wiring.domains[0].system
    return Machine(
        num_nodes=wiring.num_nodes,
        num_ranks=wiring.num_ranks,
        max_ranks_per_node=max(len(domain.ranks) for domain in wiring.domains),
        min_compute_capability=system.min_compute_capability,
        max_compute_capability=system.max_compute_capability,
        cpu_arch=system.arch,
        cpu_vendor=system.vendor,
        nvls=wiring.graphs["nvls"].num_channels > 0,
        collnet=wiring.collnet,
    )


def communicator_of(wiring: Wiring, machine: Machine, options: NcclOptions) -> Communicator:
    """Channel counts, threads and buffers with which operations are launched."""
    shape = NvlsShape()
    if machine.nvls:
        shape = nvls_shape(
            options,
            compute_capability=machine.min_compute_capability,
            num_nodes=machine.num_nodes,
            ranks_per_node=machine.ranks_per_node,
            net_bytes_per_s=wiring.point_to_point.net_bytes_per_s,
        )
    return Communicator(
        machine=machine,
        num_channels=wiring.num_channels,
        nvls_num_channels=shape.num_channels,
        nvls_num_heads=wiring.graphs["nvls"].num_channels,
        nvls_chunk_bytes=shape.chunk_bytes,
        nvls_tree_max_chunk_bytes=shape.tree_max_chunk_bytes,
        max_threads=max_threads(wiring.graphs, options),
        thresholds=thresholds(machine.num_ranks, options),
        buffer_bytes={
            "ll": options.ll_buffer_bytes,
            "ll128": options.ll128_buffer_bytes,
            "simple": options.simple_buffer_bytes,
        },
        direct_num_heads=wiring.graphs["collnet_direct"].num_channels,
    )
