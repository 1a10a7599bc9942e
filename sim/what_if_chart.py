"""A what-if over counts of nodes as charts: busbw and time over nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sim.planners import AUTO
from sim.series import Chart, Point, Series, busbw_point, time_point
from topo.errors import ScheduleError
from topo.units import format_duration, format_size

if TYPE_CHECKING:
    from sim.what_if import Outcome


def node_charts(rows: Sequence[Outcome]) -> tuple[Chart, ...]:
    """Busbw and time over the number of nodes, one line for each change and size, with their ranges.

    ScheduleError where no change counts nodes.
    """
    busbw: dict[str, list[Point]] = {}
    times: dict[str, list[Point]] = {}
    for row in sorted(rows, key=lambda row: row.variant.num_nodes):
        run = row.prediction
        if row.variant.sweep and run.busbw_bytes_per_s is not None:
            by = "" if row.asked == AUTO else f" by {row.asked}"
            label = f"{row.variant.sweep}, {format_size(run.workload.num_bytes)}{by}, simulated"
            busbw.setdefault(label, []).append(busbw_point(row.variant.num_nodes, run))
            times.setdefault(label, []).append(time_point(row.variant.num_nodes, run))
    if not busbw:
        raise ScheduleError('--plot draws times over nodes: give a change that counts them, such as "nodes 1,2,4,8"')
    lines = [tuple(Series(label, tuple(points)) for label, points in found.items()) for found in (busbw, times)]
    return (
        Chart("nodes", "busbw GB/s", lines[0]),
        Chart("nodes", "time", lines[1], is_log=True, show_y=format_duration),
    )
