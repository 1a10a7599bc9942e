"""How far each process of a launch has come: written by the process itself, read by whoever launched it.

A thread of the process writes its file, so that a process that stands still is told from one that is gone, and the
timed path only counts. Files are replaced whole, never seen half written.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

INTERVAL_S = 0.1
TRIES_TO_CLEAN_UP = 20
FOLDER_PREFIX = "toposcope-"
"""How the name of a launch's folder begins; no other one is ever removed."""

CAN_AWAIT_SIGNALS = hasattr(signal, "sigtimedwait")
"""Not on macOS, where the signal simply ends the process."""

STARTING, RUNNING, DONE, FAILED, STOPPED = "starting", "running", "done", "failed", "stopped"
GONE = "gone"
"""A process that ended without a word, as whoever started it found out."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a process last said of itself: `count` meetings reached, which job, and its error if it failed.

    `job_number` counts the jobs from 1 and is 0 before the first. `at_s` is on the clock of `time.monotonic`, which all
    processes of a machine share and which nobody sets.
    """

    rank: int
    pid: int
    state: str
    count: int = 0
    job: str = ""
    job_number: int = 0
    error: str = ""
    at_s: float = 0.0

    @property
    def ended(self) -> bool:
        """Whether the process said goodbye itself."""
        return self.state in (DONE, FAILED, STOPPED)


def report_path(folder: Path, rank: int) -> Path:
    """The file of that rank."""
    return folder / f"progress-{rank}.json"


def read_reports(folder: Path, num_processes: int) -> dict[int, Report]:
    """The last report of every process that has written one."""
    found = {rank: read_report(folder, rank) for rank in range(num_processes)}
    return {rank: report for rank, report in found.items() if report is not None}


def read_report(folder: Path, rank: int) -> Report | None:
    """The last report of that process; None before its first."""
    path = report_path(folder, rank)
    return Report(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended but was not waited for yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        return state not in ("Z", "X")
    return True


class Reporter:
    """Writes this process' reports, and ends it when it is told to, when it is left alone, or at the deadline."""

    def __init__(self, folder: Path, rank: int, deadline_s: float, launcher_pid: int) -> None:
        """`deadline_s` is on the clock of `time.monotonic`; without the launcher's process nobody waits for results."""
        self._path = report_path(folder, rank)
        self._rank = rank
        self._deadline_s = deadline_s
        self._parent = os.getppid()
        self._launcher_pid = launcher_pid
        self._lock = threading.Lock()
        self._state, self._error, self._count = STARTING, "", 0
        self._job, self._job_number = "", 0

    def start(self) -> None:
        """Write the first report and go on writing from a thread.

        The signal is blocked in all threads and awaited in that one: the main thread may be inside a library call
        that never returns to Python.
        """
        if CAN_AWAIT_SIGNALS:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        self._write()
        threading.Thread(target=self._watch, name="progress", daemon=True).start()

    def arriving(self) -> None:
        """Count one more meeting with the other processes."""
        self._count += 1

    def enter(self, job: str, job_number: int) -> None:
        """Say which job is being run, counted from 1."""
        self._state, self._job, self._job_number = RUNNING, job, job_number
        self._write()

    def leave(self, state: str, error: str = "") -> None:
        """Say how this process ended."""
        self._state, self._error = state, error
        self._write()

    def _watch(self) -> None:
        while True:
            told = _told_to_stop()
            if not is_alive(self._launcher_pid):
                self._clean_up()
            if told or os.getppid() != self._parent or time.monotonic() > self._deadline_s:
                if self._state in (STARTING, RUNNING):
                    self._state = STOPPED
                self._write()
                os._exit(128 + signal.SIGTERM)
            self._write()

    def _clean_up(self) -> NoReturn:
        """Remove the folder in place of the launcher, which was killed before it could, and end.

        The other processes do the same, and torchrun still writes to it: hence several tries.
        """
        folder = self._path.parent
        for _ in range(TRIES_TO_CLEAN_UP if folder.name.startswith(FOLDER_PREFIX) else 0):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
            time.sleep(INTERVAL_S)
        os._exit(128 + signal.SIGTERM)

    def _write(self) -> None:
        with self._lock:
            report = {
                "rank": self._rank,
                "pid": os.getpid(),
                "state": self._state,
                "count": self._count,
                "job": self._job,
                "job_number": self._job_number,
                "error": self._error,
                "at_s": time.monotonic(),
            }
            try:
                fresh = self._path.with_suffix(".new")
                fresh.write_text(json.dumps(report), encoding="utf-8")
                fresh.replace(self._path)
            except FileNotFoundError:
                os._exit(128 + signal.SIGTERM)  # the folder is gone, and with it whoever launched this process
            except OSError:
                return  # no space: a later report may find some


def _told_to_stop() -> bool:
    """Wait for one interval; whether the signal to end came meanwhile."""
    if CAN_AWAIT_SIGNALS:
        return signal.sigtimedwait({signal.SIGTERM}, INTERVAL_S) is not None
    time.sleep(INTERVAL_S)
    return False
