"""What NCCL chooses over a range of sizes: choices, the runners-up, and where it switches from one way to another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.planners.nccl_2_30 import Choice, NcclPlan

Way = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice beside the next best way; `gap` is how much longer that one would last (0.1: 10 %), None without one."""

    choice: Choice
    runner_up: Way | None
    runner_up_s: float | None

    @property
    def gap(self) -> float | None:
        """Relative: 0 is a tie."""
        if self.runner_up_s is None or self.choice.estimate_s <= 0:
            return None
        return float(self.runner_up_s / self.choice.estimate_s - 1)


@dataclass(frozen=True, slots=True)
class Switch:
    """From this size on (whole elements) NCCL takes this way, until the next switch."""

    num_bytes: int
    algorithm: str
    protocol: str


def decide(plan: NcclPlan, collective: str, sizes: Sequence[int], dtype: str) -> tuple[Decision, ...]:
    """One decision per size."""
    return tuple(_decision(plan.choose(collective, num_bytes, dtype=dtype)) for num_bytes in sizes)


def _decision(choice: Choice) -> Decision:
    others = [(seconds, way) for way, seconds in choice.times_s if way != (choice.algorithm, choice.protocol)]
    # NCCL takes the first of equal estimates, so the runner-up is the first of the best others.
    best = min(others, key=lambda other: other[0], default=None)
    return Decision(choice, None, None) if best is None else Decision(choice, best[1], best[0])


def switches(plan: NcclPlan, collective: str, sizes: Sequence[int], dtype: str) -> tuple[Switch, ...]:
    """The first way and every change of it between the sizes, to the element.

    Between two sizes with different choices the change is halved down; where the choice changes and changes back
    between two neighbouring sizes, that is not seen.
    """
    from sim.workload import ELEMENT_BYTES

    grain = ELEMENT_BYTES[dtype]

    def way(num_bytes: int) -> Way:
        chosen = plan.choose(collective, num_bytes, dtype=dtype)
        return chosen.algorithm, chosen.protocol

    def changes(low: int, high: int, below: Way, above: Way) -> Iterator[Switch]:
        while below != above:
            first, last = low, high
            while last - first > grain:
                middle = (first + last) // 2 // grain * grain
                if way(middle) == below:
                    first = middle
                else:
                    last = middle
            low, below = last, way(last)
            yield Switch(last, *below)

    found = [Switch(sizes[0], *way(sizes[0]))]
    for low, high in pairwise(sizes):
        found += changes(low, high, way(low), way(high))
    return tuple(found)
