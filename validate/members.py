"""One run over the processes of torchrun, srun or mpirun: rank 0 leads it, each process runs one worker and watches it.

Workers are children, so that one that hangs in a library can be ended, and its process can still say so.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topo.errors import EnvironmentMissing
from validate import hub as hubs
from validate.jobs import Run, run_to_plain
from validate.launch import Outcome, ending_tidily, import_path, loopback_device
from validate.library_files import texts_in, watched
from validate.place import Place
from validate.progress import DONE, FAILED, FOLDER_PREFIX, GONE, Report, is_alive, read_report
from validate.results import Arrived, Results, nobody
from validate.watching import Ears, Limits, Watched, untold, watch
from validate.worker import JOBS_FILE, RESULTS_FILE

BEAT_S = 0.2
SILENCE_S = 15.0
"""Without an answer from rank 0 for so long, its host is gone."""

GOOD, FINDING, MISSING = 0, 1, 3


def lead(
    place: Place,
    run: Run,
    *,
    timeout_s: float = 300.0,
    stall_s: float | None = None,
    environment: Mapping[str, str] | None = None,
    tell: Callable[[str], None] = untold,
    arrived: Arrived = nobody,
) -> Outcome:
    """As rank 0: tell the others what to run, watch over all, and return what was measured, as `launch.launch` does."""
    if run.num_processes != place.num_ranks:
        raise EnvironmentMissing(
            f"{place.launcher} started {place.num_ranks} processes, the run needs {run.num_processes}: start as many"
        )
    plan = {"run": run_to_plain(run), "timeout_s": timeout_s, "store_port": free_port()}
    hub = hubs.Hub(place.num_ranks, plan)
    with ending_tidily(), hub.open(place.address, place.port), _worker(place, plan, environment) as worker:
        results = Results(worker.folder / RESULTS_FILE, arrived)
        try:

            def reports() -> dict[int, Report]:
                hub.answer(_message(place, worker))
                return hub.seen()

            seen = Watched(reports, lambda: False, lambda _: "", worker.folder)
            failure, culprits = watch(run, seen, Limits(timeout_s, stall_s), Ears(tell, results))
            hub.stop = failure or ""
        finally:
            hub.stop = "rank 0 has ended" if hub.stop is None else hub.stop
            worker.end()
            results.poll()
            # Whoever still waits for an answer gets it before the hub closes.
            time.sleep(2 * BEAT_S)
        texts = texts_in(worker.folder)
    told = None if failure is None else f"{failure}{hub.where(culprits)}"
    return Outcome(results.measurements, results.values, told, culprits, results.not_run, texts)


def follow(place: Place, timeout_s: float, environment: Mapping[str, str] | None = None) -> int:
    """As any other rank: run what rank 0 says; 0 where it ends well, 1 where the run fails.

    EnvironmentMissing where rank 0 is not found within the time, or falls silent.
    """
    with ending_tidily():
        port, plan = _met(place, timeout_s)
        with _worker(place, plan, environment) as worker:
            return _served(place, port, worker)


def _met(place: Place, timeout_s: float) -> tuple[int, dict[str, Any]]:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        found = hubs.find(place.address, place.port, {**_message(place, None), "wants_plan": True})
        if found is not None:
            return found[0], found[1]["plan"]
        time.sleep(BEAT_S)
    raise EnvironmentMissing(
        f"rank {place.rank} on {platform.node()} cannot reach rank 0 at {place.meeting} within {timeout_s:g} s: see "
        "that its host is up and that firewalls let its ports pass, or set MASTER_ADDR and MASTER_PORT"
    )


def _served(place: Place, port: int, worker: _Worker) -> int:
    """Report until rank 0 says stop, and what that means for the exit status."""
    heard_s = time.monotonic()
    while True:
        answer = hubs.ask(place.address, port, _message(place, worker))
        if answer is not None:
            heard_s = time.monotonic()
            if answer["stop"] is not None:
                return FINDING if answer["stop"] else GOOD
        elif time.monotonic() > heard_s + SILENCE_S:
            report = worker.report()
            if report is not None and report.state == DONE:
                return GOOD
            raise EnvironmentMissing(
                f"rank {place.rank} on {platform.node()} hears nothing from rank 0 at {place.address}:{port} any more: "
                "it or its host has ended"
            )
        time.sleep(BEAT_S)


def _message(place: Place, worker: _Worker | None) -> dict[str, Any]:
    report = None if worker is None else worker.report()
    plain = None
    if report is not None:
        plain = {
            "rank": place.rank,
            "pid": 0,
            "state": report.state,
            "count": report.count,
            "job": report.job,
            "job_number": report.job_number,
            "error": report.error,
            "age_s": max(0.0, time.monotonic() - report.at_s),
        }
    return {"rank": place.rank, "host": platform.node(), "report": plain}


@dataclass(frozen=True, slots=True)
class _Worker:
    """The child that does the work of this rank, and the folder it writes to."""

    place: Place
    process: subprocess.Popen[bytes]
    folder: Path

    def report(self) -> Report | None:
        """What it last said; that it is gone where it ended without a word."""
        report = read_report(self.folder, self.place.rank)
        if self.process.poll() is None or (report is not None and report.ended):
            return report
        if report is None:
            words = (self.folder / "worker.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
            last = words[-1][:300] if words else f"exit status {self.process.returncode}"
            return Report(self.place.rank, 0, FAILED, error=f"its process ended at once: {last}", at_s=time.monotonic())
        return Report(self.place.rank, 0, GONE, report.count, report.job, report.job_number, at_s=time.monotonic())

    def end(self) -> None:
        """End it, with all that it started."""
        report = read_report(self.folder, self.place.rank)
        if report is None or report.state != DONE or self.process.poll() is None:
            try:
                self.process.wait(timeout=2.0 if report is not None and report.state == DONE else 0.05)
            except subprocess.TimeoutExpired:
                if is_alive(self.process.pid):
                    os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def _worker(place: Place, plan: Mapping[str, Any], environment: Mapping[str, str] | None) -> Iterator[_Worker]:
    """The worker of this rank; it and its folder are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        jobs = {"run": plan["run"], "timeout_s": plan["timeout_s"], "launcher_pid": os.getpid()}
        (folder / JOBS_FILE).write_text(json.dumps(jobs), encoding="utf-8")
        with (folder / "worker.log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                worker_command(folder),
                cwd=name,
                env={**_environment(place, plan, folder), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        worker = _Worker(place, process, folder)
        try:
            yield worker
        finally:
            worker.end()


def worker_command(folder: Path) -> list[str]:
    """The line of one worker."""
    return [sys.executable, "-m", "validate.worker", str(folder)]


def _environment(place: Place, plan: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """The launcher's environment with this rank's place; torch's store is opened by rank 0's worker."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC_")}
    device = {"GLOO_SOCKET_IFNAME": loopback_device()} if place.is_alone else {}
    return {
        "OMP_NUM_THREADS": "1",
        **device,
        **ours,
        **watched(plan["run"]["backend"], folder),
        "PYTHONPATH": os.pathsep.join(import_path()),
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.num_ranks),
        "LOCAL_RANK": str(place.local_rank),
        "MASTER_ADDR": place.address,
        "MASTER_PORT": str(plan["store_port"]),
        "TMPDIR": str(folder),
    }


def free_port() -> int:
    """A port of this host that nobody has right now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
