"""Two lanes side by side, compute and communication: each works off its tasks one by one, in the order given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from topo.errors import ScheduleError

Lane = Literal["compute", "communication"]


@dataclass(frozen=True, slots=True)
class Task:
    """Something that keeps one lane busy, once the tasks with the numbers in `after` have ended.

    `kind` is forward, backward, copy-in, copy-out, or the name of a collective; `num_bytes` what a collective carries;
    `bucket` the number of the bucket whose gradients it sends, None where it sends something else.
    """

    kind: str
    lane: Lane
    duration_s: float
    after: tuple[int, ...] = ()
    what: str = ""
    num_bytes: int = 0
    bucket: int | None = None


@dataclass(frozen=True, slots=True)
class TaskSpan:
    """When a task ran; `ready_s` is when all that it waits for had ended, lane aside."""

    task: Task
    ready_s: float
    start_s: float
    end_s: float


def run_lanes(tasks: Sequence[Task]) -> tuple[TaskSpan, ...]:
    """When each task runs: as soon as its lane is free and all it waits for has ended.

    ScheduleError for a task that waits for one that does not stand before it, which could never run.
    """
    free_s: dict[str, float] = {"compute": 0.0, "communication": 0.0}
    spans: list[TaskSpan] = []
    for number, task in enumerate(tasks):
        wrong = [other for other in task.after if not 0 <= other < number]
        if wrong:
            raise ScheduleError(f"task {number} ({task.kind} {task.what}) waits for task {wrong[0]}: name earlier ones")
        ready_s = max((spans[other].end_s for other in task.after), default=0.0)
        start_s = max(ready_s, free_s[task.lane])
        free_s[task.lane] = start_s + task.duration_s
        spans.append(TaskSpan(task, ready_s, start_s, free_s[task.lane]))
    return tuple(spans)
