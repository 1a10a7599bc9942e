"""Watches the processes of a launch, wherever they run, until all are done, one is gone, or the time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from validate import blame
from validate.jobs import Run
from validate.progress import DONE, Report
from validate.results import Results

POLL_S = 0.05
LAST_WORDS_S = 1.0
"""How long the others get to say what they saw, once a process is gone."""


def untold(words: str) -> None:
    """Nobody wants to know how far a launch is."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The processes: what they last said, and whether what started them has ended, with the sentence why.

    `folder` is where they write.
    """

    reports: Callable[[], dict[int, Report]]
    has_ended: Callable[[], bool]
    why_ended: Callable[[dict[int, Report]], str]
    folder: Path


@dataclass(frozen=True, slots=True)
class Limits:
    """How long all may take, and how long nothing may move once all processes are at work; None for no such limit."""

    timeout_s: float
    stall_s: float | None = None


@dataclass(frozen=True, slots=True)
class Ears:
    """Who wants to know how a launch goes on: how far it is in words, and each result."""

    tell: Callable[[str], None]
    results: Results


def watch(run: Run, watched: Watched, limits: Limits, ears: Ears) -> tuple[str | None, tuple[int, ...]]:
    """Wait for the end, a process that is gone, or a limit; what went wrong, and who is to blame."""
    started_s = moved_s = time.monotonic()
    seen: object = None
    while True:
        ended = watched.has_ended()
        reports = watched.reports()
        now_s = time.monotonic()
        ears.tell(how_far(run, reports))
        ears.results.poll()
        if len(reports) == run.num_processes and all(report.state == DONE for report in reports.values()):
            return None, ()
        if blame.in_trouble(reports):
            time.sleep(LAST_WORDS_S)
            reports = watched.reports()
            if blame.in_trouble(reports):
                return blame.died(run, reports, watched.folder)
        elif ended:
            return watched.why_ended(reports), ()
        elif now_s > started_s + limits.timeout_s:
            return blame.timed_out(run, reports, f"no end after {limits.timeout_s:g} s")
        at_work = len(reports) == run.num_processes and all(report.job for report in reports.values())
        places = [(report.count, report.job) for report in reports.values()]
        if places != seen or not at_work:
            seen, moved_s = places, now_s
        elif limits.stall_s is not None and now_s > moved_s + limits.stall_s:
            return blame.timed_out(run, reports, f"nothing has moved for {limits.stall_s:g} s")
        time.sleep(POLL_S)


def how_far(run: Run, reports: dict[int, Report]) -> str:
    """The job that the processes are at, the last of them where they are not at the same."""
    if len(reports) < run.num_processes:
        return f"starting processes: {len(reports)} of {run.num_processes}"
    last = min(reports.values(), key=lambda report: report.job_number)
    if not last.job_number:
        return f"starting processes: {run.num_processes} are to meet"
    return f"job {last.job_number} of {len(run.jobs)}: {last.job}"
