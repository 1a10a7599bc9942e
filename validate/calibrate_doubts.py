"""What makes one doubt that measurements are of the machine that they are said to be of."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.clock.kernels import times_s
from sim.clock.terms import GENERATIONS

if TYPE_CHECKING:
    from sim.clock.jobs import Jobs

Floats = npt.NDArray[np.float64]

MISSED = 0.1
"""Rows that the machine's own generation misses by less leave no doubt."""
LOOKS_LIKE = 0.5
"""Another generation's terms that miss the rows by half as much as the machine's own explain them better."""


def doubts(jobs: Jobs, measured: Floats, prior: Floats, machine: str) -> list[str]:
    """A sentence where the shipped terms (`prior`) of another generation explain the times of `machine` better."""
    own = GENERATIONS[int(jobs.generation[0])]
    misses = {name: _miss(jobs, measured, prior, place) for place, name in enumerate(GENERATIONS)}
    best = min(misses, key=lambda name: misses[name])
    if misses[own] < MISSED or misses[best] > LOOKS_LIKE * misses[own]:
        return []
    return [
        f"these times look like those of {best} GPUs: the shipped profile misses them by {100 * misses[own]:.0f} % as "
        f"{own}, and by {100 * misses[best]:.0f} % as {best} (medians): is {machine} the right --topology?"
    ]


def _miss(jobs: Jobs, measured: Floats, prior: Floats, generation: int) -> float:
    """Half of the rows are missed by less than this share by the terms of that generation."""
    as_if = np.full(len(jobs), generation)
    other = replace(jobs, generation=as_if, native=as_if)
    return float(np.median(np.abs(times_s(prior, other) / measured - 1)))
