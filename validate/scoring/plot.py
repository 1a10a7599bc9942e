"""Predicted against measured as one SVG picture: a point per scored row, on the diagonal where both agree."""

from __future__ import annotations

import math
from collections.abc import Iterator

from topo.units import format_duration, format_size
from topo.words import counted
from topo.writers.svg_words import escaped
from validate.scoring.errors import REGIMES, regime_of
from validate.scoring.score import ScoredRow, ScoredRun, Scores

SIDE = 560.0
LEFT, TOP, RIGHT, BOTTOM = 72.0, 48.0, 16.0, 72.0

_STYLE = """\
text { font-family: "DejaVu Sans", Verdana, sans-serif; font-size: 11px; fill: #1f2328; }
.page { fill: #ffffff; }
.grid { stroke: #d5dbe1; }
.same { stroke: #1f2328; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
.latency { fill: #0a58a8; }
.knee { fill: #c2410c; }
.bandwidth { fill: #4c7a00; }
circle, rect.mark, path.mark { fill-opacity: 0.55; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.page { fill: #0d1117; }
.grid { stroke: #30363d; }
.same { stroke: #e6edf3; }
.latency { fill: #6cb0ff; }
.knee { fill: #f08a4b; }
.bandwidth { fill: #86c232; }
}
"""


def render(scores: Scores) -> str:
    """The picture as text: both axes in seconds by powers of ten, each regime a shape and colour of its own.

    A point's `title` says run, size, and both times. Rows without a prediction have no point.
    """
    points = list(_points(scores))
    low, high = _decades(points)
    width, height = LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{escaped(f'{scores.ours}: predicted against measured')}</title>",
        f"<style>\n{_STYLE}</style>",
        f'<rect class="page" width="{width:.0f}" height="{height:.0f}"/>',
        f'<text x="{LEFT:.0f}" y="20">{escaped(f"{scores.ours}: {_counts(scores)}")}</text>',
        *_axes(low, high),
        *(_point(scores, run, row, low, high) for run, row in points),
        *_legend(),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _counts(scores: Scores) -> str:
    how = f"fit {scores.fit}" + (", its class of machines left out" if scores.cross_validated else "")
    return f"{counted(len(scores.runs), 'run')}, {counted(scores.num_rows, 'row')}, {how}"


def _points(scores: Scores) -> Iterator[tuple[ScoredRun, ScoredRow]]:
    for run in scores.runs:
        for row in run.scored:
            if row.predicted_s[scores.ours] is not None:
                yield run, row


def _decades(points: list[tuple[ScoredRun, ScoredRow]]) -> tuple[int, int]:
    """The powers of ten around all measured times; predictions far outside are drawn at the edge."""
    logs = [math.log10(row.measured_s) for _, row in points]
    low, high = math.floor(min(logs, default=-6)), math.ceil(max(logs, default=0))
    return low, max(high, low + 1)


def _place(seconds: float, low: int, high: int) -> float:
    """How far along an axis a time lies, in pixels."""
    share = (math.log10(seconds) - low) / (high - low)
    return SIDE * min(max(share, 0.0), 1.0)


def _axes(low: int, high: int) -> Iterator[str]:
    bottom = TOP + SIDE
    for power in range(low, high + 1):
        at = _place(10.0**power, low, high)
        label = escaped(format_duration(10.0**power))
        yield f'<path class="grid" d="M{LEFT + at:.1f} {TOP}V{bottom}M{LEFT} {bottom - at:.1f}H{LEFT + SIDE}"/>'
        yield f'<text class="middle" x="{LEFT + at:.1f}" y="{bottom + 16:.0f}">{label}</text>'
        yield f'<text class="end" x="{LEFT - 6:.0f}" y="{bottom - at + 4:.1f}">{label}</text>'
    yield f'<path class="same" d="M{LEFT} {bottom}L{LEFT + SIDE} {TOP}"/>'
    yield f'<text class="middle" x="{LEFT + SIDE / 2:.0f}" y="{bottom + 34:.0f}">measured</text>'
    yield f'<text x="{LEFT:.0f}" y="{TOP - 8:.0f}">predicted</text>'


def _point(scores: Scores, run: ScoredRun, row: ScoredRow, low: int, high: int) -> str:
    predicted_s = row.predicted_s[scores.ours] or row.measured_s
    across, up = LEFT + _place(row.measured_s, low, high), TOP + SIDE - _place(predicted_s, low, high)
    words = (
        f"{run.case.name}, {format_size(row.num_bytes)}: predicted {format_duration(predicted_s)}, "
        f"measured {format_duration(row.measured_s)}"
    )
    return _mark(regime_of(row.num_bytes), across, up, f"<title>{escaped(words)}</title>")


def _mark(regime: str, across: float, up: float, inside: str = "") -> str:
    """A circle for latency, a triangle for the knee, a square for bandwidth: told apart without colour."""
    if regime == "latency":
        return f'<circle class="{regime}" cx="{across:.1f}" cy="{up:.1f}" r="3">{inside}</circle>'
    if regime == "knee":
        return f'<path class="mark {regime}" d="M{across:.1f} {up - 4:.1f}l3.5 6h-7z">{inside}</path>'
    return f'<rect class="mark {regime}" x="{across - 2.5:.1f}" y="{up - 2.5:.1f}" width="5" height="5">{inside}</rect>'


def _legend() -> Iterator[str]:
    words = ("up to 64 KiB", "up to 16 MiB", "larger")
    for number, (regime, says) in enumerate(zip(REGIMES, words, strict=True)):
        across, up = LEFT + 160.0 * number, TOP + SIDE + 56
        yield _mark(regime, across, up - 4)
        yield f'<text x="{across + 10:.0f}" y="{up:.0f}">{regime}: {says}</text>'
