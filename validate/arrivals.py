"""Who comes late: told from how long each process waits for the others, apart from any transfer, without a clock.

All leave a meeting together, so whoever came last waited least: a process is late by what the first one to come had
to wait longer than it.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LATE_S = 0.02
"""A process that is late by less is not called late: so much a busy processor may take from anyone."""

LATE_RATIO = 5.0
"""Late is who comes so many times later than is usual for the others."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """`waits_s[meeting][process]`: how long each process waited at each meeting."""

    waits_s: tuple[tuple[float, ...], ...] = ()

    @property
    def num_meetings(self) -> int:
        """How many meetings were watched."""
        return len(self.waits_s)

    @property
    def late_s(self) -> tuple[float, ...]:
        """By how much each process came after the first one: the median over the meetings."""
        behind = [[max(waits) - wait for wait in waits] for waits in self.waits_s]
        return tuple(statistics.median(column) for column in zip(*behind, strict=True))

    @property
    def late_ranks(self) -> tuple[int, ...]:
        """Those that usually come much later than the others do."""
        late_s = self.late_s
        found = []
        for rank, own_s in enumerate(late_s):
            others = [other for number, other in enumerate(late_s) if number != rank]
            if own_s > max(LATE_S, LATE_RATIO * statistics.median(others or [0.0])):
                found.append(rank)
        return tuple(found)


def read_arrivals(path: Path) -> Arrivals:
    """What was written up to now; nothing where there is no file, and a last line that was cut off is left out."""
    meetings: list[tuple[float, ...]] = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            waits: Sequence[Sequence[float]] = json.loads(line)["waits_s"]
        except ValueError:
            continue
        meetings += zip(*waits, strict=False)
    return Arrivals(tuple(meetings))
