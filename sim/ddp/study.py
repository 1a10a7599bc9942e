"""A model on a machine under several bucket caps, ways and algorithms: what `topo ddp` answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.ddp.break_even import BreakEven, break_even
from sim.ddp.buckets import Caps
from sim.ddp.schedules import Step, schedule
from sim.ddp.step import SimulatedCosts, StepPrediction, best_of, flat_range, predict_step, with_caps
from topo.errors import UnitError

if TYPE_CHECKING:
    from sim.ddp.model import Model
    from sim.ddp.times import Compute, LayerTime
    from sim.predict import Simulator


@dataclass(frozen=True)
class Request:
    """What is asked: every way with every algorithm and, where it sends buckets, every cap.

    `compute` is what the layers' times were made from, None where they were measured or given.
    """

    model: Model
    times: tuple[LayerTime, ...]
    batch: int
    caps: tuple[Caps, ...]
    ways: tuple[str, ...] = ("ddp",)
    algorithms: tuple[str, ...] = ("auto",)
    compression: str | None = None
    accumulation: int = 1
    bucket_views: bool = False
    rebuilt: bool = True
    compute: Compute | None = None
    memory_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        for name in self.ways:
            schedule(name)

    def step(self, costs: SimulatedCosts) -> Step:
        """The step with its first buckets."""
        bare = Step(
            self.model,
            self.times,
            (),
            costs,
            self.compression,
            self.accumulation,
            self.bucket_views,
            self.memory_bytes_per_s,
        )
        return with_caps(bare, self.caps[0], rebuilt=self.rebuilt)


@dataclass(frozen=True)
class Row:
    """One predicted step; `machine` is the name of what it runs on, `even` its break-even points where asked for."""

    machine: str
    found: StepPrediction
    even: BreakEven | None = None


@dataclass(frozen=True)
class Study:
    """All rows, the first of them the answer to the first cap, way and algorithm, and the simulators behind them."""

    request: Request
    rows: tuple[Row, ...]
    simulators: tuple[Simulator, ...]
    costs: tuple[SimulatedCosts, ...]

    @property
    def simulator(self) -> Simulator:
        """The simulator of the machine as it was given."""
        return self.simulators[0]

    def sweeps(self) -> Iterator[tuple[Row, tuple[float, float]]]:
        """Of each machine, way and algorithm with several caps the best row, and the range of caps as good as it."""
        groups: dict[tuple[str, str, str], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.machine, row.found.schedule, row.found.algorithm), []).append(row)
        for rows in groups.values():
            if len(rows) > 1:
                best = best_of([row.found for row in rows])
                yield next(row for row in rows if row.found is best), flat_range([row.found for row in rows])


def study(request: Request, simulators: Sequence[Simulator], *, with_even: bool = False) -> Study:
    """Everything that is asked for on each machine; `with_even` adds the break-even points to every row."""
    rows: list[Row] = []
    used: list[SimulatedCosts] = []
    for machine in simulators:
        for algorithm in request.algorithms:
            costs = SimulatedCosts(machine, algorithm)
            used.append(costs)
            rows += _rows(request, costs, with_even=with_even)
    return Study(request, tuple(rows), tuple(simulators), tuple(used))


def _rows(request: Request, costs: SimulatedCosts, *, with_even: bool) -> Iterator[Row]:
    first = request.step(costs)
    name = costs.simulator.machine.name
    for way in request.ways:
        for caps in request.caps if schedule(way).in_buckets else request.caps[:1]:
            step = with_caps(first, caps, rebuilt=request.rebuilt)
            found = predict_step(step, caps, way=way, algorithm=costs.algorithm)
            yield Row(name, found, break_even(step, found) if with_even else None)


def caps_of(text: str, first_cap_mb: float) -> tuple[Caps, ...]:
    """The caps of a list with commas, each once; `sweep` stands for SWEEP_MB."""
    parts = [f"{value:g}" for value in SWEEP_MB] if text.strip() == SWEEP else text.split(",")
    values = dict.fromkeys(_number(part, text) for part in parts)
    return tuple(Caps(value, first_cap_mb) for value in values)


def _number(part: str, text: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise UnitError(
            f"--bucket-cap-mb {text}: {part.strip()!r} is no number of MB (MiB, torch's MB), expected such as "
            f"25, 10,25,100 or {SWEEP}"
        ) from None


SWEEP = "sweep"
SWEEP_MB = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0, 400.0)
