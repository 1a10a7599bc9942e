"""Measured runs to be drawn beside simulated ones, read by whoever offers to read measurements.

What lies above is offered downwards through entry points: a reader of the group `toposcope.measurements` is a function
that takes a path and returns an object whose `measurements` have a workload, ranks and times.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sim.collective import collective
from topo.errors import EnvironmentMissing, MeasurementError
from topo.installed import installed
from topo.words import counted

if TYPE_CHECKING:
    from sim.workload import Workload

ENTRY_POINT_GROUP = "toposcope.measurements"


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One size as it was measured: the median in seconds, with the 10th and 90th percentile where there are several."""

    label: str
    collective: str
    num_bytes: int
    num_ranks: int
    time_s: float
    low_s: float | None = None
    high_s: float | None = None

    def busbw_of(self, time_s: float) -> float:
        """Bytes per second of bus bandwidth (nccl-tests, doc/PERFORMANCE.md) if it took that time."""
        return self.num_bytes / time_s * collective(self.collective).busbw_factor(self.num_ranks)


def read_measured(path: Path, workload: Workload, num_ranks: int) -> tuple[MeasuredRun, ...]:
    """The runs in a file that are of this collective on as many ranks, by size; MeasurementError where none is.

    EnvironmentMissing where nothing that reads measurements is installed.
    """
    readers = installed(ENTRY_POINT_GROUP)
    if not readers:
        raise EnvironmentMissing(f"--measured {path}: nothing here reads measurements, install toposcope as a whole")
    reader = readers[0]
    found = tuple(
        MeasuredRun(
            run.algorithm,
            run.workload.collective,
            run.workload.num_bytes,
            run.num_ranks,
            run.median_s,
            run.p10_s,
            run.p90_s,
        )
        for run in reader.load()(path).measurements
    )
    alike = [run for run in found if (run.collective, run.num_ranks) == (workload.collective, num_ranks)]
    if not alike:
        held = ", ".join(sorted({f"{run.collective} on {counted(run.num_ranks, 'rank')}" for run in found}))
        raise MeasurementError(
            f"--measured {path} holds {held}, and {workload.collective} on {counted(num_ranks, 'rank')} is "
            "simulated: give a file of the same"
        )
    return tuple(sorted(alike, key=lambda run: run.num_bytes))
