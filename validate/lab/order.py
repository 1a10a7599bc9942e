"""Whether the model puts algorithms in the order in which they really come, which is what a choice hangs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from topo.units import format_size
from validate.compare import Comparison

APART = 0.05
"""Two whose measured times are closer than that come in no order."""


@dataclass(frozen=True, slots=True)
class Order:
    """The order at one size: algorithms from the fastest as measured, and the pairs that the model turns around."""

    num_bytes: int
    measured: tuple[str, ...]
    wrong: tuple[tuple[str, str], ...]

    @property
    def sentence(self) -> str:
        """What is turned around."""
        pairs = ", ".join(f"{faster} before {slower}" for faster, slower in self.wrong)
        return f"{format_size(self.num_bytes)}: measured {pairs}, predicted the other way round"


def orders(comparisons: Sequence[Comparison]) -> tuple[Order, ...]:
    """One for each size at which several algorithms ran."""
    sizes = sorted({row.measurement.workload.num_bytes for row in comparisons})
    by_size = [[row for row in comparisons if row.measurement.workload.num_bytes == size] for size in sizes]
    return tuple(_order(sorted(rows, key=lambda row: row.measurement.median_s)) for rows in by_size if len(rows) > 1)


def _order(rows: Sequence[Comparison]) -> Order:
    wrong = [
        (faster.measurement.algorithm, slower.measurement.algorithm)
        for faster, slower in combinations(rows, 2)
        if slower.measurement.median_s > (1 + APART) * faster.measurement.median_s
        and slower.prediction.duration_s < faster.prediction.duration_s
    ]
    names = tuple(row.measurement.algorithm for row in rows)
    return Order(rows[0].measurement.workload.num_bytes, names, tuple(wrong))
