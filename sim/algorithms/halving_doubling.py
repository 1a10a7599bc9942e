"""All-reduce by recursive halving and doubling: partners exchange halves of what is left to them, then give it back.

Rabenseifner, Optimization of collective reduction operations, 2004; and Thakur, Rabenseifner and Gropp, 2005. Partners
are next to each other in the first exchange, which carries half of the buffer, and twice as far in every further one,
which carries half as much. Of n ranks that are no power of two the first 2 (n - p) pair up before and after, p being
the power below: one of each pair hands its buffer over and waits for the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.bundles import bundled
from sim.schedule import COPY, REDUCE, Block, Rows, Schedule

if TYPE_CHECKING:
    from sim.plan import Plan

Column = npt.NDArray[np.int32]


def halving_doubling(plan: Plan) -> Schedule:
    """A block for every exchange, 2 log2 p of them, and one more before and after where ranks are left over.

    Channel c has p chunks of its own, from c * p on. Equal channels are bundled.
    """
    order = np.array(bundled(plan.rings), dtype=np.int32)
    num_levels = plan.num_ranks.bit_length() - 1
    power, num_channels = 1 << num_levels, len(order)
    num_spare = plan.num_ranks - power
    spare, partner = order[:, 0 : 2 * num_spare : 2], order[:, 1 : 2 * num_spare : 2]
    active = np.concatenate([partner, order[:, 2 * num_spare :]], axis=1)
    place = np.arange(power, dtype=np.int32)
    halves = []
    window = np.zeros(power, dtype=np.int32)
    for level in range(num_levels):
        size, upper = power >> (level + 1), place >> level & 1
        halves.append((active[:, place ^ (1 << level)], window + (1 - upper) * size, window + upper * size, size))
        window = window + upper * size
    nothing = np.zeros(num_spare, dtype=np.int32)
    exchanges = [
        (spare, partner, nothing, power, REDUCE),
        *((active, other, given, size, REDUCE) for other, given, _, size in halves),
        *((active, other, kept, size, COPY) for other, _, kept, size in reversed(halves)),
        (partner, spare, nothing, power, COPY),
    ]
    blocks = [
        _exchange(step, src, dst, np.broadcast_to(first, src.shape), power, size, op)
        for step, (src, dst, first, size, op) in enumerate(exchanges)
        if src.size
    ]
    return Schedule(plan.collective, plan.num_ranks, num_channels * power, tuple(blocks) if num_levels else ())


def _exchange(step: int, src: Column, dst: Column, first: Column, power: int, span: int, op: int) -> Block:
    """One message of `span` chunks over every pair of a channel, shape (channels, pairs)."""
    channel = np.broadcast_to(np.arange(len(src), dtype=np.int32)[:, None], src.shape)
    same = np.ones(src.size, dtype=np.int32)
    chunk = (channel * power + first).ravel().astype(np.int32)
    rows = Rows(same * step, src.ravel(), dst.ravel(), chunk, same * op, channel.ravel())
    return Block(rows, span=span)
