"""Collectives whose reduction and multicast an NVSwitch does (NVLink SHARP), alone or with a tree between nodes.

Every rank sends what it contributes to the switch, which holds the sum and sends it to all: in an all-reduce each byte
crosses each GPU's link once up and once down, instead of 2 (n - 1) / n times. A plan's helpers are the switches, each
with an equal share of the data; those of node k are `helpers[k * w : (k + 1) * w]`, w being the number in a node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sim.algorithms.tree import double_binary_parents, one_chunk, tree
from sim.schedule import COPY, REDUCE, Block, Rows, Schedule

if TYPE_CHECKING:
    from sim.plan import Plan

Row = tuple[int, int, int, int, int, int]


def nvls(plan: Plan) -> Schedule:
    """One block: up in one step and down in the next, for a chunk in every switch; repeated for each chunk.

    With several groups in the plan its last helper is the switch of a network that reduces, and heads carry their parts
    there and back. Where ranks own parts, part r is chunks r * k * w to (r + 1) * k * w - 1, for k chunks in each of w
    switches.
    """
    if plan.num_ranks == 1:
        return Schedule(plan.collective, 1, 1, (), num_helpers=len(plan.helpers))
    if len(plan.groups) > 1:
        return _over_network(plan)
    switches = range(plan.num_ranks, plan.num_ranks + len(plan.helpers))
    width = len(switches)
    owners = range(1) if plan.collective == "all_reduce" else range(plan.num_ranks)
    part = plan.num_chunks * width
    rows: list[Row] = []
    for index, switch in enumerate(switches):
        for owner in owners:
            rows += _through(plan, owner, switch, owner * part + index, owner * width + index)
    block = Block(Rows.of(rows), repeat=plan.num_chunks, step_shift=1, chunk_shift=width, chunk_wrap=part)
    return Schedule(plan.collective, plan.num_ranks, len(owners) * part, (block,), num_helpers=len(switches))


def _over_network(plan: Plan) -> Schedule:
    """One block of six steps: up in each node, to the head, into the network's switch, and the same way back.

    Head h is the rank at place h of its node. Its part is cut for all switches of a node: chunk h * w + i is of switch
    i.
    """
    num_heads, width = len(plan.groups[0]), len(plan.helpers) // len(plan.groups)
    network = plan.num_ranks + len(plan.helpers) - 1
    rows: list[Row] = []
    for head in range(num_heads):
        for switch in range(width):
            chunk = head * width + switch
            rows += _in_nodes(plan, head, switch, chunk, 4)
            for group in plan.groups:
                rows += [(2, group[head], network, chunk, REDUCE, chunk), (3, network, group[head], chunk, COPY, chunk)]
    per_turn = num_heads * width
    block = Block(Rows.of(rows), repeat=plan.num_chunks, step_shift=1, chunk_shift=per_turn)
    return Schedule(
        plan.collective, plan.num_ranks, per_turn * plan.num_chunks, (block,), num_helpers=len(plan.helpers)
    )


def _through(plan: Plan, owner: int, switch: int, chunk: int, channel: int) -> Iterator[Row]:
    """One chunk up from all who contribute, reduced, and down to all who need it."""
    everyone = range(plan.num_ranks)
    gathers, scatters = plan.collective == "all_gather", plan.collective == "reduce_scatter"
    for rank in (owner,) if gathers else everyone:
        yield 0, rank, switch, chunk, COPY if gathers else REDUCE, channel
    for rank in (owner,) if scatters else everyone:
        if not (gathers and rank == owner):
            yield 1, switch, rank, chunk, COPY, channel


def nvls_tree(plan: Plan) -> Schedule:
    """One block: each node's sum of a head's part goes to that head, over two trees of such heads, and back to all.

    Head h is the rank at place h of its node. Its part is cut for both trees and all switches: chunk
    (h * 2 + t) * w + i goes over tree t and switch i. With one group in the plan it is NVLS, with lone ranks a tree.
    """
    groups = plan.groups
    if len(groups) < 2:
        return nvls(plan)
    if len(groups[0]) == 1:
        return tree(replace(plan, rings=(tuple(rank for (rank,) in groups),), trees=()))
    num_heads, width = len(groups[0]), len(plan.helpers) // len(groups)
    parts: list[Rows] = []
    for head in range(num_heads):
        heads = np.array([group[head] for group in groups], dtype=np.int32)
        for which, parents in enumerate(double_binary_parents(len(groups))):
            for switch in range(width):
                chunk = (head * 2 + which) * width + switch
                between = one_chunk(parents, heads, chunk)
                last = int(between.step.max()) + 1
                shifted = between.shifted(2)
                parts += [shifted, Rows.of(_in_nodes(plan, head, switch, chunk, last + 2))]
    rows = Rows.joined(parts)
    per_turn = num_heads * 2 * width
    block = Block(rows, repeat=plan.num_chunks, step_shift=1, chunk_shift=per_turn)
    return Schedule(
        plan.collective, plan.num_ranks, per_turn * plan.num_chunks, (block,), num_helpers=len(plan.helpers)
    )


def _in_nodes(plan: Plan, head: int, switch: int, chunk: int, down: int) -> Iterator[Row]:
    """In every node: up to the switch and on to the head at first, and from the head through the switch in the end."""
    width = len(plan.helpers) // len(plan.groups)
    for node, group in enumerate(plan.groups):
        agent = plan.num_ranks + node * width + switch
        for rank in group:
            yield 0, rank, agent, chunk, REDUCE, chunk
        yield 1, agent, group[head], chunk, COPY, chunk
        yield down, group[head], agent, chunk, COPY, chunk
        for rank in group:
            if rank != group[head]:
                yield down + 1, agent, rank, chunk, COPY, chunk
