"""Prediction against measurement, and one measurement against another: ratios and verdicts with their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sim.prediction import Prediction
from topo.errors import MeasurementError
from topo.units import format_rate
from validate.measurement import Measurement
from validate.words import counted

Verdict = Literal["OK", "LOW", "HIGH"]
Change = Literal["SAME", "SLOWER", "FASTER"]

TOLERANCE = 0.25
"""How far a prediction may be from the measurement before that is called LOW or HIGH."""

CHANGE_TOLERANCE = 0.05
"""How far two medians may be apart before that is called a change."""

BUSY_FRACTION = 0.5
"""A link that is in use for less of the predicted time is not what limits it."""

NUM_RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Comparison:
    """One prediction beside the measurement of the same workload."""

    prediction: Prediction
    measurement: Measurement
    tolerance: float = TOLERANCE

    @property
    def relative_error(self) -> float:
        """Predicted over measured seconds, minus 1; below 0 where the machine was slower than predicted."""
        return self.prediction.duration_s / self.measurement.median_s - 1

    @property
    def verdict(self) -> Verdict:
        """LOW: slower than predicted by more than the tolerance; HIGH: faster by more than it."""
        if abs(self.relative_error) <= self.tolerance:
            return "OK"
        return "LOW" if self.relative_error < 0 else "HIGH"

    @property
    def reason(self) -> str:
        """The verdict in words: share of what was expected, tolerance, and the link that limits."""
        share = f"{1 + self.relative_error:.0%} of the predicted speed"
        within = f"tolerance {self.tolerance:.0%}"
        if self.verdict == "OK":
            return f"{share}, {within}"
        if self.verdict == "HIGH":
            return f"{share}, {within}: faster than the topology and profile allow, check them"
        where = f": {self.limit}" if self.prediction.link_loads else ""
        expected = self.prediction.busbw_bytes_per_s
        rates = f"{format_rate(self.measurement.busbw_bytes_per_s)} of busbw"
        rates += f" where {format_rate(expected)} is expected" if expected is not None else ""
        return f"{share} ({rates}), {within}{where}"

    @property
    def limit(self) -> str:
        """What the predicted time goes into: the link that limits, unless it idles for most of it."""
        limiting = self.prediction.limiting
        if limiting is None or limiting.busy_fraction < BUSY_FRACTION:
            return "latencies decide, not a link"
        return f"limited by {limiting.link}"

    @property
    def within_samples(self) -> bool:
        """Whether the predicted time lies between the 10th and 90th percentile of the samples."""
        low_s, high_s = self.measurement.p10_s, self.measurement.p90_s
        return low_s is not None and high_s is not None and low_s <= self.prediction.duration_s <= high_s


def compare(
    predictions: Sequence[Prediction], measurements: Sequence[Measurement], tolerance: float = TOLERANCE
) -> tuple[Comparison, ...]:
    """Each measurement beside the prediction in the same place; MeasurementError where they are of different things."""
    if len(predictions) != len(measurements):
        many = f"{counted(len(predictions), 'prediction')} for {counted(len(measurements), 'measurement')}"
        raise MeasurementError(f"{many}: give one each")
    for prediction, measurement in zip(predictions, measurements, strict=True):
        here, there = prediction.workload, measurement.workload
        if (here.collective, here.num_bytes, prediction.num_ranks) != (
            there.collective,
            there.num_bytes,
            measurement.num_ranks,
        ):
            ranks = [counted(side.num_ranks, "rank") for side in (prediction, measurement)]
            raise MeasurementError(
                f"a prediction of {here.collective}, {here.num_bytes} bytes, {ranks[0]} beside "
                f"a measurement of {there.collective}, {there.num_bytes} bytes, {ranks[1]}"
            )
    return tuple(Comparison(*pair, tolerance) for pair in zip(predictions, measurements, strict=True))


@dataclass(frozen=True, slots=True)
class Delta:
    """One workload measured before and after.

    `low_ratio` and `high_ratio` bound after / before with 95 % confidence (bootstrap of the medians); None where a
    side has one sample only, so that nothing is known of its noise.
    """

    before: Measurement
    after: Measurement
    tolerance: float = CHANGE_TOLERANCE
    low_ratio: float | None = None
    high_ratio: float | None = None

    @property
    def ratio(self) -> float:
        """Median after over median before; above 1 where it has become slower."""
        return self.after.median_s / self.before.median_s

    @property
    def verdict(self) -> Change:
        """SLOWER or FASTER where the medians differ by more than the tolerance, and noise does not explain it."""
        if abs(self.ratio - 1) <= self.tolerance:
            return "SAME"
        low = self.ratio if self.low_ratio is None else self.low_ratio
        high = self.ratio if self.high_ratio is None else self.high_ratio
        if low <= 1 <= high:
            return "SAME"
        return "SLOWER" if self.ratio > 1 else "FASTER"

    @property
    def reason(self) -> str:
        """The verdict in words."""
        change = f"{self.ratio - 1:+.1%} in time, tolerance {self.tolerance:.0%}"
        if self.low_ratio is None or self.high_ratio is None:
            return f"{change}; one sample a side tells nothing of noise"
        return f"{change}; between {self.low_ratio - 1:+.1%} and {self.high_ratio - 1:+.1%} with 95 % confidence"


def changes(
    before: Sequence[Measurement], after: Sequence[Measurement], tolerance: float = CHANGE_TOLERANCE, *, seed: int = 0
) -> tuple[Delta, ...]:
    """What was measured on both sides, in the order of `before`; MeasurementError where that is nothing."""
    later = {_key(found): found for found in after}
    pairs = [(found, later[_key(found)]) for found in before if _key(found) in later]
    if not pairs:
        raise MeasurementError("the two have no workload in common: collective, size, ranks and algorithm must agree")
    return tuple(_delta(*pair, tolerance, seed) for pair in pairs)


def _key(found: Measurement) -> tuple[object, ...]:
    return found.workload, found.num_ranks, found.algorithm, found.executor


def _delta(before: Measurement, after: Measurement, tolerance: float, seed: int) -> Delta:
    if min(len(before.samples_s), len(after.samples_s)) < 2:
        return Delta(before, after, tolerance)
    import numpy as np

    rng = np.random.default_rng(seed)

    def medians(found: Measurement) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        samples = np.array(found.samples_s)
        drawn = rng.integers(0, len(samples), size=(NUM_RESAMPLES, len(samples)))
        resampled: np.ndarray[tuple[int], np.dtype[np.float64]] = np.median(samples[drawn], axis=1)
        return resampled

    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians(after) / medians(before), [tail, 1 - tail])
    return Delta(before, after, tolerance, float(low), float(high))
