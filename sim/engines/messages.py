"""Who waits for whom where one message carries several chunks: it waits for all that any of them waits for.

A message touches a range of chunks at its sender and at its receiver. The ranges that meet at one agent are cut at all
their ends into intervals, which are slots as single chunks are elsewhere: a machine of n ranks that halve and double
has n log n messages over n log^2 n intervals, however many chunks there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.engines.dependencies import Groups, grouped
from sim.engines.indexing import Ints, ascending, distinct, ragged
from sim.schedule import Rows


@dataclass(frozen=True, eq=False)
class Waiting:
    """Message `waiter[i]` waits until `feeder[i]` has been sent (where `sent[i]`) or has landed; each said once."""

    waiter: Ints
    feeder: Ints
    sent: npt.NDArray[np.bool_]

    def keep(self, which: npt.NDArray[np.bool_]) -> Waiting:
        """Those where the mask is true."""
        return Waiting(self.waiter[which], self.feeder[which], self.sent[which])


def waiting(messages: Rows, spans: npt.NDArray[np.integer], num_chunks: int) -> tuple[Waiting, Waiting]:
    """What every message waits for before it starts, and before what it carries lands."""
    num_messages = len(messages)
    agent = np.concatenate([messages.src, messages.dst]).astype(np.int64)
    begin = agent * (num_chunks + 1) + np.concatenate([messages.chunk, messages.chunk])
    end = begin + np.concatenate([spans, spans])
    cuts = ascending(np.concatenate([begin, end]))
    low, high = np.searchsorted(cuts, begin), np.searchsorted(cuts, end)
    pieces = high - low
    slot = np.repeat(low - (np.cumsum(pieces) - pieces), pieces) + np.arange(int(pieces.sum()))
    access = np.repeat(np.arange(2 * num_messages), pieces)
    num_reads = int(pieces[:num_messages].sum())
    message = access % max(num_messages, 1)
    found = grouped(slot, messages.step[message], num_reads)
    reader, writer = message[:num_reads], message[num_reads:]
    return (
        _waiting(found, found.read, reader, (reader, writer)),
        _waiting(found, found.write, writer, (reader, writer)),
    )


def _waiting(found: Groups, group: npt.NDArray[np.int32], waiter: Ints, members: tuple[Ints, Ints]) -> Waiting:
    """For accesses of these groups, made by these messages: the messages of the group before each."""
    waits = found.follows[group]
    before, who = group[waits].astype(np.int64) - 1, waiter[waits]
    each = np.diff(found.first)[before]
    fed_by_write = np.repeat(found.writes[before], each)
    place = found.members[ragged(found.first, before)]
    feeder = np.empty(len(place), dtype=np.int64)
    feeder[~fed_by_write], feeder[fed_by_write] = members[0][place[~fed_by_write]], members[1][place[fed_by_write]]
    count = np.int64(len(members[0]) + len(members[1]) + 1)
    edges = np.sort((np.repeat(who, each) * count + feeder) * 2 + ~fed_by_write)
    edges = edges[np.diff(edges, prepend=-1) > 0]
    pair, sent = edges >> 1, (edges & 1).astype(bool)
    return Waiting(pair // count, pair % count, sent)


def latest(found: Waiting, messages: Rows) -> Waiting | None:
    """Of what each message waits for, that of the latest step; None where this does not imply the rest.

    It does where all that is left out came earlier over a connection of which something is kept, for connections serve
    in order.
    """
    if not len(found.waiter):
        return found
    step = messages.step[found.feeder]
    last = np.full(int(found.waiter.max()) + 1, -1, dtype=step.dtype)
    np.maximum.at(last, found.waiter, step)
    kept = step == last[found.waiter]
    width, channels = (int(column.max()) + 1 for column in (messages.dst, messages.channel))
    ends = (messages.src.astype(np.int64) * width + messages.dst) * channels + messages.channel
    connection = distinct(ends)[1][found.feeder]
    over = (found.waiter * len(messages) + connection) * 2 + found.sent
    return found.keep(kept) if np.isin(over[~kept], over[kept]).all() else None
