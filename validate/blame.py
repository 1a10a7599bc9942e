"""Who is to blame when a launch ends early, in one sentence: the dead, the failed, those that keep others waiting."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from topo.errors import EnvironmentMissing
from validate.jobs import Run
from validate.progress import FAILED, GONE, Report, is_alive
from validate.words import listed

STALE_S = 1.0
"""A process that has not reported for so long stands still."""


LEAST_FREE_BYTES = 2**16
"""With less, processes cannot write what they want to say."""


def in_trouble(reports: dict[int, Report]) -> bool:
    """Whether a process is gone or has failed."""
    return bool(_gone(reports)) or any(report.state == FAILED for report in reports.values())


def _gone(reports: dict[int, Report]) -> tuple[int, ...]:
    """Processes that are no more and have not said goodbye."""
    return tuple(
        rank
        for rank, report in reports.items()
        if report.state == GONE or (not report.ended and not is_alive(report.pid))
    )


def died(run: Run, reports: dict[int, Report], folder: Path) -> tuple[str, tuple[int, ...]]:
    """The sentence about ranks that died or failed: the dead first, else the one that failed first.

    `folder` is where they write: without space there they cannot even say what is wrong.
    """
    gone = _gone(reports)
    failed = sorted((r for r in reports.values() if r.state == FAILED), key=lambda report: report.at_s)
    if gone:
        last = reports[gone[0]]
        what = f"{name_ranks(run, gone)} died without a word{_during(last)} (killed, crashed or out of memory)"
        culprits = gone
    else:
        what = f"{name_ranks(run, [failed[0].rank])} failed{_during(failed[0])}: {failed[0].error.rstrip('.')}"
        culprits = (failed[0].rank,)
    return f"{what}{_advice(what, folder)}; {_answered(run, reports, culprits)}", culprits


def _advice(what: str, folder: Path) -> str:
    """What to do about causes that have a name."""
    if "No space left" in what or shutil.disk_usage(folder).free < LEAST_FREE_BYTES:
        return f" (no space is left in {folder.parent}: free some, or set TMPDIR)"
    if "NCCL" in what:
        return " (NCCL_DEBUG=INFO in the environment shows more)"
    return ""


def timed_out(run: Run, reports: dict[int, Report], head: str) -> tuple[str, tuple[int, ...]]:
    """The sentence about ranks that keep the others waiting: those that never began, stand still, or came least far."""
    absent = [rank for rank in range(run.num_processes) if rank not in reports]
    now = time.monotonic()
    frozen = [rank for rank, report in reports.items() if not report.ended and now - report.at_s > STALE_S]
    furthest = max((report.count for report in reports.values()), default=0)
    behind = [rank for rank, report in reports.items() if not report.ended and report.count < furthest]
    culprits = tuple(absent or frozen or behind)
    if not culprits:
        where = _during(next(iter(reports.values()))) if reports else ""
        return f"{head}{where}: all ranks are at work, give a longer --timeout or smaller sizes", ()
    one, several = ("does not answer", "do not answer") if frozen else ("hangs", "hang")
    did = "never began" if absent else one if len(culprits) == 1 else several
    where = "" if absent else _during(reports[culprits[0]])
    if absent:
        did += f" ({len(absent)} of {run.num_processes} processes: starting them may need a longer --timeout)"
    return (
        f"{head}: {name_ranks(run, culprits)} {did}{where}; {_answered(run, reports, culprits)}",
        culprits,
    )


_TORCHRUN_S = re.compile(r"ChildFailedError|torch[./]distributed[./]elastic|error_file")
"""Lines that torchrun adds to what its processes say: that one failed, not why."""
_ROOT_CAUSE = re.compile(r"Root Cause.*?\brank\s*:\s*(\d+).*?exitcode\s*:\s*(-?\d+)", re.DOTALL)


def ended_early(log: Path, reports: dict[int, Report], run: Run) -> str:
    """The sentence about torchrun giving up; EnvironmentMissing where it could not start a single process."""
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    own = [line.strip() for line in text.splitlines() if "Error" in line and not _TORCHRUN_S.search(line)]
    last = text.splitlines()[-1].strip() if text else "no word"
    words = (own[-1] if own else last)[:300]
    if not reports:
        raise EnvironmentMissing(f"torchrun could not start a process: {words}; check that torch itself works")
    root = _ROOT_CAUSE.search(text)
    who = f"rank {root[1]} ended first, with status {root[2]}: " if root else ""
    return f"torchrun ended early, {len(reports)} of {run.num_processes} processes had begun: {who}{words}"


def _during(report: Report) -> str:
    return f", last seen in {report.job}" if report.job else " while starting"


def name_ranks(run: Run, numbers: Sequence[int]) -> str:
    """`rank 2`, `ranks 0, 1`, or `helper 0` for processes behind the ranks; of many the first and how many more."""
    names = []
    ranks = [str(number) for number in numbers if number < run.num_ranks]
    if ranks:
        names.append(f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {listed(ranks)}")
    helpers = [str(number - run.num_ranks) for number in numbers if number >= run.num_ranks]
    if helpers:
        names.append(f"helper {helpers[0]}" if len(helpers) == 1 else f"helpers {listed(helpers)}")
    return " and ".join(names)


def _answered(run: Run, reports: dict[int, Report], culprits: tuple[int, ...]) -> str:
    others = [rank for rank in sorted(reports) if rank not in culprits]
    return f"{name_ranks(run, others)} answered" if others else "no other answered"
