"""The library's own collectives, as a user of `torch.distributed` gets them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from sim.collective import collective
from sim.workload import Workload
from topo.errors import MeasurementError, NameChoiceError
from validate.backends import BUILTIN_IN_PARTS
from validate.backends.torch_processes import Processes, TorchBackend, divide


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


BUILTIN: dict[str, Call] = {
    "all_reduce": Call(_all_reduce),
    "broadcast": Call(_broadcast),
    "reduce": Call(_reduce, on_all=False),
    "all_gather": Call(_all_gather),
    "reduce_scatter": Call(_reduce_scatter),
}
"""How those of BUILTIN_IN_PARTS are called, by name."""


class TorchBuiltin(TorchBackend):
    """Runs `dist.all_reduce` and its like; helpers stay aside.

    Gloo has no average: it sums and the ranks divide, which is what a user of gloo has to do too. `part` is this
    rank's own part, in memory of its own, where the collective has parts.
    """

    executor = "builtin"

    def __init__(self, processes: Processes) -> None:
        super().__init__(processes, "builtin")
        self.operation: Any = None
        self.part = self.buffer
        self._call: Call | None = None
        self._divides = False
        self._in_parts = False

    def prepare(self, workload: Workload) -> None:
        """Choose the call and its operation; errors for a collective unknown here, and for parts that are not equal."""
        if workload.collective not in BUILTIN:
            raise NameChoiceError("built-in collective", workload.collective, BUILTIN)
        self._call = BUILTIN[workload.collective]
        averages = workload.reduction == "avg" and collective(workload.collective).reduces
        self._divides = averages and self.name == "gloo"
        names = {"sum": "SUM", "min": "MIN", "max": "MAX", "avg": "SUM" if self._divides else "AVG"}
        self.operation = getattr(dist.ReduceOp, names[workload.reduction])
        self._in_parts = BUILTIN_IN_PARTS[workload.collective]
        self.num_chunks = self.num_ranks if self._in_parts else 1
        if self._in_parts:
            if workload.num_elements % self.num_ranks:
                raise MeasurementError(
                    f"{workload.collective} of {workload.num_bytes} bytes: {workload.num_elements} elements are no "
                    f"equal parts for {self.num_ranks} ranks, choose a multiple of "
                    f"{self.num_ranks * workload.element_bytes} bytes"
                )
            self.part = self._own(self.buffer).clone()

    def run(self) -> None:
        """One call on the ranks, nothing on helpers."""
        if self._call is None or not self.processes.is_rank:
            return
        self._call.run(self)
        if self._divides and (self._call.on_all or self.processes.rank == 0):
            divide(self.part if self._in_parts else self.buffer, self.num_ranks)

    def held(self) -> Any:
        """The buffer, with the result in this rank's part where the call put it into memory of its own."""
        if not self._in_parts:
            return self.buffer
        whole = self.buffer.clone()
        self._own(whole).copy_(self.part)
        return whole

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
