"""All-reduce whose sum between nodes the network's switch makes (CollNet; SHARP on InfiniBand), by NCCL's direct way.

In each node every rank is the head of an equal part: it takes that part from its neighbours, sends their sum into the
network, takes the total out of it, and gives that to its neighbours. Each byte crosses the network once up and once
down, over all heads' NICs, instead of 2 (N - 1) / N times (Graham and others, 2016).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.schedule import COPY, REDUCE, Block, Rows, Schedule

if TYPE_CHECKING:
    from sim.plan import Plan

Column = npt.NDArray[np.int32]


def collnet_direct(plan: Plan) -> Schedule:
    """One block of four steps, repeated for each chunk: to the heads, into the switch, out of it, to the neighbours.

    Part p is chunks p, g + p, ... for g ranks in each node; the plan's helper is the switch. Without groups every rank
    is a node of its own; one group needs no switch.
    """
    groups = np.array(plan.groups or [[rank] for rank in range(plan.num_ranks)], dtype=np.int32)
    num_nodes, size = groups.shape
    if plan.num_ranks == 1:
        return Schedule(plan.collective, 1, 1, (), num_helpers=len(plan.helpers))
    member, head = (
        axis.ravel() for axis in np.meshgrid(np.arange(size, dtype=np.int32), np.arange(size, dtype=np.int32))
    )
    apart = member != head
    members, heads = groups[:, member[apart]].ravel(), groups[:, head[apart]].ravel()
    part = np.tile(head[apart], num_nodes)
    own = np.tile(np.arange(size, dtype=np.int32), num_nodes)
    switch = np.full(groups.size, plan.num_ranks, dtype=np.int32)
    across = num_nodes > 1
    parts = [_rows(0, members, heads, part, REDUCE)]
    if across:
        parts += [_rows(1, groups.ravel(), switch, own, REDUCE), _rows(2, switch, groups.ravel(), own, COPY)]
    parts.append(_rows(3 if across else 1, heads, members, part, COPY))
    block = Block(Rows.joined(parts), repeat=plan.num_chunks, step_shift=1, chunk_shift=size)
    return Schedule(plan.collective, plan.num_ranks, size * plan.num_chunks, (block,), num_helpers=len(plan.helpers))


def _rows(step: int, src: Column, dst: Column, chunk: Column, op: int) -> Rows:
    same = np.ones(src.size, dtype=np.int32)
    return Rows(same * step, src, dst, chunk, same * op, chunk)
