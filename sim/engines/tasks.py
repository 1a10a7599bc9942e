"""Transfers made ready for the event engine: costs, routes, queues, and gates for what waits.

A gate opens once all tasks that feed it are done: some by having been sent, some by having landed. A task may wait
for one gate before it starts and for one before it lands. That is all the event engine knows of a schedule, so that it
runs a schedule row by row, or folded to the classes of its rows, in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sim.engines.dependencies import groups
from sim.engines.fold import Folded
from sim.engines.indexing import Ints, distinct, offsets, ragged, stable_order
from sim.engines.messages import waiting
from sim.engines.network import Network, routing
from sim.engines.periods import NOTHING, NUM_KINDS, Period, Sources
from sim.engines.routes import Routes
from sim.schedule import Schedule
from sim.workload import Workload

Floats = npt.NDArray[np.float64]
Offsets = npt.NDArray[np.int32]


_KEPT = 16_384
"""Tasks up to which what waits for what is kept with a schedule."""
_FEW = 4
"""Values per key up to which a table is kept with as many columns, so that a look-up is one step."""


class Table:
    """For each key the values `values[first[key] : first[key + 1]]`."""

    def __init__(self, keys: Ints, values: Ints, num_keys: int) -> None:
        """From pairs; those with the key NOTHING are left out."""
        has = keys != NOTHING
        kept = keys[has]
        counts = np.bincount(kept, minlength=num_keys)
        self.first = offsets(counts)
        self.values = values[has][stable_order(kept.astype(np.int32))]
        self._has = counts > 0
        self._padded: Ints | None = None
        most = int(counts.max(initial=0))
        self._any_short = bool((counts < most).any())
        if most <= _FEW:
            padded = np.full((num_keys, most), NOTHING, dtype=np.int64)
            key = np.repeat(np.arange(num_keys), counts)
            padded[key, np.arange(len(key)) - self.first[key]] = self.values
            self._padded = padded.ravel() if most == 1 else padded

    def of(self, keys: npt.NDArray[np.integer]) -> Ints:
        """The values of all these keys, joined."""
        if self._padded is None:
            keys = keys[self._has[keys]]
            joined: Ints = self.values[ragged(self.first, keys)] if len(keys) else keys.astype(np.int64)
            return joined
        listed: Ints = self._padded.take(keys, axis=0)
        if listed.ndim > 1:
            listed = listed.ravel()
        return listed[listed != NOTHING] if self._any_short else listed


@dataclass(frozen=True, eq=False)
class Tasks:
    """Transfers as the event engine takes them.

    `num_bytes` is what a task's time is for, `carried_bytes` what it leaves on its links on average, `row` a row of the
    schedule that it stands for. `queue` holds the tasks of each connection in the order in which it serves them.
    `held_s` says before when a task may neither start (its sender is late) nor land (its receiver is); None: nobody is.
    """

    num_bytes: Floats
    carried_bytes: Floats
    row: Ints
    route: Ints
    routes: Routes
    capacity: Floats
    connection: Ints
    queue: Table
    start_gate: Ints
    land_gate: Ints
    gates_by_sent: Table
    gates_by_landed: Table
    gate_size: npt.NDArray[np.int32]
    held_s: tuple[Floats, Floats] | None = None

    def __len__(self) -> int:
        return len(self.num_bytes)


def unfolded(schedule: Schedule, network: Network, workload: Workload) -> Tasks:
    """One task per message, in the order of `schedule.messages()`."""
    rows, spans = schedule.messages()
    ways = routing(network, rows)
    everyone = np.arange(len(rows), dtype=np.int64)
    width, channels = int(rows.dst.max(initial=0)) + 1, int(rows.channel.max(initial=0)) + 1
    _, connection = distinct((rows.src.astype(np.int64) * width + rows.dst) * channels + rows.channel)
    num_bytes = schedule.span_bytes(workload, rows.chunk, spans)
    in_messages = schedule.num_rows > schedule.num_messages
    gates = schedule.derived("gates", lambda: (_message_gates if in_messages else _row_gates)(schedule))
    return Tasks(
        num_bytes=num_bytes,
        carried_bytes=num_bytes,
        row=np.cumsum(spans, dtype=np.int64) - spans,
        route=ways.route.astype(np.int64),
        routes=ways.routes,
        capacity=network.bandwidth_bytes_per_s,
        connection=connection.astype(np.int64),
        queue=Table(connection.astype(np.int64), everyone, int(connection.max(initial=-1)) + 1),
        start_gate=gates.start,
        land_gate=gates.land,
        gates_by_sent=gates.by_sent,
        gates_by_landed=gates.by_landed,
        gate_size=gates.size,
        held_s=_held(network, rows.src, rows.dst),
    )


@dataclass(frozen=True, eq=False)
class _Gates:
    """The gates of tasks, as in Tasks."""

    start: Ints
    land: Ints
    by_sent: Table
    by_landed: Table
    size: npt.NDArray[np.int32]


def _row_gates(schedule: Schedule) -> _Gates:
    """A gate for every group of accesses that another follows."""
    found = groups(schedule)
    num_rows = len(found.read)
    everyone = np.arange(num_rows, dtype=np.int64)
    group_read, group_write = found.read.astype(np.int64), found.write.astype(np.int64)
    wanted = np.append(found.follows[1:], False)
    return _Gates(
        start=np.where(found.follows[group_read], group_read - 1, NOTHING),
        land=np.where(found.follows[group_write], group_write - 1, NOTHING),
        by_sent=Table(np.where(wanted[group_read], everyone, NOTHING), group_read, num_rows),
        by_landed=Table(np.where(wanted[group_write], everyone, NOTHING), group_write, num_rows),
        size=np.where(wanted, found.sizes, 1).astype(np.int32),
    )


def _message_gates(schedule: Schedule) -> _Gates:
    """Two gates for every message, one before it starts and one before it lands, as far as it waits."""
    messages, spans = schedule.messages()
    count = len(messages)
    start, land = waiting(messages, spans, schedule.num_chunks)
    feeder, sent = (np.concatenate([getattr(side, name) for side in (start, land)]) for name in ("feeder", "sent"))
    gate = np.concatenate([start.waiter, count + land.waiter])
    size = np.bincount(gate, minlength=2 * count).astype(np.int32)
    wanted = np.where(size > 0, np.arange(2 * count), NOTHING)
    return _Gates(
        start=wanted[:count],
        land=wanted[count:],
        by_sent=Table(np.where(sent, feeder, NOTHING), gate, count),
        by_landed=Table(np.where(sent, NOTHING, feeder), gate, count),
        size=size,
    )


def of_classes(
    blocks: Sequence[Period], found: Folded, schedule: Schedule, network: Network, workload: Workload
) -> Tasks:
    """One task per class of rows and period; what waits for what is kept for further sizes where it is little."""
    count = found.num_classes * max(block.repeat for block in blocks)
    key = "tasks", found, tuple(block.repeat for block in blocks)
    bare = (
        schedule.derived(key, _Unrolling(blocks, found).tasks) if count <= _KEPT else _Unrolling(blocks, found).tasks()
    )
    block = np.searchsorted([block.offset for block in blocks], bare.row, side="right") - 1
    chunk_bytes = schedule.chunk_bytes(workload)
    num_bytes = np.array([float(chunk_bytes[: part.block.span].sum()) for part in blocks])
    # What a message carries on average, with the chunks of periods left out spread over the others.
    carried = np.array(
        [float(chunk_bytes.mean()) * part.block.span * part.block.repeat / part.repeat for part in blocks]
    )
    tasks = replace(bare, num_bytes=num_bytes[block], carried_bytes=carried[block])
    if network.start_s is None:
        return tasks
    src, dst = (np.concatenate([getattr(block.rows, end) for block in blocks])[tasks.row] for end in ("src", "dst"))
    return replace(tasks, held_s=_held(network, src, dst))


def _held(network: Network, src: npt.NDArray[np.integer], dst: npt.NDArray[np.integer]) -> tuple[Floats, Floats] | None:
    """When the sender and the receiver of each task start."""
    if network.start_s is None:
        return None
    started_s = network.launch_overhead_s + network.start_s
    return started_s[src], started_s[dst]


class _Unrolling:
    """Periods of classes, written out one after the other."""

    def __init__(self, blocks: Sequence[Period], found: Folded) -> None:
        self._blocks, self._found = blocks, found
        bounds = [block.offset for block in blocks] + [len(found.of_row)]
        # Classes are numbered in no order of blocks: list those of each block, and where each stands in its list.
        self._classes = [
            np.flatnonzero((found.leader >= low) & (found.leader < high)) for low, high in pairwise(bounds)
        ]
        self._place = np.zeros(found.num_classes, dtype=np.int64)
        for chosen in self._classes:
            self._place[chosen] = np.arange(len(chosen))
        self._block_of = np.searchsorted(bounds, found.leader, side="right") - 1
        self._repeats = np.array([block.repeat for block in blocks])
        self._sizes = np.array([len(chosen) for chosen in self._classes])
        self._base = offsets(self._sizes * self._repeats).astype(np.int64)
        self._edges: list[tuple[Ints, Ints, bool]] = []
        self._num_gates = 0

    def tasks(self) -> Tasks:
        """All tasks, block by block and period by period, of no bytes yet."""
        found = self._found
        of_class = np.concatenate([np.tile(c, b.repeat) for c, b in zip(self._classes, self._blocks, strict=True)])
        gates = [self._gates(index) for index in range(len(self._blocks))]
        start_gate, land_gate = (np.concatenate([pair[side] for pair in gates]) for side in (0, 1))
        num_tasks = len(of_class)
        connection = found.connection[of_class]
        order = np.argsort(self._steps(), kind="stable")
        feeds = [self._feeds(sent, num_tasks) for sent in (True, False)]
        gate_size = sum(np.bincount(table.values, minlength=self._num_gates) for table in feeds)
        return Tasks(
            num_bytes=np.zeros(num_tasks),
            carried_bytes=np.zeros(num_tasks),
            row=found.leader[of_class],
            route=of_class,
            routes=found.routes,
            capacity=found.capacity,
            connection=connection,
            queue=Table(connection[order], order, int(connection.max(initial=-1)) + 1),
            start_gate=start_gate,
            land_gate=land_gate,
            gates_by_sent=feeds[0],
            gates_by_landed=feeds[1],
            gate_size=np.asarray(gate_size, dtype=np.int32),
        )

    def _steps(self) -> Ints:
        """The step of each task."""
        parts = []
        for block, chosen in zip(self._blocks, self._classes, strict=True):
            step = block.rows.step[self._found.leader[chosen] - block.offset].astype(np.int64)
            turn = np.arange(block.repeat, dtype=np.int64)[:, None] * block.step_shift
            parts.append((turn + step[None, :]).ravel())
        return np.concatenate(parts)

    def _gates(self, index: int) -> tuple[Ints, Ints]:
        """The gates that the tasks of one block wait for before they start and before they land."""
        block, chosen = self._blocks[index], self._classes[index]
        waiting = tuple(np.full((block.repeat, len(chosen)), NOTHING, dtype=np.int64) for _ in range(2))
        for kind in range(min(NUM_KINDS, block.repeat)):
            turns = np.arange(kind, block.repeat if kind == NUM_KINDS - 1 else kind + 1)
            for side, sources in enumerate((block.waits[kind].start, block.waits[kind].land)):
                waiting[side][turns] = self._wait(index, turns, sources)
        return waiting[0].ravel(), waiting[1].ravel()

    def _wait(self, index: int, turns: Ints, sources: Sources) -> Ints:
        """Gates of shape (turns, classes of the block), and the edges that feed them."""
        block, chosen = self._blocks[index], self._classes[index]
        group_of_class = sources.of_row[self._found.leader[chosen] - block.offset]
        has = group_of_class != NOTHING
        waiting = np.full((len(turns), len(chosen)), NOTHING, dtype=np.int64)
        groups_used, which = distinct(group_of_class[has])
        if not len(groups_used):
            return waiting
        first_gate = self._num_gates + np.arange(len(turns), dtype=np.int64)[:, None] * len(groups_used)
        waiting[:, has] = first_gate + which[None, :]
        self._num_gates += len(turns) * len(groups_used)
        owner = np.repeat(np.arange(len(groups_used)), sources.first[groups_used + 1] - sources.first[groups_used])
        member = self._found.of_row[sources.rows[ragged(sources.first, groups_used)]]
        pairs, _ = distinct(owner * self._found.num_classes + member)
        owner, member = np.divmod(pairs, self._found.num_classes)
        group = groups_used[owner]
        outside = sources.outside[group][None, :]
        turn = np.where(outside, sources.period[group][None, :], turns[:, None] - sources.lag[group][None, :])
        task = self._task(member[None, :], turn)
        gate = first_gate + owner[None, :]
        for sent in (True, False):
            kept = sources.sent[group] == sent
            self._edges.append((task[:, kept].ravel(), gate[:, kept].ravel(), sent))
        return waiting

    def _task(self, of_class: Ints, turn: Ints) -> Ints:
        """The number of a class's task in a period; periods without bytes were left out, their last stands for them."""
        block = self._block_of[of_class]
        last = self._repeats[block] - 1
        number: Ints = self._base[block] + np.minimum(turn, last) * self._sizes[block] + self._place[of_class]
        return number

    def _feeds(self, sent: bool, num_tasks: int) -> Table:
        edges = [(task, gate) for task, gate, by_sent in self._edges if by_sent == sent]
        nothing = np.zeros(0, dtype=np.int64)
        tasks = np.concatenate([task for task, _ in edges] or [nothing])
        gates = np.concatenate([gate for _, gate in edges] or [nothing])
        return Table(tasks, gates, num_tasks)
