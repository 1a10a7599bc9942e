"""Training steps predicted and replayed: what is judged is the buckets, their overlap, and what their sending costs."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from sim.ddp.buckets import Caps, buckets_of
from sim.ddp.schedules import Cost, Step
from sim.ddp.step import SimulatedCosts, StepPrediction, predict_step, with_caps
from sim.workload import ELEMENT_BYTES, Workload
from topo.cores import num_cores
from topo.errors import EnvironmentMissing, MeasurementError
from topo.words import counted
from validate import loopback
from validate.backends.gpus import num_gpus
from validate.jobs import BackendName, Job, Run
from validate.launch import Outcome, launch, untold
from validate.replay import Replay, Synchronisation, replay_of

if TYPE_CHECKING:
    from sim.ddp.model import Model
    from sim.ddp.times import LayerTime
    from sim.profile import Profile
    from topo.cluster import Cluster
    from topo.topology import Topology
    from validate.measurement import Measurement

CostsFrom = Literal["all-reduce", "point-to-point", "topology"]
"""Where the costs of collectives come from: all-reduces measured alone, messages measured alone, or a simulation."""

TOLERANCE = 0.10
SAME_STEP = 0.02
"""Steps so close are equally good: which of them is the best is noise."""

COPIES = 2
"""What a process holds beside its parameters: as much again in buckets, and the largest gradient."""

SMALLEST_BYTES, FINER_FROM_BYTES = 4096, 2**20
FACTOR = 4
"""Sizes of the calibration lie a factor of 4 apart, of 2 from a MiB on."""

CALIBRATION_ITERATIONS = 5
ROUNDS = 2


@dataclass(frozen=True)
class DdpRequest:
    """What is replayed and predicted: a model whose layers take these times, under each of the caps."""

    backend: BackendName
    num_ranks: int
    model: Model
    times: tuple[LayerTime, ...]
    caps: tuple[Caps, ...]
    compression: str | None = None
    costs_from: CostsFrom = "all-reduce"
    num_iterations: int = 10
    num_warmups: int = 2
    timeout_s: float = 300.0
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if self.num_ranks < 2:
            raise MeasurementError(f"{counted(self.num_ranks, 'rank')}: gradients are averaged over at least 2")
        if self.backend == "gloo" and self.compression == "bf16":
            raise MeasurementError("--compress bf16: torch's hook for it runs on nccl alone, use --compress fp16")
        needed = COPIES * self.num_ranks * self.model.num_bytes
        free = free_memory_bytes()
        if self.backend == "gloo" and free is not None and needed > free:
            raise MeasurementError(
                f"{self.model.name} needs {needed / 2**30:.1f} GiB in {self.num_ranks} processes, but "
                f"{free / 2**30:.1f} GiB are free: choose fewer --ranks or a smaller --model"
            )

        if self.backend == "nccl" and self.num_ranks > num_gpus():
            raise EnvironmentMissing(
                f"{counted(self.num_ranks, 'rank')} on nccl need as many GPUs, torch finds {num_gpus()}: use fewer "
                "--ranks or --backend gloo"
            )

    def replay(self, caps: Caps, synchronisation: Synchronisation = "ddp") -> Replay:
        """What the processes replay under these caps."""
        return replay_of(self.model, self.times, caps, compression=self.compression, synchronisation=synchronisation)


@dataclass(frozen=True)
class DdpRow:
    """One cap: the step as predicted and as measured, and the same step without synchronising (`alone`)."""

    prediction: StepPrediction
    measurement: Measurement
    alone: Measurement
    tolerance: float

    @property
    def relative_error(self) -> float:
        """Predicted over measured step time, minus 1."""
        return self.prediction.step_s / self.measurement.median_s - 1

    @property
    def verdict(self) -> str:
        """LOW: slower than predicted by more than the tolerance; HIGH: faster by more than it; else OK."""
        if abs(self.relative_error) <= self.tolerance:
            return "OK"
        return "LOW" if self.relative_error < 0 else "HIGH"

    @property
    def measured_exposed_s(self) -> float:
        """What the step took beyond the same step without synchronising."""
        return max(0.0, self.measurement.median_s - self.alone.median_s)

    @property
    def bucket_bytes(self) -> tuple[int, ...]:
        """The buckets that torch made, in launch order; () where it does not say."""
        told = {row.name: row.value for row in self.measurement.software}.get("ddp_bucket_bytes", "")
        return tuple(int(part) for part in told.split(",") if part)

    @property
    def same_buckets(self) -> bool:
        """Whether torch made the buckets that were predicted."""
        return self.bucket_bytes == tuple(bucket.num_bytes for bucket in self.prediction.buckets)


@dataclass(frozen=True)
class DdpSession:
    """All rows, in the order of the caps, with what went wrong (None: nothing) and where costs come from, in words."""

    request: DdpRequest
    rows: tuple[DdpRow, ...]
    source: str
    failure: str | None = None
    findings: tuple[str, ...] = field(default=())

    @property
    def predicted_best(self) -> DdpRow | None:
        """The cap whose step is predicted to be the shortest."""
        return min(self.rows, key=lambda row: row.prediction.step_s, default=None)

    @property
    def measured_best(self) -> DdpRow | None:
        """The cap whose step was the shortest."""
        return min(self.rows, key=lambda row: row.measurement.median_s, default=None)

    @property
    def same_best(self) -> bool:
        """Whether the cap that is predicted to be best was, in the measurement, as good as any, up to 2 %."""
        predicted, measured = self.predicted_best, self.measured_best
        if predicted is None or measured is None:
            return False
        return predicted.measurement.median_s <= measured.measurement.median_s * (1 + SAME_STEP)


def run_ddp(
    request: DdpRequest,
    machine: Topology | Cluster | None = None,
    profile: Profile | None = None,
    *,
    tell: Callable[[str], None] = untold,
    launcher: Callable[..., Outcome] = launch,
) -> DdpSession:
    """Measure what collectives cost alone (unless a machine is given), replay every cap, and predict each.

    All of it is done in ROUNDS, so that a machine that others use is judged by what it was meanwhile. Results are kept
    when the run ends early, with the reason in `failure`. `launcher` starts the processes.
    """
    if machine is not None and machine.num_ranks != request.num_ranks:
        raise MeasurementError(
            f"{machine.name} has {counted(machine.num_ranks, 'rank')}, {request.num_ranks} are to be measured: choose "
            "others with --ranks or --gpus"
        )
    calibration = _calibration(request) if machine is None else ()
    once = (*calibration, *_jobs(request))
    outcome = launcher(Run(request.backend, request.num_ranks, once * ROUNDS), timeout_s=request.timeout_s, tell=tell)
    found = _merged(outcome.measurements, len(once))
    alone = found.get(len(calibration))
    if alone is None or any(index not in found for index in range(len(calibration))):
        return DdpSession(request, (), "", outcome.failure or "the calibration brought no result")
    calibrated = [(job, found[index]) for index, job in enumerate(calibration)]
    cost, source = _costs(request, machine, profile, calibrated)
    bare = Step(request.model, request.times, (), cost, request.compression, bucket_views=True)
    rows = [
        _row(request, bare, caps, found[index], alone)
        for index, caps in enumerate(request.caps, start=len(calibration) + 1)
        if index in found
    ]
    return DdpSession(request, tuple(rows), source, outcome.failure, _findings(outcome, rows))


def _merged(measurements: Mapping[int, Measurement], num_jobs: int) -> dict[int, Measurement]:
    """The rounds' results put together: all samples of a job, a wrong result wherever one was."""
    found: dict[int, Measurement] = {}
    for number, row in sorted(measurements.items()):
        index = number % num_jobs
        if index in found:
            before = found[index]
            correct = before.correct if row.correct is not False else False
            found[index] = replace(row, samples_s=(*before.samples_s, *row.samples_s), correct=correct)
        else:
            found[index] = row
    return found


def _row(request: DdpRequest, bare: Step, caps: Caps, found: Measurement, alone: Measurement) -> DdpRow:
    prediction = predict_step(with_caps(bare, caps), caps)
    return DdpRow(prediction, found, alone, request.tolerance)


def _findings(outcome: Outcome, rows: list[DdpRow]) -> tuple[str, ...]:
    wrong = [row for row in rows if row.measurement.correct is False]
    return (
        *getattr(outcome, "not_run", {}).values(),
        *(f"WRONG result: gradients under {row.prediction.caps.cap_mb:g} MB are not their mean" for row in wrong),
    )


def _jobs(request: DdpRequest) -> tuple[Job, ...]:
    """The step without synchronising, then the step under each cap."""
    replays = (request.replay(request.caps[0], "none"), *(request.replay(caps) for caps in request.caps))
    workload = Workload("all_reduce", request.model.num_bytes, replays[0].dtype)
    return tuple(
        Job(
            workload,
            "ddp",
            num_iterations=-(-request.num_iterations // ROUNDS),
            num_warmups=request.num_warmups,
            check=replay.synchronisation == "ddp" and request.compression is None,
            purpose=f"step of {request.model.name} with buckets of {replay.caps.cap_mb:g} MB"
            if replay.synchronisation == "ddp"
            else f"step of {request.model.name} without synchronising",
            replay=replay,
        )
        for replay in replays
    )


def _calibration(request: DdpRequest) -> tuple[Job, ...]:
    """What is measured first to know the costs: messages between processes, or all-reduces alone."""
    if request.costs_from == "point-to-point":
        return loopback.calibration_jobs(request.num_ranks)
    step = Step(request.model, request.times, (), _free, request.compression)
    dtype = step.sent_dtype(request.replay(request.caps[0]).dtype)
    sent = [step.sent_bytes(bucket) for caps in request.caps for bucket in buckets_of(request.model, caps)]
    sizes = [SMALLEST_BYTES]
    while sizes[-1] < max(sent):
        sizes.append(sizes[-1] * (FACTOR if sizes[-1] < FINER_FROM_BYTES else 2))
    # DDP divides what it sends. On processors that is work for the cores that also move it, and so a part of the cost.
    reduction = "avg" if request.backend == "gloo" else "sum"
    return tuple(
        Job(
            Workload("all_reduce", num_bytes, dtype, reduction),
            "builtin",
            num_iterations=CALIBRATION_ITERATIONS,
            num_warmups=2,
            check=False,
            purpose="calibration by all-reduces alone",
        )
        for num_bytes in sizes
    )


def _free(collective: str, num_elements: int, dtype: str) -> float:
    """Nothing costs anything: for what only asks for sizes."""
    return 0.0


def _costs(
    request: DdpRequest,
    machine: Topology | Cluster | None,
    profile: Profile | None,
    calibrated: list[tuple[Job, Measurement]],
) -> tuple[Cost, str]:
    """What collectives cost, and where that comes from, in words."""
    from sim.predict import Simulator

    algorithm = "ring" if request.backend == "gloo" else "auto"
    if machine is not None:
        return SimulatedCosts(Simulator(machine, profile), algorithm), f"simulated on {machine.name}"
    if request.costs_from == "point-to-point":
        facts = loopback.fit([row for _, row in calibrated], num_cores())
        simulator = Simulator(loopback.topology(facts), loopback.profile(facts))
        return SimulatedCosts(simulator, algorithm), "simulated from messages between processes, measured alone"
    medians = {job.workload.num_bytes: row.median_s for job, row in calibrated}
    return MeasuredCosts(medians), f"all-reduces of {len(medians)} other sizes, measured alone without any step"


@dataclass(frozen=True, slots=True)
class MeasuredCosts:
    """Costs of all-reduces between sizes that were measured, by straight lines; `seconds` by bytes, at least two."""

    seconds: Mapping[int, float]

    def __call__(self, collective: str, num_elements: int, dtype: str) -> float:
        """Seconds of an all-reduce; beyond the last size at the rate between the last two."""
        num_bytes = num_elements * ELEMENT_BYTES[dtype]
        points = sorted(self.seconds.items())
        for (low_bytes, low_s), (high_bytes, high_s) in pairwise(points):
            if num_bytes <= high_bytes or high_bytes == points[-1][0]:
                share = (num_bytes - low_bytes) / (high_bytes - low_bytes)
                return max(0.0, low_s + share * (high_s - low_s))
        return statistics.mean(self.seconds.values())


def free_memory_bytes() -> int | None:
    """How much memory is free on this machine, None where the system does not say."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
