"""What was measured: raw samples with all that is needed to read them later. No predicted number lives here."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from sim.collective import collective
from sim.workload import Workload
from topo.errors import MeasurementError
from topo.words import counted

KEPT_VARIABLES = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME")
"""Variables kept beside NCCL_*; every other one may hold a secret and is dropped."""

ONLY_PLACES = ("NCCL_DEBUG_FILE", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE")
"""Variables that say where NCCL writes, and nothing of how it runs."""


OUTLIER_DEVIATIONS = 10.0
"""So many median absolute deviations from the median (15 standard deviations of a normal law) is no noise."""

LEAST_DEVIATION = 0.01
"""Samples that all but agree are not told apart: the deviation counts as this share of the median at least."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One name and its value: a version, or a variable of the environment."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class LibraryChoice:
    """What the library took for a workload by itself, as it logged it, and how long it expected that to take.

    None is what it does not say. `estimate_s` is its model's time (NCCL's tuner), never a measured one.
    """

    algorithm: str | None = None
    protocol: str | None = None
    num_channels: int | None = None
    estimate_s: float | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One workload as it ran.

    `samples_s` are seconds, one per iteration, each the maximum over the ranks (published tables give one number: a
    mean over iterations). `backend` is gloo, nccl, recorded or nccl-tests; `executor` is `builtin` (the library's own
    collective) or `point-to-point` (a schedule of ours, sent row by row); `algorithm` is the schedule's name, or
    `builtin` where the library chose by itself, as `choice` then says. `protocol` and `num_channels` are what was asked
    for, None where nothing was. `timing` says which clock: `clock`, `cuda-events` or `cuda-graph`, "" where it is not
    known. `gpus_per_process` is how many GPUs one process drove, None where nobody says. `correct` is None where the
    result was not checked.
    """

    workload: Workload
    num_ranks: int
    backend: str
    executor: str
    algorithm: str
    samples_s: tuple[float, ...]
    num_warmups: int = 0
    correct: bool | None = None
    software: tuple[Setting, ...] = ()
    environment: tuple[Setting, ...] = ()
    provenance: str = ""
    protocol: str | None = None
    timing: str = ""
    num_channels: int | None = None
    gpus_per_process: int | None = None
    choice: LibraryChoice | None = None

    def __post_init__(self) -> None:
        what = f"{self.algorithm} {self.workload.collective} of {self.workload.num_bytes} bytes"
        if self.num_ranks < 1:
            raise MeasurementError(f"{what}: {counted(self.num_ranks, 'rank')}, at least 1 is needed")
        if not self.samples_s:
            raise MeasurementError(f"{what}: there is no sample, at least 1 is needed")
        for sample in self.samples_s:
            if not (math.isfinite(sample) and sample > 0):
                raise MeasurementError(f"{what}: a sample of {sample} s, expected a positive, finite time")

    @property
    def median_s(self) -> float:
        """The median of the samples in seconds."""
        return statistics.median(self.samples_s)

    @property
    def min_s(self) -> float:
        """The fastest sample in seconds."""
        return min(self.samples_s)

    @property
    def p10_s(self) -> float | None:
        """The 10th percentile of the samples in seconds, interpolated; None of a single sample."""
        return self._quantile_s(0.1)

    @property
    def p90_s(self) -> float | None:
        """The 90th percentile of the samples in seconds, interpolated; None of a single sample."""
        return self._quantile_s(0.9)

    @property
    def p95_s(self) -> float | None:
        """The 95th percentile of the samples in seconds, interpolated; None of a single sample."""
        return self._quantile_s(0.95)

    @property
    def p99_s(self) -> float | None:
        """The 99th percentile of the samples in seconds, interpolated; None of a single sample."""
        return self._quantile_s(0.99)

    @property
    def num_outliers(self) -> int:
        """Samples further from the median than OUTLIER_DEVIATIONS times what samples deviate from it in the median."""
        deviations = [abs(sample - self.median_s) for sample in self.samples_s]
        usual_s = max(statistics.median(deviations), LEAST_DEVIATION * self.median_s)
        return sum(deviation > OUTLIER_DEVIATIONS * usual_s for deviation in deviations)

    @property
    def relative_spread(self) -> float | None:
        """Half of what lies between these two, as a share of the median; None of a single sample."""
        if self.p10_s is None or self.p90_s is None:
            return None
        return (self.p90_s - self.p10_s) / 2 / self.median_s

    def _quantile_s(self, share: float) -> float | None:
        if len(self.samples_s) < 2:
            return None
        ordered = sorted(self.samples_s)
        below, fraction = divmod(share * (len(ordered) - 1), 1)
        first, second = ordered[int(below)], ordered[min(int(below) + 1, len(ordered) - 1)]
        return first + fraction * (second - first)

    @property
    def algbw_bytes_per_s(self) -> float:
        """Bytes of the workload per second of the median (nccl-tests' algbw)."""
        return self.workload.num_bytes / self.median_s

    @property
    def busbw_bytes_per_s(self) -> float:
        """Algbw times the collective's factor (nccl-tests, doc/PERFORMANCE.md)."""
        return self.algbw_bytes_per_s * collective(self.workload.collective).busbw_factor(self.num_ranks)


def kept_environment(variables: Mapping[str, str] | None = None) -> tuple[Setting, ...]:
    """The variables that shape a measurement, by name: NCCL_* and KEPT_VARIABLES; every other one is dropped."""
    found = os.environ if variables is None else variables
    names = sorted(name for name in found if name.startswith("NCCL_") or name in KEPT_VARIABLES)
    names = [name for name in names if name not in ONLY_PLACES]
    return tuple(Setting(name, found[name]) for name in names)
