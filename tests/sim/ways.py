"""Every algorithm with every collective that it runs, for tests that hold them all to the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.algorithms import ALGORITHMS
from sim.plan import Plan, in_order

WAYS = tuple((name, collective) for name, row in ALGORITHMS.items() for collective in row.collectives)
every_way = pytest.mark.parametrize(("algorithm", "collective"), WAYS, ids=[" ".join(way) for way in WAYS])


def natural(way: tuple[str, str], num_ranks: int, num_channels: int = 1, num_chunks: int = 1) -> Plan:
    """The plan of an algorithm for a collective over ranks in their natural order."""
    algorithm, collective = way
    plan = in_order(algorithm, num_ranks, collective=collective, num_channels=num_channels, num_chunks=num_chunks)
    if algorithm not in ("hierarchical", "nvls-tree", "collnet-direct"):
        return plan
    groups = nodes(num_ranks)
    return replace(plan, groups=groups, helpers=plan.helpers * (len(groups) if algorithm == "nvls-tree" else 1))


def nodes(num_ranks: int) -> tuple[tuple[int, ...], ...]:
    """Ranks dealt to nodes of the largest size that divides them and is at most their root."""
    size = max(size for size in range(1, num_ranks + 1) if num_ranks % size == 0 and size * size <= num_ranks)
    return tuple(tuple(range(first, first + size)) for first in range(0, num_ranks, size))
