"""Every algorithm with every collective that it runs, for tests that hold them all to the same."""

from __future__ import annotations

import pytest

from sim.algorithms import ALGORITHMS
from sim.plan import Plan, in_order

WAYS = tuple((name, collective) for name, row in ALGORITHMS.items() for collective in row.collectives)
every_way = pytest.mark.parametrize(("algorithm", "collective"), WAYS, ids=[" ".join(way) for way in WAYS])


def natural(way: tuple[str, str], num_ranks: int, num_channels: int = 1, num_chunks: int = 1) -> Plan:
    """The plan of an algorithm for a collective over ranks in their natural order."""
    algorithm, collective = way
    return in_order(algorithm, num_ranks, collective=collective, num_channels=num_channels, num_chunks=num_chunks)
