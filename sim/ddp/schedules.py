"""How replicas are kept alike, each way one function: a Step in, tasks on two lanes out. SCHEDULES is the one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from sim.ddp.buckets import Bucket
from sim.ddp.lanes import Task
from sim.ddp.model import Layer, Model, Parameter
from sim.ddp.times import LayerTime
from sim.workload import ELEMENT_BYTES
from topo.errors import NameChoiceError, UnitError

Cost = Callable[[str, int, str], float]
"""Seconds of a collective alone: its name, its elements, their type."""

COMPRESSIONS: Mapping[str, str] = {"fp16": "float16", "bf16": "bfloat16"}
"""What torch's compression hooks send, by the name of the hook."""

MOST_TASKS = 2_000_000
"""Layers times passes up to which a step is laid out: more would ask for gigabytes."""

COPY_IN, COPY_OUT = "copy-in", "copy-out"
COPY_PASSES = 2
"""Memory is passed twice by a copy: it reads and it writes."""


@dataclass(frozen=True)
class Step:
    """All that a training step consists of.

    `compression` is a name of COMPRESSIONS: what is sent has that type. `accumulation` counts the passes over a batch
    in one step. Without `bucket_views` gradients are copied out of their buckets in the end, at `memory_bytes_per_s`
    (None: copies are not charged); into the buckets they go in either case.
    """

    model: Model
    times: tuple[LayerTime, ...]
    buckets: tuple[Bucket, ...]
    cost: Cost
    compression: str | None = None
    accumulation: int = 1
    bucket_views: bool = False
    memory_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        if self.compression is not None and self.compression not in COMPRESSIONS:
            raise NameChoiceError("compression", self.compression, COMPRESSIONS)
        most = MOST_TASKS // max(1, len(self.model.layers))
        if not 1 <= self.accumulation <= most:
            raise UnitError(
                f"--accumulate {self.accumulation}: a number from 1 to {most} is needed for {self.model.name}"
            )

    @property
    def forward_s(self) -> float:
        """Seconds of one forward pass."""
        return sum(row.forward_s for row in self.times)

    @property
    def backward_s(self) -> float:
        """Seconds of one backward pass."""
        return sum(row.backward_s for row in self.times)

    def sent_dtype(self, dtype: str) -> str:
        """The type in which elements of a type travel; what is no wider than the compression stays as it is."""
        if self.compression is None:
            return dtype
        narrow = COMPRESSIONS[self.compression]
        return narrow if ELEMENT_BYTES[narrow] < ELEMENT_BYTES[dtype] else dtype

    def sent_bytes(self, bucket: Bucket) -> int:
        """Bytes of a bucket as it travels."""
        return bucket.num_elements * ELEMENT_BYTES[self.sent_dtype(bucket.dtype)]

    def copy_s(self, num_bytes: int) -> float:
        """Seconds of a copy within a GPU's memory."""
        return COPY_PASSES * num_bytes / self.memory_bytes_per_s if self.memory_bytes_per_s else 0.0


@dataclass
class _Tasks:
    """Tasks as they are put down; the collectives of one bucket or group of parameters are priced here."""

    step: Step
    rows: list[Task] = field(default_factory=list)

    def add(self, task: Task) -> int:
        """Its number."""
        self.rows.append(task)
        return len(self.rows) - 1

    def compute(self, kind: str, duration_s: float, after: tuple[int, ...] = (), what: str = "") -> int:
        """A piece of forward or backward, or a copy."""
        return self.add(Task(kind, "compute", duration_s, after, what))

    def send(self, kind: str, bucket: Bucket, after: tuple[int, ...], what: str, number: int | None = None) -> int:
        """A collective over a bucket, compressed where the step says so."""
        dtype = self.step.sent_dtype(bucket.dtype)
        seconds = self.step.cost(kind, bucket.num_elements, dtype)
        return self.add(Task(kind, "communication", seconds, after, what, self.step.sent_bytes(bucket), number))

    def passes(self, count: int) -> None:
        """So many passes that communicate nothing (torch's `no_sync`)."""
        for number in range(count):
            self.compute("forward", self.step.forward_s, what=f"pass {number + 1}")
            self.compute("backward", self.step.backward_s, what=f"pass {number + 1}")

    def backward(self, kind: str) -> list[int]:
        """One backward pass whose buckets are sent, in their order, as soon as they are full; the sendings' numbers."""
        step = self.step
        bucket_of = {row.name: number for number, bucket in enumerate(step.buckets) for row in bucket.parameters}
        missing = [len(bucket.parameters) for bucket in step.buckets]
        sent: list[int] = []
        for layer, times in zip(reversed(step.model.layers), reversed(step.times), strict=True):
            done = self.compute("backward", times.backward_s, what=layer.name)
            for row in layer.ready:
                done = self._into_bucket(row, done)
                number = bucket_of[row.name]
                missing[number] -= 1
                while len(sent) < len(step.buckets) and not missing[len(sent)]:
                    bucket = len(sent)
                    sent.append(self.send(kind, step.buckets[bucket], (done,), f"bucket {bucket}", bucket))
        return sent

    def _into_bucket(self, row: Parameter, done: int) -> int:
        seconds = self.step.copy_s(self.step.model.bytes_of(row))
        return self.compute(COPY_IN, seconds, what=row.name) if seconds else done

    def copy_out(self, sent: list[int]) -> None:
        """Each bucket back into its gradients, once it has arrived and backward has ended."""
        if self.step.bucket_views or not self.step.memory_bytes_per_s:
            return
        for number, bucket in zip(sent, self.step.buckets, strict=True):
            self.compute(COPY_OUT, self.step.copy_s(bucket.num_bytes), (number,), f"bucket {self.rows[number].bucket}")


def ddp(step: Step) -> list[Task]:
    """DistributedDataParallel: an all-reduce per bucket during the last backward pass of the step."""
    tasks = _Tasks(step)
    tasks.passes(step.accumulation - 1)
    tasks.compute("forward", step.forward_s, what="last pass")
    tasks.copy_out(tasks.backward("all_reduce"))
    return tasks.rows


def zero_1(step: Step) -> list[Task]:
    """ZeRO-1 as torch's ZeroRedundancyOptimizer under DDP: every rank updates its share and hands it to all others.

    Gradients are all-reduced as by `ddp`; updated parameters are gathered bucket by bucket when all is reduced.
    """
    tasks = _Tasks(step)
    tasks.passes(step.accumulation - 1)
    tasks.compute("forward", step.forward_s, what="last pass")
    sent = tasks.backward("all_reduce")
    tasks.copy_out(sent)
    _gather_parameters(tasks, sent)
    return tasks.rows


def zero_2(step: Step) -> list[Task]:
    """ZeRO-2: gradients are reduced and scattered in every pass, since no rank keeps those of others.

    Updated parameters are gathered bucket by bucket when all is reduced.
    """
    tasks = _Tasks(step)
    sent: list[int] = []
    for number in range(step.accumulation):
        tasks.compute("forward", step.forward_s, what=f"pass {number + 1}")
        sent = tasks.backward("reduce_scatter")
    _gather_parameters(tasks, sent)
    return tasks.rows


def _gather_parameters(tasks: _Tasks, sent: list[int]) -> None:
    """Parameters travel in their own type: they are not gradients, which compression may round."""
    computed = max(number for number, task in enumerate(tasks.rows) if task.lane == "compute")
    for number, bucket in enumerate(tasks.step.buckets):
        seconds = tasks.step.cost("all_gather", bucket.num_elements, bucket.dtype)
        what, after = f"parameters of bucket {number}", (computed, sent[-1])
        tasks.add(Task("all_gather", "communication", seconds, after, what, bucket.num_bytes))


@dataclass(frozen=True, slots=True)
class _Segment:
    """Layers that run one after the other and that FSDP wraps in one unit."""

    unit: str
    layers: tuple[tuple[Layer, LayerTime], ...]


def fsdp(step: Step) -> list[Task]:
    """FSDP with full sharding (ZeRO-3): a unit's parameters are gathered before its forward and before its backward.

    The next unit is gathered while one runs; its gradients are reduced and scattered once its backward has ended. What
    belongs to no unit is the root, gathered once per pass and reduced at the end. All collectives stand in one line.
    """
    tasks = _Tasks(step)
    pairs = zip(step.model.layers, step.times, strict=True)
    segments = [_Segment(unit, tuple(rows)) for unit, rows in groupby(pairs, key=lambda pair: pair[0].unit)]
    units = _units(step.model)
    wrapped = Counter(segment.unit for segment in segments if segment.unit)
    for unit, times in wrapped.items():
        if times > 1:
            raise UnitError(f"model {step.model.name}: other layers run between those of unit {unit}: name units apart")
    for _ in range(step.accumulation):
        _fsdp_pass(tasks, segments, units)
    return tasks.rows


def _fsdp_pass(tasks: _Tasks, segments: list[_Segment], units: Mapping[str, tuple[Bucket, ...]]) -> None:
    root = _all("all_gather", tasks, units, "", _latest(tasks))
    sharded = [segment for segment in segments if segment.unit]
    gathered = _all("all_gather", tasks, units, sharded[0].unit, root) if sharded else ()
    done: tuple[int, ...] = ()
    for number, segment in enumerate(segments):
        waits = gathered if segment.unit else root
        following = _next_unit(segments, number, 1)
        before = done
        done = (tasks.compute("forward", sum(row.forward_s for _, row in segment.layers), waits, segment.unit),)
        if segment.unit and following:
            gathered = _all("all_gather", tasks, units, following, before)
    gathered = _all("all_gather", tasks, units, sharded[-1].unit, done) if sharded else ()
    for number in reversed(range(len(segments))):
        segment = segments[number]
        waits = gathered if segment.unit else root
        following = _next_unit(segments, number, -1)
        before = done
        done = (tasks.compute("backward", sum(row.backward_s for _, row in segment.layers), waits, segment.unit),)
        if segment.unit and following:
            gathered = _all("all_gather", tasks, units, following, before)
        if segment.unit:
            _all("reduce_scatter", tasks, units, segment.unit, done)
    _all("reduce_scatter", tasks, units, "", done)


def _latest(tasks: _Tasks) -> tuple[int, ...]:
    """The last task so far: a pass begins when all of the one before has ended."""
    return (len(tasks.rows) - 1,) if tasks.rows else ()


def _all(
    kind: str, tasks: _Tasks, units: Mapping[str, tuple[Bucket, ...]], unit: str, after: tuple[int, ...]
) -> tuple[int, ...]:
    """One collective over all parameters of a unit, for each type of element."""
    what = unit or "root"
    return tuple(tasks.send(kind, bucket, after, what) for bucket in units.get(unit, ())) or after


def _next_unit(segments: list[_Segment], number: int, way: int) -> str:
    """The next unit in that direction, the root passed over; empty where there is none."""
    rest = segments[number + 1 :] if way > 0 else segments[:number][::-1]
    return next((segment.unit for segment in rest if segment.unit), "")


def _units(model: Model) -> dict[str, tuple[Bucket, ...]]:
    """What each unit gathers and reduces at once: all its parameters of one type of element."""
    grouped: dict[str, dict[str, list[Parameter]]] = {}
    for layer in model.layers:
        for row in layer.parameters:
            grouped.setdefault(layer.unit, {}).setdefault(model.dtype_of(row), []).append(row)
    return {
        unit: tuple(Bucket(tuple(rows), dtype) for dtype, rows in by_type.items()) for unit, by_type in grouped.items()
    }


@dataclass(frozen=True, slots=True)
class Schedule:
    """One way: what builds its tasks, and whether gradients travel in buckets (or unit by unit)."""

    name: str
    build: Callable[[Step], list[Task]]
    in_buckets: bool
    summary: str


SCHEDULES: Mapping[str, Schedule] = {
    row.name: row
    for row in (
        Schedule("ddp", ddp, True, "an all-reduce per bucket beside backward"),
        Schedule("zero-1", zero_1, True, "as ddp, then parameters are gathered from the ranks that updated them"),
        Schedule("zero-2", zero_2, True, "gradients are reduced and scattered, then parameters are gathered"),
        Schedule("fsdp", fsdp, False, "parameters are gathered unit by unit, gradients reduced and scattered"),
    )
}
"""Ways to keep replicas alike, by name."""


def schedule(name: str) -> Schedule:
    """The way of that name; NameChoiceError otherwise."""
    if name not in SCHEDULES:
        raise NameChoiceError("schedule", name, SCHEDULES)
    return SCHEDULES[name]
