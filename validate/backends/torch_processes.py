"""What gloo and nccl runs share: the processes of a launch, meeting, timing, filling buffers and checking results.

One code path serves both: the device follows from the backend, seconds come from CUDA events on a GPU and from the
process' clock elsewhere.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from sim.collective import collective
from sim.workload import Workload
from validate.backends.steps import chunk_bounds
from validate.inputs import contribution, expected
from validate.measurement import Setting


def _nothing() -> None:
    """What happens when a process comes to a meeting, unless somebody counts."""


@dataclass(frozen=True, slots=True)
class Processes:
    """All processes of one launch, of which the first `num_ranks` are ranks; `ranks` is their group.

    `arriving` is called whenever this process is about to meet the others, so that one that stays away can be named.
    """

    backend: str
    rank: int
    num_ranks: int
    device: Any
    ranks: Any
    arriving: Callable[[], None] = _nothing

    @classmethod
    def joined(cls, backend: str, num_ranks: int, arriving: Callable[[], None] = _nothing) -> Processes:
        """The processes of the initialised default group; all of them must call this together."""
        device = torch.device("cpu")
        if backend == "nccl":
            device = torch.device("cuda", torch.cuda.current_device())
        ranks = dist.new_group(list(range(num_ranks)))
        found = cls(backend, dist.get_rank(), num_ranks, device, ranks, arriving)
        found.meet()
        return found

    @property
    def is_rank(self) -> bool:
        """Whether this process is a rank; a helper otherwise."""
        return self.rank < self.num_ranks

    def meet(self) -> None:
        """Return once all processes have come here, their device idle."""
        self.arriving()
        dist.barrier()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def timed(self, run: Callable[[], None]) -> float:
        """Seconds that `run` takes on this process, from the moment all have met."""
        self.meet()
        self.arriving()
        if self.device.type == "cuda":
            return self._timed_on_gpu(run)
        started = time.perf_counter()
        run()
        return time.perf_counter() - started

    def _timed_on_gpu(self, run: Callable[[], None]) -> float:
        event: Any = torch.cuda.Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize(self.device)
        return float(start.elapsed_time(end)) / 1e3

    def slowest(self, own_s: Sequence[float]) -> tuple[float, ...]:
        """The maximum over all processes, element by element."""
        self.arriving()
        times = torch.tensor(own_s, dtype=torch.float64, device=self.device)
        dist.all_reduce(times, op=dist.ReduceOp.MAX)
        return tuple(times.tolist())

    def all_agree(self, mine: bool) -> bool:
        """Whether it is true on every process."""
        self.arriving()
        verdict = torch.tensor([int(mine)], dtype=torch.int32, device=self.device)
        dist.all_reduce(verdict, op=dist.ReduceOp.MIN)
        return bool(verdict.item())


class TorchBackend(ABC):
    """A Backend on `torch.distributed`: what differs between executors is `prepare` and `run` alone."""

    executor: str

    def __init__(self, processes: Processes, algorithm: str) -> None:
        self.processes = processes
        self.name = processes.backend
        self.num_ranks = processes.num_ranks
        self.algorithm = algorithm
        self.workload: Workload | None = None
        self.buffer = torch.empty(0)

    num_chunks = 1

    @abstractmethod
    def prepare(self, workload: Workload) -> None:
        """Build what `run` needs besides the buffer."""

    @abstractmethod
    def run(self) -> None:
        """Run the collective once on `self.buffer`, in place."""

    def relative_tolerance(self) -> float:
        """How far a result may be from the exact one and still count as exact."""
        return 0.0

    def load(self, workload: Workload) -> None:
        """Allocate the buffer, fill it with this rank's contribution and get ready to run."""
        self.workload = workload
        dtype = getattr(torch, workload.dtype)
        self.buffer = torch.empty(workload.num_elements, dtype=dtype, device=self.processes.device)
        self._fill()
        self.prepare(workload)

    def time_once(self) -> float:
        """Seconds of one run on this process. Values change with every run: timing does not look at them."""
        return self.processes.timed(self.run)

    def slowest(self, own_s: Sequence[float]) -> tuple[float, ...]:
        """The maximum over all processes of each iteration."""
        return self.processes.slowest(own_s)

    def is_correct(self) -> bool | None:
        """Whether every rank holds exactly the expected numbers after one run from fresh contributions."""
        self._fill()
        self.processes.meet()
        self.run()
        return self.processes.all_agree(not self.processes.is_rank or self._holds_expected())

    def reduce_values(self, workload: Workload, mine: Sequence[float]) -> list[float]:
        """What this process holds after one run on the given values instead of the harness' own."""
        self.load(workload)
        if mine:
            self.buffer.copy_(torch.tensor(mine, dtype=torch.float64).to(self.buffer.dtype))
        self.processes.meet()
        self.run()
        return [float(value) for value in self.buffer.cpu().to(torch.float64).tolist()]

    def software(self) -> tuple[Setting, ...]:
        """The versions of torch and, on GPUs, of NCCL and CUDA."""
        settings = [Setting("torch", torch.__version__)]
        if self.processes.device.type == "cuda":
            nccl: Any = torch.cuda.nccl
            settings.append(Setting("nccl", ".".join(str(part) for part in nccl.version())))
            settings.append(Setting("cuda", str(torch.version.cuda)))
        return tuple(settings)

    def _loaded(self) -> Workload:
        if self.workload is None:
            raise RuntimeError("load a workload before running it")
        return self.workload

    def _fill(self) -> None:
        """This rank's contribution; helpers start from zeros, which no schedule may read."""
        if self.processes.is_rank:
            values = contribution(self._loaded(), self.num_ranks, self.processes.rank)
            self.buffer.copy_(torch.from_numpy(values).to(self.buffer.dtype))
        else:
            self.buffer.zero_()

    def held(self) -> Any:
        """What this process holds after a run, laid out as the whole buffer of the collective."""
        return self.buffer

    def _holds_expected(self) -> bool:
        workload = self._loaded()
        what = collective(workload.collective)
        bounds = chunk_bounds(workload, self.num_chunks)
        contributes = what.before(self.num_ranks, self.num_chunks)
        values = torch.from_numpy(expected(workload, self.num_ranks, contributes, bounds)).to(self.buffer.dtype)
        required = what.after(self.num_ranks, self.num_chunks)[self.processes.rank]
        mask = torch.from_numpy(np.repeat(required, np.diff(bounds)))
        return bool(torch.allclose(self.held().cpu()[mask], values[mask], rtol=self.relative_tolerance(), atol=0))


def divide(buffer: Any, num_ranks: int) -> None:
    """In place: rounded to nearest for floats, towards zero for whole numbers (as NCCL's average)."""
    if buffer.is_floating_point():
        buffer.div_(num_ranks)
    else:
        buffer.div_(num_ranks, rounding_mode="trunc")
