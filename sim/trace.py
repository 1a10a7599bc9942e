"""A simulated run as Chrome trace events, which Perfetto and chrome://tracing open.

The format is that of "Trace Event Format" (Google, 2016): complete events (`ph` X) on tracks named by metadata events
(`ph` M); `ts` and `dur` are microseconds. A track shows one event at a time, so that what overlaps on a link or a
channel goes to a further track of the same name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.playback import MOST_TRANSFERS, SAME_TIME, Playback, plan_of, playback
from sim.schedule import REDUCE
from topo.errors import ScheduleError
from topo.units import format_size

if TYPE_CHECKING:
    from sim.predict import Simulator
    from sim.prediction import Prediction

Event = dict[str, Any]

MOST_EVENTS = 400_000
"""Events of a trace, since viewers load no more in reasonable time."""


@dataclass
class _Track:
    """Events that share a name in the viewer, on as many rows as overlap at most; times are nanoseconds."""

    name: str
    events: list[tuple[int, int, Event]] = field(default_factory=list)

    def rows(self) -> list[list[tuple[int, int, Event]]]:
        """The events in rows in which none overlaps another, each in order."""
        rows: list[list[tuple[int, int, Event]]] = []
        for event in sorted(self.events, key=lambda event: event[:2]):
            free = next((row for row in rows if row[-1][1] <= event[0]), None)
            if free is None:
                rows.append([event])
            else:
                free.append(event)
        return rows


def trace(simulator: Simulator, predictions: Sequence[Prediction], names: Sequence[str]) -> tuple[str, list[str]]:
    """The trace (a JSON text) of the runs of the largest size, and sentences on what it leaves out.

    For each algorithm a group of tracks by GPU and channel, with what it sends, and one by link, with what crosses it.
    `names` are the algorithms as asked for, one for each prediction. ScheduleError where a run is too large.
    """
    largest = max((run.workload.num_bytes for run in predictions), default=0)
    events: list[Event] = []
    notes = []
    for run, name in zip(predictions, names, strict=True):
        if run.workload.num_bytes != largest:
            continue
        plan = plan_of(simulator, run, name)
        played = None if plan is None else playback(simulator, plan, run)
        if plan is None:
            notes.append(f"{run.algorithm} is not in the trace: it is predicted, but has no schedule here")
            continue
        if played is None:
            raise ScheduleError(
                f"{run.algorithm} of {format_size(largest)} has more than {MOST_TRANSFERS} transfers, too many for a "
                "trace: take fewer nodes, channels or chunks"
            )
        if abs(played.stretch - 1) > SAME_TIME:
            notes.append(
                f"times in the trace of {run.algorithm} are those of the event engine, stretched by "
                f"{played.stretch:.3g} to what the {run.engine} engine predicts"
            )
        rows = _rows_that_fit(played)
        if len(rows) < len(played.rows):
            notes.append(f"the trace of {run.algorithm} holds its first {len(rows)} of {len(played.rows)} transfers")
        events += _events_of(played, rows, len(events))
    other = {"tool": "toposcope", "simulated": True, "topology": simulator.machine.name, "num_bytes": largest}
    document = {"displayTimeUnit": "ns", "otherData": other, "traceEvents": events}
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n", notes


def _rows_that_fit(played: Playback) -> Sequence[int]:
    """The transfers in order of time, as many as MOST_EVENTS events hold."""
    order = np.argsort(played.start_s, kind="stable")
    each = 1 + np.diff(played.ways.routes.first)[played.ways.route[order]]
    found: list[int] = order[np.cumsum(each) <= MOST_EVENTS].tolist()
    return found


def _events_of(played: Playback, rows: Sequence[int], first: int) -> list[Event]:
    """All events of one run; process ids begin behind `first`, so that those of several runs differ."""
    title = f"{played.plan.algorithm} {format_size(played.run.workload.num_bytes)}"
    by_agent: dict[int, dict[int, _Track]] = {agent: {} for agent in range(len(played.agents))}
    by_link: dict[int, _Track] = {link: _Track(name) for link, name in played.link_ids().items()}
    for row in rows:
        begin, end = (round(when[row] * 1e9) for when in (played.start_s, played.sent_s))
        event = _event(played, row)
        src, channel = int(played.rows.src[row]), int(played.rows.channel[row])
        track = by_agent[src].setdefault(channel, _Track(f"channel {channel}"))
        track.events.append((begin, end, event))
        for link in played.links_of(row):
            by_link[link].events.append((begin, end, event))
    process = first + 1
    events = []
    for agent, tracks in by_agent.items():
        if tracks:
            ordered = [track for _, track in sorted(tracks.items())]
            events += _process(process, f"{title}: {played.names[agent]} sends", ordered)
            process += 1
    events += _process(process, f"{title}: links", by_link.values())
    return events


def _event(played: Playback, row: int) -> Event:
    """What an event is called, with all that is known of the transfer."""
    rows = played.rows
    src, dst = played.names[rows.src[row]], played.names[rows.dst[row]]
    op = "reduce" if rows.op[row] == REDUCE else "copy"
    return {
        "name": f"chunk {rows.chunk[row]} to {dst}",
        "cat": op,
        "args": {
            "bytes": int(played.num_bytes[row]),
            "protocol": played.plan.protocol,
            "step": int(rows.step[row]),
            "chunk": int(rows.chunk[row]),
            "channel": int(rows.channel[row]),
            "op": op,
            "from": src,
            "to": dst,
            "landed_us": round(played.landed_s[row] * 1e9) / 1e3,
            "example_value": int(played.sent[row]),
        },
    }


def _process(process: int, title: str, tracks: Iterable[_Track]) -> list[Event]:
    """A named group of tracks: metadata first, then the events row by row."""
    events: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": process, "args": {"name": title}},
        {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}},
    ]
    thread = 0
    for track in tracks:
        for number, row in enumerate(track.rows()):
            thread += 1
            name = track.name if number == 0 else f"{track.name} ({number + 1})"
            place = {"pid": process, "tid": thread}
            events.append({"ph": "M", "name": "thread_name", **place, "args": {"name": name}})
            events.append({"ph": "M", "name": "thread_sort_index", **place, "args": {"sort_index": thread}})
            for begin, end, event in row:
                events.append({"ph": "X", "ts": begin / 1e3, "dur": (end - begin) / 1e3, **place, **event})
    return events
