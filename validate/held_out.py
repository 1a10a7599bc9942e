"""How far predictions are off where nothing was fitted, by size, each with the interval that the samples allow.

An error is known no better than the measurement beside it: the bootstrap draws each row's samples anew (Efron, 1979)
and looks at how far the median error moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topo.units import format_size
from topo.words import counted
from validate.compare import CONFIDENCE, NUM_RESAMPLES, Comparison

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The errors of one size over all algorithms.

    `median_error` is signed, below 0 where the machine was slower than predicted. `low` and `high` bound the median
    absolute error with 95 % confidence; None where a row has a single sample, so that nothing is known of its noise.
    """

    num_bytes: int
    num_rows: int
    num_samples: int
    median_error: float
    median_abs_error: float
    low: float | None
    high: float | None
    worst_abs_error: float

    @property
    def sentence(self) -> str:
        """It in words, never without the interval."""
        if self.low is None or self.high is None:
            interval = "one sample a row tells nothing of noise"
        else:
            interval = f"95 % interval {self.low:.1%} to {self.high:.1%}"
        rows = f"{counted(self.num_rows, 'row')}, {counted(self.num_samples, 'sample')}"
        return (
            f"{format_size(self.num_bytes)}: median error {self.median_abs_error:.1%} ({interval}; {rows}), "
            f"worst {self.worst_abs_error:.1%}, {self.median_error:+.1%} signed"
        )


def held_out(comparisons: Sequence[Comparison], *, seed: int = 0) -> tuple[HeldOut, ...]:
    """One row for each size, in order of size."""
    sizes = sorted({row.measurement.workload.num_bytes for row in comparisons})
    return tuple(
        _of_size([row for row in comparisons if row.measurement.workload.num_bytes == num_bytes], seed)
        for num_bytes in sizes
    )


def _of_size(rows: Sequence[Comparison], seed: int) -> HeldOut:
    import numpy as np

    errors = np.array([row.relative_error for row in rows])
    bounds = _interval(rows, seed)
    return HeldOut(
        num_bytes=rows[0].measurement.workload.num_bytes,
        num_rows=len(rows),
        num_samples=sum(len(row.measurement.samples_s) for row in rows),
        median_error=float(np.median(errors)),
        median_abs_error=float(np.median(np.abs(errors))),
        low=None if bounds is None else bounds[0],
        high=None if bounds is None else bounds[1],
        worst_abs_error=float(np.abs(errors).max()),
    )


def _interval(rows: Sequence[Comparison], seed: int) -> tuple[float, float] | None:
    """Where the median absolute error over the rows lies; None where a row has a single sample."""
    import numpy as np

    if min(len(row.measurement.samples_s) for row in rows) < 2:
        return None
    rng = np.random.default_rng(seed)
    drawn = np.stack([_errors(row, rng) for row in rows])
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.median(np.abs(drawn), axis=0), [tail, 1 - tail])
    return float(low), float(high)


def _errors(row: Comparison, rng: np.random.Generator) -> Floats:
    """The row's error as it would be with other samples of the same kind."""
    import numpy as np

    samples_s = np.array(row.measurement.samples_s)
    drawn = rng.integers(0, len(samples_s), size=(NUM_RESAMPLES, len(samples_s)))
    errors: Floats = row.prediction.duration_s / np.median(samples_s[drawn], axis=1) - 1
    return errors
