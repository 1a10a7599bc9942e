"""Models of the form latency + bytes / rate, and the few factors that fit them to some measured times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from validate.published.cases import Case

    Numbers = npt.NDArray[np.float64]

PRIOR_WIDTHS = np.array([1.0, 0.5, 0.3])
"""How far (in logarithms) overhead, latency and time per byte are expected to be off before any row is seen."""
MEASURED_WIDTH = 0.05
"""How well a measured time is believed: close to exactly."""
NUM_STEPS = 40


@dataclass(frozen=True, slots=True)
class Terms:
    """What each sample's time is made of, without its factors: seconds of latency, and seconds of moving bytes."""

    latency_s: Numbers
    moving_s: Numbers


@dataclass(frozen=True, slots=True)
class ScaledModel:
    """A formula with three numbers of its own: `launch_s` once, a factor on latencies, and one on moving bytes.

    `terms` gives the formula's parts for a case (NaN where it has nothing to say).
    """

    terms: Callable[[Case], Terms]
    launch_s: float = 0.0
    latency_factor: float = 1.0
    moving_factor: float = 1.0
    typical_launch_s: float = field(default=1e-6)

    def times_s(self, case: Case) -> Numbers:
        """Predicted seconds of each sample."""
        terms = self.terms(case)
        return self.launch_s + self.latency_factor * terms.latency_s + self.moving_factor * terms.moving_s

    def adapted(self, case: Case, rows: tuple[int, ...]) -> ScaledModel:
        """One row: what it lasts longer than predicted is launch, or latencies shrink. Three: all three numbers."""
        if not rows:
            return self
        one = case.only(rows)
        return self._with_overhead(one) if len(rows) == 1 else self.trained((one,))

    def trained(self, cases: Sequence[Case]) -> ScaledModel:
        """The three numbers that fit the cases best in logarithms, and are never far from the formula's."""
        parts = [self.terms(case) for case in cases]
        latency_s = np.concatenate([part.latency_s for part in parts] or [np.empty(0)])
        moving_s = np.concatenate([part.moving_s for part in parts] or [np.empty(0)])
        measured_s = np.concatenate([case.measured_s for case in cases] or [np.empty(0)])
        known = np.isfinite(latency_s + moving_s)
        if not known.any():
            return self
        columns = np.stack([np.full(known.sum(), self.typical_launch_s), latency_s[known], moving_s[known]])
        factors = np.exp(_log_factors(columns, np.log(measured_s[known])))
        return replace(
            self,
            launch_s=float(factors[0]) * self.typical_launch_s,
            latency_factor=float(factors[1]),
            moving_factor=float(factors[2]),
        )

    def _with_overhead(self, one: Case) -> ScaledModel:
        terms, measured_s = self.terms(one), float(one.measured_s[0])
        latency_s, moving_s = float(terms.latency_s[0]), float(terms.moving_s[0])
        missing_s = measured_s - latency_s - moving_s
        if not np.isfinite(missing_s):
            return self
        if missing_s >= 0:
            return replace(self, launch_s=missing_s)
        return replace(self, latency_factor=max(0.0, 1 + missing_s / latency_s) if latency_s else 1.0)


def _log_factors(columns: Numbers, log_measured: Numbers) -> Numbers:
    """Logarithms of the factors on the columns, shape (3,): damped Gauss-Newton with a Gaussian prior around 0.

    Misfits beyond `MEASURED_WIDTH` count by their size instead of its square (Huber), so that a few runs that do not
    follow the formula at all leave it to the others.
    """
    found = np.zeros(len(columns))
    damping, cost = 1e-3, _cost(found, columns, log_measured)
    for _ in range(NUM_STEPS):
        shares = np.exp(found)[:, None] * columns
        total = shares.sum(axis=0)
        slopes = shares / total / MEASURED_WIDTH
        residuals = (np.log(total) - log_measured) / MEASURED_WIDTH
        weights = 1 / np.maximum(1, np.abs(residuals))
        curvature = (slopes * weights) @ slopes.T + np.diag(1 / PRIOR_WIDTHS**2)
        gradient = slopes @ (weights * residuals) + found / PRIOR_WIDTHS**2
        tried = found - np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), gradient)
        new_cost = _cost(tried, columns, log_measured)
        if new_cost < cost:
            found, cost, damping = tried, new_cost, damping / 10
        else:
            damping *= 10
    return found


def _cost(found: Numbers, columns: Numbers, log_measured: Numbers) -> float:
    misfits = np.abs(np.log(np.exp(found) @ columns) - log_measured) / MEASURED_WIDTH
    huber = np.where(misfits < 1, misfits**2, 2 * misfits - 1)
    return float(huber.sum() + (found / PRIOR_WIDTHS) @ (found / PRIOR_WIDTHS))
