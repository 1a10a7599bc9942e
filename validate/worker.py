"""The process that torchrun starts, once per rank and helper: runs all jobs and writes each result at once.

Called as `python -m torch.distributed.run ... -m validate.worker FOLDER`, where FOLDER holds the jobs; results and
progress are written there too.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topo.errors import MeasurementError
from validate.jobs import Job, Run, run_from_plain
from validate.progress import DONE, FAILED, Reporter

if TYPE_CHECKING:
    from validate.backends.torch_processes import Processes, TorchBackend

JOBS_FILE, RESULTS_FILE = "jobs.json", "results.jsonl"
FAULT_VARIABLE = "TOPOSCOPE_FAULT"
GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault to inject, for tests of what happens then: `kill:RANK:after=JOBS`, or `hang`, `freeze`, `fail`."""

    kind: str
    rank: int
    after: int

    @classmethod
    def parse(cls, text: str) -> Fault:
        """From `KIND:RANK:after=JOBS`; MeasurementError for anything else."""
        kind, _, rest = text.partition(":")
        rank, _, after = rest.partition(":after=")
        if kind not in FAULTS or not (rank.isdigit() and after.isdigit()):
            raise MeasurementError(
                f"{FAULT_VARIABLE}={text}: expected KIND:RANK:after=JOBS, KIND one of {', '.join(FAULTS)}"
            )
        return cls(kind, int(rank), int(after))

    def strike(self, rank: int, num_done: int) -> None:
        """Do it, if this is the rank and the moment."""
        if rank == self.rank and num_done == self.after:
            FAULTS[self.kind]()


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _hang() -> None:
    while True:
        time.sleep(1)


def _freeze() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _fail() -> None:
    raise MeasurementError("this rank was told to fail")


FAULTS = {"kill": _kill, "hang": _hang, "freeze": _freeze, "fail": _fail}


def main(arguments: list[str]) -> int:
    """Run the jobs of the folder given; 0 when all are done, 1 when this process failed."""
    folder = Path(arguments[0])
    rank = int(os.environ["RANK"])
    plain = json.loads((folder / JOBS_FILE).read_text(encoding="utf-8"))
    reporter = Reporter(folder, rank, time.monotonic() + plain["timeout_s"] + GRACE_S, plain["launcher_pid"])
    reporter.start()
    try:
        run_jobs(run_from_plain(plain["run"]), folder, reporter, plain["timeout_s"])
    except Exception as error:
        reporter.leave(FAILED, _first_sentence(error))
        return 1
    reporter.leave(DONE)
    return 0


def run_jobs(run: Run, folder: Path, reporter: Reporter, timeout_s: float) -> None:
    """Join the other processes, run every job, and let rank 0 write each result as soon as it is there."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    from validate.backends.torch_processes import Processes

    if run.backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group(run.backend, timeout=timedelta(seconds=timeout_s + GRACE_S))
    processes = Processes.joined(run.backend, run.num_ranks, reporter.arriving)
    fault = os.environ.get(FAULT_VARIABLE)
    for index, job in enumerate(run.jobs):
        if fault:
            Fault.parse(fault).strike(processes.rank, index)
        reporter.enter(job.label, index + 1)
        result = _run_job(processes, job)
        if processes.rank == 0:
            with (folder / RESULTS_FILE).open("a", encoding="utf-8") as results:
                results.write(json.dumps({"job": index, **result}) + "\n")
    processes.meet()
    dist.destroy_process_group()


def _run_job(processes: Processes, job: Job) -> dict[str, Any]:
    """The measurement as plain values, and what each rank holds in the end where the job brings its own values."""
    from topo.jsonio import to_plain
    from validate.harness import measure

    backend = _backend(processes, job)
    measurement = measure(
        backend, job.workload, num_iterations=job.num_iterations, num_warmups=job.num_warmups, check=job.check
    )
    result = {"measurement": to_plain(measurement)}
    if job.contributions:
        result["values"] = _values(processes, backend, job)
    return result


def _backend(processes: Processes, job: Job) -> TorchBackend:
    from validate.backends.torch_builtin import TorchBuiltin
    from validate.backends.torch_schedule import TorchSchedule

    if job.schedule is None:
        return TorchBuiltin(processes)
    return TorchSchedule(processes, job.schedule, job.algorithm)


def _values(processes: Processes, backend: TorchBackend, job: Job) -> list[list[float]]:
    import torch.distributed as dist

    mine = job.contributions[processes.rank] if processes.is_rank else ()
    held = backend.reduce_values(job.workload, mine)
    everyone: list[list[float]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(everyone, held)
    return everyone[: processes.num_ranks]


def _first_sentence(error: Exception) -> str:
    """The first line of the error with its type: libraries append stack traces of their own."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"[:300]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
