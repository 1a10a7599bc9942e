"""Fitting the clock's terms to measured times: robust, in logarithms, with each term's spread as its prior.

scipy's trust-region solver minimises Cauchy's loss of log(predicted / measured) plus the squared distance of each term
from its prior. All of the Jacobian is one evaluation of the clock over as many parameter vectors as there are terms.
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

    `spread` is by how much the logarithms of the prior may be off: a standard deviation for each, or a covariance.
    CaptureError where the solver does not converge.
    """
    from scipy.optimize import least_squares

    problem = _Problem(jobs, np.log(measured_s), np.log(prior), _covariance_of(spread), weights)
    begin = np.log(prior if start is None else start)[problem.felt]
    found = least_squares(lambda z: problem.at(z)[0], begin, jac=lambda z: problem.at(z)[1], max_nfev=MOST_EVALUATIONS)
    if found.status < 0 or not np.all(np.isfinite(found.x)):
        raise CaptureError(f"the fit did not converge ({found.message}): check the measured times")
    values, variance = problem.all_terms(found.x)
    before = np.diag(_covariance_of(spread))
    return Fitted(np.exp(values), np.sqrt(variance), 1 - np.minimum(1.0, variance / before))


def _covariance_of(spread: Floats) -> Floats:
    return np.diag(spread**2) if spread.ndim == 1 else spread


def logs_and_slopes(log_values: Floats, terms: npt.NDArray[np.intp], jobs: Jobs) -> tuple[Floats, Floats]:
    """Logarithms of the jobs' times and their derivatives by the logarithms of the terms at these places."""
    vectors = np.tile(log_values, (len(terms) + 1, 1))
    vectors[np.arange(len(terms)) + 1, terms] += STEP
    logs = np.log(times_s(np.exp(vectors), jobs))
    return logs[0], ((logs[1:] - logs[0]) / STEP).T


class _Problem:
    """Residuals and their derivatives by the terms that some row feels; all others stay where their prior is.

    The last point is kept, since the solver asks for both in turn.
    """

    def __init__(self, jobs: Jobs, log_s: Floats, prior: Floats, covariance: Floats, weights: Floats | None) -> None:
        self._jobs, self._log_s, self._prior, self._covariance = jobs, log_s, prior, covariance
        self._weights = np.ones(len(log_s)) if weights is None else np.sqrt(weights)
        self._last: tuple[bytes, tuple[Floats, Floats]] = (b"", (np.empty(0), np.empty(0)))
        self.felt = np.flatnonzero(np.any(logs_and_slopes(prior, np.arange(len(prior)), jobs)[1] != 0, axis=0))
        self._whitening = np.linalg.inv(np.linalg.cholesky(covariance[np.ix_(self.felt, self.felt)]))

    def all_terms(self, log_values: Floats) -> tuple[Floats, Floats]:
        """Logarithms of all terms and their variances, of which those not felt follow what their kin learned."""
        jacobian = self.at(log_values)[1]
        learned = np.linalg.inv(jacobian.T @ jacobian)
        among = self._covariance[:, self.felt] @ self._whitening.T @ self._whitening
        values = self._prior + among @ (log_values - self._prior[self.felt])
        left = self._covariance - among @ self._covariance[self.felt]
        return values, np.diag(left) + np.einsum("ij,jk,ik->i", among, learned, among)

    def at(self, log_values: Floats) -> tuple[Floats, Floats]:
        """Residuals, shape (rows + felt terms,), and their derivatives by the felt terms."""
        key = log_values.tobytes()
        if self._last[0] != key:
            self._last = (key, self._evaluate(log_values))
        return self._last[1]

    def _evaluate(self, log_values: Floats) -> tuple[Floats, Floats]:
        everywhere = self._prior.copy()
        everywhere[self.felt] = log_values
        logs, slopes = logs_and_slopes(everywhere, self.felt, self._jobs)
        residual, factor = _robust((logs - self._log_s) / NOISE)
        rows = self._weights * residual
        row_slopes = (self._weights * factor / NOISE)[:, None] * slopes
        distance = self._whitening @ (log_values - self._prior[self.felt])
        return np.concatenate([rows, distance]), np.vstack([row_slopes, self._whitening])


def _robust(residual: Floats) -> tuple[Floats, Floats]:
    """Residuals whose square is Cauchy's loss, and their derivatives by the plain ones.

    scipy's own `loss` would bend the distances from the prior as well.
    """
    bend = 1 + (residual / OUTLIER) ** 2
    size = OUTLIER * np.sqrt(np.log(bend))
    near = np.abs(residual) < 1e-6
    slope = np.where(near, 1.0, np.abs(residual) / np.where(near, 1.0, size) / bend)
    return np.sign(residual) * size, slope


def covariance() -> Floats:
    """Of the logarithms of the terms before any run was seen: kinds of one thing are off by much the same factor."""
    stems = np.array([term.name.partition(".")[0] for term in TERMS])
    shared = np.array([term.shared for term in TERMS])
    found: Floats = np.where(stems[:, None] == stems[None], shared[:, None] * shared[None], 0.0)
    return found + np.diag(spreads() ** 2)


def weights_by_group(groups: Sequence[str]) -> Floats:
    """A weight for every row by which all groups weigh the same, whatever their number of rows; 1 on average.

    Rows of one run are off together, so that more of them say little more of the machine.
    """
    names, inverse, counts = np.unique(np.array(groups), return_inverse=True, return_counts=True)
    each: npt.NDArray[np.float64] = len(groups) / len(names) / counts
    return each[inverse]
