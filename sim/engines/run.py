"""What an engine returns: the duration, what each link carried, and, when asked for, every transfer's times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Spans:
    """When each row of a schedule started, had left, and had landed."""

    start_s: Floats
    sent_s: Floats
    landed_s: Floats


@dataclass(frozen=True, eq=False)
class Run:
    """One simulated run: `link_bytes` and `link_busy_s` by link of the network, `work` counts what the engine did."""

    duration_s: float
    link_bytes: Floats
    link_busy_s: Floats
    work: dict[str, int]
    spans: Spans | None = None
