"""What gloo and nccl runs share: filling buffers, timing runs, and checking results against the exact ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from sim.collective import collective
from sim.workload import Workload
from topo.errors import TopoError
from validate.backends import NotRun
from validate.backends.layout import Layout
from validate.backends.torch_processes import Processes
from validate.inputs import contribution, expected
from validate.measurement import Setting
from validate.words import listed, sentence_of

FAULTS = ("memory", "nccl", "wrong")
"""What `TorchBackend.fault` can be told to go wrong with, for tests."""


class TorchBackend(ABC):
    """A Backend on `torch.distributed`: what differs between executors is `lay_out`, `prepare` and `run` alone.

    With `graph` a run on a GPU is captured once as a CUDA graph and then replayed, which takes the launches of its
    kernels out of the measured time.
    """

    executor: str

    def __init__(self, processes: Processes, algorithm: str, *, graph: bool = False) -> None:
        self.processes = processes
        self.name = processes.backend
        self.num_ranks = processes.num_ranks
        self.algorithm = algorithm
        self.timing = ("cuda-graph" if graph else "cuda-events") if processes.is_gpu else "clock"
        self.workload: Workload | None = None
        self.layout = Layout.whole(np.zeros(1, dtype=np.int64))
        self.buffer = torch.empty(0)
        self.fault = ""
        self._runner: Callable[[], None] = self.run

    @abstractmethod
    def lay_out(self, workload: Workload) -> Layout:
        """Which chunks this process needs memory for."""

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
        """Allocate the buffer, fill it with this rank's contribution and get ready to run.

        NotRun on every process where it fails on any of them: a size that needs too much memory, or an algorithm that
        the library does not have here, ends this workload and not the launch.
        """
        problem = ""
        try:
            self._load(workload)
        except TopoError:
            raise
        except (RuntimeError, MemoryError, ValueError, NotImplementedError) as error:
            problem = sentence_of(error)
        if not self.processes.all_agree(not problem):
            self.buffer = torch.empty(0)
            self._forget()
            raise NotRun(_together(self.processes.everyones(problem)))

    def _load(self, workload: Workload) -> None:
        if self.fault == "memory":
            raise MemoryError("out of memory")
        self.workload = workload
        self.layout = self.lay_out(workload)
        dtype = getattr(torch, workload.dtype)
        self.buffer = torch.empty(self.layout.num_elements, dtype=dtype, device=self.processes.device)
        self._fill()
        self.prepare(workload)
        self._runner = self.run
        if self.processes.is_gpu:
            # The first run makes the library's connections, and tells whether it can run this at all.
            self.run()
            torch.cuda.synchronize(self.processes.device)
        if self.timing == "cuda-graph":
            self._runner = self._captured()

    def _captured(self) -> Callable[[], None]:
        graph: Any = torch.cuda.CUDAGraph()
        # Other threads (NCCL's watchdog) may ask for events of earlier runs meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self.run()
        replay: Callable[[], None] = graph.replay
        return replay

    def _forget(self) -> None:
        if self.processes.is_gpu:
            torch.cuda.empty_cache()

    def time_once(self) -> float:
        """Seconds of one run on this process. Values change with every run: timing does not look at them."""
        if self.fault == "nccl":
            raise RuntimeError("NCCL error: unhandled system error, as a test wants it")
        return self.processes.timed(self._runner)

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

    def estimate_s(self) -> float | None:
        """What the library itself expects one run to take; None where it says nothing."""
        return None

    def software(self) -> tuple[Setting, ...]:
        """The versions of torch and, on GPUs, of NCCL and CUDA."""
        settings = [Setting("torch", torch.__version__)]
        if self.processes.is_gpu:
            nccl: Any = torch.cuda.nccl
            settings.append(Setting("nccl", ".".join(str(part) for part in nccl.version())))
            settings.append(Setting("cuda", str(torch.version.cuda)))
            settings.append(Setting("gpu", torch.cuda.get_device_name(self.processes.device)))
        return tuple(settings)

    def _loaded(self) -> Workload:
        if self.workload is None:
            raise RuntimeError("load a workload before running it")
        return self.workload

    def _fill(self) -> None:
        """This rank's contribution; helpers start from zeros, which no schedule may read."""
        if not self.processes.is_rank:
            self.buffer.zero_()
            return
        for first, end, own in self.layout.stretches():
            values = contribution(self._loaded(), self.num_ranks, self.processes.rank, first, end)
            self.buffer[own : own + end - first].copy_(torch.from_numpy(values).to(self.buffer.dtype))

    def held(self, chunks: Sequence[int]) -> Any:
        """What this process holds of these chunks after a run, one after the other."""
        if len(chunks) == len(self.layout.elements):
            return self.buffer
        places = self.layout.places()
        parts = [self.buffer[slice(*places[chunk])] for chunk in chunks]
        return torch.cat(parts) if parts else self.buffer[:0]

    def _holds_expected(self) -> bool:
        workload = self._loaded()
        what = collective(workload.collective)
        num_chunks = len(self.layout.elements)
        contributes = what.before(self.num_ranks, num_chunks)
        required = np.flatnonzero(what.after(self.num_ranks, num_chunks)[self.processes.rank])
        numbers = expected(workload, self.num_ranks, contributes, self.layout.bounds, required)
        values = torch.from_numpy(numbers).to(self.buffer.dtype)
        held = self.held(required.tolist()).cpu()
        if self.fault == "wrong":
            held = held + 1
        return bool(torch.allclose(held, values, rtol=self.relative_tolerance(), atol=0))


def _together(problems: Sequence[str]) -> str:
    """One sentence from the problems of all processes: what the first says, and who says so."""
    failed = [number for number, words in enumerate(problems) if words]
    if len(failed) == len(problems):
        return f"{problems[failed[0]]} (on all {len(problems)} processes)"
    return f"{problems[failed[0]]} (on {'process' if len(failed) == 1 else 'processes'} {listed(failed)})"


def divide(buffer: Any, num_ranks: int) -> None:
    """In place: rounded to nearest for floats, towards zero for whole numbers (as NCCL's average)."""
    if buffer.is_floating_point():
        buffer.div_(num_ranks)
    else:
        buffer.div_(num_ranks, rounding_mode="trunc")
