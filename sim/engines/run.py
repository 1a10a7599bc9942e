"""What an engine returns: the duration, what each link carried, and, when asked for, every transfer's times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Run:
    """One simulated run.

    `link_bytes` and `link_busy_s` are by link of the network; `start_s`, `sent_s` and `landed_s` by row of the
    schedule, empty unless spans were asked for. `work` counts what the engine did (instants, solves, rows).
    """

    duration_s: float
    link_bytes: Floats
    link_busy_s: Floats
    start_s: Floats
    sent_s: Floats
    landed_s: Floats
    work: dict[str, int]
