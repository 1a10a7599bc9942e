"""Prediction against measurement, and one measurement against another: ratios and verdicts with their reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sim.prediction import Prediction
from topo.errors import MeasurementError
from topo.units import format_rate
from topo.words import counted
from validate.as_run import version_of
from validate.measurement import Measurement

Verdict = Literal["OK", "LOW", "HIGH"]
Change = Literal["SAME", "SLOWER", "FASTER"]

TOLERANCE, RATE_TOLERANCE = 0.25, 0.15
"""How far a prediction, beyond its own range, may be from the measurement before that is called LOW or HIGH.

The second holds where a rate decides and its range is known: of the healthy published runs no more than 3 % of the rows
are LOW then (`topo validate verdicts`), and a quarter less speed than the worst that is expected is seen.
"""
RATE_DECIDES_BYTES = 16 * 2**20
"""Beyond this size nearly all of a time is bytes over a rate."""

CHANGE_TOLERANCE = 0.05
"""How far two medians may be apart before that is called a change."""

BY_NCCL = ("nccl", "nccl-tests", "nccl-inspector")
LAUNCH_SLACK_S = 25e-6
"""An all-reduce of 8 bytes over 8 A100 takes 17, 21, 34 or 42 us, by who publishes it: their launches differ."""

SLACK_PER_GPU_S = 10e-6
"""A process launches for one of its GPUs after the other: with 8, an all-to-all of any small size takes 87 us."""

EDGE = 1e-12

LATENCIES = "latencies decide, not a link"

NUM_RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Comparison:
    """One prediction beside the measurement of the same workload.

    With `min_ratio` a row is LOW below that share of the predicted speed, whatever the tolerance. `num_nodes` are those
    of the machine.
    """

    prediction: Prediction
    measurement: Measurement
    tolerance: float = TOLERANCE
    min_ratio: float | None = None
    num_nodes: int = 1

    @property
    def relative_error(self) -> float:
        """Predicted over measured seconds, minus 1; below 0 where the machine was slower than predicted."""
        return self.prediction.duration_s / self.measurement.median_s - 1

    @property
    def ratio(self) -> float:
        """Measured over predicted speed; below 1 where the machine was slower than predicted."""
        return 1 + self.relative_error

    @property
    def expected_s(self) -> tuple[float, float]:
        """The fastest and the slowest time that are still OK, in seconds; the slowest may be infinite.

        That is the range that the prediction states for itself, and the tolerance beyond it. What starting a kernel
        costs differs from harness to harness by up to LAUNCH_SLACK_S, and more where one process drives many GPUs, or
        may have. A ratio that is asked for allows for none of that.
        """
        predicted_s = self.prediction.duration_s
        fastest_s, slowest_s = _range_of(self.prediction)
        if self.min_ratio is not None:
            return fastest_s / (1 + self.tolerance), predicted_s / self.min_ratio
        slowest_s = self._slowest_without_launches_s
        if self.measurement.backend in BY_NCCL:
            slack_s = max(LAUNCH_SLACK_S, SLACK_PER_GPU_S * (self.measurement.gpus_per_process or 1))
            by_launches_s = self.launches_s * slowest_s / predicted_s
            slowest_s = max(slowest_s, predicted_s + slack_s, by_launches_s)
        return fastest_s / (1 + self.tolerance), slowest_s

    @property
    def is_allowed_for_launches(self) -> bool:
        """Whether it is OK for what launching may have cost alone: slower than the range and the tolerance."""
        slower = self.min_ratio is None and self.measurement.median_s > self._slowest_without_launches_s
        return slower and self.verdict == "OK"

    @property
    def _slowest_without_launches_s(self) -> float:
        slowest_s = _range_of(self.prediction)[1]
        return slowest_s / (1 - self.tolerance) if self.tolerance < 1 else math.inf

    @property
    def launches_s(self) -> float:
        """What a process needs to launch on all of its GPUs, in seconds; 0 where each has a process of its own.

        By the terms of the shipped profile: launches wait for each other and not for the GPUs. Where nobody says, one
        process may have driven all GPUs of a single node; several nodes are started by MPI.
        """
        gpus = self.measurement.gpus_per_process or (self.measurement.num_ranks if self.num_nodes == 1 else 1)
        if gpus < 2:
            return 0.0
        from sim.clock.jobs import OLD_LAUNCHES
        from sim.clock.profile import load_kernels

        version, kernels = version_of(self.measurement), load_kernels()
        old = version is None or version < OLD_LAUNCHES
        further_s = kernels.value("floor_channel_old" if old else "floor_channel") * (self.prediction.num_channels - 1)
        return gpus * (kernels.value("floor") + further_s)

    @property
    def expected_busbw_bytes_per_s(self) -> tuple[float, float]:
        """The lowest and the highest busbw that are still OK."""
        busbw = self.prediction.busbw_bytes_per_s or 0.0
        fastest_s, slowest_s = self.expected_s
        return (busbw * self.prediction.duration_s / slowest_s, busbw * self.prediction.duration_s / fastest_s)

    @property
    def wire_bytes_per_s(self) -> float | None:
        """What the limiting link really carried: its bytes, counted by the simulation, over the measured time."""
        limiting = self.prediction.limiting
        return None if limiting is None else limiting.num_bytes / self.measurement.median_s

    @property
    def verdict(self) -> Verdict:
        """LOW: slower than what is expected; HIGH: faster than that."""
        fastest_s, slowest_s = self.expected_s
        # Rounding must not decide where a measurement lies on the edge.
        if self.measurement.median_s > slowest_s * (1 + EDGE):
            return "LOW"
        return "HIGH" if self.measurement.median_s < fastest_s * (1 - EDGE) else "OK"

    @property
    def reason(self) -> str:
        """The verdict in words: share of what was expected, the range, what was measured, and the link that limits."""
        asked = (
            f"at least {self.min_ratio:.0%} asked" if self.min_ratio is not None else f"tolerance {self.tolerance:.0%}"
        )
        share = f"{self.ratio:.0%} of the predicted speed"
        if self.verdict == "OK":
            return f"{share}, {asked}"
        if self.verdict == "HIGH":
            return f"{share}, {asked}: faster than the topology and profile allow, check them"
        where = f": {self.limit}" if self.prediction.link_loads else ""
        low, high = self.expected_busbw_bytes_per_s
        measured = self.measurement.busbw_bytes_per_s
        if not measured:
            return f"{share}, {asked}{where}"
        return (
            f"{share}, expected {format_rate(low)} to {format_rate(high)} of busbw ({asked}), measured "
            f"{format_rate(measured)}{where}"
        )

    @property
    def limit(self) -> str:
        """What the predicted time goes into: the link that limits, unless it idles for most of it."""
        limiting = self.prediction.limiting
        if limiting is None or limiting.is_mostly_idle:
            return LATENCIES
        return f"limited by {limiting.link}"

    @property
    def within_samples(self) -> bool:
        """Whether the predicted time lies between the 10th and 90th percentile of the samples."""
        low_s, high_s = self.measurement.p10_s, self.measurement.p90_s
        return low_s is not None and high_s is not None and low_s <= self.prediction.duration_s <= high_s


def tolerance_for(prediction: Prediction) -> float:
    """The tolerance of a row where nobody asks for another."""
    rates = prediction.low_s is not None and prediction.workload.num_bytes > RATE_DECIDES_BYTES
    return RATE_TOLERANCE if rates else TOLERANCE


def _range_of(prediction: Prediction) -> tuple[float, float]:
    """The fastest and slowest time that the prediction itself holds possible; its time alone where it states none."""
    fastest_s, slowest_s = (getattr(prediction, name, None) for name in ("low_s", "high_s"))
    return fastest_s or prediction.duration_s, slowest_s or prediction.duration_s


def compare(
    predictions: Sequence[Prediction],
    measurements: Sequence[Measurement],
    tolerance: float | None = None,
    min_ratio: float | None = None,
    num_nodes: int = 1,
) -> tuple[Comparison, ...]:
    """Each measurement beside the prediction in the same place; MeasurementError where they are of different things.

    Without a `tolerance` each row has its own.
    """
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
    return tuple(
        Comparison(
            prediction,
            measurement,
            tolerance_for(prediction) if tolerance is None else tolerance,
            min_ratio,
            num_nodes,
        )
        for prediction, measurement in zip(predictions, measurements, strict=True)
    )


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
    return found.workload, found.num_ranks, found.algorithm, found.executor, found.protocol, found.timing


@dataclass(frozen=True, slots=True)
class Difference:
    """A version or variable that is not the same before and after; None where a side does not have it."""

    name: str
    before: str | None
    after: str | None

    @property
    def sentence(self) -> str:
        """It in words."""
        if self.before is None:
            return f"{self.name} is new: {self.after}"
        if self.after is None:
            return f"{self.name} was {self.before} and is no longer set"
        return f"{self.name} was {self.before}, now it is {self.after}"


def differences(before: Sequence[Measurement], after: Sequence[Measurement]) -> tuple[Difference, ...]:
    """What differs in software and environment, by name. What a side says nothing of at all is not compared."""
    found = []
    for part in ("software", "environment"):
        sides = [{row.name: row.value for one in side for row in getattr(one, part)} for side in (before, after)]
        if not all(sides) and part == "software":
            continue
        names = sorted({*sides[0], *sides[1]})
        found += [Difference(name, sides[0].get(name), sides[1].get(name)) for name in names]
    return tuple(row for row in found if row.before != row.after)


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
