"""Parallel aggregated trees: all-gather and reduce-scatter in log2 n hops, each rank the root of a binomial tree.

In the all-gather a rank's part travels first half-way round the ranks, then a quarter, and next door in the end, so
that what goes far is little (PAT of NCCL 2.23). The reduce-scatter is the same backwards. Parts that travel together
are not one message: each goes on as soon as it is there, over a connection of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.bundles import bundled
from sim.schedule import COPY, REDUCE, Block, Rows, Schedule

if TYPE_CHECKING:
    from sim.plan import Plan


def pat(plan: Plan) -> Schedule:
    """A block for each distance between a rank and the owner of a part, which the lowest bit of it crosses last.

    Chunk j * channels + c is that of the rank at position j in channel c. Equal channels are bundled.
    """
    order = np.array(bundled(plan.rings), dtype=np.int32)
    num_channels, num_ranks = order.shape
    gathers = plan.collective == "all_gather"
    num_steps = (num_ranks - 1).bit_length()
    owner = np.broadcast_to(np.arange(num_ranks, dtype=np.int32), order.shape)
    channel = np.broadcast_to(np.arange(num_channels, dtype=np.int32)[:, None], order.shape)
    chunk = (order * num_channels + channel).ravel()
    blocks = []
    for away in sorted(range(1, num_ranks), key=lambda distance: (distance & -distance) * (-1 if gathers else 1)):
        hop = away & -away
        level = hop.bit_length() - 1
        near, far = order[channel, (owner + away - hop) % num_ranks], order[channel, (owner + away) % num_ranks]
        src, dst = (near, far) if gathers else (far, near)
        step = num_steps - 1 - level if gathers else level
        same = np.ones(order.size, dtype=np.int32)
        lane = (away // (2 * hop) * num_channels + channel).ravel()
        blocks.append(
            Block(Rows(same * step, src.ravel(), dst.ravel(), chunk, same * (COPY if gathers else REDUCE), lane))
        )
    return Schedule(plan.collective, num_ranks, num_ranks * num_channels, tuple(blocks))
