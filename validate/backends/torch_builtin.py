"""The library's own collectives, as a user of `torch.distributed` gets them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from sim.collective import collective
from sim.workload import Workload
from topo.errors import MeasurementError, NameChoiceError
from validate.backends import BUILTIN_IN_PARTS
from validate.backends.layout import Layout
from validate.backends.torch_backend import TorchBackend, divide
from validate.backends.torch_processes import Processes


@dataclass(frozen=True, slots=True)
class Call:
    """One collective: its call, and whether it ends on all ranks."""

    run: Callable[[TorchBuiltin], None]
    on_all: bool = True


def _all_reduce(backend: TorchBuiltin) -> None:
    dist.all_reduce(backend.buffer, op=backend.operation, group=backend.processes.ranks)


def _broadcast(backend: TorchBuiltin) -> None:
    dist.broadcast(backend.buffer, src=0, group=backend.processes.ranks)


def _reduce(backend: TorchBuiltin) -> None:
    dist.reduce(backend.buffer, dst=0, op=backend.operation, group=backend.processes.ranks)


def _all_gather(backend: TorchBuiltin) -> None:
    dist.all_gather_into_tensor(backend.buffer, backend.part, group=backend.processes.ranks)


def _reduce_scatter(backend: TorchBuiltin) -> None:
    dist.reduce_scatter_tensor(backend.part, backend.buffer, op=backend.operation, group=backend.processes.ranks)


def _all_to_all(backend: TorchBuiltin) -> None:
    dist.all_to_all_single(backend.part, backend.buffer, group=backend.processes.ranks)


BUILTIN: dict[str, Call] = {
    "all_reduce": Call(_all_reduce),
    "broadcast": Call(_broadcast),
    "reduce": Call(_reduce, on_all=False),
    "all_gather": Call(_all_gather),
    "reduce_scatter": Call(_reduce_scatter),
    "all_to_all": Call(_all_to_all),
}
"""How those of BUILTIN_IN_PARTS are called, by name."""


class TorchBuiltin(TorchBackend):
    """Runs `dist.all_reduce` and its like; helpers stay aside.

    Gloo has no average: it sums and the ranks divide, which is what a user of gloo has to do too. `part` is memory of
    its own where the collective has parts: this rank's part, or all that it receives in an all-to-all.
    """

    executor = "builtin"

    def __init__(self, processes: Processes, algorithm: str = "builtin", *, graph: bool = False) -> None:
        super().__init__(processes, algorithm, graph=graph)
        self.operation: Any = None
        self.part = self.buffer
        self._call: Call | None = None
        self._divides = False
        self._in_parts = False

    def lay_out(self, workload: Workload) -> Layout:
        """The whole buffer, in the ranks' parts where it has parts; of an all-to-all what this rank sends."""
        if workload.collective not in BUILTIN:
            raise NameChoiceError("built-in collective", workload.collective, BUILTIN)
        self._in_parts = BUILTIN_IN_PARTS[workload.collective]
        if not self._in_parts:
            return Layout.whole(np.array([workload.num_elements]))
        if workload.num_elements % self.num_ranks:
            raise MeasurementError(
                f"{workload.collective} of {workload.num_bytes} bytes: {workload.num_elements} elements are no "
                f"equal parts for {self.num_ranks} ranks, choose a multiple of "
                f"{self.num_ranks * workload.element_bytes} bytes"
            )
        share = workload.num_elements // self.num_ranks
        if workload.collective != "all_to_all":
            return Layout.whole(np.full(self.num_ranks, share))
        row = self.num_ranks * (self.processes.rank % self.num_ranks)
        return Layout(np.full(self.num_ranks**2, share), np.arange(row, row + self.num_ranks))

    def prepare(self, workload: Workload) -> None:
        """Choose the call and its operation."""
        self._call = BUILTIN[workload.collective]
        averages = workload.reduction == "avg" and collective(workload.collective).reduces
        self._divides = averages and self.name == "gloo"
        names = {"sum": "SUM", "min": "MIN", "max": "MAX", "avg": "SUM" if self._divides else "AVG"}
        self.operation = getattr(dist.ReduceOp, names[workload.reduction])
        if workload.collective == "all_to_all":
            self.part = torch.zeros_like(self.buffer)
        elif self._in_parts:
            self.part = self._own(self.buffer).clone()

    def run(self) -> None:
        """One call on the ranks, nothing on helpers."""
        if self._call is None or not self.processes.is_rank:
            return
        self._call.run(self)
        if self._divides and (self._call.on_all or self.processes.rank == 0):
            divide(self.part if self._in_parts else self.buffer, self.num_ranks)

    def held(self, chunks: Sequence[int]) -> Any:
        """The buffer's chunks, this rank's from the memory that the call put them into."""
        if not self._in_parts:
            return super().held(chunks)
        if self._loaded().collective == "all_to_all":
            return self.part
        whole = self.buffer.clone()
        self._own(whole).copy_(self.part)
        bounds = self.layout.bounds
        return torch.cat([whole[int(bounds[chunk]) : int(bounds[chunk + 1])] for chunk in chunks])

    def estimate_s(self) -> float | None:
        """NCCL's own estimate (ncclGroupSimulateEnd, NCCL 2.22 and later), asked by way of torch; None without one."""
        if self.name != "nccl" or not self.processes.is_rank or self.processes.num_ranks < 2:
            return None
        estimator: Any = getattr(dist.distributed_c10d, "_time_estimator", None)
        if estimator is None:
            return None
        try:
            with estimator(group=self.processes.ranks, device=self.processes.device) as found:
                self.run()
        except (AttributeError, NotImplementedError, RuntimeError):
            return None
        microseconds = float(getattr(found, "estimated_time", 0.0) or 0.0)
        return microseconds / 1e6 if microseconds > 0 else None

    def relative_tolerance(self) -> float:
        """NCCL averages by multiplying with 1/n, which rounds twice; all else is exact."""
        workload = self._loaded()
        inexact = workload.reduction == "avg" and not self._divides and self.buffer.is_floating_point()
        return 2 * float(torch.finfo(self.buffer.dtype).eps) if inexact else 0.0

    def _own(self, whole: Any) -> Any:
        """This rank's equal part of a buffer; a helper is given the first, which nobody looks at."""
        elements = whole.numel() // self.num_ranks
        first = elements * (self.processes.rank % self.num_ranks)
        return whole[first : first + elements]
