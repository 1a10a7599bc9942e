"""The processes of one launch on `torch.distributed`: their groups, meeting, timing, and agreeing with each other.

One code path serves gloo and nccl: the device follows from the backend. What is measured runs on the backend's own
groups; meeting and agreeing go over gloo always, so that neither disturbs what is measured nor depends on it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist

from validate.measurement import Setting

LEAD_CYCLES = 2_000_000
"""The GPU idles so long (about 1 ms) before a timed run, so that all its launches are queued when it begins."""


def _nothing() -> None:
    """What happens when a process comes to a meeting, unless somebody counts."""


@dataclass(frozen=True, slots=True)
class Processes:
    """All processes of one launch, of which the first `num_ranks` are ranks; `ranks` is their group.

    `control` joins all of them over gloo. `arriving` is called whenever this process is about to meet the others, so
    that one that stays away can be named.
    """

    backend: str
    rank: int
    num_ranks: int
    device: Any
    ranks: Any
    control: Any
    arriving: Callable[[], None] = _nothing

    @classmethod
    def joined(cls, backend: str, num_ranks: int, arriving: Callable[[], None] = _nothing) -> Processes:
        """The processes of the initialised default group; all of them must call this together."""
        device = torch.device("cpu")
        control = dist.group.WORLD
        if backend == "nccl":
            device = torch.device("cuda", torch.cuda.current_device())
            control = dist.new_group(backend="gloo")
        ranks = dist.new_group(list(range(num_ranks)))
        found = cls(backend, dist.get_rank(), num_ranks, device, ranks, control, arriving)
        found.meet()
        return found

    @property
    def is_rank(self) -> bool:
        """Whether this process is a rank; a helper otherwise."""
        return self.rank < self.num_ranks

    @property
    def is_gpu(self) -> bool:
        """Whether buffers lie on a GPU."""
        return bool(self.device.type == "cuda")

    def under(self, settings: Sequence[Setting]) -> Processes:
        """The same processes with a fresh group of the ranks, made and used once under these variables.

        All processes must call this together. NCCL reads its variables when a communicator comes into being, which is
        at the first use of a group.
        """
        with _variables(settings):
            fresh = replace(self, ranks=dist.new_group(list(range(self.num_ranks))))
            if self.is_rank:
                dist.all_reduce(torch.zeros(1, device=self.device), group=fresh.ranks)
        return fresh

    def meet(self) -> None:
        """Return once all processes have come here, their device idle."""
        self.arriving()
        if self.is_gpu:
            torch.cuda.synchronize(self.device)
        dist.barrier(group=self.control)

    def timed(self, run: Callable[[], None]) -> float:
        """Seconds that `run` takes on this process, from the moment all have met."""
        self.meet()
        self.arriving()
        if self.is_gpu:
            return self._timed_on_gpu(run)
        started = time.perf_counter()
        run()
        return time.perf_counter() - started

    def _timed_on_gpu(self, run: Callable[[], None]) -> float:
        """By CUDA events. The GPUs meet right before the first, and are still busy with that while `run` is queued."""
        event: Any = torch.cuda.Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        sleep: Any = torch.cuda._sleep
        sleep(LEAD_CYCLES)
        dist.all_reduce(torch.zeros(1, device=self.device))
        start.record()
        run()
        end.record()
        torch.cuda.synchronize(self.device)
        return float(start.elapsed_time(end)) / 1e3

    def slowest(self, own_s: Sequence[float]) -> tuple[float, ...]:
        """The maximum over all processes, element by element."""
        self.arriving()
        times = torch.tensor(own_s, dtype=torch.float64)
        dist.all_reduce(times, op=dist.ReduceOp.MAX, group=self.control)
        return tuple(times.tolist())

    def all_agree(self, mine: bool) -> bool:
        """Whether it is true on every process."""
        self.arriving()
        verdict = torch.tensor([int(mine)], dtype=torch.int32)
        dist.all_reduce(verdict, op=dist.ReduceOp.MIN, group=self.control)
        return bool(verdict.item())

    def everyones(self, mine: str) -> list[str]:
        """What every process says, by its number."""
        self.arriving()
        said: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(said, mine, group=self.control)
        return [str(words) for words in said]


@contextmanager
def _variables(settings: Sequence[Setting]) -> Iterator[None]:
    """Within it these variables of the environment are set."""
    before = {row.name: os.environ.get(row.name) for row in settings}
    os.environ.update({row.name: row.value for row in settings})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
