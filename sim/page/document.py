"""The page as a whole: what is played, the drawings, and one text that needs nothing beside it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from sim.page import chart, sections
from sim.page.data import followed_chunks, run_data
from sim.page.machine import Drawing, draw_used, draw_whole, with_loads
from sim.playback import MOST_TRANSFERS, SAME_TIME, plan_of, playback
from sim.report import report_json, report_table
from sim.series import size_charts
from topo.errors import ScheduleError
from topo.units import format_duration, format_size
from topo.writers.svg_style import DARK, LIGHT
from topo.writers.svg_words import escaped

if TYPE_CHECKING:
    from sim.measured import MeasuredRun
    from sim.plan import Plan
    from sim.playback import Playback
    from sim.predict import Simulator
    from sim.prediction import Prediction

SCRIPTS = ("model.js", "stage.js", "holdings.js", "timeline.js", "page.js")
WIDE_PX = 760
"""Panels whose pictures need more than this stand below each other, where a screen would cut two of them."""

_DRAWING_STYLE = f"""\
:is(.stage, .whole) {{
{LIGHT}}}
@media (prefers-color-scheme: dark) {{
:where(:root:not([data-theme="light"])) :is(.stage, .whole) {{
{DARK}}}
}}
"""


@dataclass(frozen=True)
class Shown:
    """One prediction that the page plays: its plan, and its run followed.

    None is a plan that nothing here runs, and a run that is too large to follow.
    """

    run: Prediction
    plan: Plan | None
    played: Playback | None


def page(
    simulator: Simulator,
    predictions: Sequence[Prediction],
    names: Sequence[str],
    measured: Sequence[MeasuredRun] = (),
) -> str:
    """The HTML page of these predictions, which plays those of the largest size.

    `names` are the algorithms as they were asked for, one for each prediction. ScheduleError where there is nothing to
    show.
    """
    if not predictions:
        raise ScheduleError("there is no prediction to draw: give at least one size and one algorithm")
    shown = _shown(simulator, predictions, names)
    ids = [name for one in shown for name in _links_of(one)]
    agents = {agent for one in shown if one.played for agent in one.played.agents}
    drawing = draw_used(simulator.machine, ids, sorted(agents))
    runs = [None if one.played is None else run_data(one.played, drawing.stroke_of) for one in shown]
    panels = [
        sections.panel(
            number,
            one.run,
            one.plan,
            one.played,
            replace(drawing, svg=with_loads(drawing, one.run)),
            (*_notes(one), *drawing.notes),
        )
        for number, one in enumerate(shown)
    ]
    title = f"{shown[0].run.workload.collective} on {simulator.machine.name or 'this machine'}, simulated"
    script = _joined("\n".join(_text(name).replace('"use strict";\n', "") for name in SCRIPTS))
    is_played = any(one.played for one in shown)
    return Template(_text("page.html")).substitute(
        title=escaped(title),
        style=_text("page.css") + _DRAWING_STYLE,
        summary=sections.summary([one.run for one in shown], simulator.machine.name or "this machine"),
        player=_text("player.html") if is_played else "",
        shape=" wide" if drawing.least_px[0] > WIDE_PX else "",
        panels="".join(panels),
        sections=_sections(simulator, predictions, names, measured, shown, drawing),
        footer="Every time on this page is simulated; points called measured were measured elsewhere.",
        data=as_script_data({"runs": runs, "simulate": json.loads(report_json(simulator, predictions))}),
        script=script,
        script_hash=script_hash(script),
    )


def script_hash(script: str) -> str:
    """What a content security policy calls a script: only this one may run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def as_script_data(value: Any) -> str:
    """JSON that can stand in a script element: nothing in it can end the element or open a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
    return reduce(lambda done, pair: done.replace(*pair), escapes.items(), text)


def _shown(simulator: Simulator, predictions: Sequence[Prediction], names: Sequence[str]) -> list[Shown]:
    """The predictions of the largest size, with their plans and runs."""
    largest = max(run.workload.num_bytes for run in predictions)
    found = []
    for run, name in zip(predictions, names, strict=True):
        if run.workload.num_bytes == largest:
            plan = plan_of(simulator, run, name)
            found.append(Shown(run, plan, None if plan is None else playback(simulator, plan, run)))
    return found


def _links_of(one: Shown) -> list[str]:
    """The links that a run uses, all of them where it is played."""
    if one.played is not None:
        return list(one.played.link_ids().values())
    return [load.link for load in one.run.link_loads]


def _notes(one: Shown) -> list[str]:
    """What the user should know of one picture."""
    if one.plan is None:
        return [
            f"there is no schedule of {one.run.algorithm} here that could be played: links are coloured by their "
            "average load (--algorithm ring,tree plays those)"
        ]
    if one.played is None:
        return [
            f"this run has more than {MOST_TRANSFERS:,} transfers: too many to play, its links are summed up in the "
            "table (fewer nodes, channels or chunks can be played)"
        ]
    notes = []
    followed, all_chunks = len(followed_chunks(one.played)), len(one.played.chunks_in_order())
    if followed < all_chunks:
        notes.append(
            f"{followed} of {all_chunks} chunks {'is' if followed == 1 else 'are'} followed, since "
            f"{len(one.played.rows):,} transfers are too many to draw; the loads of links count them all"
        )
    if abs(one.played.stretch - 1) > SAME_TIME:
        notes.append(
            f"the {one.run.engine} engine predicts {format_duration(one.run.duration_s)} without timing each transfer: "
            f"played is the event engine's run of all of them, stretched to that by {one.played.stretch:.3g}"
        )
    return notes


def _sections(
    simulator: Simulator,
    predictions: Sequence[Prediction],
    names: Sequence[str],
    measured: Sequence[MeasuredRun],
    shown: Sequence[Shown],
    drawing: Drawing,
) -> str:
    largest = shown[0].run.workload
    charts = "".join(
        f'<figure class="chart"><figcaption>{escaped(each.y_title)} over {escaped(each.x_title)}</figcaption>\n'
        f"{chart.draw(each)}</figure>\n"
        for each in size_charts(predictions, measured, names)
    )
    parts = [
        f'<section class="section"><h2>Over size</h2>\n'
        f"<p>Played above: {escaped(format_size(largest.num_bytes))}, the largest.</p>\n"
        f'<div class="charts">{charts}</div></section>'
        if charts
        else "",
        sections.results(report_table(simulator, predictions), largest.num_bytes),
        sections.parameters(simulator, [one.plan for one in shown if one.plan], largest.dtype),
        _whole(simulator, drawing),
    ]
    return "\n".join(part for part in parts if part)


def _whole(simulator: Simulator, drawing: Drawing) -> str:
    whole = draw_whole(simulator.machine)
    if not whole.svg or whole.svg == drawing.svg:
        return ""
    return (
        '<details class="whole"><summary>The whole machine</summary>\n'
        f"{sections.framed(whole, 'The whole machine')}</details>"
    )


def _text(name: str) -> str:
    return (files("sim.page") / name).read_text(encoding="utf-8")


def _joined(scripts: str) -> str:
    """All scripts as one, whose names nothing else sees."""
    return f'"use strict";\n(() => {{\n{scripts}\n}})();\n'
