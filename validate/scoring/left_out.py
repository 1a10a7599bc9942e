"""The clock's terms without one class of machines at a time: `make profiles` fits and writes them.

Fitting takes a minute or more for all classes, so what comes out is shipped. Each row is found by a digest of what it
learned from: other runs, times, or another clock have another digest, and are fitted when they are asked for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from validate.published.cases import Case

SHIPPED = Path(__file__).with_name("left_out.json")
SCHEMA = "left-out/1"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Terms in the order of TERMS, fitted to all healthy shipped runs but those of one class of machines."""

    machine_class: str
    digest: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LeftOutTerms:
    """The whole document, a row for each class."""

    rows: tuple[LeftOut, ...]


def digest_of(cases: Sequence[Case]) -> str:
    """What terms that learn from these cases hang on: cases and times, where terms start, what the clock says there."""
    import numpy as np

    from sim.clock.fit import spreads, starting_values
    from validate.clocked import Clocked

    clock = Clocked(starting_values())
    facts = [
        [*starting_values().tolist(), *spreads().tolist()],
        *(
            [case.name, [row.time_s for row in case.samples], f"{np.log(clock.times_s(case)).sum():.4f}"]
            for case in sorted(cases, key=lambda case: case.name)
        ),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def remembered(path: Path = SHIPPED) -> Mapping[str, tuple[float, ...]]:
    """Terms by the digest of what they learned from; none where the file is missing."""
    from topo.jsonio import decode
    from topo.textfile import read_file

    if not path.exists():
        return {}
    return {row.digest: row.values for row in decode(read_file(path), LeftOutTerms, SCHEMA, str(path)).rows}


def fitted(cases: Sequence[Case], start: npt.NDArray[np.float64]) -> LeftOutTerms:
    """Terms for each class of machines, fitted to the cases of all others; `start` is where each fit begins."""
    from validate.clocked import train

    rows = []
    for name in sorted({case.machine_class for case in cases}):
        rest = [case for case in cases if case.machine_class != name]
        values = tuple(float(f"{value:.5g}") for value in train(rest, start).values.tolist())
        rows.append(LeftOut(name, digest_of(rest), values))
    return LeftOutTerms(tuple(rows))
