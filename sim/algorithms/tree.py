"""Tree all-reduce, pipelined by chunks: over the trees that a plan gives, or a double binary tree over its orders.

In a double binary tree (Sanders, Speck and Traeff, 2009; shape as in NCCL's trees.cc) a rank that is inner in one tree
is a leaf in the other, so that both directions of every port are used. Chunks follow each other one step apart: up with
REDUCE, down with COPY.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.bundles import bundled
from sim.schedule import COPY, REDUCE, Block, Rows, Schedule

if TYPE_CHECKING:
    from sim.plan import Plan

Parents = npt.NDArray[np.int32]

ROOT = -1


def tree(plan: Plan) -> Schedule:
    """One block with the rows of one chunk in each tree, repeated for each chunk.

    Without trees in the plan, c channels make 2 * c of them over the channels' orders. Tree t has the chunks t,
    t + trees, ... Equal channels are bundled.
    """
    parts = [one_chunk(parents, order, index) for index, (parents, order) in enumerate(_trees(plan))]
    rows = Rows.joined(parts)
    repeat = plan.num_chunks if len(rows) else 0
    block = Block(rows, repeat=repeat, step_shift=1, chunk_shift=len(parts))
    return Schedule(plan.collective, plan.num_ranks, len(parts) * plan.num_chunks, (block,) if repeat else ())


def _trees(plan: Plan) -> list[tuple[Parents, Parents]]:
    """Of each tree the parents of its positions, and the ranks that stand there."""
    if plan.trees:
        everyone = np.arange(plan.num_ranks, dtype=np.int32)
        return [(np.array(tree.up, dtype=np.int32), everyone) for tree in bundled(plan.trees)]
    orders = [np.array(order, dtype=np.int32) for order in bundled(plan.rings)]
    return [(parents, order) for parents in double_binary_parents(plan.num_ranks) for order in orders]


def double_binary_parents(num_ranks: int) -> tuple[Parents, Parents]:
    """The parent of every position in the two trees, -1 for the root.

    In the first tree position 0 is the root and its one child the largest power of two below n; elsewhere the
    lowest set bit b of p gives parent (p ^ b) | 2b, or p ^ b where that is no position. The second tree is the first
    one mirrored (n even) or shifted by one (n odd), which makes inner positions leaves.
    """
    position = np.arange(num_ranks, dtype=np.int32)
    low = position & -position
    up = (position ^ low) | (low << 1)
    first = np.where(up < num_ranks, up, position ^ low)
    first[0] = ROOT
    relabel = num_ranks - 1 - position if num_ranks % 2 == 0 else (position + 1) % num_ranks
    second = np.full(num_ranks, ROOT, dtype=np.int32)
    second[relabel[1:]] = relabel[first[1:]]
    return first, second


def one_chunk(parents: Parents, order: Parents, index: int) -> Rows:
    """The rows of one chunk: each position sends up once its children have, then the result comes down."""
    child = np.flatnonzero(parents != ROOT)
    parent = parents[child]
    depth = _depths(parents)
    height = np.zeros(len(parents), dtype=np.int32)
    for level in range(int(depth.max(initial=0)), 0, -1):
        here = depth[child] == level
        np.maximum.at(height, parent[here], height[child[here]] + 1)
    top = int(height.max(initial=0))
    ends = order[child], order[parent]
    both = [np.concatenate(pair).astype(np.int32) for pair in ((height[child], top + depth[parent]), ends, ends[::-1])]
    same = np.full(2 * len(child), index, dtype=np.int32)
    op = np.repeat(np.array([REDUCE, COPY], dtype=np.int32), len(child))
    return Rows(step=both[0], src=both[1], dst=both[2], chunk=same, op=op, channel=same)


def _depths(parents: Parents) -> Parents:
    """How far each position is from the root."""
    depth = np.zeros(len(parents), dtype=np.int32)
    above = parents
    while (above != ROOT).any():
        depth += above != ROOT
        above = np.where(above != ROOT, parents[above], ROOT)
    return depth
