"""All-reduce on two levels: reduce-scatter inside each node, all-reduce between nodes, all-gather inside each node.

Each rank carries its part of the node's sum between nodes, around a ring of the ranks at its place in every node, so
that all NICs are at work and each byte crosses the network 2 (N - 1) / N times over g lanes (Ueno and Yokota, 2019).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.algorithms.ring import ring
from sim.schedule import COPY, REDUCE, Block, Rows, Schedule

if TYPE_CHECKING:
    from sim.plan import Plan

Column = npt.NDArray[np.int32]


def hierarchical(plan: Plan) -> Schedule:
    """Four blocks: one of a row per rank and channel for each half inside the nodes and each half between them.

    Of N nodes of g ranks, chunk j of part p in channel c has number (c * g + p) * N + j. Inside nodes the N chunks of a
    part travel as one message. Without groups in the plan, or with one, it is the ring.
    """
    if len(plan.groups) < 2:
        return ring(plan)
    order = _orders(plan)
    num_channels, num_nodes, size = order.shape
    inside, between = size - 1, num_nodes - 1
    halves = (
        _inside(order, 0, -1, REDUCE),
        _between(order, inside, 0, REDUCE),
        _between(order, inside + between, 1, COPY),
        _inside(order, inside + 2 * between, 0, COPY),
    )
    blocks = tuple(block for block in halves if block.repeat)
    return Schedule(plan.collective, plan.num_ranks, size * num_channels * num_nodes, blocks)


def _orders(plan: Plan) -> Column:
    """The rank of each channel, node and place: the distinct cycles inside the first node, repeated in every node."""
    cycles = np.array(list(inner_cycles(plan)), dtype=np.int32)
    return np.array(plan.groups, dtype=np.int32)[:, cycles].swapaxes(0, 1)


def inner_cycles(plan: Plan) -> dict[tuple[int, ...], tuple[int, ...]]:
    """The distinct cycles of the plan's rings inside the first group, by place, each with a ring that has it."""
    places = {rank: place for place, rank in enumerate(plan.groups[0])}
    cycles: dict[tuple[int, ...], tuple[int, ...]] = {}
    for ring_order in plan.rings:
        inside = [places[rank] for rank in ring_order if rank in places]
        start = inside.index(0)
        cycles.setdefault((*inside[start:], *inside[:start]), ring_order)
    return cycles


def _inside(order: Column, first_step: int, lead: int, op: int) -> Block:
    """Once around each node: in step t the rank at place p passes part p + lead - t on, as one message."""
    _, num_nodes, size = order.shape
    channel, _, place = _axes(order)
    chunk = (channel * size + (place + lead) % size) * num_nodes
    rows = _rows(order, np.roll(order, -1, axis=2), chunk, first_step, op)
    wrap = size * num_nodes
    return Block(rows, size - 1, step_shift=1, chunk_shift=-num_nodes, chunk_wrap=wrap, span=num_nodes)


def _between(order: Column, first_step: int, lead: int, op: int) -> Block:
    """Once around the nodes: in step t the rank in node k passes chunk k + lead - t of its own part on."""
    _, num_nodes, size = order.shape
    channel, node, place = _axes(order)
    chunk = (channel * size + place) * num_nodes + (node + lead) % num_nodes
    rows = _rows(order, np.roll(order, -1, axis=1), chunk, first_step, op)
    return Block(rows, num_nodes - 1, step_shift=1, chunk_shift=-1, chunk_wrap=num_nodes)


def _axes(order: Column) -> tuple[Column, Column, Column]:
    channel, node, place = np.meshgrid(*(np.arange(length, dtype=np.int32) for length in order.shape), indexing="ij")
    return channel, node, place


def _rows(src: Column, dst: Column, chunk: Column, step: int, op: int) -> Rows:
    same = np.ones(src.size, dtype=np.int32)
    channel = _axes(src)[0]
    return Rows(same * step, src.ravel(), dst.ravel(), chunk.ravel(), same * op, channel.ravel())
