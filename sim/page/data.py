"""What the page's script plays: one run as plain lists, times in microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sim.page.loads import as_digits, link_loads
from sim.page.phases import phases
from sim.playback import Playback

MOST_DRAWN = 16_384
"""Transfers of a run that the page moves; of more it follows the chunks of the first channels."""

MOST_SLOTS = 32_768
"""Slots (agent and chunk) whose values the page shows."""

BINS, FEWER_BINS, MANY_LINKS = 480, 240, 100
_DIGITS = 8


def followed_chunks(played: Playback) -> list[int]:
    """The chunks that the page follows: all, or as many as it can draw, those of the first channels first."""
    chunks = played.chunks_in_order()
    rows_of = np.bincount(played.rows.chunk, minlength=played.schedule.num_chunks)
    fits = np.cumsum(rows_of[chunks]) <= MOST_DRAWN
    fits &= np.arange(1, len(chunks) + 1) * played.schedule.num_agents <= MOST_SLOTS
    fits[:1] = True
    return sorted(chunks[fits].tolist())


def run_data(played: Playback, stroke_of: Mapping[str, str]) -> dict[str, Any]:
    """One run for the page's script; `stroke_of` says which stroke of the drawing shows a link."""
    chunks = followed_chunks(played)
    number = np.full(played.schedule.num_chunks, -1)
    number[chunks] = np.arange(len(chunks))
    kept = np.flatnonzero(number[played.rows.chunk] >= 0)
    ids = played.link_ids()
    place = {link: index for index, link in enumerate(ids)}
    routes, route_of = _routes(played, kept, place)
    rows = played.rows
    return {
        "duration_us": _micro(played.run.duration_s),
        "first_us": _micro(float(played.start_s.min(initial=0.0))),
        "num_steps": int(rows.step.max(initial=-1)) + 1,
        "num_chunks": len(chunks),
        "agents": list(played.names),
        "agent_ids": list(played.agents),
        "begin": played.start[:, chunks].ravel().tolist(),
        "total": played.total[chunks].tolist(),
        "wanted": _wanted(played, chunks),
        "phases": [
            {
                "op": phase.op,
                "name": phase.name,
                "action": phase.action,
                "start_us": _micro(phase.start_s),
                "end_us": _micro(phase.end_s),
            }
            for phase in phases(played)
        ],
        "links": _links(played, ids, stroke_of),
        "routes": routes,
        "rows": {
            "step": rows.step[kept].tolist(),
            "src": rows.src[kept].tolist(),
            "dst": rows.dst[kept].tolist(),
            "chunk": number[rows.chunk[kept]].tolist(),
            "op": rows.op[kept].tolist(),
            "route": route_of,
            "value": played.sent[kept].tolist(),
            "start": [_micro(value) for value in played.start_s[kept].tolist()],
            "sent": [_micro(value) for value in played.sent_s[kept].tolist()],
            "landed": [_micro(value) for value in played.landed_s[kept].tolist()],
        },
    }


def _micro(seconds: float) -> float:
    """Microseconds with as many digits as a drawing can use."""
    return float(f"{seconds * 1e6:.{_DIGITS}g}")


def _wanted(played: Playback, chunks: list[int]) -> str:
    """1 for each slot (agent and chunk) that must hold the result in the end, else 0; helpers need none."""
    marks = np.zeros((played.schedule.num_agents, len(chunks)), dtype=np.uint8)
    marks[: played.schedule.num_ranks] = played.wanted[:, chunks]
    return "".join(map(str, marks.ravel().tolist()))


def _routes(played: Playback, kept: np.ndarray, place: Mapping[int, int]) -> tuple[list[list[int]], list[int]]:
    """The distinct routes of these rows as places of links, and which of them each row takes."""
    numbers, route_of = np.unique(played.ways.route[kept], return_inverse=True)
    first, links = played.ways.routes.first, played.ways.routes.links
    routes = [[place[link] for link in links[first[route] : first[route + 1]].tolist()] for route in numbers.tolist()]
    return routes, route_of.tolist()


def _links(played: Playback, ids: Mapping[int, str], stroke_of: Mapping[str, str]) -> list[dict[str, Any]]:
    loads = link_loads(played, FEWER_BINS if len(ids) > MANY_LINKS else BINS)
    nothing = np.zeros(1)
    return [
        {
            "id": name,
            "stroke": stroke_of.get(name),
            "mean": round(float(loads.get(link, nothing).mean()), 4),
            "load": as_digits(loads.get(link, nothing)),
        }
        for link, name in ids.items()
    ]
