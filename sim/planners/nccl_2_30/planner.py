"""The front door: what NCCL 2.30.7 builds on a machine, and what it chooses for a collective of a given size."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sim.planners.nccl_2_30.choice_lists import COLLECTIVES
from sim.planners.nccl_2_30.chunks import Split, split
from sim.planners.nccl_2_30.estimate import times_s
from sim.planners.nccl_2_30.facts import KNOWN_COMPUTE_CAPABILITIES
from sim.planners.nccl_2_30.kinds import NodeKind
from sim.planners.nccl_2_30.launch import WARP, Communicator, max_threads, num_channels_and_warps, thresholds
from sim.planners.nccl_2_30.machine import Machine
from sim.planners.nccl_2_30.nvls import NvlsShape, nvls_shape
from sim.planners.nccl_2_30.options import ALGORITHMS, NVLS, PROTOCOLS, NcclOptions
from sim.planners.nccl_2_30.requests import GraphSearch, find_graphs, why_no_nvls
from sim.planners.nccl_2_30.rules import SIMPLE_ONLY, why_barred, why_missing, why_unsupported
from sim.planners.nccl_2_30.spec import SystemSpec
from sim.planners.nccl_2_30.tuner import GRAPH_OF, TunerTable, tune
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

    @property
    def chunk_bytes(self) -> int:
        """The chunk of a channel in the middle, or of the first one where there are too few."""
        return (self.split.middle or self.split.first).chunk_bytes


@dataclass(frozen=True)
class NcclPlan:
    """What NCCL builds on a machine (`wiring`) and the cost model that `choose` asks.

    `notes` are sentences about what was assumed of the machine and which settings are not followed.
    """

    wiring: Wiring
    communicator: Communicator
    table: TunerTable
    options: NcclOptions
    notes: tuple[str, ...] = ()

    @property
    def num_nets(self) -> int:
        """NICs of one copy of the machine, after fusion."""
        return len(self.wiring.domains[0].system.of_kind(NodeKind.NET))

    @property
    def parts(self) -> tuple[int, ...]:
        """For each rank of one copy of the machine the number of NCCL's node that it is in; empty where that is one.

        A PCIe box whose NICs are faster than the way between its processors is split there.
        """
        domains = self.wiring.domains
        if len(domains) < 2:
            return ()
        number = {rank: index for index, domain in enumerate(domains) for rank in domain.ranks}
        return tuple(number[rank] for rank in sorted(number))

    @property
    def extrapolated(self) -> bool:
        """Whether a GPU is newer than NCCL's tables, so that all numbers are those of the nearest one in them."""
        machine = self.communicator.machine
        return not {machine.min_compute_capability, machine.max_compute_capability} <= KNOWN_COMPUTE_CAPABILITIES

    def choose(
        self,
        collective: str,
        num_bytes: int,
        *,
        dtype: str = "float32",
        reduction: str = "sum",
        algorithms: Collection[str] | None = None,
    ) -> Choice:
        """NCCL's choice for the collective, of these algorithms alone where some are named.

        TopoError with the rule that excludes them where none of them can be taken. One rank is a local copy, for which
        NCCL says ring, simple and no time.
        """
        if collective not in COLLECTIVES:
            raise NameChoiceError("collective of NCCL's tuner", collective, COLLECTIVES)
        if dtype not in ELEMENT_BYTES:
            raise NameChoiceError("dtype", dtype, ELEMENT_BYTES)
        times = self.times_s(collective, num_bytes, dtype=dtype, reduction=reduction)
        ways = [way for way in times if algorithms is None or way[0] in algorithms]
        if not ways:
            raise TopoError(self._nothing_left(collective, dtype, reduction, algorithms or ()))
        algorithm, protocol = min(ways, key=lambda way: times[way])
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
        """NCCL's estimate in seconds of every available (algorithm, protocol), in its order; may be empty."""
        if self.wiring.num_ranks == 1:
            return {("ring", "simple"): 0.0}
        comm = self.communicator
        return times_s(
            self.table, comm.machine, comm.num_channels, collective, num_bytes, dtype=dtype, reduction=reduction
        )

    def why_not(
        self, collective: str, algorithm: str, protocol: str, *, dtype: str = "float32", reduction: str = "sum"
    ) -> str:
        """The rule by which NCCL leaves this way out, in words; empty where it may take it."""
        machine, graph = self.communicator.machine, self.wiring.graphs[GRAPH_OF[algorithm]]
        if algorithm in NVLS and collective not in ("broadcast", "reduce"):
            missing = why_no_nvls(self.wiring.domains[0], self.options)
            if missing:
                return missing
        found = why_missing(machine, self.options, collective, algorithm)
        if not found and protocol != "simple" and algorithm in SIMPLE_ONLY:
            found = f"{algorithm} knows simple alone"
        found = found or why_barred(machine, graph, self.options, collective, algorithm, protocol)
        found = found or why_unsupported(collective, algorithm, dtype, reduction)
        cost = self.table.get((collective, algorithm, protocol))
        if not found and cost is not None and not cost.bytes_per_s:
            return f"its {graph.num_channels} heads are fewer than the ranks of a node"
        return found

    def _nothing_left(self, collective: str, dtype: str, reduction: str, algorithms: Collection[str]) -> str:
        """Why none of the algorithms can be taken; of all where none is named."""
        named = [name for name in ALGORITHMS if name in algorithms] or [
            name for name in ALGORITHMS if self.options.allows_algorithm(collective, name)
        ]
        reasons = {}
        for name in named:
            rules = (self.why_not(collective, name, p, dtype=dtype, reduction=reduction) for p in reversed(PROTOCOLS))
            reasons[name] = next((rule for rule in rules if rule), "")
        said = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        return (
            f"NCCL has no algorithm left for {collective} ({reduction} of {dtype}) here ({said}): allow one that it "
            "can take (NCCL_ALGO, NCCL_PROTO), or leave them out"
        )


def plan_nccl(
    spec: SystemSpec, *, num_copies: int = 1, options: NcclOptions | None = None, search: GraphSearch = find_graphs
) -> NcclPlan:
    """What NCCL 2.30.7 builds on `num_copies` identical copies of a machine (one host, or one NVLink domain)."""
    options = options or NcclOptions()
    wiring = wire(spec, num_copies, options, search)
    machine = machine_of(wiring)
    return NcclPlan(
        wiring=wiring,
        communicator=communicator_of(wiring, machine, options),
        table=tune(machine, wiring.graphs, options),
        options=options,
        notes=(*_notes(spec, machine, options), *_notes_on_parts(spec, wiring, options)),
    )


def _notes_on_parts(spec: SystemSpec, wiring: Wiring, options: NcclOptions) -> tuple[str, ...]:
    """Why a host counts as several nodes, which surprises whoever looks at its matrix."""
    count = len(wiring.domains)
    if count < 2 or len({cpu.host for cpu in spec.cpus}) > 1:
        return ()
    if options.shm_disable or options.net_disable_intra:
        return (f"NCCL takes a host for {count} nodes that speak over its NICs: neither P2P nor SHM joins them",)
    return (
        f"NCCL takes a host for {count} nodes that speak over its NICs, as these are faster than the way between its "
        "processors: NCCL_NET_DISABLE_INTRA=1 keeps it whole",
    )


def _notes(spec: SystemSpec, machine: Machine, options: NcclOptions) -> tuple[str, ...]:
    newest = max(machine.min_compute_capability, machine.max_compute_capability)
    strange = {machine.min_compute_capability, newest} - KNOWN_COMPUTE_CAPABILITIES
    return (
        *spec.assumed,
        *(f"{name}: this planner does not follow it" for name in options.not_modelled),
        *(
            f"NCCL 2.30 has no row for compute capability {capability // 10}.{capability % 10}: every number is "
            "extrapolated from the nearest one below"
            for capability in sorted(strange)
        ),
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
