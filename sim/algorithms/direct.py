"""Direct sends, all posted at once: from every rank to each other (all-to-all), or to the next one (send-receive)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.schedule import COPY, Block, Rows, Schedule

if TYPE_CHECKING:
    from sim.plan import Plan


def direct(plan: Plan) -> Schedule:
    """One block of one step: rank r sends chunk r * n + d to rank d, for every d but r; or chunk r to rank r + 1."""
    num_ranks = plan.num_ranks
    if plan.collective == "sendrecv":
        pairs = [(0, rank, (rank + 1) % num_ranks, rank, COPY, 0) for rank in range(num_ranks)]
        return Schedule(plan.collective, num_ranks, num_ranks, (Block(Rows.of(pairs)),) if num_ranks > 1 else ())
    src, offset = np.divmod(np.arange(num_ranks * (num_ranks - 1), dtype=np.int32), max(num_ranks - 1, 1))
    dst = (src + 1 + offset) % num_ranks
    nothing = np.zeros(len(src), dtype=np.int32)
    rows = Rows(step=nothing, src=src, dst=dst, chunk=src * num_ranks + dst, op=nothing + COPY, channel=nothing)
    return Schedule(plan.collective, num_ranks, num_ranks * num_ranks, (Block(rows),) if len(src) else ())
