"""Schedules that no algorithm of the package builds, to show that the executors run any of them."""

from __future__ import annotations

from sim.schedule import COPY, REDUCE, Block, Rows, Schedule


def recursive_doubling(num_ranks: int) -> Schedule:
    """All-reduce by exchange with the partner at distance 1, 2, 4 ...: each slot is sent and reduced into at once."""
    rows = []
    step, distance = 0, 1
    while distance < num_ranks:
        rows += [(step, rank, rank ^ distance, 0, REDUCE, 0) for rank in range(num_ranks)]
        step, distance = step + 1, 2 * distance
    return Schedule("all_reduce", num_ranks, 1, (Block(Rows.of(rows)),))


def rotation(num_ranks: int) -> Schedule:
    """Every rank passes its buffer on and replaces it by what arrives: no all-reduce, and sent while replaced."""
    rows = [(0, rank, (rank + 1) % num_ranks, 0, COPY, 0) for rank in range(num_ranks)]
    return Schedule("all_reduce", num_ranks, 1, (Block(Rows.of(rows)),))


def all_gather(num_ranks: int) -> Schedule:
    """Every rank sends its own chunk to all others in one step."""
    rows = [(0, src, dst, src, COPY, 0) for src in range(num_ranks) for dst in range(num_ranks) if src != dst]
    return Schedule("all_gather", num_ranks, num_ranks, (Block(Rows.of(rows)),))


def reduce_scatter(num_ranks: int) -> Schedule:
    """Every rank sends each other rank its part in one step: many reductions into one slot."""
    rows = [(0, src, dst, dst, REDUCE, 0) for src in range(num_ranks) for dst in range(num_ranks) if src != dst]
    return Schedule("reduce_scatter", num_ranks, num_ranks, (Block(Rows.of(rows)),))
