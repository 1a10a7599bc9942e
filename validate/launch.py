"""Starts the processes of a run with torchrun, watches over them, and brings home every result there is.

Whatever happens (a rank dies, hangs, or the time is up) the launch returns in time, with the ranks named, with the
results so far, with no process left and no file left behind.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from topo.errors import EnvironmentMissing, MeasurementError
from validate import blame
from validate.jobs import Run, run_to_plain
from validate.measurement import Measurement
from validate.progress import DONE, FOLDER_PREFIX, Report, read_reports
from validate.worker import JOBS_FILE, RESULTS_FILE

POLL_S = 0.05
LAST_WORDS_S = 1.0
"""How long the others get to say what they saw, once a process is gone."""

ENDING_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")
"""Told to end, by a person at the keyboard too, and left by the terminal."""

LOG_FILE = "torchrun.log"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results by number of their job, what ranks held where a job brought its own values, and what went wrong.

    `failure` is one sentence, None where all jobs are done; `culprits` are the processes it blames.
    """

    measurements: dict[int, Measurement]
    values: dict[int, tuple[tuple[float, ...], ...]]
    failure: str | None = None
    culprits: tuple[int, ...] = ()


def require_torch() -> None:
    """Return if torch can be imported; EnvironmentMissing otherwise. Importing it here would cost two seconds."""
    if importlib.util.find_spec("torch") is None:
        raise EnvironmentMissing(
            "torch is not installed, and measuring needs it: pip install 'toposcope[validate]' (or compare a file of "
            "measurements: topo validate compare FILE --topology TOPOLOGY)"
        )


def untold(words: str) -> None:
    """Nobody wants to know how far a launch is."""


def launch(
    run: Run,
    *,
    timeout_s: float = 300.0,
    stall_s: float | None = None,
    environment: dict[str, str] | None = None,
    tell: Callable[[str], None] = untold,
) -> Outcome:
    """Run all jobs in processes of their own and return what they brought, within about `timeout_s` seconds.

    With `stall_s` it also ends when no process has come any further for so long, once all are at work. `environment`
    is added to the processes' own; `tell` is told again and again, in a few words, how far they are.
    EnvironmentMissing where torch is not installed, or does not work.
    """
    require_torch()
    with _ending_tidily(), tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX) as name:
        folder = Path(name)
        plan = {"run": run_to_plain(run), "timeout_s": timeout_s, "launcher_pid": os.getpid()}
        (folder / JOBS_FILE).write_text(json.dumps(plan), encoding="utf-8")
        with (folder / LOG_FILE).open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                _command(run, folder),
                cwd=name,
                env={**_environment(), **(environment or {}), "TMPDIR": name},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                failure, culprits = _watch(run, process, folder, _Limits(timeout_s, stall_s), tell)
            finally:
                _stop(process, folder, run.num_processes)
        measurements, values = _results(folder)
        return Outcome(measurements, values, failure, culprits)


@contextlib.contextmanager
def _ending_tidily() -> Iterator[None]:
    """Within it, signals to end do so as exceptions do, with all that stands in `finally`; a second one is ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: object) -> None:
        for other in before:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    numbers = [getattr(signal, name) for name in ENDING_SIGNALS if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    # None is a handler that Python did not install and could not restore; what is ignored stays ignored (nohup).
    before = {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _command(run: Run, folder: Path) -> list[str]:
    """torchrun on this machine alone. It looks at its processes seldom: `_watch` does so more often, and first."""
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"),
        *("--nproc-per-node", str(run.num_processes), "--monitor-interval", "1", "--max-restarts", "0"),
        *("-m", "validate.worker", str(folder)),
    ]


def _environment() -> dict[str, str]:
    """One thread per process, as torchrun sets it too, and gloo on the loopback device unless the user chose one."""
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    defaults = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": loopback, "PYTHONPATH": os.pathsep.join(_import_path())}
    return {**defaults, **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}}


def _import_path() -> list[str]:
    """Where this package lies first; nothing is taken from the folder that the user happens to be in."""
    root = str(Path(__file__).resolve().parent.parent)
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return [root, *(os.path.abspath(path) for path in given)]


@dataclass(frozen=True, slots=True)
class _Limits:
    """How long all may take, and how long nothing may move once all processes are at work; None for no such limit."""

    timeout_s: float
    stall_s: float | None


def _watch(
    run: Run, process: subprocess.Popen[bytes], folder: Path, limits: _Limits, tell: Callable[[str], None]
) -> tuple[str | None, tuple[int, ...]]:
    """Wait for the end, a process that is gone, or a limit; what went wrong, and who is to blame."""
    started_s = moved_s = time.monotonic()
    seen: object = None
    while True:
        ended = process.poll() is not None
        reports = read_reports(folder, run.num_processes)
        now_s = time.monotonic()
        tell(_how_far(run, reports))
        if len(reports) == run.num_processes and all(report.state == DONE for report in reports.values()):
            return None, ()
        if blame.in_trouble(reports):
            time.sleep(LAST_WORDS_S)
            reports = read_reports(folder, run.num_processes)
            if blame.in_trouble(reports):
                return blame.died(run, reports)
        elif ended:
            return blame.ended_early(folder / LOG_FILE, reports, run), ()
        elif now_s > started_s + limits.timeout_s:
            return blame.timed_out(run, reports, f"no end after {limits.timeout_s:g} s")
        at_work = len(reports) == run.num_processes and all(report.job for report in reports.values())
        places = [(report.count, report.job) for report in reports.values()]
        if places != seen or not at_work:
            seen, moved_s = places, now_s
        elif limits.stall_s is not None and now_s > moved_s + limits.stall_s:
            return blame.timed_out(run, reports, f"nothing has moved for {limits.stall_s:g} s")
        time.sleep(POLL_S)


def _how_far(run: Run, reports: dict[int, Report]) -> str:
    """The job that the processes are at, the last of them where they are not at the same."""
    if len(reports) < run.num_processes:
        return f"starting processes: {len(reports)} of {run.num_processes}"
    last = min(reports.values(), key=lambda report: report.job_number)
    if not last.job_number:
        return f"starting processes: {run.num_processes} are to meet"
    return f"job {last.job_number} of {len(run.jobs)}: {last.job}"


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


def _results(folder: Path) -> tuple[dict[int, Measurement], dict[int, tuple[tuple[float, ...], ...]]]:
    """Whatever rank 0 has written; a last line that was cut off is left out."""
    import msgspec

    measurements: dict[int, Measurement] = {}
    values: dict[int, tuple[tuple[float, ...], ...]] = {}
    path = folder / RESULTS_FILE
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            result = json.loads(line)
            measurements[result["job"]] = msgspec.convert(result["measurement"], Measurement)
        except ValueError as error:
            if measurements or not line.endswith("}"):
                continue
            raise MeasurementError(f"the processes wrote a result that cannot be read: {error}") from None
        if "values" in result:
            values[result["job"]] = tuple(tuple(row) for row in result["values"])
    return measurements, values
