"""Ways to run a workload behind one small interface. Only the modules of this package and the worker import torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sim.workload import Workload
from topo.errors import MeasurementError
from validate.measurement import Setting

__all__ = ["BUILTIN_IN_PARTS", "Backend", "NotRun"]

BUILTIN_IN_PARTS = {
    "all_reduce": False,
    "broadcast": False,
    "reduce": False,
    "all_gather": True,
    "reduce_scatter": True,
    "all_to_all": True,
}
"""The collectives that libraries are called for; whether every rank owns an equal part of the buffer."""


class NotRun(MeasurementError):
    """A workload that cannot run here, on any process: raised by all of them, which then go on with the next."""


class Backend(Protocol):
    """One way to run a collective; an instance stands for one algorithm among a fixed set of ranks.

    `name`, `executor`, `algorithm` and `timing` are what a Measurement says of them. Every process that takes part
    calls the same methods in the same order.
    """

    name: str
    executor: str
    algorithm: str
    num_ranks: int
    timing: str

    def load(self, workload: Workload) -> None:
        """Get ready to run this workload: buffers, contributions, connections."""
        ...

    def time_once(self) -> float:
        """Seconds of one run on this process, after all processes have met."""
        ...

    def slowest(self, own_s: Sequence[float]) -> tuple[float, ...]:
        """The maximum over all processes of each iteration's seconds."""
        ...

    def is_correct(self) -> bool | None:
        """Whether every rank ends with the exact result, by a run of its own; None where that cannot be known."""
        ...

    def estimate_s(self) -> float | None:
        """What the library itself expects one run to take; None where it says nothing."""
        ...

    def software(self) -> tuple[Setting, ...]:
        """Versions of what runs underneath."""
        ...
