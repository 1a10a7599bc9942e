"""Replays given times without a clock, so that everything above a backend is tested, and shown, without hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sim.workload import Workload
from topo.errors import MeasurementError
from validate.measurement import Setting


@dataclass(slots=True)
class Recorded:
    """A backend that "takes" exactly the times it is given: `times_s[num_bytes]`, from the first again when used up."""

    num_ranks: int
    times_s: Mapping[int, Sequence[float]]
    algorithm: str = "builtin"
    correct: bool | None = True
    name: str = "recorded"
    executor: str = "builtin"
    timing: str = ""
    expected_s: float | None = None
    calls: list[str] = field(default_factory=list)
    _loaded: Sequence[float] = ()
    _next: int = 0

    def load(self, workload: Workload) -> None:
        """Take the times of this size; MeasurementError where there are none."""
        times = self.times_s.get(workload.num_bytes, ())
        if not times:
            known = ", ".join(str(num_bytes) for num_bytes in sorted(self.times_s))
            raise MeasurementError(
                f"no recorded times of {workload.num_bytes} bytes: there are those of {known or 'none'}"
            )
        self.calls.append(f"load {workload.num_bytes}")
        self._loaded, self._next = times, 0

    def time_once(self) -> float:
        """The next recorded time in seconds."""
        self.calls.append("run")
        self._next += 1
        return self._loaded[(self._next - 1) % len(self._loaded)]

    def slowest(self, own_s: Sequence[float]) -> tuple[float, ...]:
        """The times as they are: what was recorded is already the maximum over the ranks."""
        return tuple(own_s)

    def is_correct(self) -> bool | None:
        """What was given as `correct`."""
        self.calls.append("check")
        return self.correct

    def estimate_s(self) -> float | None:
        """What was given as `expected_s`."""
        return self.expected_s

    def software(self) -> tuple[Setting, ...]:
        """Nothing: no software ran."""
        return ()
