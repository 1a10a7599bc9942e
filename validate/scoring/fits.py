"""Which samples of a run a model may be fitted to; all others are scored, and these never."""

from __future__ import annotations

import math
from typing import Literal

from validate.published.cases import Case

Fit = Literal["none", "overhead", "three"]
FITS: tuple[Fit, ...] = ("none", "overhead", "three")
"""none: nothing of the run; overhead: its smallest size; three: smallest, nearest 1 MiB, and largest."""

MIDDLE_BYTES = 1 << 20


def fit_of(case: Case, asked: Fit) -> Fit:
    """The fit that leaves something to score: a run of few sizes takes a smaller one, of one size none."""
    num_sizes = len({row.num_bytes for row in case.samples})
    if asked == "three" and num_sizes > 3:
        return "three"
    return "overhead" if asked != "none" and num_sizes > 1 else "none"


def rows_of(case: Case, asked: Fit) -> tuple[int, ...]:
    """The samples (by place) that the model is fitted to: of several of one size the first one."""
    fit = fit_of(case, asked)
    if fit == "none":
        return ()
    first = {row.num_bytes: place for place, row in reversed(list(enumerate(case.samples)))}
    sizes = sorted(first)
    if fit == "overhead":
        return (first[sizes[0]],)
    middle = min(sizes[1:-1], key=lambda num_bytes: abs(math.log2(num_bytes / MIDDLE_BYTES)))
    return first[sizes[0]], first[middle], first[sizes[-1]]
