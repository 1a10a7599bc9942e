"""Double binary tree all-reduce, pipelined by chunks (Sanders, Speck and Traeff, 2009; shape as in NCCL's trees.cc).

Two trees carry half of the buffer each. A rank that is inner in one tree is a leaf in the other, so that both
directions of every port are used. Chunks follow each other one step apart: up with REDUCE, down with COPY.
"""

from __future__ import annotations

from sim.plan import Plan
from sim.schedule import COPY, REDUCE, Block, Rows, Schedule

Parents = tuple[int | None, ...]


def tree(plan: Plan) -> Schedule:
    """One block with the rows of one chunk in each tree, repeated for each chunk.

    With c channels there are 2 * c trees over the channels' orders; tree t has the chunks t, t + trees, ...
    """
    num_trees = 2 * plan.num_channels
    rows: list[tuple[int, int, int, int, int, int]] = []
    for index in range(num_trees):
        order = plan.rings[index % plan.num_channels]
        parents = double_binary_parents(plan.num_ranks)[index // plan.num_channels]
        rows += _one_chunk(parents, order, index)
    repeat = plan.num_chunks if rows else 0
    block = Block(Rows.of(rows), repeat=repeat, step_shift=1, chunk_shift=num_trees)
    return Schedule(plan.collective, plan.num_ranks, num_trees * plan.num_chunks, (block,) if repeat else ())


def double_binary_parents(num_ranks: int) -> tuple[Parents, Parents]:
    """The parent of every position in the two trees, None for the root.

    In the first tree position 0 is the root and its one child the largest power of two below n; elsewhere the
    lowest set bit b of p gives parent (p ^ b) | 2b, or p ^ b where that is no position. The second tree is the first
    one mirrored (n even) or shifted by one (n odd), which makes inner positions leaves.
    """
    first = tuple(_parent(position, num_ranks) for position in range(num_ranks))
    if num_ranks % 2 == 0:
        relabel = [num_ranks - 1 - position for position in range(num_ranks)]
    else:
        relabel = [(position + 1) % num_ranks for position in range(num_ranks)]
    second: list[int | None] = [None] * num_ranks
    for position, parent in enumerate(first):
        second[relabel[position]] = None if parent is None else relabel[parent]
    return first, tuple(second)


def _parent(position: int, num_ranks: int) -> int | None:
    if position == 0:
        return None
    low = position & -position
    up = (position ^ low) | (low << 1)
    return up if up < num_ranks else position ^ low


def _one_chunk(parents: Parents, order: tuple[int, ...], index: int) -> list[tuple[int, int, int, int, int, int]]:
    """The rows of one chunk: each position sends up once its children have, then the result comes down."""
    height = [0] * len(parents)
    for position in sorted(range(len(parents)), key=lambda p: -_depth(parents, p)):
        parent = parents[position]
        if parent is not None:
            height[parent] = max(height[parent], height[position] + 1)
    top = max(height)
    rows = []
    for position, parent in enumerate(parents):
        if parent is not None:
            rows.append((height[position], order[position], order[parent], index, REDUCE, index))
            down = top + _depth(parents, parent)
            rows.append((down, order[parent], order[position], index, COPY, index))
    return rows


def _depth(parents: Parents, position: int) -> int:
    depth = 0
    above = parents[position]
    while above is not None:
        depth, above = depth + 1, parents[above]
    return depth
