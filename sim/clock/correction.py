"""What a few measured sizes of a machine say of all others: a smooth curve of factors between and beyond them.

A Gaussian process over the logarithm of the size: the error of a prediction is alike at neighbouring sizes of one
kernel, less alike across a change of kernel, and unknown far away, where the profile stands again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sim.clock.jobs import Floats, Jobs

SPREAD = 0.1
"""Standard deviation of a prediction's error, as logarithm, before a machine was measured."""
NOISE = 0.05
OCTAVES, OCTAVES_ACROSS = 3.0, 2.0
"""Over how many doublings of the size an error persists, within one kernel and from one to another."""
ACROSS = 0.7
"""How much of it another kernel shares."""


@dataclass(frozen=True, eq=False)
class Correction:
    """Sizes and kernels at which a machine was measured, and what its error there says (`weights`); none by default."""

    octaves: Floats = field(default_factory=lambda: np.empty(0))
    kernels: npt.NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    weights: Floats = field(default_factory=lambda: np.empty(0))

    @classmethod
    def learned(cls, jobs: Jobs, ratios: Floats) -> Correction:
        """The correction that these measured jobs teach; `ratios` are measured over predicted times."""
        octaves, kernels = np.log2(jobs.num_bytes), jobs.kernel
        covariance = _covariance(octaves, kernels, octaves, kernels) + NOISE**2 * np.eye(len(octaves))
        weights = np.asarray(np.linalg.solve(covariance, np.log(ratios)), dtype=np.float64)
        return cls(octaves, kernels, weights)

    def factors(self, jobs: Jobs) -> Floats:
        """By what predicted times are to be multiplied, one factor a job."""
        found: Floats = np.exp(
            _covariance(np.log2(jobs.num_bytes), jobs.kernel, self.octaves, self.kernels) @ self.weights
        )
        return found


def _covariance(
    octaves: Floats, kernels: npt.NDArray[np.intp], others: Floats, other_kernels: npt.NDArray[np.intp]
) -> Floats:
    same = kernels[:, None] == other_kernels[None]
    apart = (octaves[:, None] - others[None]) / np.where(same, OCTAVES, OCTAVES_ACROSS)
    found: Floats = SPREAD**2 * np.exp(-0.5 * apart**2) * np.where(same, 1.0, ACROSS)
    return found
