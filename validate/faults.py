"""Faults that tests inject into the processes of a run, to see what happens then.

The variable TOPOSCOPE_FAULT names one: `KIND:RANK:after=JOBS`, such as `kill:2:after=1`.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from topo.errors import MeasurementError

VARIABLE = "TOPOSCOPE_FAULT"


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _hang() -> None:
    while True:
        time.sleep(1)


def _freeze() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _fail() -> None:
    raise MeasurementError("this rank was told to fail")


def _fill_disk() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


AT_ONCE: Mapping[str, Callable[[], None]] = {
    "kill": _kill,
    "hang": _hang,
    "freeze": _freeze,
    "fail": _fail,
    "disk": _fill_disk,
}
"""What happens before a job."""

INSIDE = ("memory", "nccl", "wrong")
"""What goes wrong inside a job: the backend is told."""

VERSION = "version"
"""This rank says that it runs other software."""

KINDS = (*AT_ONCE, *INSIDE, VERSION)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its kind, whom it befalls, and after how many jobs."""

    kind: str
    rank: int
    after: int

    @classmethod
    def parse(cls, text: str) -> Fault:
        """From `KIND:RANK:after=JOBS`; MeasurementError for anything else."""
        kind, _, rest = text.partition(":")
        rank, _, after = rest.partition(":after=")
        if kind not in KINDS or not (rank.isdigit() and after.isdigit()):
            raise MeasurementError(f"{VARIABLE}={text}: expected KIND:RANK:after=JOBS, KIND one of {', '.join(KINDS)}")
        return cls(kind, int(rank), int(after))


def strike(rank: int, num_done: int) -> str:
    """Let the fault befall this rank if it is its turn; the kind of one that goes wrong inside the job, else ""."""
    text = os.environ.get(VARIABLE)
    if not text:
        return ""
    fault = Fault.parse(text)
    if (rank, num_done) != (fault.rank, fault.after):
        return ""
    if fault.kind in AT_ONCE:
        AT_ONCE[fault.kind]()
    return fault.kind if fault.kind in INSIDE else ""


def spoiled(versions: str, rank: int) -> str:
    """The versions as they are, or others where the fault is that."""
    text = os.environ.get(VARIABLE)
    fault = Fault.parse(text) if text else None
    return f"{versions} (another)" if fault and (fault.kind, fault.rank) == (VERSION, rank) else versions
