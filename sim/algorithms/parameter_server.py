"""Parameter-server all-reduce: every rank pushes its buffer to the server, which reduces it and sends it back.

The naive form moves the whole buffer at once through one server. With several chunks the way back of one overlaps
the way in of the next; with several servers each owns an equal share of the chunks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.schedule import COPY, REDUCE, Block, Rows, Schedule

if TYPE_CHECKING:
    from sim.plan import Plan


def parameter_server(plan: Plan) -> Schedule:
    """One block: push in one step, pull in the next, for one chunk of every server; repeated for each chunk."""
    servers = plan.servers
    rows = []
    for index, server in enumerate(servers):
        for rank in range(plan.num_ranks):
            if rank != server:
                rows.append((0, rank, server, index, REDUCE, index))
                rows.append((1, server, rank, index, COPY, index))
    repeat = plan.num_chunks if rows else 0
    block = Block(Rows.of(rows), repeat=repeat, step_shift=1, chunk_shift=len(servers))
    return Schedule(
        plan.collective,
        plan.num_ranks,
        len(servers) * plan.num_chunks,
        (block,) if repeat else (),
        num_helpers=len(plan.helpers),
    )
