"""Rows, links and connections that cannot be told apart, folded onto one of each: colour refinement.

Two rows share a class if they cost the same, stand in the same step of their block, belong to agents that start at the
same time, and agree in the classes of the links that they cross, of the rows they wait for and of the rows they share a
connection with; two links if they have one capacity and are crossed by the same classes of rows. Refined until nothing
changes, all rows of a class have the same times in every period, so that one of them is enough. Symmetry is checked on
the rows as they are: a slow link splits exactly the rows that it reaches.

Stopped after fewer rounds the classes are coarser: rows agree in what happens near them, not far away. Their times are
then nearly the same, and a double binary tree of a thousand ranks has dozens of classes, not thousands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.engines.indexing import Ints, ascending, distinct, offsets, ragged
from sim.engines.network import Network, routing
from sim.engines.periods import NOTHING, Period, Sources
from sim.engines.routes import Routes
from sim.schedule import COLUMNS, Rows

Colours = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

MOST_ROUNDS = 64
"""Rounds of refinement after which rows stay as they are: a gradient along a ring needs one round per rank."""
MOST_EXACT = 512
"""Classes up to which an exact partition is taken even where few are wanted."""


@dataclass(frozen=True, eq=False)
class Folded:
    """Classes of rows, connections and links.

    Row i (counted through all blocks) is of class `of_row[i]`, of which `leader[c]` is one. Class c runs on connection
    class `connection[c]` and crosses the link classes of route c in `routes`, whose weights say how many rows of the
    class share such a link. Link l of the network is of class `of_link[l]`, -1 if no row crosses it; `capacity[k]` is
    the rate of class k.
    """

    of_row: Ints
    leader: Ints
    connection: Ints
    routes: Routes
    of_link: Ints
    capacity: Floats

    @property
    def num_classes(self) -> int:
        """How many classes of rows there are."""
        return len(self.leader)


def fold(periods: Sequence[Period], network: Network, few: int | None = None) -> Folded:
    """The coarsest classes of the rows of all blocks on a network.

    With `few`, where these are more than MOST_EXACT: those after as many rounds as keep to `few`, but after one.
    """
    rows = Rows(*(np.concatenate([getattr(period.rows, name) for period in periods]) for name in COLUMNS))
    ways = routing(network, rows)
    entries = ragged(ways.routes.first, ways.route)
    links, link_of_entry = distinct(ways.routes.links[entries].astype(np.int64))
    weight = None if ways.routes.weight is None else ways.routes.weight[entries]
    entry_first = offsets(np.diff(ways.routes.first)[ways.route])
    capacity = network.bandwidth_bytes_per_s[links]
    latency_s = ways.routes.latency_s[ways.route]
    connection = _connections(rows)
    block = np.repeat(np.arange(len(periods)), [len(period.rows) for period in periods])
    row = _mix(_mix(_bits(block), _bits(rows.step)), _bits(latency_s))
    if network.start_s is not None:
        row = _mix(_mix(row, _bits(network.start_s[rows.src])), _bits(network.start_s[rows.dst]))
    shape = _Shape(periods, connection, entry_first, link_of_entry, weight)
    of_row, leader, colours = _refine(row, _mix(_bits(capacity), np.uint64(1)), shape, few)
    _, connection_class = distinct_colours(colours.connection)
    link_leader, link_class = distinct_colours(colours.link)
    of_link = np.full(len(network.bandwidth_bytes_per_s), NOTHING, dtype=np.int64)
    of_link[links] = link_class
    entry_class = np.repeat(of_row, np.diff(entry_first))
    routes = _class_routes(entry_class, link_class[link_of_entry], link_class, latency_s[leader], weight)
    return Folded(of_row, leader, connection_class[connection[leader]], routes, of_link, capacity[link_leader])


def _connections(rows: Rows) -> Ints:
    """A number for each (source, destination, channel)."""
    width = int(rows.dst.max()) + 1
    channels = int(rows.channel.max()) + 1
    _, number = distinct((rows.src.astype(np.int64) * width + rows.dst) * channels + rows.channel)
    return number.astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Shape:
    """What hangs together: blocks with what their rows wait for, connections, and what each row crosses."""

    periods: Sequence[Period]
    connection: Ints
    entry_first: npt.NDArray[np.int32]
    entry_link: npt.NDArray[np.int32]
    entry_weight: Floats | None

    def weighed(self, entries: Colours) -> Colours:
        """Colours of crossings, told apart by what these weigh."""
        return entries if self.entry_weight is None else _mix(entries, _bits(self.entry_weight))


@dataclass(frozen=True, eq=False)
class _Colours:
    """Present colours of rows, links and connections."""

    row: Colours
    link: Colours
    connection: Colours


def _refine(row: Colours, link: Colours, shape: _Shape, few: int | None) -> tuple[Ints, Ints, _Colours]:
    """Class of each row, one row of each class, and the colours behind them.

    With `few` the search ends beyond MOST_EXACT classes, and gives the finest partition of at most `few`.
    """
    coarse: tuple[Ints, Ints, _Colours] | None = None
    count = 0
    for done in range(MOST_ROUNDS):
        colours = _around(row, link, shape)
        leader, of_row = distinct_colours(row)
        if len(leader) == count:
            return of_row, leader, colours
        count = len(leader)
        if done <= 1 or (few is not None and count <= few):
            coarse = of_row, leader, colours
        if few is not None and count > MOST_EXACT and coarse is not None:
            return coarse
        row = _next(row, colours, shape)
    if few is not None and coarse is not None:
        return coarse
    everyone = np.arange(len(row))
    return everyone, everyone, _around(_mix(row, _bits(everyone)), link, shape)


def distinct_colours(colour: Colours) -> tuple[Ints, Ints]:
    """One place of each colour, and for each place the number of its colour."""
    values = ascending(colour)
    number = np.searchsorted(values, colour)
    leader = np.empty(len(values), dtype=np.int64)
    # Of several places of one colour the last that is assigned stays: the first.
    leader[number[::-1]] = np.arange(len(colour) - 1, -1, -1)
    return leader, number


def _around(row: Colours, link: Colours, shape: _Shape) -> _Colours:
    """Colours of links and connections by the rows that cross them."""
    spread = _mix(row, np.uint64(0x9E3779B97F4A7C15))
    crossing = shape.weighed(np.repeat(spread, np.diff(shape.entry_first)))
    on_link = _sums(shape.entry_link, crossing, len(link))
    on_connection = _sums(shape.connection, spread, int(shape.connection.max(initial=-1)) + 1)
    return _Colours(row, _mix(link, on_link), on_connection)


def _next(row: Colours, colours: _Colours, shape: _Shape) -> Colours:
    """Colours of rows by the links, connections and rows around them."""
    of_links = shape.weighed(_mix(colours.link, np.uint64(3))[shape.entry_link])
    entries = np.repeat(np.arange(len(row)), np.diff(shape.entry_first))
    new = _mix(_mix(row, _sums(entries, of_links, len(row))), colours.connection[shape.connection])
    for period in shape.periods:
        here = period.numbers
        for waits in period.waits:
            for sources in (waits.start, waits.land):
                new[here] = _mix(new[here], _of_sources(row, sources, len(here)))
    return new


def _of_sources(row: Colours, sources: Sources, num_rows: int) -> Colours:
    """A colour for what each row waits for."""
    if not len(sources.lag):
        return np.zeros(num_rows, dtype=np.uint64)
    spread = _mix(row, np.uint64(0xA0761D6478BD642F))
    group = np.add.reduceat(spread[sources.rows], sources.first[:-1].astype(np.intp))
    when = np.where(sources.outside, sources.period, sources.lag) * 4 + sources.outside * 2 + sources.sent + 1
    group = _mix(group, _bits(when))
    return np.where(sources.of_row == NOTHING, np.uint64(0), group[sources.of_row])


def _class_routes(
    entry_class: Ints, entry_link_class: Ints, link_class: Ints, latency_s: Floats, entry_weight: Floats | None
) -> Routes:
    """The link classes that each class crosses, weighted by how many of its rows cross one link of that class."""
    num_link_classes = int(link_class.max(initial=-1)) + 1
    pairs, which = distinct(entry_class * num_link_classes + entry_link_class)
    crossings = np.bincount(which, entry_weight, minlength=len(pairs))
    links = pairs % max(num_link_classes, 1)
    first = np.searchsorted(pairs, np.arange(len(latency_s) + 1) * num_link_classes).astype(np.int32)
    weight = crossings / np.bincount(link_class, minlength=num_link_classes)[links]
    return Routes(first, links.astype(np.int32), latency_s, weight)


def _sums(where: npt.NDArray[np.integer], values: Colours, length: int) -> Colours:
    """Sums modulo 2^64 of the values by place."""
    total = np.zeros(length, dtype=np.uint64)
    np.add.at(total, where, values)
    return total


def _bits(values: npt.NDArray[np.generic]) -> Colours:
    if values.dtype == np.float64:
        return np.ascontiguousarray(values).view(np.uint64)
    return values.astype(np.uint64)


def _mix(a: Colours, b: Colours | np.uint64) -> Colours:
    """A 64-bit hash of two (the finaliser of SplitMix64: Steele, Lea and Flood, 2014)."""
    x = a * np.uint64(0xD1342543DE82EF95) + b
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Colours = x ^ (x >> np.uint64(31))
    return mixed
