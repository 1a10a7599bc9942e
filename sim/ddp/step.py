"""A training step on a machine: how long it takes, and how much of its communication is exposed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from sim.ddp.buckets import Bucket, Caps, buckets_of
from sim.ddp.lanes import TaskSpan, run_lanes
from sim.ddp.schedules import COPY_IN, COPY_OUT, Step, schedule
from sim.workload import ELEMENT_BYTES, Workload

if TYPE_CHECKING:
    from sim.predict import Simulator
    from sim.prediction import Prediction

HIDING = ("forward", "backward", COPY_IN)
"""What communication is hidden behind."""

NARROWEST_DIFFERENCE = 0.01
"""Caps whose steps take up to a hundredth longer than the best are as good as it."""


class SimulatedCosts:
    """What collectives cost on a machine, each alone: simulated once per size and kept."""

    def __init__(self, simulator: Simulator, algorithm: str = "auto") -> None:
        """`algorithm` runs the all-reduces; what scatters and gathers takes the planner's choice."""
        self.simulator = simulator
        self.algorithm = algorithm
        self._known: dict[Workload, Prediction] = {}

    def __call__(self, collective: str, num_elements: int, dtype: str) -> float:
        """Seconds of a collective over so many elements; equal parts are rounded up, as FSDP pads them.

        A single rank sends nothing: its buckets are reduced in place.
        """
        num_ranks = self.simulator.machine.num_ranks
        if num_ranks == 1:
            return 0.0
        if collective != "all_reduce":
            num_elements = -(-num_elements // num_ranks) * num_ranks
        workload = Workload(collective, num_elements * ELEMENT_BYTES[dtype], dtype)
        if workload not in self._known:
            algorithm = self.algorithm if collective == "all_reduce" else "auto"
            self._known[workload] = self.simulator.run(workload, algorithm)
        return self._known[workload].duration_s

    @property
    def predictions(self) -> tuple[Prediction, ...]:
        """Every collective that was simulated so far, the smallest first."""
        return tuple(sorted(self._known.values(), key=lambda row: row.workload.num_bytes))


@dataclass(frozen=True)
class StepPrediction:
    """A simulated step; the optimizer's own work is not in it.

    `forward_s`, `backward_s`, `copy_s` and `communication_s` are what these kinds of task take altogether.
    """

    schedule: str
    algorithm: str
    caps: Caps
    buckets: tuple[Bucket, ...]
    spans: tuple[TaskSpan, ...]

    def busy_s(self, *kinds: str) -> float:
        """Seconds that tasks of these kinds take."""
        return sum(span.task.duration_s for span in self.spans if span.task.kind in kinds)

    @property
    def compute_s(self) -> float:
        """Forward and backward: what a single GPU would take."""
        return self.busy_s("forward", "backward")

    @property
    def copy_s(self) -> float:
        """Copies of gradients into and out of buckets."""
        return self.busy_s(COPY_IN, COPY_OUT)

    @property
    def communication_s(self) -> float:
        """All collectives, one after the other."""
        return sum(span.task.duration_s for span in self.spans if span.task.lane == "communication")

    @property
    def step_s(self) -> float:
        """From the first task's start to the last one's end."""
        return max(span.end_s for span in self.spans)

    @property
    def overlapped_s(self) -> float:
        """Communication that runs beside forward and backward."""
        return max(0.0, self.communication_s - self.exposed_s)

    @cached_property
    def exposed_s(self) -> float:
        """Communication with neither forward nor backward beside it: what a step is longer for it.

        Copies out of buckets hide nothing: they are there for the communication alone.
        """
        hiding = [span for span in self.spans if span.task.kind in HIDING]
        communicating = [span for span in self.spans if span.task.lane == "communication"]
        return max(0.0, self.communication_s - _together_s(hiding, communicating))

    @property
    def efficiency(self) -> float:
        """Scaling efficiency: what a GPU alone takes for its share, over what it takes here; 1 where no time passes."""
        return self.compute_s / self.step_s if self.step_s > 0 else 1.0

    def sendings(self) -> Iterator[TaskSpan]:
        """The collectives of the last pass' buckets, in the order in which they are launched."""
        last = {span.task.bucket: span for span in self.spans if span.task.bucket is not None}
        yield from (last[number] for number in range(len(self.buckets)) if number in last)


def _together_s(one: Sequence[TaskSpan], other: Sequence[TaskSpan]) -> float:
    """For how long a task of each runs; both are in order and none of one side runs beside another of it."""
    total_s, place = 0.0, 0
    for span in one:
        while place < len(other) and other[place].end_s <= span.start_s:
            place += 1
        at = place
        while at < len(other) and other[at].start_s < span.end_s:
            total_s += min(span.end_s, other[at].end_s) - max(span.start_s, other[at].start_s)
            at += 1
    return total_s


def predict_step(step: Step, caps: Caps, *, way: str = "ddp", algorithm: str = "auto") -> StepPrediction:
    """The step under one way of SCHEDULES; its buckets must be those of the caps, as `with_caps` makes them."""
    found = schedule(way)
    buckets = step.buckets if found.in_buckets else ()
    return StepPrediction(way, algorithm, caps, buckets, run_lanes(found.build(step)))


def with_caps(step: Step, caps: Caps, *, rebuilt: bool = True) -> Step:
    """The same step with other buckets."""
    return replace(step, buckets=buckets_of(step.model, caps, rebuilt=rebuilt))


def best_of(rows: Sequence[StepPrediction]) -> StepPrediction:
    """The shortest step; of equal ones the first."""
    return min(rows, key=lambda row: row.step_s)


def flat_range(rows: Sequence[StepPrediction]) -> tuple[float, float]:
    """The smallest and the largest cap, around the best of these rows, whose steps take at most 1 % longer."""
    ordered = sorted(rows, key=lambda row: row.caps.cap_mb)
    best = best_of(ordered)
    good = [row.step_s <= best.step_s * (1 + NARROWEST_DIFFERENCE) for row in ordered]
    first = last = ordered.index(best)
    while first > 0 and good[first - 1]:
        first -= 1
    while last + 1 < len(ordered) and good[last + 1]:
        last += 1
    return ordered[first].caps.cap_mb, ordered[last].caps.cap_mb
