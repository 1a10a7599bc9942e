"""Ring all-reduce: reduce-scatter, then all-gather, both once around the ring (Patarasuk and Yuan, 2009)."""

from __future__ import annotations

import numpy as np

from sim.plan import Plan, bundled
from sim.schedule import COPY, REDUCE, Block, Rows, Schedule


def ring(plan: Plan) -> Schedule:
    """Two blocks of one row per rank and channel: in step t the rank at position p passes chunk p - t on.

    Chunk j of channel c has number j * channels + c, so that one shift by the number of channels moves every
    channel to its next chunk. The second half starts one chunk further, with the sums just completed. Channels of one
    order are bundled.
    """
    rings = bundled(plan.rings)
    num_ranks, num_channels = plan.num_ranks, len(rings)
    order = np.array(rings, dtype=np.int32)
    position = np.broadcast_to(np.arange(num_ranks, dtype=np.int32), order.shape)
    channel = np.broadcast_to(np.arange(num_channels, dtype=np.int32)[:, None], order.shape)
    successor = np.roll(order, -1, axis=1)

    def half(first_step: int, lead: int, op: int) -> Block:
        chunk = (position + lead) % num_ranks * num_channels + channel
        rows = Rows(
            step=np.full(order.size, first_step, dtype=np.int32),
            src=order.ravel(),
            dst=successor.ravel(),
            chunk=chunk.ravel().astype(np.int32),
            op=np.full(order.size, op, dtype=np.int32),
            channel=channel.ravel(),
        )
        return Block(rows, repeat=num_ranks - 1, step_shift=1, chunk_shift=-num_channels)

    blocks = (half(0, 0, REDUCE), half(num_ranks - 1, 1, COPY)) if num_ranks > 1 else ()
    return Schedule(plan.collective, num_ranks, num_ranks * num_channels, blocks)
