"""The process that torchrun starts, once per rank and helper: runs all jobs and writes each result at once.

Called as `python -m torch.distributed.run ... -m validate.worker FOLDER`, where FOLDER holds the jobs; results and
progress are written there too.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from topo.errors import MeasurementError, TopoError
from validate.faults import spoiled, strike
from validate.jobs import Job, Run, run_from_plain
from validate.progress import DONE, FAILED, Reporter
from validate.stage import Stage, stage_of
from validate.words import listed, sentence_of

if TYPE_CHECKING:
    from validate.backends.torch_backend import TorchBackend
    from validate.backends.torch_processes import Processes
    from validate.backends.torch_replay import TorchReplay
    from validate.backends.torch_watched import Watched
    from validate.measurement import Setting

JOBS_FILE, RESULTS_FILE = "jobs.json", "results.jsonl"
GRACE_S = 10.0


def main(arguments: list[str]) -> int:
    """Run the jobs of the folder given; 0 when all are done, 1 when this process failed."""
    folder = Path(arguments[0])
    rank = int(os.environ["RANK"])
    plain = json.loads((folder / JOBS_FILE).read_text(encoding="utf-8"))
    reporter = Reporter(folder, rank, time.monotonic() + plain["timeout_s"] + GRACE_S, plain["launcher_pid"])
    reporter.start()
    try:
        stage = stage_of(os.environ)
        stage.enter(rank)
        run_jobs(run_from_plain(plain["run"]), folder, reporter, plain["timeout_s"], stage)
    except TopoError as error:
        reporter.leave(FAILED, str(error))
        return 1
    except Exception as error:
        reporter.leave(FAILED, sentence_of(error))
        return 1
    reporter.leave(DONE)
    return 0


def run_jobs(run: Run, folder: Path, reporter: Reporter, timeout_s: float, stage: Stage) -> None:
    """Join the other processes, run every job, and let rank 0 write each result as soon as it is there."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    from validate.backends.torch_processes import Processes

    if run.backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    stage.hasten(shares_cores=run.backend == "gloo")
    dist.init_process_group(run.backend, timeout=timedelta(seconds=timeout_s + GRACE_S))
    processes = Processes.joined(run.backend, run.num_ranks, reporter.arriving)
    watched = _watched(processes, stage)
    _check_versions(processes)
    groups: dict[tuple[Setting, ...], Processes] = {(): watched or processes}
    for index, job in enumerate(run.jobs):
        fault = strike(processes.rank, index)
        reporter.enter(job.label, index + 1)
        result = _run_job(groups, job, fault)
        if processes.rank == 0:
            with (folder / RESULTS_FILE).open("a", encoding="utf-8") as results:
                results.write(json.dumps({"job": index, **result}) + "\n")
        if watched is not None:
            watched.note_job(index, stage)
    processes.meet()
    # All results are written: a communicator that a failed job left behind may not end well.
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()


def _watched(processes: Processes, stage: Stage) -> Watched | None:
    """The same processes, noting how long each waits for the others, where the stage asks for that."""
    from validate.backends.torch_watched import Watched

    return Watched.of(processes, stage.delay_s(processes.rank)) if stage.arrivals else None


def _check_versions(processes: Processes) -> None:
    """MeasurementError where the processes do not run the same software: what they measure would be nobody's."""
    import platform

    from validate.backends.versions import versions_of

    said = processes.everyones(spoiled(versions_of(processes.backend), processes.rank))
    if len(set(said)) == 1:
        return
    hosts = processes.everyones(platform.node())
    which = {words: [number for number, other in enumerate(said) if other == words] for words in dict.fromkeys(said)}
    parts = [f"{words} on {listed(numbers)} ({hosts[numbers[0]]})" for words, numbers in which.items()]
    raise MeasurementError(f"the ranks run different software: {'; '.join(parts)}; install the same everywhere")


def _run_job(groups: dict[tuple[Setting, ...], Processes], job: Job, fault: str) -> dict[str, Any]:
    """The measurement as plain values, and what each rank holds in the end where the job brings its own values.

    Where it cannot run, why not. `groups` are the communicators made so far, by their settings.
    """
    from topo.jsonio import to_plain
    from validate.backends import NotRun
    from validate.harness import measure

    processes = groups[()]
    try:
        if job.settings not in groups:
            groups[job.settings] = _fresh(processes, job.settings)
        backend = _backend(groups[job.settings], job)
        backend.fault = fault
        measurement = measure(
            backend,
            job.workload,
            num_iterations=job.num_iterations,
            num_warmups=job.num_warmups,
            check=job.check,
            protocol=job.protocol,
        )
    except NotRun as error:
        return {"not_run": f"{job.label} was not run: {error}"}
    result: dict[str, Any] = {"measurement": to_plain(measurement)}
    if job.contributions:
        result["values"] = _values(processes, cast("TorchBackend", backend), job)
    return result


def _fresh(processes: Processes, settings: tuple[Setting, ...]) -> Processes:
    """A communicator under these settings; NotRun on all processes where one of them cannot make it."""
    from validate.backends import NotRun

    problem, made = "", processes
    try:
        made = processes.under(settings)
    except (RuntimeError, ValueError) as error:
        problem = sentence_of(error)
    if not processes.all_agree(not problem):
        problems = [words for words in processes.everyones(problem) if words]
        asked = ", ".join(f"{row.name}={row.value}" for row in settings)
        raise NotRun(f"no communicator under {asked} ({problems[0]})")
    return made


def _backend(processes: Processes, job: Job) -> TorchBackend | TorchReplay:
    from validate.backends.torch_builtin import TorchBuiltin
    from validate.backends.torch_replay import TorchReplay
    from validate.backends.torch_schedule import TorchSchedule

    if job.replay is not None:
        return TorchReplay(processes, job.replay)
    if job.schedule is None:
        return TorchBuiltin(processes, job.algorithm, graph=job.graph)
    return TorchSchedule(processes, job.schedule, job.algorithm, graph=job.graph)


def _values(processes: Processes, backend: TorchBackend, job: Job) -> list[list[float]]:
    import torch.distributed as dist

    mine = job.contributions[processes.rank] if processes.is_rank else ()
    held = backend.reduce_values(job.workload, mine)
    everyone: list[list[float]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(everyone, held)
    return everyone[: processes.num_ranks]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
