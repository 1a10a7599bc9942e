"""The ring: reduce-scatter and all-gather once around each, and both after the other for an all-reduce.

Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009. Broadcast and reduce
run along the same orders as a pipeline (`sim.algorithms.chain`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.algorithms.chain import chain
from sim.bundles import bundled
from sim.schedule import COPY, REDUCE, Block, Column, Rows, Schedule

if TYPE_CHECKING:
    from sim.plan import Plan


def ring(plan: Plan) -> Schedule:
    """One or two blocks of one row per rank and channel; channels of one order are bundled.

    Chunk j of channel c has number j * channels + c, so that one shift by the number of channels moves every channel
    to its next chunk. Where ranks own parts of the buffer, chunk j lies in the part of the rank at position j.
    """
    if plan.collective in ("broadcast", "reduce"):
        return chain(plan)
    rings = bundled(plan.rings)
    num_ranks, num_channels = plan.num_ranks, len(rings)
    order = np.array(rings, dtype=np.int32)
    last = num_ranks - 1
    # In the all-reduce the second half starts one chunk further, with the sums that the first has just completed; a
    # reduce-scatter starts one chunk back, so that the sum of chunk p ends at position p.
    halves = {
        "all_reduce": ((0, 0, REDUCE), (last, 1, COPY)),
        "reduce_scatter": ((0, -1, REDUCE),),
        "all_gather": ((0, 0, COPY),),
    }[plan.collective]
    return Schedule(
        plan.collective,
        num_ranks,
        num_ranks * num_channels,
        tuple(_once_around(order, *half) for half in halves) if last else (),
        places=None if plan.collective == "all_reduce" else owned_by(order),
    )


def _once_around(order: Column, first_step: int, lead: int, op: int) -> Block:
    """In step t the rank at position p passes chunk p + lead - t on, in every channel."""
    num_channels, num_ranks = order.shape
    position = np.broadcast_to(np.arange(num_ranks, dtype=np.int32), order.shape)
    channel = np.broadcast_to(np.arange(num_channels, dtype=np.int32)[:, None], order.shape)
    chunk = (position + lead) % num_ranks * num_channels + channel
    rows = Rows(
        step=np.full(order.size, first_step, dtype=np.int32),
        src=order.ravel(),
        dst=np.roll(order, -1, axis=1).ravel(),
        chunk=chunk.ravel().astype(np.int32),
        op=np.full(order.size, op, dtype=np.int32),
        channel=channel.ravel(),
    )
    return Block(rows, repeat=num_ranks - 1, step_shift=1, chunk_shift=-num_channels)


def owned_by(order: Column) -> Column:
    """The places in the buffer of chunks j * channels + c, each in the part of rank `order[c, j]`."""
    num_channels = len(order)
    return np.asarray(order.T * num_channels + np.arange(num_channels), dtype=np.int32).ravel()
