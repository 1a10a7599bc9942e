"""A study of bucket caps as a chart: the step and what of communication is exposed, over the cap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.series import Chart, Point, Series
from topo.errors import ScheduleError
from topo.units import format_duration

if TYPE_CHECKING:
    from sim.ddp.study import Study


def cap_charts(study: Study) -> tuple[Chart, ...]:
    """Step time and exposed communication over the bucket cap, one line for each machine, way and algorithm.

    ScheduleError where there are fewer than two caps: one point is no line.
    """
    steps: dict[str, list[Point]] = {}
    exposed: dict[str, list[Point]] = {}
    for row in study.rows:
        found = row.found
        parts = (row.machine,) if len(study.simulators) > 1 else ()
        label = " ".join((*parts, found.schedule, found.algorithm))
        steps.setdefault(label, []).append(Point(found.caps.cap_mb, found.step_s))
        exposed.setdefault(label, []).append(Point(found.caps.cap_mb, found.exposed_s))
    if max((len(points) for points in steps.values()), default=0) < 2:
        raise ScheduleError("--plot draws times over bucket caps: give several, such as --bucket-cap-mb sweep")
    return tuple(
        Chart(
            "bucket cap MB",
            title,
            tuple(Series(f"{label}, simulated", tuple(points)) for label, points in lines.items()),
            show_y=format_duration,
        )
        for title, lines in (("step", steps), ("exposed communication", exposed))
    )
