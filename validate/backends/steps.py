"""A schedule as one agent sees it: what to send, receive and do with it, step by step; without torch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.collective import collective
from sim.schedule import COPY, Rows, Schedule
from sim.workload import Workload
from topo.errors import ScheduleError


@dataclass(frozen=True, slots=True)
class Send:
    """Send a chunk as it stands at the start of the step. `tag` tells transfers of one pair in one step apart."""

    peer: int
    tag: int
    chunk: int


@dataclass(frozen=True, slots=True)
class Receive:
    """Receive a chunk.

    It goes straight into its slot where `staged_at` is None; otherwise into the staging buffer at that element, and
    is reduced into the slot, or copied where `replaces`, once the step's own sends are done.
    """

    peer: int
    tag: int
    chunk: int
    staged_at: int | None
    replaces: bool


@dataclass(frozen=True, slots=True)
class Step:
    """All transfers of one agent in one step; they are posted together."""

    sends: tuple[Send, ...]
    receives: tuple[Receive, ...]


def chunk_bounds(workload: Workload, num_chunks: int) -> npt.NDArray[np.int64]:
    """The first element of each chunk, and behind them the end, shape (num_chunks + 1,)."""
    elements = workload.chunk_bytes(num_chunks) // workload.element_bytes
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(elements)])


def steps_of(schedule: Schedule, agent: int, elements: npt.NDArray[np.int64]) -> tuple[Step, ...]:
    """The steps in which `agent` has something to do; `elements[c]` is the length of chunk c, empty ones are left out.

    An agent goes through its steps in order and posts all transfers of a step before it waits for any, so that the
    transfers of the earliest step still open always find their partners: no valid schedule can lock.
    ScheduleError where it would send a chunk of which it holds nothing.
    """
    holds = np.zeros(schedule.num_chunks, dtype=bool)
    if agent < schedule.num_ranks:
        before = collective(schedule.collective).before(schedule.num_ranks, schedule.num_chunks)
        holds |= before[agent]
    steps = []
    for rows in schedule.rows().by_step():
        filled = rows.take(elements[rows.chunk] > 0)
        step = Step(_sends(filled, agent, holds), _receives(filled, agent, holds, elements))
        if step.sends or step.receives:
            steps.append(step)
    return tuple(steps)


def staging_elements(steps: tuple[Step, ...], elements: npt.NDArray[np.int64]) -> int:
    """How many elements the staging buffer must hold at most."""
    return max(
        (
            row.staged_at + int(elements[row.chunk])
            for step in steps
            for row in step.receives
            if row.staged_at is not None
        ),
        default=0,
    )


def _tags(rows: Rows) -> list[int]:
    """The how-manieth transfer of its pair each row is: both ends count the same rows, and so agree."""
    seen: Counter[tuple[int, int]] = Counter()
    tags = []
    for pair in zip(rows.src.tolist(), rows.dst.tolist(), strict=True):
        tags.append(seen[pair])
        seen[pair] += 1
    return tags


def _sends(rows: Rows, agent: int, holds: npt.NDArray[np.bool_]) -> tuple[Send, ...]:
    tags = _tags(rows)
    sends = []
    for row in np.flatnonzero(rows.src == agent).tolist():
        chunk = int(rows.chunk[row])
        if not holds[chunk]:
            raise ScheduleError(
                f"step {rows.step[row]}: agent {agent} sends chunk {chunk} to {rows.dst[row]} "
                "before it holds anything of it"
            )
        sends.append(Send(int(rows.dst[row]), tags[row], chunk))
    return tuple(sends)


def _receives(
    rows: Rows, agent: int, holds: npt.NDArray[np.bool_], elements: npt.NDArray[np.int64]
) -> tuple[Receive, ...]:
    """Marks what arrives as held. A chunk that is not being sent and is to be replaced needs no staging."""
    tags = _tags(rows)
    sent = {int(chunk) for chunk in rows.chunk[rows.src == agent]}
    receives = []
    staged = 0
    for row in np.flatnonzero(rows.dst == agent).tolist():
        chunk = int(rows.chunk[row])
        replaces = bool(rows.op[row] == COPY or not holds[chunk])
        straight = replaces and chunk not in sent
        receives.append(Receive(int(rows.src[row]), tags[row], chunk, None if straight else staged, replaces))
        staged += 0 if straight else int(elements[chunk])
        holds[chunk] = True
    return tuple(receives)
