"""Absolute errors of time by regime: what a table of accuracy is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sim.clock.profile import REGIMES, regime_of

__all__ = ["REGIMES", "UNPREDICTED", "ByRegime", "Errors", "by_regime", "errors_of", "regime_of"]

UNPREDICTED = 1.0
"""The absolute error that counts where the model has no time for a row: leaving rows out gains nothing."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Of `num_rows` rows: median and 90th percentile of |predicted / measured - 1|, and the median with its sign."""

    median_abs_error: float
    p90_abs_error: float
    num_rows: int
    median_error: float


ByRegime = Mapping[str, Errors]


def errors_of(errors: Iterable[float]) -> Errors | None:
    """Median and 90th percentile (interpolated) of relative errors; None of none."""
    import numpy as np

    found = np.array(list(errors))
    if not len(found):
        return None
    return Errors(
        median_abs_error=float(np.median(np.abs(found))),
        p90_abs_error=float(np.quantile(np.abs(found), 0.9)),
        num_rows=len(found),
        median_error=float(np.median(found)),
    )


def by_regime(rows: Iterable[tuple[int, float]]) -> ByRegime:
    """The errors of (bytes, relative error) in each regime that has a row."""
    groups: dict[str, list[float]] = {name: [] for name in REGIMES}
    for num_bytes, error in rows:
        groups[regime_of(num_bytes)].append(error)
    return {name: errors for name, group in groups.items() if (errors := errors_of(group)) is not None}
