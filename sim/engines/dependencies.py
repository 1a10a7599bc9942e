"""Who waits for whom in a schedule, derived from what its rows read and write; no author stores it.

Every slot (agent, chunk) sees a sequence of groups of accesses: the rows that write it in one step, the rows that
read it before the next write, and so on. A group may take effect once the group before it on the same slot is done,
which says read-after-write, write-after-write and write-after-read in one rule, in space linear in the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.engines.indexing import distinct, in_order
from sim.schedule import Rows, Schedule
from topo.errors import ScheduleError

Index = npt.NDArray[np.int32]

_KEY_BITS = 63


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups in the order of their slots and steps.

    Row i reads in group `read[i]` and writes in group `write[i]`. Group g has the rows
    `members[first[g] : first[g + 1]]`; `follows[g]` says that group g has to wait for group g - 1 (the same slot's).
    """

    read: Index
    write: Index
    members: Index
    first: Index
    follows: npt.NDArray[np.bool_]
    writes: npt.NDArray[np.bool_]

    @property
    def sizes(self) -> Index:
        """Rows in each group."""
        return np.diff(self.first)


def groups(schedule: Schedule) -> Groups:
    """The groups of all rows of a schedule."""
    return groups_of(schedule.rows(), schedule.num_agents, schedule.num_chunks)


def groups_of(rows: Rows, num_agents: int, num_chunks: int) -> Groups:
    """The groups of these rows, in whatever order they stand; within one step reads come before writes."""
    num_rows = len(rows)
    if not num_rows:
        empty = np.zeros(0, dtype=np.int32)
        return Groups(empty, empty, empty, np.zeros(1, dtype=np.int32), empty.astype(bool), empty.astype(bool))
    num_steps = int(rows.step.max()) + 1
    if (num_agents * num_chunks).bit_length() + (2 * num_steps).bit_length() > _KEY_BITS:
        raise ScheduleError(
            f"{num_agents} agents, {num_chunks} chunks and {num_steps} steps are too many to tell apart"
        )
    slot = np.concatenate([rows.src, rows.dst]).astype(np.int64)
    slot *= num_chunks
    slot += np.concatenate([rows.chunk, rows.chunk])
    return grouped(slot, np.concatenate([rows.step, rows.step]), num_rows)


def grouped(slot: npt.NDArray[np.int64], step: Index, num_reads: int) -> Groups:
    """The groups of accesses to these slots at these steps, of which the first `num_reads` read and the others write.

    `read` and `write` of the result are by access; its members count reads and writes each from 0.
    """
    num_accesses = len(slot)
    _, turn = distinct(step.astype(np.int64))
    bits = int(turn.max()).bit_length() + 1
    key = slot << bits
    key |= turn.astype(np.int64) << 1
    key[num_reads:] |= 1
    key, order = in_order(key)
    is_write = order >= num_reads
    new_slot = _changes(key >> bits)
    begins = new_slot | _changes(is_write) | (is_write & _changes(key))
    group = np.cumsum(begins, dtype=np.int32) - 1
    first = np.flatnonzero(begins)
    of_access = np.empty(num_accesses, dtype=np.int32)
    of_access[order] = group
    return Groups(
        read=of_access[:num_reads],
        write=of_access[num_reads:],
        members=np.where(is_write, order - num_reads, order).astype(np.int32),
        first=np.append(first, num_accesses).astype(np.int32),
        follows=~new_slot[first],
        writes=is_write[first],
    )


def _changes(column: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """True at 0 and wherever the value differs from the one before."""
    changed = np.ones(len(column), dtype=bool)
    changed[1:] = column[1:] != column[:-1]
    return changed
