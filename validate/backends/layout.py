"""Which chunks of a collective's buffer one process has room for, and where; without torch.

A collective is stated over one buffer that all ranks share in thought. In most of them every process holds all of it.
In an all-to-all each rank has a buffer of its own there, so that a process keeps only the chunks it meets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.collective import collective
from sim.schedule import Schedule

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layout:
    """`elements[c]` is the length of chunk c of the shared buffer; `kept` are the chunks this process holds, ascending.

    The process' own memory has the kept chunks one after the other.
    """

    elements: Whole
    kept: Whole

    @classmethod
    def whole(cls, elements: Whole) -> Layout:
        """All chunks."""
        return cls(elements, np.arange(len(elements)))

    @property
    def num_elements(self) -> int:
        """How many elements of memory the kept chunks need."""
        return int(self.elements[self.kept].sum())

    @property
    def bounds(self) -> Whole:
        """Where in the shared buffer each chunk begins, and behind them the end, shape (chunks + 1,)."""
        return bounds_of(self.elements)

    def places(self) -> dict[int, tuple[int, int]]:
        """The first element and the end of every kept chunk in the process' own memory."""
        ends = bounds_of(self.elements[self.kept])
        return {
            chunk: (int(first), int(last))
            for chunk, first, last in zip(self.kept.tolist(), ends[:-1], ends[1:], strict=True)
        }

    def stretches(self) -> Iterator[tuple[int, int, int]]:
        """(first in the shared buffer, end there, first in own memory) of every run of kept chunks without a gap."""
        bounds, own = self.bounds, 0
        for first, last in runs(self.kept):
            begin, end = int(bounds[first]), int(bounds[last + 1])
            yield begin, end, own
            own += end - begin


def bounds_of(elements: Whole) -> Whole:
    """The first element of each chunk, and behind them the end."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(elements)])


def runs(chunks: Whole) -> Iterator[tuple[int, int]]:
    """First and last of every run of consecutive numbers in an ascending list."""
    if len(chunks):
        breaks = np.flatnonzero(np.diff(chunks) != 1) + 1
        for part in np.split(chunks, breaks):
            yield int(part[0]), int(part[-1])


def layout_of(schedule: Schedule, agent: int, elements: Whole) -> Layout:
    """The chunks that an agent of the schedule must have room for."""
    if schedule.num_buffers == 1:
        return Layout.whole(elements)
    met = np.zeros(schedule.num_chunks, dtype=bool)
    rows = schedule.rows()
    met[rows.chunk[(rows.src == agent) | (rows.dst == agent)]] = True
    if agent < schedule.num_ranks:
        what = collective(schedule.collective)
        shape = (schedule.num_ranks, schedule.num_chunks)
        met |= what.before(*shape)[agent] | what.after(*shape)[agent]
    return Layout(elements, np.flatnonzero(met))
