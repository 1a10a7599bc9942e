"""Builds the namespaces of a lab and removes them: at its end, when it is interrupted, and after it was killed.

Names begin with the process and its time of birth, so that a later run can tell what a dead run left from what a
living one uses.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from topo.errors import EnvironmentMissing, MeasurementError
from validate.lab.commands import Command, commands
from validate.lab.fabric import Fabric

LEADING = "topolab"
_OURS = re.compile(rf"(?P<prefix>{LEADING}-(?P<pid>\d+)-(?P<born>\d+)-)\S+")
COMMAND_S = 30.0
ENDING_S = 2.0
POLL_S = 0.05

Runner = Callable[[Sequence[str]], str]
"""Runs one command and returns what it printed."""


def require_lab() -> None:
    """Return where a lab can be built; EnvironmentMissing with the first thing that it lacks otherwise."""
    if sys.platform != "linux":
        raise EnvironmentMissing(f"the lab is made of Linux network namespaces, and this is {sys.platform}: use Linux")
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if missing:
        raise EnvironmentMissing(f"the lab needs {missing[0]} of iproute2, which is not here: install iproute2")
    if os.geteuid() != 0:
        raise EnvironmentMissing("the lab makes network namespaces, which only root may: run it with sudo")


def run(command: Sequence[str]) -> str:
    """What the command printed; EnvironmentMissing with its own words where the system refuses it."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentMissing(f"{' '.join(command)}: {error}") from None
    if done.returncode == 0:
        return done.stdout
    words = " ".join((done.stderr or done.stdout).split()) or f"exit status {done.returncode}"
    raise EnvironmentMissing(f"the system refuses `{' '.join(command)}`: {words}; {_advice(words)}")


def _advice(words: str) -> str:
    if "qdisc kind is unknown" in words:
        return "its kernel has no token bucket filter (sch_tbf), load that module"
    if "not permitted" in words or "ermission" in words:
        return "the lab needs CAP_NET_ADMIN and CAP_SYS_ADMIN, in a container run it privileged"
    return "the lab needs namespaces, bridges, veth pairs and token buckets"


def own_prefix() -> str:
    """How the names of this process' namespaces begin."""
    return f"{LEADING}-{os.getpid()}-{_born(os.getpid())}-"


def _born(pid: int) -> str | None:
    """When a process began, in ticks since the system did; None where there is none."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in ("Z", "X") else words[19]


@contextmanager
def built(fabric: Fabric, prefix: str, runner: Runner = run) -> Iterator[None]:
    """Within it the fabric stands; behind it nothing of it is left, whatever happened."""
    with ExitStack() as undo:
        for command in commands(fabric, prefix):
            if command.undo:
                # Before it is done: a command that is interrupted may have done its work already.
                undo.callback(_undo, command, runner)
            runner(command.do)
        yield


def _undo(command: Command, runner: Runner) -> None:
    """Undo it; that there is nothing to undo is no error."""
    name = command.undo[-1]
    _end_processes(name, runner)
    with contextlib.suppress(EnvironmentMissing):
        runner(command.undo)


def _end_processes(name: str, runner: Runner) -> None:
    """End what still runs in a namespace; nothing else is ever in there."""
    deadline = time.monotonic() + ENDING_S
    while time.monotonic() < deadline and (inside := processes(name, runner)):
        for pid in inside:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def processes(name: str, runner: Runner = run) -> tuple[int, ...]:
    """The processes in a namespace, this one left out; none where there is no such namespace."""
    try:
        words = runner(("ip", "netns", "pids", name)).split()
    except EnvironmentMissing:
        return ()
    return tuple(int(word) for word in words if word.isdigit() and int(word) != os.getpid())


def remove(prefix: str, runner: Runner = run) -> tuple[str, ...]:
    """Remove every namespace and temporary folder whose name begins so; the names of the namespaces."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        shutil.rmtree(folder, ignore_errors=True)
    names = tuple(name for name in namespaces(runner) if name.startswith(prefix))
    for name in names:
        _undo(Command((), ("ip", "netns", "delete", name)), runner)
    return names


def remove_leftovers(runner: Runner = run) -> tuple[str, ...]:
    """Remove what dead runs left, never what a living one uses; the names."""
    dead = {match["prefix"] for name in namespaces(runner) if (match := _OURS.fullmatch(name)) and _is_dead(match)}
    return tuple(name for prefix in sorted(dead) for name in remove(prefix, runner))


def _is_dead(match: re.Match[str]) -> bool:
    return _born(int(match["pid"])) != match["born"]


def namespaces(runner: Runner = run) -> tuple[str, ...]:
    """The names of all network namespaces."""
    return tuple(line.split()[0] for line in runner(("ip", "netns", "list")).splitlines() if line.strip())


@contextmanager
def guarded(prefix: str) -> Iterator[None]:
    """Within it a process watches over this one, and removes its namespaces should it be killed."""
    guard = subprocess.Popen(
        [sys.executable, "-m", "validate.lab.guard", prefix],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        guard.communicate()
        if guard.returncode:
            names = [name for name in namespaces() if name.startswith(prefix)]
            if names:
                raise MeasurementError(f"namespace {names[0]} could not be removed: ip netns delete {names[0]}")
