"""What a user asks to be measured, checked before anything starts: sizes, algorithms, and who executes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sim.algorithms import ALGORITHMS
from sim.workload import Workload
from topo.errors import MeasurementError, NameChoiceError
from topo.words import counted
from validate.backends import BUILTIN_IN_PARTS
from validate.jobs import BackendName
from validate.measurement import Setting

BUILTIN = "builtin"
POINT_TO_POINT = "point-to-point"
Executor = Literal["auto", "builtin", "point-to-point"]

_ALL = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce")
_REDUCING = ("all_reduce", "reduce_scatter", "all_gather")


@dataclass(frozen=True, slots=True)
class NcclAlgorithm:
    """An algorithm inside NCCL: its word for NCCL_ALGO, and the collectives it knows it for (NCCL 2.30, tuning.cc)."""

    word: str
    collectives: tuple[str, ...]


NCCL_ALGORITHMS: Mapping[str, NcclAlgorithm] = {
    "ring": NcclAlgorithm("Ring", _ALL),
    "tree": NcclAlgorithm("Tree", ("all_reduce",)),
    "nvls": NcclAlgorithm("NVLS", _REDUCING),
    "nvls-tree": NcclAlgorithm("NVLSTree", ("all_reduce",)),
    "collnet-direct": NcclAlgorithm("CollnetDirect", _REDUCING),
    "collnet-chain": NcclAlgorithm("CollnetChain", ("all_reduce",)),
    "pat": NcclAlgorithm("PAT", ("all_gather", "reduce_scatter")),
}
NCCL_PROTOCOLS: Mapping[str, str] = {"ll": "LL", "ll128": "LL128", "simple": "Simple"}


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a workload: the algorithm, who executes it, and the protocol that is asked for (None: any)."""

    algorithm: str
    executor: str
    protocol: str | None = None

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The variables under which NCCL runs it so."""
        if self.executor != BUILTIN:
            return ()
        found = []
        if self.algorithm != BUILTIN:
            found.append(Setting("NCCL_ALGO", NCCL_ALGORITHMS[self.algorithm].word))
        if self.protocol is not None:
            found.append(Setting("NCCL_PROTO", NCCL_PROTOCOLS[self.protocol]))
        return tuple(found)


@dataclass(frozen=True)
class Request:
    """What to measure. `algorithms` are `builtin`, names of ALGORITHMS, and on nccl those of NCCL_ALGORITHMS.

    All workloads are run by each of them. With the executor `auto`, NCCL runs what it knows by itself, and a schedule
    over point-to-point messages all else. `protocols` (ll, ll128, simple) force NCCL's; each stands for a run of its
    own. `graph` measures CUDA graphs. With `min_ratio` a row is LOW below that share of the predicted speed, unless
    one of `retries` further attempts reaches it.
    """

    backend: BackendName
    num_ranks: int
    workloads: tuple[Workload, ...]
    algorithms: tuple[str, ...] = (BUILTIN,)
    num_chunks: int | None = None
    num_iterations: int = 20
    num_warmups: int = 5
    timeout_s: float = 300.0
    tolerance: float | None = None
    executor: Executor = "auto"
    protocols: tuple[str, ...] = ()
    graph: bool = False
    min_ratio: float | None = None
    retries: int = 0

    def __post_init__(self) -> None:
        if not self.algorithms:
            raise MeasurementError("no algorithm is to be measured: name some with --algorithm")
        for protocol in self.protocols:
            if protocol not in NCCL_PROTOCOLS:
                raise NameChoiceError("protocol", protocol, NCCL_PROTOCOLS)
        for way in self.ways:
            for workload in self.workloads:
                self._check(way, workload)
        if self.graph and self.backend != "nccl":
            raise MeasurementError("CUDA graphs need GPUs: leave --cuda-graph out, or use --backend nccl")
        if self.protocols and not any(way.protocol for way in self.ways):
            raise MeasurementError(
                "--protocol is for what NCCL executes by itself: use --backend nccl and --executor builtin"
            )
        if self.num_chunks is not None and all(way.executor == BUILTIN for way in self.ways):
            raise MeasurementError(
                "--chunks cuts schedules of ours, and none is to be measured: name one with --algorithm, or do without"
            )

    @cached_property
    def ways(self) -> tuple[Way, ...]:
        """Every way in which each workload is run."""
        found = []
        for name in self.algorithms:
            executor = self._executor_of(name)
            protocols = self.protocols if executor == BUILTIN and self.backend == "nccl" else ()
            found += [Way(name, executor, protocol) for protocol in protocols or (None,)]
        return tuple(found)

    def _executor_of(self, name: str) -> str:
        by_nccl = self.backend == "nccl" and name in NCCL_ALGORITHMS
        known = (BUILTIN, *ALGORITHMS, *(NCCL_ALGORITHMS if self.backend == "nccl" else ()))
        if name not in known:
            raise NameChoiceError("algorithm", name, known)
        if name == BUILTIN:
            return BUILTIN
        if self.executor == BUILTIN and not by_nccl:
            raise MeasurementError(
                f"--executor builtin: {self.backend} has no {name} that it could be told to run, leave --executor out"
            )
        if name in ALGORITHMS and ALGORITHMS[name].in_switch and (not by_nccl or self.executor == POINT_TO_POINT):
            raise MeasurementError(
                f"{name} runs inside a switch, which messages between processes cannot use: measure it by NCCL itself "
                "(--backend nccl), or choose another --algorithm"
            )
        if self.executor == POINT_TO_POINT and name not in ALGORITHMS:
            raise MeasurementError(f"--executor point-to-point: {name} is NCCL's own and has no schedule here")
        return BUILTIN if by_nccl and self.executor != POINT_TO_POINT else POINT_TO_POINT

    def _check(self, way: Way, workload: Workload) -> None:
        """MeasurementError where the way cannot run the workload at all."""
        runs = collectives_of(way)
        if workload.collective not in runs:
            others = ", ".join(algorithms_for(workload.collective)) or "nothing"
            raise MeasurementError(
                f"{way.algorithm} runs {', '.join(runs)}, not {workload.collective}: that is run by {others}"
            )
        if self.num_ranks < 2 and way.executor == POINT_TO_POINT:
            raise MeasurementError(
                f"{way.algorithm} over {counted(self.num_ranks, 'rank')} sends nothing: a schedule needs at least 2, "
                "see --ranks"
            )


def collectives_of(way: Way) -> tuple[str, ...]:
    """The collectives that are run this way."""
    if way.algorithm == BUILTIN:
        return tuple(BUILTIN_IN_PARTS)
    if way.executor == BUILTIN:
        return NCCL_ALGORITHMS[way.algorithm].collectives
    return ALGORITHMS[way.algorithm].collectives


def algorithms_for(collective: str) -> tuple[str, ...]:
    """What can run a collective (by its own name): the library's call, and those of ALGORITHMS that are made for it."""
    found = [BUILTIN] if collective in BUILTIN_IN_PARTS else []
    return (*found, *(name for name, row in ALGORITHMS.items() if collective in row.collectives and not row.in_switch))


def workloads_of(
    collective: str, sizes: Sequence[int], dtype: str, reduction: str, num_ranks: int
) -> tuple[Workload, ...]:
    """One workload per size; where every rank owns an equal part, sizes as nccl-tests runs them.

    That is rounded down to whole parts, and at least one element each. The same size is not run twice.
    """
    whole = [Workload(collective, size, dtype, reduction) for size in sizes]
    if not BUILTIN_IN_PARTS.get(collective, False):
        return tuple(whole)
    step = [workload.element_bytes * num_ranks for workload in whole]
    rounded = [max(size // unit, 1) * unit for size, unit in zip(sizes, step, strict=True)]
    return tuple(Workload(collective, size, dtype, reduction) for size in dict.fromkeys(rounded))
