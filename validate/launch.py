"""Starts the processes of a run with torchrun, watches over them, and brings home every result there is.

Whatever happens (a rank dies, hangs, or the time is up) the launch returns in time, with the ranks named, with the
results so far, with no process left and no file left behind.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topo.errors import EnvironmentMissing
from validate import blame
from validate.jobs import Run, run_to_plain
from validate.library_files import texts_in, watched
from validate.measurement import Measurement
from validate.progress import DONE, FOLDER_PREFIX, read_reports
from validate.results import Arrived, Results, nobody
from validate.watching import Ears, Limits, Watched, untold, watch
from validate.worker import JOBS_FILE, RESULTS_FILE

__all__ = ["Outcome", "command_of", "launch", "require_torch", "untold"]

ENDING_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")
"""Told to end, by a person at the keyboard too, and left by the terminal."""

LOG_FILE = "torchrun.log"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results by number of their job, what ranks held where a job brought its own values, and what went wrong.

    `failure` is one sentence, None where all jobs are done; `culprits` are the processes it blames. `not_run` says of
    jobs why they could not run. `texts` are files that the library left: its log and dumps, by name.
    """

    measurements: dict[int, Measurement]
    values: dict[int, tuple[tuple[float, ...], ...]]
    failure: str | None = None
    culprits: tuple[int, ...] = ()
    not_run: dict[int, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


def require_torch() -> None:
    """Return if torch can be imported; EnvironmentMissing otherwise. Importing it here would cost two seconds."""
    if importlib.util.find_spec("torch") is None:
        raise EnvironmentMissing(
            "torch is not installed, and measuring needs it: pip install 'toposcope[validate]' (or compare a file of "
            "measurements: topo validate compare FILE --topology TOPOLOGY)"
        )


def launch(
    run: Run,
    *,
    timeout_s: float = 300.0,
    stall_s: float | None = None,
    environment: dict[str, str] | None = None,
    tell: Callable[[str], None] = untold,
    arrived: Arrived = nobody,
) -> Outcome:
    """Run all jobs in processes of their own and return what they brought, within about `timeout_s` seconds.

    With `stall_s` it also ends when no process has come any further for so long, once all are at work. `environment`
    is added to the processes' own; `tell` is told again and again, in a few words, how far they are. `arrived` is
    told each result as soon as it is there, and the last ones also where the launch is interrupted.
    EnvironmentMissing where torch is not installed, or does not work, and where there is no space for temporary files.
    """
    require_torch()
    with ending_tidily(), _space_needed(), tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX) as name:
        folder = Path(name)
        plan = {"run": run_to_plain(run), "timeout_s": timeout_s, "launcher_pid": os.getpid()}
        (folder / JOBS_FILE).write_text(json.dumps(plan), encoding="utf-8")
        results = Results(folder / RESULTS_FILE, arrived)
        with (folder / LOG_FILE).open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                command_of(run.num_processes, folder),
                cwd=name,
                env={**_environment(), **watched(run.backend, folder), **(environment or {}), "TMPDIR": name},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            watched_here = Watched(
                reports=lambda: read_reports(folder, run.num_processes),
                has_ended=lambda: process.poll() is not None,
                why_ended=lambda reports: blame.ended_early(folder / LOG_FILE, reports, run),
                folder=folder,
            )
            try:
                failure, culprits = watch(run, watched_here, Limits(timeout_s, stall_s), Ears(tell, results))
            finally:
                _stop(process, folder, run.num_processes)
                results.poll()
        found = results.measurements, results.values
        return Outcome(*found, failure, culprits, results.not_run, texts_in(folder))


@contextlib.contextmanager
def _space_needed() -> Iterator[None]:
    """Turns a disk that is full into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise EnvironmentMissing(
            f"no space is left for temporary files in {tempfile.gettempdir()}: free some, or set TMPDIR"
        ) from None


@dataclass(frozen=True, slots=True)
class _Stop:
    """Handles a signal to end: it raises, and has all further ones ignored."""

    before: Mapping[int, Any]

    def __call__(self, number: int, _frame: object) -> None:
        for other in self.before:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


@contextlib.contextmanager
def ending_tidily() -> Iterator[None]:
    """Within it, signals to end do so as exceptions do, with all that stands in `finally`; a second one is ignored.

    Of several within each other the outermost does it, so that a second signal is ignored until that one's end.
    """
    numbers = [getattr(signal, name) for name in ENDING_SIGNALS if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    is_inner = any(isinstance(handler, _Stop) for handler in handlers.values())
    if is_inner or threading.current_thread() is not threading.main_thread():
        yield
        return
    # None is a handler that Python did not install and could not restore; what is ignored stays ignored (nohup).
    before = {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    for number in before:
        signal.signal(number, _Stop(before))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def command_of(num_processes: int, folder: Path) -> list[str]:
    """torchrun on this machine alone. It looks at its processes seldom: `watch` does so more often, and first."""
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"),
        *("--nproc-per-node", str(num_processes), "--monitor-interval", "1", "--max-restarts", "0"),
        *("-m", "validate.worker", str(folder)),
    ]


def _environment() -> dict[str, str]:
    """One thread per process, as torchrun sets it too, and gloo on the loopback device unless the user chose one."""
    defaults = {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": loopback_device(),
        "PYTHONPATH": os.pathsep.join(import_path()),
    }
    return {**defaults, **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}}


def loopback_device() -> str:
    """The network device of this machine alone."""
    return "lo0" if sys.platform == "darwin" else "lo"


def import_path() -> list[str]:
    """Where this package lies first; nothing is taken from the folder that the user happens to be in."""
    root = str(Path(__file__).resolve().parent.parent)
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return [root, *(os.path.abspath(path) for path in given)]


def _stop(process: subprocess.Popen[bytes], folder: Path, num_processes: int) -> None:
    """End every process of the launch: torchrun first, which ends those that have not reported yet."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    for report in read_reports(folder, num_processes).values():
        if report.state != DONE:
            _kill(report.pid)
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        _kill(process.pid)
        process.wait()
    for report in read_reports(folder, num_processes).values():
        _kill(report.pid)


def _kill(pid: int) -> None:
    """Kill a process of ours and what it started: torchrun and each of its processes lead a session of their own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
