"""The parts of the page that are text: headline, summary, tables and parameters."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sim.page.phases import phases
from topo.topology import Topology
from topo.units import format_duration, format_rate, format_size
from topo.words import counted
from topo.writers.svg_words import attribute, escaped

if TYPE_CHECKING:
    from sim.page.machine import Drawing
    from sim.plan import Plan
    from sim.playback import Playback
    from sim.predict import Simulator
    from sim.prediction import LinkLoad, Prediction
    from topo.table import Table

MOST_LINKS_LISTED = 64
AS_BUSY = 0.99
"""From this share of the limiting link's time on, its way back limits as well."""
MOST_DOWN_NAMED = 8
_MOST_RANKS_NAMED = 16


def summary(runs: Sequence[Prediction], machine: str) -> str:
    """What the runs of one size have to say beside each other, in sentences."""
    workload = runs[0].workload
    ranks = counted(runs[0].num_ranks, "rank")
    lines = [f"{workload.collective} of {format_size(workload.num_bytes)} on {machine}, {ranks}."]
    by_time = sorted((run for run in runs if run.duration_s > 0), key=lambda run: run.duration_s)
    if len(by_time) > 1:
        fast, slow = by_time[0], by_time[-1]
        lines.append(
            f"{slow.algorithm} takes {format_duration(slow.duration_s)}, {slow.duration_s / fast.duration_s:.1f} times "
            f"as long as {fast.algorithm} with {format_duration(fast.duration_s)}."
        )
    lines += [sentence for run in by_time if (sentence := _why(run))]
    return "".join(f'<p class="lead">{escaped(line)}</p>\n' for line in lines)


def _why(run: Prediction) -> str:
    """How evenly a run loads the links that it uses: for how long each would be busy at its full rate."""
    limiting = run.limiting
    if limiting is None:
        return ""
    typical_s = statistics.median(_busy_s(load) for load in run.link_loads for _ in range(load.num_links))
    most_s = _busy_s(limiting)
    each_way = " each way" if _limits_both_ways(run) else ""
    sentence = (
        f"{run.algorithm}: its limiting link {_limit(run)} needs {format_duration(most_s)} for its "
        f"{_gigabytes(limiting.num_bytes)}{each_way}, a typical link that it uses {format_duration(typical_s)}"
    )
    return f"{sentence}: most links wait for one." if typical_s < most_s / 2 else f"{sentence}."


def _limit(run: Prediction) -> str:
    """What limits a run: a link in one direction, `A->B`, or in both, `A-B, both ways`."""
    if run.limiting is None:
        return "-"
    name = run.limiting.link
    return f"{name.replace('->', '-')}, both ways," if _limits_both_ways(run) else name


def _limits_both_ways(run: Prediction) -> bool:
    """Whether the way back of the limiting link is as busy as it is."""
    if run.limiting is None:
        return False
    there = run.limiting
    back = "->".join(reversed(there.link.split("->")))
    return any(load.link == back != there.link and _busy_s(load) >= AS_BUSY * _busy_s(there) for load in run.link_loads)


def _busy_s(load: LinkLoad) -> float:
    return load.num_bytes / load.bandwidth_bytes_per_s


def _gigabytes(num_bytes: float) -> str:
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if num_bytes >= scale:
            return f"{num_bytes / scale:.3g} {unit}"
    return f"{num_bytes:.0f} B"


def _mean_load(load: LinkLoad, run: Prediction) -> float:
    return _busy_s(load) / run.duration_s


def panel(
    number: int,
    run: Prediction,
    plan: Plan | None,
    played: Playback | None,
    drawing: Drawing,
    notes: Iterable[str],
) -> str:
    """One algorithm's part of the page: what it is, the pictures that the script fills, and what to know of them."""
    name = escaped(run.algorithm)
    data = "" if played is None else f' data-run="{number}"'
    lines = [
        f'<section class="panel"{data} aria-labelledby="run{number}">',
        f'<h2 id="run{number}">{name}</h2>',
        f'<p class="facts">{escaped(_facts(run, plan))}</p>',
        _figures(run),
    ]
    if played is not None:
        lines.append('<p class="now"></p>')
    if drawing.svg:
        said = '<span class="scale" role="img" aria-label="from grey to orange"></span>'
        lines.append(
            f'<figure class="stage">\n{framed(drawing, f"The machine, {run.algorithm}")}</figure>\n'
            f'<p class="note">Lines are as wide as their GB/s. Load: nothing{said}full.{_down_words(drawing.down)}</p>'
        )
    if played is not None:
        lines += _played_figures(played)
    lines += [f'<p class="note">{escaped(note[:1].upper() + note[1:])}.</p>' for note in notes]
    return "\n".join([*lines, _link_table(run), "</section>\n"])


def framed(drawing: Drawing, label: str) -> str:
    """A picture of a machine in a frame in which it is scrolled where it is larger, with the hint for that."""
    width, height = drawing.least_px
    return (
        '<p class="note sideways" hidden>The picture is larger than its frame: scroll it.</p>\n'
        f'<div class="viewer" tabindex="0" role="region" aria-label={attribute(label)}>'
        f'<div class="picture" style="--wide:{width}px;--high:{height}px">\n{drawing.svg}'
        '<canvas aria-hidden="true"></canvas></div></div>'
    )


def _down_words(names: Sequence[str]) -> str:
    """The legend of links that are down, which readers of the page hear as well."""
    if not names:
        return ""
    more = f" and {len(names) - MOST_DOWN_NAMED} more" if len(names) > MOST_DOWN_NAMED else ""
    listed = escaped(", ".join(names[:MOST_DOWN_NAMED]))
    return f' <span class="dashed" role="img" aria-label="a dashed line"></span>down, carries nothing: {listed}{more}.'


def _played_figures(played: Playback) -> list[str]:
    last = int(played.total.max())
    halves = "; ".join(f"{phase.name}: {phase.action}" for phase in phases(played))
    first, final = played.names[0], played.names[played.schedule.num_ranks - 1]
    what = (
        f"What each holds of each chunk, with small numbers: {first} begins with 1, {final} with "
        f"{played.schedule.num_ranks}. A chunk is complete at {last}."
        if played.total.min() == last
        else "What each holds of each chunk, with small numbers: the first rank's are 1, the next one's 2, and so on."
    )
    return [
        f'<figure><figcaption>{escaped(what)}</figcaption><div class="holdings" data-part="holdings"></div></figure>',
        f'<figure class="timeline"><figcaption>Who sends when (in the colour of the chunk), and how full links are. '
        f"{escaped(halves[:1].upper() + halves[1:])}. Click to go there.</figcaption>"
        f'<canvas role="img" aria-label={attribute(_timeline_words(played))}></canvas></figure>',
    ]


def _timeline_words(played: Playback) -> str:
    parts = [
        f"{phase.name} from {format_duration(phase.start_s)} to {format_duration(phase.end_s)}"
        for phase in phases(played)
    ]
    transfers = counted(len(played.rows), "transfer")
    return f"Timeline of {transfers}: {', '.join(parts)}. The loads of links stand in the table below."


def _facts(run: Prediction, plan: Plan | None) -> str:
    bundled = run.num_channels if plan is None else plan.shape.num_channels
    channels = counted(run.num_channels, "channel")
    if bundled < run.num_channels:
        channels += f" (drawn as {bundled}, since equal ones carry their data side by side)"
    parts = [f"protocol {run.protocol}", channels, f"planner {run.planner}", f"engine {run.engine}"]
    if run.instead_of:
        parts.append(f"instead of {run.instead_of}, which cannot be simulated yet")
    return ", ".join(parts)


def _figures(run: Prediction) -> str:
    busbw = "-" if run.busbw_bytes_per_s is None else format_rate(run.busbw_bytes_per_s)
    limit = ("limiting link", _limit(run).removesuffix(","))
    rows = (("time", format_duration(run.duration_s)), ("bus bandwidth", busbw), limit)
    items = "".join(f"<div><dt>{title}</dt><dd>{escaped(value)}</dd></div>" for title, value in rows)
    return f'<dl class="figures">{items}</dl>'


def _link_table(run: Prediction) -> str:
    """The loads of the busiest links, for eyes and for screen readers."""
    loads = sorted(run.link_loads, key=lambda load: -_mean_load(load, run) if run.duration_s > 0 else 0.0)
    if not loads or run.duration_s <= 0:
        return ""
    rows = "".join(
        f"<tr><td>{escaped(load.link)}{f' and {load.num_links - 1} alike' if load.num_links > 1 else ''}</td>"
        f'<td class="number" data-value="{load.num_bytes!r}">{load.num_bytes / 1e6:,.3f}</td>'
        f'<td class="number" data-value="{load.bandwidth_bytes_per_s!r}">{load.bandwidth_bytes_per_s / 1e9:.2f}</td>'
        f'<td class="number">{_mean_load(load, run):.1%}</td>'
        f'<td class="number" data-value="{load.busy_fraction!r}">{load.busy_fraction:.1%}</td></tr>\n'
        for load in loads[:MOST_LINKS_LISTED]
    )
    more = len(loads) - MOST_LINKS_LISTED
    title = f"Loads of the {MOST_LINKS_LISTED} busiest of {len(loads)} links" if more > 0 else "Loads of all links used"
    return (
        f"<details><summary>{title}</summary>"
        + _scrolled(
            title,
            '<table class="data"><thead><tr><th scope="col">link</th>'
            '<th scope="col" class="number">MB carried</th><th scope="col" class="number">GB/s it can</th>'
            '<th scope="col" class="number">load</th><th scope="col" class="number">time in use</th></tr></thead>\n'
            f"<tbody>{rows}</tbody></table>",
        )
        + "</details>"
    )


def _scrolled(label: str, table: str) -> str:
    """A table that is moved sideways where it is wider than the page, and the hint that the script shows then."""
    return (
        '<p class="note sideways" hidden>More columns to the right: scroll the table sideways.</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{table}</div>'
    )


def results(table: Table, shown_bytes: int) -> str:
    """The table of all predictions; cells carry their value in full, rows of the size played are marked."""
    is_number = [all(not isinstance(row[place], str) for row in table.rows) for place in range(len(table.columns))]
    css = [' class="number"' if number else "" for number in is_number]
    head = "".join(
        f'<th scope="col"{style}>{escaped(column.line)}</th>' for column, style in zip(table.columns, css, strict=True)
    )
    body = "".join(
        f"<tr{' class=shown' if row[0] == shown_bytes else ''}>"
        + "".join(
            f"<td{style} data-key={attribute(column.key)} data-value={attribute(str(cell))}>"
            f"{escaped(column.shown(cell))}</td>"
            for column, cell, style in zip(table.columns, row, css, strict=True)
        )
        + "</tr>\n"
        for row in table.rows
    )
    return (
        '<section class="section"><h2>All results, simulated</h2>\n'
        f"<p>{escaped(table.title)}. Rows with a band are the ones played above.</p>\n"
        + _scrolled(
            "All results",
            f'<table class="data" id="results"><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>',
        )
        + "</section>"
    )


def parameters(simulator: Simulator, plans: Sequence[Plan], dtype: str) -> str:
    """What the numbers hang on: machine, profile and plans."""
    from importlib.metadata import version

    machine, profile = simulator.machine, simulator.profile
    node = machine if isinstance(machine, Topology) else machine.node
    origin = ", ".join(f"{source.kind} {source.name}".strip() for source in node.provenance) or "not stated"
    rows = [
        ("machine", f"{machine.name}, {counted(machine.num_ranks, 'rank')}"),
        ("known from", origin),
        ("elements", dtype),
        ("profile", f"{profile.name}: {profile.provenance}"),
        ("launch overhead", format_duration(profile.launch_overhead_s)),
        *(
            (
                f"{row.kind} links",
                f"{row.efficiency:.1%} of the nominal rate, {format_duration(row.hop_latency_s)} a hop",
            )
            for row in profile.transports
        ),
        *((f"plan of {plan.algorithm}", _plan_words(plan)) for plan in plans),
        ("made by", f"toposcope {version('toposcope')}"),
    ]
    items = "".join(f"<dt>{escaped(title)}</dt><dd>{escaped(value)}</dd>\n" for title, value in rows)
    return f'<section class="section"><h2>Parameters</h2>\n<dl class="parameters">{items}</dl></section>'


def _plan_words(plan: Plan) -> str:
    parts = [f"{counted(plan.num_channels, 'channel')} by {plan.planner}, protocol {plan.protocol}"]
    if plan.algorithm == "parameter-server":
        agents = [*(f"rank {rank}" for rank in range(plan.num_ranks)), *plan.helpers]
        parts.append(f"served by {', '.join(agents[server] for server in plan.servers)}")
    elif plan.rings and plan.algorithm == "ring":
        order = " ".join(map(str, plan.rings[0][:_MOST_RANKS_NAMED]))
        parts.append(f"first ring {order}{' ...' if plan.num_ranks > _MOST_RANKS_NAMED else ''}")
    if plan.num_chunks > 1:
        parts.append(f"{plan.num_chunks} chunks in a pipeline")
    return "; ".join(parts)
