"""Broadcast and reduce as a chain along a ring's order, pipelined by chunks: from the root on, or towards it.

Chunks follow each other one step apart, so that all hops are busy once the pipeline is full, and every link carries
the buffer once (the ring of NCCL's broadcast.h and reduce.h).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.bundles import bundled
from sim.collective import ROOT
from sim.schedule import COPY, REDUCE, Block, Rows, Schedule

if TYPE_CHECKING:
    from sim.plan import Plan


def chain(plan: Plan) -> Schedule:
    """One block: chunk 0 of every channel over all hops; repeated for each chunk. Equal channels are bundled."""
    orders = [_from_or_to_root(order, plan.collective == "broadcast") for order in bundled(plan.rings)]
    order = np.array(orders, dtype=np.int32)
    num_channels, num_hops = len(orders), plan.num_ranks - 1
    channel = np.repeat(np.arange(num_channels, dtype=np.int32), num_hops)
    op = COPY if plan.collective == "broadcast" else REDUCE
    rows = Rows(
        step=np.tile(np.arange(num_hops, dtype=np.int32), num_channels),
        src=order[:, :-1].ravel(),
        dst=order[:, 1:].ravel(),
        chunk=channel,
        op=np.full(len(channel), op, dtype=np.int32),
        channel=channel,
    )
    block = Block(rows, repeat=plan.num_chunks, step_shift=1, chunk_shift=num_channels)
    return Schedule(plan.collective, plan.num_ranks, num_channels * plan.num_chunks, (block,) if num_hops else ())


def _from_or_to_root(order: tuple[int, ...], begins: bool) -> tuple[int, ...]:
    """The ring's order turned so that the root begins it, or ends it."""
    start = order.index(ROOT) + (not begins)
    return (*order[start:], *order[:start])
