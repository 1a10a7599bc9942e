"""What is to be timed, as columns: one row per operation, so that many sizes and machines are one calculation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.clock.facts import Facts
from sim.clock.profile import seen_kernel
from sim.clock.terms import FABRICS, GENERATIONS
from sim.collective import collective as find_collective

if TYPE_CHECKING:
    from sim.planners.nccl_2_30.planner import Choice, NcclPlan

Floats = npt.NDArray[np.float64]
Column = npt.NDArray[np.generic]

KERNELS = (
    "ring/ll",
    "ring/ll128",
    "ring/simple",
    "chain/ll",
    "chain/ll128",
    "chain/simple",
    "tree/ll",
    "tree/ll128",
    "tree/simple",
    "nvls/simple",
    "nvls-tree/simple",
    "collnet/simple",
    "all-to-all",
    "send-recv",
)
"""What NCCL launches, as far as its time is of a form of its own; a chain is a ring's broadcast or reduce."""
SENDRECV = "sendrecv"


OLD_LAUNCHES = (2, 12)
"""From this version of NCCL on, launching on several GPUs of one process does not grow much with the channels."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One collective of one size as NCCL runs it; `num_bytes` is nccl-tests' size."""

    collective: str
    num_bytes: int
    algorithm: str
    protocol: str
    num_channels: int
    chunk_bytes: int


@dataclass(frozen=True, eq=False)
class Jobs:
    """Columns of equal length; see `Facts` for those of the machine.

    `generation`, `native`, `fabric` and `kernel` are places in GENERATIONS, FABRICS and KERNELS; `steps` are those of a
    ring, of which `net_steps` lead over the network. `bus_bytes` is the bus volume, as nccl-tests counts it for busbw.
    `gpus_per_process` is 0 where it is not known. `old`: before OLD_LAUNCHES.
    """

    kernel: npt.NDArray[np.intp]
    generation: npt.NDArray[np.intp]
    native: npt.NDArray[np.intp]
    fabric: npt.NDArray[np.intp]
    num_bytes: Floats
    bus_bytes: Floats
    num_ranks: Floats
    num_nodes: Floats
    steps: Floats
    net_steps: Floats
    num_channels: Floats
    all_channels: Floats
    chunk_bytes: Floats
    num_heads: Floats
    link_bytes_per_s: Floats
    net_bytes_per_s: Floats
    gpu_bytes_per_s: Floats
    nic_bytes_per_s: Floats
    nics_bytes_per_s: Floats
    gathers: npt.NDArray[np.bool_]
    through_host: npt.NDArray[np.bool_]
    host_bridge: npt.NDArray[np.bool_]
    gpus_per_process: Floats
    old: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.kernel)

    @property
    def several(self) -> npt.NDArray[np.bool_]:
        """Whether more than one node takes part."""
        return self.num_nodes > 1

    @property
    def ranks_per_node(self) -> Floats:
        """Ranks per node, on average."""
        found: Floats = self.num_ranks / self.num_nodes
        return found

    def take(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Jobs:
        """The rows at these places, or where a mask is true."""
        return Jobs(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    @classmethod
    def joined(cls, parts: Sequence[Jobs]) -> Jobs:
        """The rows of all parts, one after the other."""
        return cls(
            **{field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)}
        )


def operation_of(nccl: NcclPlan, collective: str, num_bytes: int, choice: Choice | None) -> Operation:
    """The collective as NCCL chose to run it; without a choice it is made of sends and receives."""
    if choice is None:
        pairs = nccl.wiring.point_to_point
        return Operation(collective, num_bytes, "direct", "simple", pairs.num_channels, pairs.chunk_bytes)
    channels = choice.split.num_channels
    return Operation(collective, num_bytes, choice.algorithm, choice.protocol, channels, choice.chunk_bytes)


def kernel_of(operation: Operation, *, several_nodes: bool) -> str:
    """The row of KERNELS that times this; NVLS over several nodes is reduced in the network, as CollNet is."""
    collective, algorithm = operation.collective, operation.algorithm
    if collective == SENDRECV:
        return "send-recv"
    if collective == "all_to_all":
        return "all-to-all"
    if algorithm.startswith("collnet") or (algorithm == "nvls" and several_nodes):
        return "collnet/simple"
    if algorithm == "pat":
        return "ring/simple"
    if collective in ("broadcast", "reduce"):
        return f"chain/{operation.protocol}"
    return f"{algorithm}/{operation.protocol}"


def jobs_of(
    facts: Facts, operations: Iterable[Operation], *, gpus_per_process: int | None = None, old: bool = False
) -> Jobs:
    """The operations on one machine; `old` where NCCL is older than 2.12."""
    rows = tuple(operations)
    num_ranks, num_nodes = facts.num_ranks, facts.num_nodes

    def same(value: float) -> Floats:
        return np.full(len(rows), float(value))

    def each(values: Iterable[float]) -> Floats:
        return np.array(list(values), dtype=np.float64)

    crossings = 2 if num_nodes > 1 else 0
    steps = each((2 if row.collective == "all_reduce" else 1) * (num_ranks - 1) for row in rows)
    net_steps = each((crossings if row.collective == "all_reduce" else crossings / 2) * num_nodes for row in rows)
    return Jobs(
        kernel=np.array([KERNELS.index(kernel_of(row, several_nodes=num_nodes > 1)) for row in rows], int),
        generation=np.full(len(rows), GENERATIONS.index(facts.generation)),
        native=np.full(len(rows), GENERATIONS.index(facts.native or facts.generation)),
        fabric=np.full(len(rows), FABRICS.index(facts.fabric) if facts.fabric in FABRICS else 0),
        num_bytes=each(row.num_bytes for row in rows),
        bus_bytes=each(row.num_bytes * _busbw_factor(row.collective, num_ranks) for row in rows),
        num_ranks=same(num_ranks),
        num_nodes=same(num_nodes),
        steps=steps,
        net_steps=np.minimum(net_steps, steps),
        num_channels=each(row.num_channels for row in rows),
        all_channels=same(facts.num_channels),
        chunk_bytes=each(row.chunk_bytes for row in rows),
        num_heads=same(facts.num_heads),
        link_bytes_per_s=same(facts.link_bytes_per_s),
        net_bytes_per_s=same(facts.net_bytes_per_s),
        gpu_bytes_per_s=same(facts.gpu_bytes_per_s),
        nic_bytes_per_s=same(facts.nic_bytes_per_s),
        nics_bytes_per_s=same(max(facts.nics_bytes_per_s, facts.net_bytes_per_s)),
        gathers=np.array([row.collective == "all_gather" for row in rows], dtype=np.bool_),
        through_host=np.full(len(rows), facts.through_host),
        host_bridge=np.full(len(rows), facts.host_bridge),
        gpus_per_process=same(gpus_per_process or 0),
        old=np.full(len(rows), old),
    )


def shown_by(jobs: Jobs) -> set[str]:
    """The kernels of these jobs, with generation and regime, as a profile says what it saw."""
    rows = zip(jobs.generation.tolist(), jobs.kernel.tolist(), jobs.num_bytes.tolist(), strict=True)
    return {seen_kernel(GENERATIONS[generation], KERNELS[kernel], num_bytes) for generation, kernel, num_bytes in rows}


def _busbw_factor(collective: str, num_ranks: int) -> float:
    return 1.0 if collective == SENDRECV else find_collective(collective).busbw_factor(num_ranks)
