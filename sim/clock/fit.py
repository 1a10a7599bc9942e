"""Fitting the clock's terms to measured times: robust, in logarithms, with each term's spread as its prior.

scipy's trust-region solver minimises Cauchy's loss of log(predicted / measured) plus the squared distance of each term
from its prior; all of the Jacobian is one evaluation of the clock over as many parameter vectors as there are terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.clock.jobs import Floats, Jobs
from sim.clock.kernels import times_s
from sim.clock.terms import TERMS
from topo.errors import CaptureError

STEP = 1e-4
"""Relative step of the numerical derivative."""
NOISE = 0.05
"""What two runs of one machine differ by, as standard deviation of the logarithm."""
OUTLIER = 1.5
"""From about so many times the noise on, a row weighs less the farther it lies off (Cauchy's loss)."""
MOST_EVALUATIONS = 60


@dataclass(frozen=True, eq=False)
class Fitted:
    """Terms, and how well the rows determine each: `log_errors` are standard errors of the logarithms.

    `learned[i]` is the share of a term's prior variance that the rows took away: 0 where they say nothing of it.
    """

    values: Floats
    log_errors: Floats
    learned: Floats


def starting_values() -> Floats:
    """The terms before any run was seen."""
    return np.array([term.start for term in TERMS])


def spreads(*, machine: bool = False) -> Floats:
    """Standard deviation of the logarithm of each term, in general or of one machine about a profile."""
    return np.array([term.machine_spread if machine else term.spread for term in TERMS])


def fit(
    jobs: Jobs,
    measured_s: Floats,
    prior: Floats,
    spread: Floats,
    *,
    weights: Floats | None = None,
    start: Floats | None = None,
) -> Fitted:
    """The terms that explain the measured times best, looked for from `start` (None: from the prior) on.

    CaptureError where the solver does not converge.
    """
    from scipy.optimize import least_squares

    problem = _Problem(jobs, np.log(measured_s), np.log(prior), spread, weights)
    begin = np.log(prior if start is None else start)[problem.felt]
    found = least_squares(lambda z: problem.at(z)[0], begin, jac=lambda z: problem.at(z)[1], max_nfev=MOST_EVALUATIONS)
    if found.status < 0 or not np.all(np.isfinite(found.x)):
        raise CaptureError(f"the fit did not converge ({found.message}): check the measured times")
    jacobian = problem.at(found.x)[1]
    values, variance = np.log(prior), spread**2
    values[problem.felt] = found.x
    variance[problem.felt] = np.diag(np.linalg.inv(jacobian.T @ jacobian))
    return Fitted(np.exp(values), np.sqrt(variance), 1 - np.minimum(1.0, variance / spread**2))


class _Problem:
    """Residuals and their derivatives by the terms that some row feels; all others stay where their prior is.

    The last point is kept, since the solver asks for both in turn.
    """

    def __init__(self, jobs: Jobs, log_s: Floats, prior: Floats, spread: Floats, weights: Floats | None) -> None:
        self._jobs, self._log_s, self._prior, self._spread = jobs, log_s, prior, spread
        self._weights = np.ones(len(log_s)) if weights is None else np.sqrt(weights)
        self._last: tuple[bytes, tuple[Floats, Floats]] = (b"", (np.empty(0), np.empty(0)))
        self.felt = np.arange(len(prior))
        self.felt = np.flatnonzero(np.any(self._logs_and_slopes(prior)[1] != 0, axis=0))

    def at(self, log_values: Floats) -> tuple[Floats, Floats]:
        """Residuals, shape (rows + felt terms,), and their derivatives by the felt terms."""
        key = log_values.tobytes()
        if self._last[0] != key:
            self._last = (key, self._evaluate(log_values))
        return self._last[1]

    def _logs_and_slopes(self, log_values: Floats) -> tuple[Floats, Floats]:
        """Logarithms of the times, and their derivatives by the felt terms, which these are the logarithms of."""
        count = len(self.felt)
        vectors = np.tile(self._prior, (count + 1, 1))
        vectors[:, self.felt] = np.vstack([log_values, log_values + STEP * np.eye(count)])
        logs = np.log(times_s(np.exp(vectors), self._jobs))
        return logs[0], ((logs[1:] - logs[0]) / STEP).T

    def _evaluate(self, log_values: Floats) -> tuple[Floats, Floats]:
        logs, slopes = self._logs_and_slopes(log_values)
        residual, factor = _robust((logs - self._log_s) / NOISE)
        rows = self._weights * residual
        row_slopes = (self._weights * factor / NOISE)[:, None] * slopes
        spread = self._spread[self.felt]
        distance = (log_values - self._prior[self.felt]) / spread
        return np.concatenate([rows, distance]), np.vstack([row_slopes, np.diag(1 / spread)])


def _robust(residual: Floats) -> tuple[Floats, Floats]:
    """Residuals whose square is Cauchy's loss, and their derivatives by the plain ones.

    scipy's own `loss` would bend the distances from the prior as well.
    """
    bend = 1 + (residual / OUTLIER) ** 2
    size = OUTLIER * np.sqrt(np.log(bend))
    near = np.abs(residual) < 1e-6
    slope = np.where(near, 1.0, np.abs(residual) / np.where(near, 1.0, size) / bend)
    return np.sign(residual) * size, slope


def weights_by_group(groups: Sequence[str]) -> Floats:
    """A weight for every row that keeps large groups from outvoting small ones: the root of what would be even."""
    names, inverse, counts = np.unique(np.array(groups), return_inverse=True, return_counts=True)
    each: npt.NDArray[np.float64] = (len(groups) / len(names) / counts) ** 0.5
    return each[inverse]
