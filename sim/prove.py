"""The numpy interpreter: runs a schedule on numbers and proves that it is the collective it claims to be.

Every contribution is a random 64-bit number and a sum is taken modulo 2^64, so that a missing or doubled
contribution goes unnoticed with probability 2^-64. The same interpreter on real arrays gives what each agent holds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim.collective import collective
from sim.schedule import COPY, REDUCE, Rows, Schedule
from topo.errors import ScheduleError

Values = npt.NDArray[np.uint64]


def prove(schedule: Schedule, *, seed: int = 0) -> None:
    """Return if the schedule is its collective; else ScheduleError with the first rank and chunk that are wrong."""
    schedule.check()
    what = collective(schedule.collective)
    shape = (schedule.num_ranks, schedule.num_chunks)
    before = what.before(*shape)
    rng = np.random.default_rng(seed)
    mine = np.where(before, rng.integers(1, 2**63, size=shape, dtype=np.uint64), np.uint64(0))
    value, filled = run(schedule, mine, before)
    expected = mine.sum(axis=0, dtype=np.uint64)
    held = value[: schedule.num_ranks]
    wrong = np.argwhere(what.after(*shape) & ~(filled[: schedule.num_ranks] & (held == expected)))
    if len(wrong):
        rank, chunk = (int(index) for index in wrong[0])
        raise ScheduleError(_explain(schedule, before, rank, chunk, len(wrong)))


def run(schedule: Schedule, start: Values, held: npt.NDArray[np.bool_]) -> tuple[Values, npt.NDArray[np.bool_]]:
    """What every agent holds at the end: values and whether there is any, both of shape (agents, chunks).

    `start` and `held` are of shape (ranks, chunks). A helper's slot that holds nothing takes its first REDUCE as a
    COPY; to send from such a slot, or to reduce into a rank's, is a ScheduleError.
    """
    value, filled = _before(schedule, start, held)
    for rows in schedule.rows().by_step():
        _run_step(rows, value, filled, schedule.num_ranks)
    return value, filled


def sent_values(schedule: Schedule, start: Values, held: npt.NDArray[np.bool_]) -> Values:
    """What each row of `schedule.rows()` carries when the same interpreter runs it from the same start."""
    value, filled = _before(schedule, start, held)
    steps = schedule.rows().by_step()
    sent = [_run_step(rows, value, filled, schedule.num_ranks) for rows in steps]
    return np.concatenate([np.zeros(0, dtype=start.dtype), *sent])


def _before(schedule: Schedule, start: Values, held: npt.NDArray[np.bool_]) -> tuple[Values, npt.NDArray[np.bool_]]:
    shape = (schedule.num_agents, schedule.num_chunks)
    value = np.zeros(shape, dtype=start.dtype)
    filled = np.zeros(shape, dtype=bool)
    value[: schedule.num_ranks], filled[: schedule.num_ranks] = np.where(held, start, 0), held
    return value, filled


def _run_step(rows: Rows, value: Values, filled: npt.NDArray[np.bool_], num_ranks: int) -> Values:
    """Runs the rows of one step in place; returns what each of them carried."""
    empty = np.flatnonzero(~filled[rows.src, rows.chunk])
    if len(empty):
        row = int(empty[0])
        raise ScheduleError(
            f"step {rows.step[row]}: agent {rows.src[row]} sends chunk {rows.chunk[row]} to {rows.dst[row]} "
            "before it holds anything of it"
        )
    blind = np.flatnonzero((rows.op == REDUCE) & (rows.dst < num_ranks) & ~filled[rows.dst, rows.chunk])
    if len(blind):
        row = int(blind[0])
        raise ScheduleError(
            f"step {rows.step[row]}: chunk {rows.chunk[row]} from agent {rows.src[row]} is reduced into what rank "
            f"{rows.dst[row]} does not hold: COPY it there"
        )
    sent = value[rows.src, rows.chunk]
    copies = rows.op == COPY
    value[rows.dst[copies], rows.chunk[copies]] = 0
    np.add.at(value, (rows.dst, rows.chunk), sent)
    filled[rows.dst, rows.chunk] = True
    return sent


def _explain(schedule: Schedule, before: npt.NDArray[np.bool_], rank: int, chunk: int, num_wrong: int) -> str:
    """One sentence: which contributions the first wrong slot lacks or counts twice."""
    contributors = np.flatnonzero(before[:, chunk])
    counts = {}
    for contributor in contributors:
        single = np.zeros(before.shape, dtype=np.uint64)
        single[contributor, chunk] = 1
        value, filled = run(schedule, single, before)
        counts[int(contributor)] = int(value[rank, chunk]) if filled[rank, chunk] else 0
    missing = [str(who) for who, times in counts.items() if times == 0]
    doubled = [f"{who} ({times} times)" for who, times in counts.items() if times > 1]
    parts = [f"misses the contribution of rank {', '.join(missing)}"] if missing else []
    parts += [f"counts that of rank {', '.join(doubled)}"] if doubled else []
    return (
        f"no {schedule.collective}: at the end rank {rank} {' and '.join(parts) or 'holds a wrong value'} "
        f"in chunk {chunk} ({num_wrong} of {schedule.num_ranks * schedule.num_chunks} slots are wrong)"
    )
