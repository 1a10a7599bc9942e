"""What the processes of one run are asked to do, as a value that travels to them as JSON.

A job holds its schedule whole, in the folded form of blocks, so that the processes need neither the topology nor the
planner, and so that any schedule at all can run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sim.schedule import COLUMNS, Block, Rows, Schedule
from sim.workload import Workload
from topo.errors import MeasurementError
from topo.words import counted
from validate.measurement import Setting
from validate.replay import Replay, replay_from_plain, replay_to_plain

BackendName = Literal["gloo", "nccl"]
SCHEMA = "jobs/1"
MOVES = ("repeat", "step_shift", "rank_shift", "chunk_shift", "chunk_wrap", "span")
"""What a block says beside its rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One workload to time: by the schedule, or by the library's own collective where there is none.

    `check` asks for a separate pass that compares the result with the exact one. `contributions[r]` are the values of
    rank r, instead of the harness' own; then the ranks' results are handed back. Under `settings` (NCCL_ALGO and its
    like) the library's collective runs in a communicator of its own; `protocol` is what they ask for. `graph` captures
    a run as a CUDA graph. `purpose` stands in messages for what is no measurement of a collective. A `replay` is a
    training step in place of a collective.
    """

    workload: Workload
    algorithm: str
    schedule: Schedule | None = None
    num_iterations: int = 20
    num_warmups: int = 5
    check: bool = True
    contributions: tuple[tuple[float, ...], ...] = ()
    settings: tuple[Setting, ...] = ()
    protocol: str | None = None
    graph: bool = False
    purpose: str = ""
    replay: Replay | None = None

    @property
    def label(self) -> str:
        """How messages name this job."""
        if self.purpose:
            return f"{self.purpose}, {self.workload.num_bytes} bytes"
        by = f"{self.algorithm} by {self.protocol}" if self.protocol else self.algorithm
        return f"{by} {self.workload.collective} {self.workload.reduction} {self.workload.num_bytes} bytes"


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """All jobs of one launch. Helpers of schedules are further processes behind the ranks."""

    backend: BackendName
    num_ranks: int
    jobs: tuple[Job, ...]

    def __post_init__(self) -> None:
        if self.num_ranks < 1 or not self.jobs:
            many = f"{counted(self.num_ranks, 'rank')} and {counted(len(self.jobs), 'job')}"
            raise MeasurementError(f"{many}: at least one of each is needed")
        for job in self.jobs:
            _check(job, self.num_ranks)

    @property
    def num_processes(self) -> int:
        """Ranks, and the helpers of the schedule that has most."""
        return self.num_ranks + max((job.schedule.num_helpers for job in self.jobs if job.schedule), default=0)


def _check(job: Job, num_ranks: int) -> None:
    if job.num_iterations < 1 or job.num_warmups < 0:
        raise MeasurementError(
            f"{job.label}: {counted(job.num_iterations, 'iteration')} and {counted(job.num_warmups, 'warm-up')}, "
            "at least 1 iteration (-n) and no negative number of warm-ups (-w)"
        )
    if job.schedule is not None:
        job.schedule.check()
        if job.schedule.num_ranks != num_ranks:
            made_for = counted(job.schedule.num_ranks, "rank")
            raise MeasurementError(f"{job.label}: a schedule of {made_for} among {counted(num_ranks, 'rank')}")
        if job.schedule.collective != job.workload.collective:
            raise MeasurementError(f"{job.label}: the schedule is one of {job.schedule.collective}, build it for this")
    if job.contributions and job.workload.collective == "all_to_all":
        raise MeasurementError(f"{job.label}: each rank has a buffer of its own there, which takes no contributions")
    if job.replay is not None and (job.schedule is not None or job.contributions):
        raise MeasurementError(f"{job.label}: a replay takes the place of a schedule and of contributions")
    elements = job.workload.num_elements
    if job.contributions and [len(row) for row in job.contributions] != [elements] * num_ranks:
        shape = f"{counted(num_ranks, 'row')} of {counted(elements, 'value')}"
        raise MeasurementError(f"{job.label}: contributions must be {shape}")


def run_to_plain(run: Run) -> dict[str, Any]:
    """The run as plain dicts, lists and numbers, ready for JSON."""
    return {
        "schema": SCHEMA,
        "backend": run.backend,
        "num_ranks": run.num_ranks,
        "jobs": [_job_to_plain(job) for job in run.jobs],
    }


def run_from_plain(plain: dict[str, Any]) -> Run:
    """The run that `run_to_plain` wrote; MeasurementError for anything else."""
    if plain.get("schema") != SCHEMA:
        raise MeasurementError(f"a job file with schema {plain.get('schema')!r}, expected {SCHEMA!r}")
    return Run(plain["backend"], plain["num_ranks"], tuple(_job_from_plain(job) for job in plain["jobs"]))


def _job_to_plain(job: Job) -> dict[str, Any]:
    workload = job.workload
    return {
        "workload": [workload.collective, workload.num_bytes, workload.dtype, workload.reduction],
        "algorithm": job.algorithm,
        "schedule": None if job.schedule is None else _schedule_to_plain(job.schedule),
        "num_iterations": job.num_iterations,
        "num_warmups": job.num_warmups,
        "check": job.check,
        "contributions": job.contributions,
        "settings": [[row.name, row.value] for row in job.settings],
        "protocol": job.protocol,
        "graph": job.graph,
        "purpose": job.purpose,
        "replay": None if job.replay is None else replay_to_plain(job.replay),
    }


def _job_from_plain(plain: dict[str, Any]) -> Job:
    schedule = plain["schedule"]
    return Job(
        Workload(*plain["workload"]),
        plain["algorithm"],
        None if schedule is None else _schedule_from_plain(schedule),
        plain["num_iterations"],
        plain["num_warmups"],
        plain["check"],
        tuple(tuple(row) for row in plain["contributions"]),
        tuple(Setting(*row) for row in plain["settings"]),
        plain["protocol"],
        plain["graph"],
        plain["purpose"],
        None if plain["replay"] is None else replay_from_plain(plain["replay"]),
    )


def _schedule_to_plain(schedule: Schedule) -> dict[str, Any]:
    return {
        "collective": schedule.collective,
        "num_ranks": schedule.num_ranks,
        "num_chunks": schedule.num_chunks,
        "num_helpers": schedule.num_helpers,
        "places": None if schedule.places is None else schedule.places.tolist(),
        "blocks": [
            {
                "rows": {name: getattr(block.rows, name).tolist() for name in COLUMNS},
                "moves": {name: getattr(block, name) for name in MOVES},
            }
            for block in schedule.blocks
        ],
    }


def _schedule_from_plain(plain: dict[str, Any]) -> Schedule:
    blocks = tuple(
        Block(Rows.of(zip(*(block["rows"][name] for name in COLUMNS), strict=True)), **block["moves"])
        for block in plain["blocks"]
    )
    places = None if plain["places"] is None else np.array(plain["places"], dtype=np.int32)
    return Schedule(plain["collective"], plain["num_ranks"], plain["num_chunks"], blocks, plain["num_helpers"], places)
