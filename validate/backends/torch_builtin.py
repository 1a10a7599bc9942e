"""The library's own collectives, as a user of `torch.distributed` gets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from sim.workload import Workload
from topo.errors import NameChoiceError
from validate.backends.torch_processes import Processes, TorchBackend, divide


def _all_reduce(backend: TorchBuiltin) -> None:
    dist.all_reduce(backend.buffer, op=backend.operation, group=backend.processes.ranks)


def _broadcast(backend: TorchBuiltin) -> None:
    dist.broadcast(backend.buffer, src=0, group=backend.processes.ranks)


def _reduce(backend: TorchBuiltin) -> None:
    dist.reduce(backend.buffer, dst=0, op=backend.operation, group=backend.processes.ranks)


BUILTIN: dict[str, Callable[[TorchBuiltin], None]] = {
    "all_reduce": _all_reduce,
    "broadcast": _broadcast,
    "reduce": _reduce,
}
"""The collectives that run in place on one buffer, by name."""


class TorchBuiltin(TorchBackend):
    """Runs `dist.all_reduce` and its like; helpers stay aside.

    Gloo has no average: it sums and the ranks divide, which is what a user of gloo has to do too.
    """

    executor = "builtin"

    def __init__(self, processes: Processes) -> None:
        super().__init__(processes, "builtin")
        self.operation: Any = None
        self._call: Callable[[TorchBuiltin], None] | None = None
        self._divides = False

    def prepare(self, workload: Workload) -> None:
        """Choose the call and its operation; NameChoiceError for a collective that cannot run in place."""
        if workload.collective not in BUILTIN:
            raise NameChoiceError("built-in collective", workload.collective, BUILTIN)
        self._call = BUILTIN[workload.collective]
        averages = workload.reduction == "avg" and workload.collective != "broadcast"
        self._divides = averages and self.name == "gloo"
        names = {"sum": "SUM", "min": "MIN", "max": "MAX", "avg": "SUM" if self._divides else "AVG"}
        self.operation = getattr(dist.ReduceOp, names[workload.reduction])

    def run(self) -> None:
        """One call on the ranks, nothing on helpers."""
        if self._call is None or not self.processes.is_rank:
            return
        self._call(self)
        if self._divides and (self.processes.rank == 0 or self._loaded().collective == "all_reduce"):
            divide(self.buffer, self.num_ranks)
