"""Charts as picture files by matplotlib, which is imported here alone, and only when a plot is asked for."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.series import Chart, Series
from topo.errors import EnvironmentMissing, NameChoiceError, ScheduleError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg")
_INCHES_PER_CHART = 5.6
_HEIGHT_INCHES = 4.2
_DOTS_PER_INCH = 150
_LINES = ("-", "--", ":", "-.")
_MARKS = "osD^Pv"


def plot_format(path: Path) -> str:
    """`png` or `svg`, as the file's suffix says; NameChoiceError for another."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise NameChoiceError("suffix of a plot", path.suffix or path.name, FORMATS)
    return suffix[1:]


def plot(charts: Sequence[Chart], title: str, form: str) -> bytes:
    """The charts side by side as a picture, `form` png or svg; the same charts give the same bytes.

    EnvironmentMissing where matplotlib is not installed, ScheduleError where there is nothing to draw.
    """
    if not charts:
        raise ScheduleError("there is nothing to plot: no time passes in these runs, as on one rank")
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise EnvironmentMissing("--plot needs matplotlib: pip install 'toposcope[plot]'") from None
    with rc_context({"svg.hashsalt": "toposcope", "svg.fonttype": "none", "font.size": 10}):
        figure = Figure(figsize=(_INCHES_PER_CHART * len(charts), _HEIGHT_INCHES), dpi=_DOTS_PER_INCH)
        figure.suptitle(_literal(title), fontsize=11)
        for axes, chart in zip(figure.subplots(1, len(charts), squeeze=False)[0], charts, strict=True):
            _draw(axes, chart)
        figure.tight_layout()
        stream = io.BytesIO()
        metadata = {"Date": None} if form == "svg" else {"Software": "toposcope"}
        figure.savefig(stream, format=form, metadata=metadata)
    return stream.getvalue()


def _draw(axes: Axes, chart: Chart) -> None:
    """One chart: lines for what is simulated, open marks for what was measured, bars for ranges."""
    from matplotlib.ticker import LogLocator

    for number, series in enumerate(chart.series):
        _draw_series(axes, series, number)
    axes.set_xscale("log", base=2)
    places = sorted({point.x for series in chart.series for point in series.points})
    shown = places[:: max(1, -(-len(places) // 8))]
    axes.set_xticks(shown, [chart.show_x(place) for place in shown], fontsize=8)
    axes.minorticks_off()
    if chart.is_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_formatter("")
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: chart.show_y(value))
    axes.set_xlabel(_literal(chart.x_title))
    axes.set_ylabel(_literal(chart.y_title))
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)


def _draw_series(axes: Axes, series: Series, number: int) -> None:
    xs, ys = [point.x for point in series.points], [point.y for point in series.points]
    look: dict[str, Any] = {
        "color": f"C{number % 10}",
        "marker": _MARKS[number % len(_MARKS)],
        "label": _literal(series.label),
        "markersize": 5,
    }
    if series.is_measured:
        look |= {"linestyle": "none", "markerfacecolor": "white"}
    else:
        look["linestyle"] = _LINES[number % len(_LINES)]
    if any(point.low is not None and point.high is not None for point in series.points):
        below = [max(0.0, point.y - (point.y if point.low is None else point.low)) for point in series.points]
        above = [max(0.0, (point.y if point.high is None else point.high) - point.y) for point in series.points]
        axes.errorbar(xs, ys, yerr=[below, above], capsize=2, **look)
    else:
        axes.plot(xs, ys, **look)


def _literal(text: str) -> str:
    """Text in which matplotlib sees no formula, and a label that it does not hide for its underscore."""
    clean = "".join(sign if sign.isprintable() else "\ufffd" for sign in text).replace("$", r"\$")
    return f" {clean}" if clean.startswith("_") else clean
