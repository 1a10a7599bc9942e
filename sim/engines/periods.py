"""Blocks as periods: what a row waits for, relative to its own period, without unrolling the block.

The first two and the last two periods of every block are unrolled and their dependencies derived as for any
schedule. A block is regular if a row of its last period reads only what was written in its own period, in the one
before, or in earlier blocks: then every period between looks the same.

Rows of all blocks are counted through: row i of block b has number `offset[b] + i`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sim.engines.dependencies import Groups, groups_of
from sim.engines.indexing import Ints, distinct, offsets, ragged
from sim.engines.messages import Waiting, latest, waiting
from sim.schedule import Block, Rows, Schedule
from topo.errors import ScheduleError

NOTHING = -1
NUM_KINDS = 3
"""Periods differ in what they wait for only by being the first, the second, or a later one."""


class IrregularError(ScheduleError):
    """A schedule whose blocks do not repeat in a way that can be folded."""


@dataclass(frozen=True, eq=False)
class Sources:
    """What the rows of one period wait for: groups of other rows.

    Row i waits for group `of_row[i]`, or for NOTHING. Group g is complete when the rows `rows[first[g] :
    first[g + 1]]` have landed (or, where `sent[g]`, have been sent), `lag[g]` periods ago in the same block, or, where
    `outside[g]`, in period `period[g]` of an earlier one.
    """

    of_row: Ints
    outside: npt.NDArray[np.bool_]
    lag: Ints
    period: Ints
    sent: npt.NDArray[np.bool_]
    rows: Ints
    first: npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Waits:
    """What the rows of one period wait for before they start, and before what they carry lands."""

    start: Sources
    land: Sources


@dataclass(frozen=True, eq=False)
class Period:
    """One block: its rows, how often it repeats, and what its first, second and every further period waits for.

    `repeat` counts the periods that carry anything.
    """

    block: Block
    offset: int
    repeat: int
    waits: tuple[Waits, ...]

    @property
    def rows(self) -> Rows:
        """The rows of one period."""
        return self.block.rows

    @property
    def step_shift(self) -> int:
        """How many steps lie between one period and the next."""
        return self.block.step_shift

    @property
    def numbers(self) -> Ints:
        """The numbers of its rows."""
        return np.arange(self.offset, self.offset + len(self.rows), dtype=np.int64)


def periods(schedule: Schedule) -> tuple[Period, ...]:
    """The schedule's blocks as periods; IrregularError where a block does not repeat regularly."""
    found = schedule.derived("periods", lambda: _periods_or_why(schedule))
    if isinstance(found, str):
        raise IrregularError(found)
    return found


def _periods_or_why(schedule: Schedule) -> tuple[Period, ...] | str:
    """The periods, or why there are none."""
    try:
        return _periods(schedule)
    except IrregularError as error:
        return str(error)


def _periods(schedule: Schedule) -> tuple[Period, ...]:
    blocks = [block for block in schedule.blocks if block.repeat and len(block.rows)]
    if any(block.rank_shift for block in blocks):
        raise IrregularError("blocks that move from rank to rank are not periodic on their connections")
    if not blocks:
        return ()
    sample = _Sample(schedule, blocks)
    return tuple(_period(index, block, sample) for index, block in enumerate(blocks))


def with_bytes(blocks: Sequence[Period], num_elements: int, schedule: Schedule) -> tuple[Period, ...]:
    """The blocks without those periods that carry none of the elements."""
    if num_elements >= schedule.num_chunks:
        return tuple(blocks)
    return tuple(replace(block, repeat=_periods_with_bytes(block.block, num_elements, schedule)) for block in blocks)


def _periods_with_bytes(block: Block, num_elements: int, schedule: Schedule) -> int:
    """How many periods carry any element, where there are more chunks than elements."""
    chunks, _ = distinct(block.rows.chunk.astype(np.int64))
    if len(chunks) * block.span == schedule.num_chunks or not block.chunk_shift:
        return block.repeat
    turn = np.arange(block.repeat, dtype=np.int64)[:, None]
    moved = schedule.moved(block, chunks[None, :], turn)
    placed = moved if schedule.places is None else schedule.places[moved]
    return int((placed < num_elements).any(axis=1).sum())


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows of one period of a block; each carries so many chunks."""

    block: int
    period: int
    rows: Rows
    spans: Ints


class _Sample:
    """The unrolled periods of all blocks: where each row comes from, and the groups it waits for."""

    def __init__(self, schedule: Schedule, blocks: list[Block]) -> None:
        shown = [part for index, block in enumerate(blocks) for part in _shown(schedule, index, block)]
        in_messages = any(block.span > 1 for block in blocks)
        hidden = [part for index, block in enumerate(blocks) for part in _between(schedule, index, block)]
        parts = [*shown, *hidden] if in_messages else shown
        lengths = [len(part.rows) for part in parts]
        rows = Rows.joined([part.rows for part in parts])
        self.offset = offsets([len(block.rows) for block in blocks]).tolist()
        self.block = np.repeat([part.block for part in parts], lengths)
        self.period = np.repeat([part.period for part in parts], lengths)
        self.row = np.concatenate([self.offset[part.block] + np.arange(len(part.rows)) for part in parts])
        ends = np.cumsum(lengths).tolist()
        self._begins = {(part.block, part.period): end - len(part.rows) for part, end in zip(shown, ends, strict=False)}
        if in_messages:
            num_shown = sum(len(part.rows) for part in shown)
            waits = waiting(rows, np.concatenate([part.spans for part in parts]), schedule.num_chunks)
            self._wait_by_message(rows, [side.keep(side.waiter < num_shown) for side in waits])
        else:
            self._wait_by_row(groups_of(rows, schedule.num_agents, schedule.num_chunks))

    def of(self, block: int, period: int) -> slice:
        """Where the rows of a period that is shown stand."""
        begin = self._begins[block, period]
        return slice(begin, begin + self.offset[block + 1] - self.offset[block])

    def _wait_by_row(self, found: Groups) -> None:
        """The groups of all accesses."""
        self.members, self.first, self.writes = found.members.astype(np.int64), found.first, found.writes
        self.before_start, self.before_land = (
            np.where(found.follows[group], group.astype(np.int64) - 1, NOTHING) for group in (found.read, found.write)
        )

    def _wait_by_message(self, rows: Rows, found: Sequence[Waiting]) -> None:
        """Two groups for every row: the latest that it waits for before it starts, and before it lands."""
        members, counts, writes = [], [], []
        for side in (latest(side, rows) for side in found):
            if side is None:
                raise IrregularError("a message gathers chunks that came by several ways")
            sizes = np.bincount(side.waiter, minlength=len(rows))
            num_sent = np.bincount(side.waiter, weights=side.sent, minlength=len(rows))
            if ((num_sent > 0) & (num_sent < sizes)).any():
                raise IrregularError("a message waits for others to be sent and for others to land")
            members.append(side.feeder[np.argsort(side.waiter, kind="stable")])
            counts.append(sizes)
            writes.append(num_sent == 0)
        wanted = np.where(np.concatenate(counts) > 0, np.arange(2 * len(rows)), NOTHING)
        self.members = np.concatenate([*members, np.zeros(1, dtype=np.int64)])
        self.first, self.writes = offsets(np.concatenate(counts)), np.concatenate(writes)
        self.before_start, self.before_land = wanted[: len(rows)], wanted[len(rows) :]


def _shown(schedule: Schedule, index: int, block: Block) -> list[_Part]:
    """The first two and the last two periods of a block."""
    turns = sorted({0, 1, block.repeat - 2, block.repeat - 1} & set(range(block.repeat)))
    spans = np.full(len(block.rows), block.span, dtype=np.int64)
    return [_Part(index, turn, schedule.unroll(block, np.array([turn], dtype=np.int32)), spans) for turn in turns]


def _between(schedule: Schedule, index: int, block: Block) -> list[_Part]:
    """The periods of a block that are not shown, as if all chunks of a row were one message.

    A message that reads what many periods wrote then finds all of it. Only rows that go from chunk to chunk beside it
    have such a message: of two parts where it runs over the end of its range.
    """
    count = block.repeat - 4
    if count < 1 or abs(block.chunk_shift) != block.span:
        return []
    first, last = (schedule.unroll(block, np.array([turn], dtype=np.int32)) for turn in (2, block.repeat - 3))
    start = (first if block.chunk_shift > 0 else last).chunk
    wrap = block.chunk_wrap or schedule.num_chunks
    within = start % wrap
    length = np.minimum(count * block.span, wrap - within).astype(np.int64)
    return [
        _Part(index, block.repeat - 3, replace(last, chunk=start), length),
        _Part(index, block.repeat - 3, replace(last, chunk=start - within), count * block.span - length),
    ]


def _period(index: int, block: Block, sample: _Sample) -> Period:
    last = block.repeat - 1
    known = {period: _waits(index, period, sample) for period in {0, min(1, last), last}}
    waits = (known[0], known[min(1, last)], known[last])
    start = known[last].start
    if block.repeat > 2 and (~start.outside & ((start.lag > 1) | (start.lag < 0))).any():
        raise IrregularError(f"block {index}: a row reads what was written neither in its period nor in the one before")
    return Period(block, sample.offset[index], block.repeat, waits)


def _waits(index: int, period: int, sample: _Sample) -> Waits:
    mine = sample.of(index, period)
    return Waits(
        _sources(index, period, sample, sample.before_start[mine]),
        _sources(index, period, sample, _near(index, period, sample, sample.before_land[mine])),
    )


def _near(index: int, period: int, sample: _Sample, wanted: Ints) -> Ints:
    """Without what lies more than a period back in the same block: a slot that old has long been free."""
    leader = sample.members[sample.first[np.maximum(wanted, 0)]]
    far = (sample.block[leader] == index) & (np.abs(period - sample.period[leader]) > 1)
    return np.where(far, NOTHING, wanted)


def _sources(index: int, period: int, sample: _Sample, wanted: Ints) -> Sources:
    has = wanted != NOTHING
    of_row = np.full(len(wanted), NOTHING, dtype=np.int64)
    chosen, which = distinct(wanted[has])
    of_row[has] = which
    members = sample.members[ragged(sample.first, chosen)]
    leader = sample.members[sample.first[chosen]]
    block, written = sample.block[leader], sample.period[leader]
    owner = np.repeat(np.arange(len(chosen)), sample.first[chosen + 1] - sample.first[chosen])
    same = (sample.block[members] == block[owner]) & (sample.period[members] == written[owner])
    if sample.writes[chosen[owner[~same]]].any():
        raise IrregularError(f"block {index}: what a row reads is completed by rows of several periods")
    # Readers of one slot may be spread over periods; those beside the first are left out, as they come before a write.
    first = offsets(np.bincount(owner[same], minlength=len(chosen)))
    lag = np.where(block == index, period - written, 0)
    return Sources(of_row, block != index, lag, written, ~sample.writes[chosen], sample.row[members[same]], first)
