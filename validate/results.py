"""What the processes of a launch bring home, read line by line as it comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from topo.errors import MeasurementError
from validate.measurement import Measurement

Arrived = Callable[[int, Measurement], None]
"""Told the number of a job and its measurement, as soon as it is there."""


def nobody(job: int, measurement: Measurement) -> None:
    """Nobody waits for single results."""


@dataclass(slots=True)
class Results:
    """The results in a file that rank 0 still writes to.

    `measurements`, `values` and `not_run` are by number of the job: what was measured, what ranks held where a job
    brought its own values, and why a job could not run.
    """

    path: Path
    arrived: Arrived = nobody
    measurements: dict[int, Measurement] = field(default_factory=dict)
    values: dict[int, tuple[tuple[float, ...], ...]] = field(default_factory=dict)
    not_run: dict[int, str] = field(default_factory=dict)
    _rest: str = ""
    _position: int = 0

    def poll(self) -> None:
        """Take in what has come; a last line that is not whole is left for later."""
        try:
            with self.path.open(encoding="utf-8") as stream:
                stream.seek(self._position)
                text = stream.read()
                self._position = stream.tell()
        except FileNotFoundError:
            return
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(None, lines):
            self._take(line)

    def _take(self, line: str) -> None:
        import msgspec

        try:
            result = json.loads(line)
            job = result["job"]
            if "not_run" in result:
                self.not_run[job] = result["not_run"]
                return
            measurement = msgspec.convert(result["measurement"], Measurement)
        except (ValueError, KeyError) as error:
            raise MeasurementError(f"the processes wrote a result that cannot be read: {error}") from None
        self.measurements[job] = measurement
        if "values" in result:
            self.values[job] = tuple(tuple(row) for row in result["values"])
        self.arrived(job, measurement)
