"""Charts of time and bus bandwidth over size, as SVG that needs no script."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sim.series import Chart, Series
from topo.writers.svg_words import attribute, escaped

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 14, 46
_LEGEND_LINE = 18
_DASHES = ("", "7 4", "2 3", "9 3 2 3", "12 5", "1 4")
_MARKS = ("circle", "square", "diamond", "triangle", "cross", "bar")
NUM_STYLES = len(_DASHES)


class _Axes:
    """Where values lie in the picture."""

    def __init__(self, chart: Chart) -> None:
        points = [point for series in chart.series for point in series.points]
        xs = [math.log2(point.x) for point in points]
        self._x = min(xs), max(xs)
        lows = [value for point in points for value in (point.low, point.y) if value is not None and value > 0]
        self._is_log = chart.is_log
        high = max([value for point in points for value in (point.high, point.y) if value is not None], default=1.0)
        self.y_ticks = _decades(min(lows), high) if self._is_log else _steps(high)
        self._y = self._y_of(self.y_ticks[0]), self._y_of(self.y_ticks[-1])

    def _y_of(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self._is_log else value

    def x(self, value: float) -> float:
        """The place of a value on the x axis."""
        low, high = self._x
        share = (math.log2(value) - low) / (high - low) if high > low else 0.5
        return LEFT + 10 + share * (WIDTH - LEFT - RIGHT - 20)

    def y(self, value: float) -> float:
        """The place of a value on the y axis."""
        low, high = self._y
        share = (self._y_of(value) - low) / ((high - low) or 1.0)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def draw(chart: Chart) -> str:
    """The chart as an SVG element, with a legend below it; a list of its numbers is its description."""
    axes = _Axes(chart)
    height = HEIGHT + _LEGEND_LINE * len(chart.series) + 4
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f"aria-label={attribute(_said(chart))}>",
        *_grid(chart, axes),
    ]
    for number, series in enumerate(chart.series):
        lines += [f'<g class="series{number % NUM_STYLES}">', *_series(series, number, axes)]
        y = HEIGHT + _LEGEND_LINE * number + 6
        if not series.is_measured:
            lines.append(f'<path class="line"{_dash(number)} d="M{LEFT} {y}h34"/>')
        lines.append(_mark(LEFT + 17, y, number, series.is_measured, ""))
        lines.append(f'<text x="{LEFT + 44}" y="{y + 4}">{escaped(series.label)}</text></g>')
    return "\n".join([*lines, "</svg>"])


def _said(chart: Chart) -> str:
    """The chart in words."""
    parts = []
    for series in chart.series:
        numbers = ", ".join(f"{chart.show_y(point.y)} at {chart.show_x(point.x)}" for point in series.points)
        parts.append(f"{series.label}: {numbers}")
    return f"{chart.y_title} over {chart.x_title}. {'. '.join(parts)}."


def _grid(chart: Chart, axes: _Axes) -> list[str]:
    lines = []
    for tick in axes.y_ticks:
        y = axes.y(tick)
        lines.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        lines.append(f'<text class="tick end" x="{LEFT - 6}" y="{y + 4:.1f}">{escaped(chart.show_y(tick))}</text>')
    places = sorted({point.x for series in chart.series for point in series.points})
    last = -math.inf
    for place in places:
        x = axes.x(place)
        if x - last >= 58:
            last = x
            text = escaped(chart.show_x(place))
            lines.append(f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM + 4}"/>')
            lines.append(f'<text class="tick middle" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}">{text}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    lines.append(
        f'<text class="middle" transform="translate(14 {middle:.0f}) rotate(-90)">{escaped(chart.y_title)}</text>'
    )
    lines.append(f'<text class="middle" x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 10}">{escaped(chart.x_title)}</text>')
    return lines


def _series(series: Series, number: int, axes: _Axes) -> list[str]:
    lines = []
    if not series.is_measured and len(series.points) > 1:
        path = "L".join(f"{axes.x(point.x):.1f} {axes.y(point.y):.1f}" for point in series.points)
        lines.append(f'<path class="line"{_dash(number)} d="M{path}"/>')
    for point in series.points:
        x, y = axes.x(point.x), axes.y(point.y)
        if point.low is not None and point.high is not None:
            lines.append(f'<path class="range" d="M{x:.1f} {axes.y(point.low):.1f}V{axes.y(point.high):.1f}"/>')
        data = f' data-x="{point.x!r}" data-y="{point.y!r}"'
        lines.append(_mark(x, y, number, series.is_measured, data))
    return lines


def _dash(number: int) -> str:
    dash = _DASHES[number % NUM_STYLES]
    return f' stroke-dasharray="{dash}"' if dash else ""


def _mark(x: float, y: float, number: int, is_measured: bool, data: str) -> str:
    shapes = {
        "circle": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        "square": "m-3.6 -3.6h7.2v7.2h-7.2z",
        "diamond": "m0 -5l5 5l-5 5l-5 -5z",
        "triangle": "m0 -4.6l4.6 8.2h-9.2z",
        "cross": "m-4.5 -1.5h3v-3h3v3h3v3h-3v3h-3v-3h-3z",
        "bar": "m-2 -5h4v10h-4z",
    }
    css = "measured" if is_measured else "mark"
    return f'<path class="{css}"{data} d="M{x:.1f} {y:.1f}{shapes[_MARKS[number % NUM_STYLES]]}"/>'


def _steps(high: float) -> list[float]:
    """Round values from 0 to at least `high`, at most seven."""
    if high <= 0:
        return [0.0, 1.0]
    raw = high / 5
    scale = 10 ** math.floor(math.log10(raw))
    step = next(factor * scale for factor in (1, 2, 2.5, 5, 10) if factor * scale >= raw * (1 - 1e-9))
    return [step * place for place in range(math.ceil(high / step - 1e-9) + 1)]


def _decades(low: float, high: float) -> Sequence[float]:
    """Powers of ten around the values."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]
