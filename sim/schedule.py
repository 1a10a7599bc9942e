"""The intermediate representation: a collective as rows of transfers, without bytes, links or seconds.

A row says: at `step`, agent `src` sends its copy of `chunk` to agent `dst` over `channel`, where it is copied or
reduced into what `dst` holds. Agents are ranks first, then helpers (a parameter server in host memory). A row reads
its source as it stood at the start of its step; within a step a slot (dst, chunk) takes many REDUCE or exactly one
COPY. Everything else (who waits for whom, bytes, routes, time) is derived from that by the interpreters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sim.collective import collective
from sim.workload import Workload
from topo.errors import ScheduleError
from topo.words import counted

COPY, REDUCE = 0, 1

Column = npt.NDArray[np.int32]
Chunks = npt.NDArray[np.int64]
Derived = TypeVar("Derived")
COLUMNS = ("step", "src", "dst", "chunk", "op", "channel")


@dataclass(frozen=True, eq=False)
class Rows:
    """Transfers as columns of equal length, int32."""

    step: Column
    src: Column
    dst: Column
    chunk: Column
    op: Column
    channel: Column

    def __len__(self) -> int:
        return len(self.step)

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int, int, int, int]]) -> Rows:
        """From (step, src, dst, chunk, op, channel) tuples."""
        table = np.array(list(rows), dtype=np.int32).reshape(-1, len(COLUMNS))
        return cls(*(np.ascontiguousarray(column) for column in table.T))

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts, one after the other."""
        if not parts:
            return cls.of(())
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS))

    def shifted(self, steps: int) -> Rows:
        """The same rows so many steps later."""
        return replace(self, step=self.step + np.int32(steps))

    def by_step(self) -> Iterator[Rows]:
        """The rows of each step in turn; the rows must be ordered by step, as `Schedule.rows` gives them."""
        starts = np.flatnonzero(np.diff(self.step)) + 1
        for first, last in zip([0, *starts], [*starts, len(self)], strict=True):
            if last > first:
                yield Rows(*(getattr(self, name)[first:last] for name in COLUMNS))

    def take(self, index: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Rows:
        """The rows at the given positions, or where a mask is true."""
        return Rows(*(getattr(self, name)[index] for name in COLUMNS))


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of one period, how often it repeats, and how far step, rank and chunk move each time.

    In the k-th repetition k * shift is added; ranks wrap at the number of ranks (helpers stay), chunks at the number
    of chunks, or, where `chunk_wrap` is given, among that many beside each other. A ring of n ranks is two blocks of n
    rows whatever n is. With `span` each row is one message of so many chunks from its `chunk` on: it is sent once all
    of them are there, and pays one latency.
    """

    rows: Rows
    repeat: int = 1
    step_shift: int = 0
    rank_shift: int = 0
    chunk_shift: int = 0
    chunk_wrap: int = 0
    span: int = 1


@dataclass(frozen=True, eq=False)
class Schedule:
    """A collective over `num_ranks` ranks and `num_helpers` further agents, its buffer cut into `num_chunks`.

    `places`, a permutation, says where in the buffer the chunks of the blocks lie, so that a block can count chunks in
    the order in which they move; None is where they are. `rows()` has places and one row for every chunk of a message.
    """

    collective: str
    num_ranks: int
    num_chunks: int
    blocks: tuple[Block, ...]
    num_helpers: int = 0
    places: Column | None = None

    def __post_init__(self) -> None:
        collective(self.collective)
        if self.num_ranks < 1 or self.num_chunks < 1:
            raise ScheduleError(
                f"{counted(self.num_ranks, 'rank')} and {counted(self.num_chunks, 'chunk')}: at least one of each is "
                "needed"
            )
        if self.places is not None and not np.array_equal(np.sort(self.places), np.arange(self.num_chunks)):
            raise ScheduleError(f"places of chunks must be 0 to {self.num_chunks - 1}, each once: {self.places}")

    @property
    def num_agents(self) -> int:
        """Ranks and helpers together."""
        return self.num_ranks + self.num_helpers

    @property
    def num_buffers(self) -> int:
        """How many buffers the chunks are cut from: one that all ranks share, or one of each rank."""
        return self.num_ranks if collective(self.collective).own_buffers else 1

    def chunk_bytes(self, workload: Workload) -> npt.NDArray[np.int64]:
        """Bytes of each chunk, shape (num_chunks,)."""
        return np.tile(workload.chunk_bytes(self.num_chunks // self.num_buffers), self.num_buffers)

    def span_bytes(
        self, workload: Workload, chunk: npt.NDArray[np.integer], spans: npt.NDArray[np.integer]
    ) -> npt.NDArray[np.float64]:
        """Bytes of messages of so many chunks from each of these on, as blocks count them."""
        each = self.chunk_bytes(workload)
        ends = np.concatenate([[0], np.cumsum(each if self.places is None else each[self.places])])
        found: npt.NDArray[np.float64] = (ends[chunk + spans] - ends[chunk]).astype(np.float64)
        return found

    @property
    def num_rows(self) -> int:
        """How many transfers there are, without building them."""
        return sum(len(block.rows) * block.repeat * block.span for block in self.blocks)

    @property
    def num_messages(self) -> int:
        """How many messages they travel in."""
        return sum(len(block.rows) * block.repeat for block in self.blocks)

    def rows(self) -> Rows:
        """All transfers, ordered by step (rows of one step keep the author's order)."""
        return self._rows

    def messages(self) -> tuple[Rows, Column]:
        """All messages in the order of `rows()`, as blocks count their chunks, and how many chunks each carries."""
        return self._messages

    def derived(self, key: Hashable, compute: Callable[[], Derived]) -> Derived:
        """What `compute` derives from this schedule, computed once per key and kept with it."""
        if key not in self._derived:
            self._derived[key] = compute()
        found: Derived = self._derived[key]
        return found

    @cached_property
    def _derived(self) -> dict[Hashable, Any]:
        return {}

    @cached_property
    def _messages(self) -> tuple[Rows, Column]:
        parts = [self.unroll(block, np.arange(block.repeat, dtype=np.int32)) for block in self.blocks]
        joined = Rows.joined(parts)
        spans = np.repeat([block.span for block in self.blocks], [len(part) for part in parts]).astype(np.int32)
        if np.all(joined.step[1:] >= joined.step[:-1]):
            return joined, spans
        order = np.argsort(joined.step, kind="stable")
        return joined.take(order), spans[order]

    @cached_property
    def _rows(self) -> Rows:
        rows, spans = self._messages
        if (spans > 1).any():
            first = np.cumsum(spans, dtype=np.int64) - spans
            rows = rows.take(np.repeat(np.arange(len(rows)), spans))
            within = np.arange(len(rows)) - np.repeat(first, spans)
            rows = replace(rows, chunk=(rows.chunk + within).astype(np.int32))
        return rows if self.places is None else replace(rows, chunk=self.places[rows.chunk])

    def describe(self, row: int) -> str:
        """A row of `rows()` in words, for errors."""
        rows = self.rows()
        return f"step {rows.step[row]} {rows.src[row]}->{rows.dst[row]} chunk {rows.chunk[row]}"

    def unroll(self, block: Block, periods: Column) -> Rows:
        """The rows of the given repetitions of a block, one after the other, with chunks as the block counts them."""
        turn = np.repeat(periods, len(block.rows))
        rows = {name: np.tile(getattr(block.rows, name), len(periods)) for name in COLUMNS}
        rows["step"] = rows["step"] + turn * np.int32(block.step_shift)
        if block.rank_shift:
            for end in ("src", "dst"):
                moved = (rows[end] + turn.astype(np.int64) * block.rank_shift) % self.num_ranks
                rows[end] = np.where(rows[end] < self.num_ranks, moved, rows[end]).astype(np.int32)
        rows["chunk"] = self.moved(block, rows["chunk"], turn).astype(np.int32)
        return Rows(**rows)

    def moved(self, block: Block, chunk: npt.NDArray[np.integer], turn: npt.NDArray[np.integer]) -> Chunks:
        """What chunks of a block become in these repetitions of it."""
        if not block.chunk_shift:
            return chunk.astype(np.int64)
        shift = turn.astype(np.int64) * block.chunk_shift
        wrap = block.chunk_wrap or self.num_chunks
        within = chunk % wrap
        moved: Chunks = chunk - within + (within + shift) % wrap
        return moved

    def check(self) -> None:
        """Raise ScheduleError where a row is malformed or a slot takes a COPY beside anything else in one step."""
        rows = self.rows()
        self._check_ranges(rows)
        slot = (rows.step.astype(np.int64) * self.num_agents + rows.dst) * self.num_chunks + rows.chunk
        _, first, inverse, count = np.unique(slot, return_index=True, return_inverse=True, return_counts=True)
        copies = np.bincount(inverse, weights=rows.op == COPY, minlength=len(first))
        clash = np.flatnonzero((copies > 0) & (count > 1))
        if len(clash):
            row = int(first[clash[0]])
            raise ScheduleError(
                f"step {rows.step[row]}: agent {rows.dst[row]} takes chunk {rows.chunk[row]} from "
                f"{count[clash[0]]} rows, one a COPY: within a step a slot takes many REDUCE or exactly one COPY"
            )

    def _check_ranges(self, rows: Rows) -> None:
        limits = {
            "step": np.iinfo(np.int32).max,
            "src": self.num_agents,
            "dst": self.num_agents,
            "chunk": self.num_chunks,
            "op": 2,
            "channel": np.iinfo(np.int32).max,
        }
        for name, limit in limits.items():
            column = getattr(rows, name)
            wrong = np.flatnonzero((column < 0) | (column >= limit))
            if len(wrong):
                raise ScheduleError(f"row {wrong[0]}: {name} {column[wrong[0]]} is outside 0 to {limit - 1}")
        same = np.flatnonzero(rows.src == rows.dst)
        if len(same):
            raise ScheduleError(f"row {same[0]}: agent {rows.src[same[0]]} sends to itself")
