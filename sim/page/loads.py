"""How loaded each link is over a run, as a short text that a drawing reads: one character per stretch of time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim.engines.indexing import ragged
from sim.playback import Playback

Floats = npt.NDArray[np.float64]

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""A load of nothing to a full link, in 61 steps."""


def link_loads(played: Playback, num_bins: int) -> dict[int, Floats]:
    """The share of each link's effective rate that is in use in each of `num_bins` equal stretches of the run.

    By number of the link in the network. A transfer's bytes are spread evenly over the time in which it was sent.
    """
    routes = played.ways.routes
    lengths = np.diff(routes.first)[played.ways.route]
    row = np.repeat(np.arange(len(played.rows)), lengths)
    link = routes.links[ragged(routes.first, played.ways.route)]
    edges = np.linspace(0.0, played.run.duration_s or 1.0, num_bins + 1)
    order = np.argsort(link, kind="stable")
    found: dict[int, Floats] = {}
    starts = np.flatnonzero(np.diff(link[order], prepend=-1))
    for rows in np.split(row[order], starts[1:]) if len(row) else []:
        number = int(link[order][starts[len(found)]])
        carried = np.diff(_carried_by(played, rows, edges))
        found[number] = carried / (np.diff(edges) * played.network.bandwidth_bytes_per_s[number])
    return found


def as_digits(load: Floats) -> str:
    """A load over time as text."""
    levels = np.rint(np.clip(load, 0, 1) * (len(DIGITS) - 1)).astype(int)
    return "".join(DIGITS[level] for level in levels.tolist())


def _carried_by(played: Playback, rows: npt.NDArray[np.integer], edges: Floats) -> Floats:
    """Bytes that these rows have sent by each of the times."""
    begin, end = played.start_s[rows], played.sent_s[rows]
    num_bytes = played.num_bytes[rows].astype(np.float64)
    took = end > begin
    begin, end, num_bytes = begin[took], end[took], num_bytes[took]
    rate = num_bytes / (end - begin)
    when = np.concatenate([begin, end])
    order = np.argsort(when, kind="stable")
    when = when[order]
    speed = np.cumsum(np.concatenate([rate, -rate])[order])
    total = np.concatenate([[0.0], np.cumsum(speed[:-1] * np.diff(when))])
    done: Floats = np.interp(edges, when, total) if len(when) else np.zeros(len(edges))
    return done
