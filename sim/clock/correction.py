"""What a few measured sizes of a machine say of all others: its own terms, and a smooth curve of what they leave.

A Gaussian process over a prediction's error, as logarithm. Sizes err together as far as they feel the same terms, each
of which is off by its `machine_spread` on one machine; what terms do not explain is alike at neighbouring sizes of one
kernel. Far away from what was measured, the profile stands again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.clock.fit import logs_and_slopes, spreads
from sim.clock.jobs import Floats, Jobs
from sim.clock.profile import regime_of

SPREAD = 0.05
"""Standard deviation of what a machine's own terms leave, as logarithm."""
OCTAVES = 3.0
"""Over how many doublings of the size it persists, within one kernel."""
NOISE, NOISE_OF_BANDWIDTH = 0.05, 0.03
"""By how much a measured time is off by chance, up to 16 MiB and beyond."""


@dataclass(frozen=True, eq=False)
class Correction:
    """What of `times_s(values, ...)` was measured on a machine, and what its error there says (`weights`)."""

    values: Floats
    seen: Errors
    weights: Floats

    @classmethod
    def learned(cls, values: Floats, jobs: Jobs, measured_s: Floats) -> Correction:
        """The correction that these measured jobs teach of the terms' times."""
        seen = Errors.of(values, jobs)
        regimes = [regime_of(num_bytes) for num_bytes in jobs.num_bytes.tolist()]
        noise = np.where(np.array(regimes) == "bandwidth", NOISE_OF_BANDWIDTH, NOISE)
        covariance = seen.covariance(seen) + np.diag(noise**2)
        weights = np.linalg.solve(covariance, np.log(measured_s) - seen.log_s)
        return cls(values, seen, np.asarray(weights, dtype=np.float64))

    def times_s(self, jobs: Jobs) -> Floats:
        """Corrected seconds of each job."""
        asked = Errors.of(self.values, jobs)
        found: Floats = np.exp(asked.log_s + asked.covariance(self.seen) @ self.weights)
        return found


@dataclass(frozen=True, eq=False)
class Errors:
    """What the errors of jobs hang on: `slopes` of `log_s` by each term, times the term's spread on one machine."""

    log_s: Floats
    slopes: Floats
    octaves: Floats
    kernels: npt.NDArray[np.intp]

    @classmethod
    def of(cls, values: Floats, jobs: Jobs) -> Errors:
        """Those of these jobs under these terms."""
        log_s, slopes = logs_and_slopes(np.log(values), np.arange(len(values)), jobs)
        return cls(log_s, slopes * spreads(machine=True), np.log2(jobs.num_bytes), jobs.kernel)

    def covariance(self, others: Errors) -> Floats:
        """How errors of these and other jobs go together, shape (these, others)."""
        apart = (self.octaves[:, None] - others.octaves[None]) / OCTAVES
        left = SPREAD**2 * np.exp(-0.5 * apart**2) * (self.kernels[:, None] == others.kernels[None])
        found: Floats = self.slopes @ others.slopes.T + left
        return found
