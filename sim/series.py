"""Numbers to be drawn as lines and points: what a page and a plot share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topo.units import format_duration, format_size

if TYPE_CHECKING:
    from sim.measured import MeasuredRun
    from sim.prediction import Prediction


@dataclass(frozen=True, slots=True)
class Point:
    """One value; `low` and `high` are the range in which it lies, None where there is none."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """What belongs together; measured points are drawn apart from simulated lines."""

    label: str
    points: tuple[Point, ...]
    is_measured: bool = False


@dataclass(frozen=True)
class Chart:
    """Series over one quantity, with the titles of the axes and how a value of each is written."""

    x_title: str
    y_title: str
    series: tuple[Series, ...]
    is_log: bool = False
    show_x: Callable[[float], str] = "{:g}".format
    show_y: Callable[[float], str] = "{:.4g}".format


def size_charts(
    predictions: Iterable[Prediction], measured: Sequence[MeasuredRun] = (), names: Sequence[str] = ()
) -> tuple[Chart, ...]:
    """Busbw and time over size, one line for each algorithm; none where no time passes.

    `names` are the algorithms as asked for, one for each prediction: `auto` is one line, whatever it took.
    """
    runs = list(predictions)
    labels = list(names) or [run.algorithm for run in runs]
    busbw: dict[str, list[Point]] = {}
    times: dict[str, list[Point]] = {}
    for label, run in sorted(zip(labels, runs, strict=True), key=lambda pair: pair[1].workload.num_bytes):
        if run.busbw_bytes_per_s is not None:
            size = float(run.workload.num_bytes)
            busbw.setdefault(label, []).append(busbw_point(size, run))
            times.setdefault(label, []).append(time_point(size, run))
    if not busbw:
        return ()
    return (
        Chart("size", "busbw GB/s", (*_lines(busbw), *_measured(measured, _busbw_point)), False, _size),
        Chart("size", "time", (*_lines(times), *_measured(measured, _time_point)), True, _size, format_duration),
    )


def time_point(x: float, run: Prediction) -> Point:
    """The predicted seconds, with their range where the model states one."""
    from sim.what_if import bounds_of

    bounds = bounds_of(run)
    return Point(x, run.duration_s) if bounds is None else Point(x, run.duration_s, bounds.low_s, bounds.high_s)


def busbw_point(x: float, run: Prediction) -> Point:
    """The predicted busbw in GB/s (0 where no time passes), with its range where the model states one."""
    time, busbw = time_point(x, run), (run.busbw_bytes_per_s or 0.0) / 1e9
    if not time.low or not time.high:
        return Point(x, busbw)
    return Point(x, busbw, busbw * run.duration_s / time.high, busbw * run.duration_s / time.low)


def _lines(points: dict[str, list[Point]]) -> tuple[Series, ...]:
    return tuple(Series(f"{label}, simulated", tuple(row)) for label, row in points.items())


def _measured(measured: Sequence[MeasuredRun], point: Callable[[MeasuredRun], Point]) -> tuple[Series, ...]:
    labels = dict.fromkeys(run.label for run in measured)
    return tuple(
        Series(f"{label}, measured", tuple(point(run) for run in measured if run.label == label), is_measured=True)
        for label in labels
    )


def _busbw_point(run: MeasuredRun) -> Point:
    fast, slow = (None if time_s is None else run.busbw_of(time_s) / 1e9 for time_s in (run.low_s, run.high_s))
    return Point(float(run.num_bytes), run.busbw_of(run.time_s) / 1e9, slow, fast)


def _time_point(run: MeasuredRun) -> Point:
    return Point(float(run.num_bytes), run.time_s, run.low_s, run.high_s)


def _size(num_bytes: float) -> str:
    return format_size(round(num_bytes))
