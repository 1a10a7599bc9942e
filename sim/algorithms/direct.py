"""Direct all-to-all: every rank sends each other rank its chunk, all sends posted at once."""

from __future__ import annotations

import numpy as np

from sim.plan import Plan
from sim.schedule import COPY, Block, Rows, Schedule


def direct(plan: Plan) -> Schedule:
    """One block of one step: rank r sends chunk r * n + d to rank d, for every d but r."""
    num_ranks = plan.num_ranks
    src, offset = np.divmod(np.arange(num_ranks * (num_ranks - 1), dtype=np.int32), max(num_ranks - 1, 1))
    dst = (src + 1 + offset) % num_ranks
    nothing = np.zeros(len(src), dtype=np.int32)
    rows = Rows(step=nothing, src=src, dst=dst, chunk=src * num_ranks + dst, op=nothing + COPY, channel=nothing)
    return Schedule(plan.collective, num_ranks, num_ranks * num_ranks, (Block(rows),) if len(src) else ())
