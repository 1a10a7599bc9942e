"""How a topology's links run in a drawing: one stroke per connection, both directions together where they are equal.

A link of the containment tree goes straight down to its parent's bar. Links to an NVSwitch (or to a network switch
that GPUs hang on) go up to a bar above the row; links between devices of a row are arcs above it, links between NUMA
nodes below it. A NIC's link to the network ends in a stub, and the NIC's box names the switch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from topo.topology import Device, Link, Topology
from topo.writers.svg_layout import BAR_HEIGHT, HUB_KINDS, MARGIN, Box, Row, boxes_by_id

NEVER_LIMITS_BYTES_PER_S = 1e12
"""From this rate on a local link only says that parts belong together: it is drawn thin, and without its rate."""

STUB = 9
TRUNK_X = MARGIN - 18
HUB_GAP = 14.0
"""Between the bar of a hub and what is below it."""

_FLATTEST, _STEEPEST = 30.0, 220.0


@dataclass(frozen=True, slots=True)
class Connection:
    """Both directions between two devices by one kind of link; `back` is None where the source states only one."""

    link: Link
    back: Link | None

    @property
    def is_even(self) -> bool:
        """Whether both directions are equal in rate and state."""
        there, back = self.link, self.back
        return back is not None and (there.bandwidth_bytes_per_s, there.state) == (
            back.bandwidth_bytes_per_s,
            back.state,
        )


@dataclass(frozen=True, slots=True)
class Path:
    """The `d` of an SVG path, and a point on it where a label may stand."""

    d: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Stroke:
    """A drawn connection, and whether it is down, uneven, or slower than those of its like."""

    connection: Connection
    path: Path
    is_bad: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """A hub as it is drawn above one row: a bar to which that row's members go up."""

    hub: Device
    x: float
    y: float
    width: float


def connections(topology: Topology) -> list[Connection]:
    """The links in pairs, in the topology's order."""
    by_ends = {(link.src, link.dst, link.kind): link for link in topology.links}
    found, taken = [], set()
    for (src, dst, kind), link in by_ends.items():
        if (src, dst, kind) not in taken:
            taken.add((dst, src, kind))
            found.append(Connection(link, by_ends.get((dst, src, kind))))
    return found


def bad_ones(topology: Topology, pairs: Sequence[Connection]) -> list[bool]:
    """Which connections are down, uneven, or slower than most links of GPUs of the same model to such a device."""
    kinds = {device.id: (device.kind, device.model) for device in topology.devices}
    like = [(kinds[pair.link.src], kinds[pair.link.dst][0], pair.link.kind) for pair in pairs]
    rates: dict[object, Counter[float]] = {}
    for key, pair in zip(like, pairs, strict=True):
        rates.setdefault(key, Counter())[pair.link.bandwidth_bytes_per_s] += 1
    found = []
    for key, pair in zip(like, pairs, strict=True):
        usual, count = rates[key].most_common(1)[0]
        comparable = key[0][0] == "gpu" and key[1] != "gpu" and count > rates[key].total() / 2
        slow = comparable and pair.link.bandwidth_bytes_per_s < usual
        found.append(slow or not pair.is_even or pair.link.state == "inactive")
    return found


def stroke_width(link: Link) -> float:
    """The width in pixels: half the root of GB/s, so that 16 GB/s are 2 wide, 450 GB/s 11 and 900 GB/s 15."""
    if link.kind == "local" and link.bandwidth_bytes_per_s >= NEVER_LIMITS_BYTES_PER_S:
        return 1.0
    return min(max(0.5 * math.sqrt(link.bandwidth_bytes_per_s / 1e9), 1.0), 16.0)


class Wires:
    """The strokes of a topology whose boxes have their places."""

    def __init__(self, topology: Topology, up_links: Mapping[str, Link], hub_gap: float = HUB_GAP) -> None:
        self.pairs = connections(topology)
        self._topology = topology
        self._bar_pitch = BAR_HEIGHT + hub_gap
        self._tree = {(link.src, link.dst, link.kind) for link in up_links.values()}
        self._hubs = {device.id: device for device in topology.of_kind(*HUB_KINDS)}
        self.bar_hubs = tuple(hub for hub in self._hubs.values() if self._has_gpus(hub))

    def _has_gpus(self, hub: Device) -> bool:
        members = [link.src for link in self._topology.links if link.dst == hub.id]
        return any(self._topology.device(member).kind not in (*HUB_KINDS, "nic") for member in members)

    def members(self, hub: Device) -> list[Link]:
        """The links that lead to a hub from what is none."""
        return [link for link in self._topology.links if link.dst == hub.id and link.src not in self._hubs]

    def rooms_above(self, rows: Sequence[Row]) -> list[float]:
        """How much room arcs and bars need above each row, given where its boxes lie."""
        return [self._room_above(row) for row in rows]

    def _room_above(self, row: Row) -> float:
        boxes = boxes_by_id([row])
        arcs = [
            _arc_height(abs(boxes[pair.link.src].middle - boxes[pair.link.dst].middle))
            for pair in self.pairs
            if self._is_arc(pair, boxes)
        ]
        num_bars = len(self._bar_hubs_of(boxes))
        return (0.75 * max(arcs) + 10 if arcs else 0.0) + num_bars * self._bar_pitch + (0 if arcs or num_bars else STUB)

    def _bar_hubs_of(self, boxes: Mapping[str, Box]) -> list[Device]:
        return [hub for hub in self.bar_hubs if any(link.src in boxes for link in self.members(hub))]

    def _is_arc(self, pair: Connection, boxes: Mapping[str, Box]) -> bool:
        src, dst = pair.link.src, pair.link.dst
        kinds = {self._topology.device(end).kind for end in (src, dst)}
        if (src, dst, pair.link.kind) in self._tree or (dst, src, pair.link.kind) in self._tree or kinds == {"cpu"}:
            return False
        return src in boxes and dst in boxes and boxes[src] != boxes[dst] and not _holds(boxes, src, dst)

    def bars(self, rows: Sequence[Row]) -> list[Bar]:
        """The bars of all hubs, row by row; those of a hub above several rows begin where their trunk is."""
        by_row = [boxes_by_id([row]) for row in rows]
        num_rows = Counter(hub.id for boxes in by_row for hub in self._bar_hubs_of(boxes))
        found = []
        for row, boxes in zip(rows, by_row, strict=True):
            for place, hub in enumerate(self._bar_hubs_of(boxes)):
                ends = [boxes[link.src] for link in self.members(hub) if link.src in boxes]
                left = TRUNK_X if num_rows[hub.id] > 1 else min(box.x for box in ends)
                right = max(box.x + box.width for box in ends)
                found.append(Bar(hub, left, row.top + place * self._bar_pitch, right - left))
        return found

    def strokes(self, rows: Sequence[Row], bars: Sequence[Bar]) -> list[Stroke]:
        """Every connection that has both ends in the drawing; alike devices that are drawn as one share a stroke."""
        boxes, ports = boxes_by_id(rows), {}
        for row in rows:
            ports.update(self._ports(boxes_by_id([row])))
        found, drawn = [], set()
        for pair, is_bad in zip(self.pairs, bad_ones(self._topology, self.pairs), strict=True):
            path = self._path(pair, boxes, ports, bars)
            if path is not None and (path, pair.link.kind) not in drawn:
                drawn.add((path, pair.link.kind))
                found.append(Stroke(pair, path, is_bad))
        return found

    def _ports(self, boxes: Mapping[str, Box]) -> dict[tuple[str, Connection], float]:
        """The x at which each arc leaves its two devices: nearest peers outermost, so that few arcs cross."""
        leaving: dict[str, list[tuple[float, Connection]]] = {}
        for pair in self.pairs:
            if self._is_arc(pair, boxes):
                for near, far in ((pair.link.src, pair.link.dst), (pair.link.dst, pair.link.src)):
                    leaving.setdefault(near, []).append((boxes[far].middle - boxes[near].middle, pair))
        ports = {}
        for device_id, arcs in leaving.items():
            # To the left from the nearest to the farthest, then to the right from the farthest to the nearest.
            arcs.sort(key=lambda arc: (arc[0] > 0, -arc[0]))
            box, pitch = boxes[device_id], (boxes[device_id].width - 16) / max(len(arcs), 4)
            for place, (_, pair) in enumerate(arcs):
                ports[device_id, pair] = box.middle + (place - (len(arcs) - 1) / 2) * pitch
        return ports

    def _path(
        self,
        pair: Connection,
        boxes: Mapping[str, Box],
        ports: Mapping[tuple[str, Connection], float],
        bars: Sequence[Bar],
    ) -> Path | None:
        src, dst = pair.link.src, pair.link.dst
        if src in self._hubs or dst in self._hubs:
            hub, end = (src, dst) if src in self._hubs else (dst, src)
            return self._to_hub(hub, end, boxes, bars)
        if src not in boxes or dst not in boxes or boxes[src] == boxes[dst]:
            return None
        kinds = {self._topology.device(end).kind for end in (src, dst)}
        if kinds == {"cpu"}:
            return self._below(src, dst, boxes)
        for child, parent in ((src, dst), (dst, src)):
            if _holds(boxes, child, parent):
                beside = 8.0 if (child, parent, pair.link.kind) not in self._tree else 0.0
                return _vertical(boxes[child].middle + beside, boxes[child].bottom, boxes[parent].top)
        if (src, pair) in ports:
            x1, x2 = ports[src, pair], ports[dst, pair]
            height = _arc_height(abs(boxes[src].middle - boxes[dst].middle))
            return _curve(x1, boxes[src].y, x2, boxes[dst].y, height)
        return _straight(boxes[src], boxes[dst])

    def _below(self, one: str, other: str, boxes: Mapping[str, Box]) -> Path:
        """A curve below two NUMA nodes of a host, the deeper the more others lie between them."""
        left, right = sorted((boxes[one], boxes[other]), key=lambda box: box.middle)
        cpus = [
            boxes[cpu.id].middle
            for cpu in self._topology.of_kind("cpu")
            if cpu.id in boxes and boxes[cpu.id].bottom == left.bottom
        ]
        apart = max(1, sum(left.middle < x <= right.middle for x in cpus))
        out = min(60.0, left.width / 4) / apart
        return _curve(left.middle + out, left.bottom, right.middle - out, right.bottom, -_depth(apart))

    def _to_hub(self, hub: str, end: str, boxes: Mapping[str, Box], bars: Sequence[Bar]) -> Path | None:
        if end not in boxes:
            return None
        box = boxes[end]
        above = [bar for bar in bars if bar.hub.id == hub and bar.y < box.y]
        if above:
            return _vertical(box.middle, box.y, above[-1].y + BAR_HEIGHT)
        return _vertical(box.middle, box.y, box.y - STUB)

    def network_switches(self) -> tuple[list[Device], list[Device]]:
        """Network switches that are no bars: those that NICs hang on, and those that only join switches."""
        switches = [hub for hub in self._hubs.values() if hub not in self.bar_hubs]
        return (
            [switch for switch in switches if self.members(switch)],
            [switch for switch in switches if not self.members(switch)],
        )

    def uplinks(self) -> Mapping[str, str]:
        """The name of the network switch that each NIC's cable leads to, by the NIC's id."""
        leaves, _ = self.network_switches()
        return {link.src: leaf.name for leaf in leaves for link in self.members(leaf)}

    def all_strokes(self) -> list[Stroke]:
        """Every connection without its path, drawn or not; not those to a NUMA node's memory."""
        memory = {device.id for device in self._topology.of_kind("host_memory")}
        return [
            Stroke(pair, Path("", 0, 0), is_bad)
            for pair, is_bad in zip(self.pairs, bad_ones(self._topology, self.pairs), strict=True)
            if memory.isdisjoint((pair.link.src, pair.link.dst))
        ]

    def between_switches(self) -> list[Stroke]:
        """The connections between network switches that are no bars, without paths."""
        switches = {switch.id for kind in self.network_switches() for switch in kind}
        return [
            Stroke(pair, Path("", 0, 0), not pair.is_even or pair.link.state == "inactive")
            for pair in self.pairs
            if {pair.link.src, pair.link.dst} <= switches
        ]


def trunks(bars: Sequence[Bar]) -> Iterator[tuple[Device, str]]:
    """The lines at the left that make one hub of the bars it has above several rows."""
    for hub in dict.fromkeys(bar.hub for bar in bars):
        own = [bar for bar in bars if bar.hub == hub]
        if len(own) > 1:
            x, middle = own[0].x + 6, BAR_HEIGHT / 2
            yield hub, f"M{x:.1f} {own[0].y + middle:.1f}V{own[-1].y + middle:.1f}"


def _holds(boxes: Mapping[str, Box], inner: str, outer: str) -> bool:
    """Whether one device's box lies in another's."""
    a, b = boxes[inner], boxes[outer]
    inside = b.x <= a.x and a.x + a.width <= b.x + b.width and b.y <= a.y and a.bottom <= b.bottom
    return inside and b.bar_y is not None and a != b


def _vertical(x: float, y1: float, y2: float) -> Path:
    return Path(f"M{x:.1f} {y1:.1f}V{y2:.1f}", x, (y1 + y2) / 2)


def _straight(one: Box, other: Box) -> Path:
    path = f"M{one.middle:.1f} {one.y:.1f}L{other.middle:.1f} {other.y:.1f}"
    return Path(path, (one.middle + other.middle) / 2, (one.y + other.y) / 2)


def _curve(x1: float, y1: float, x2: float, y2: float, rise: float) -> Path:
    """From one point to the other, bulging up (or down, where `rise` is negative) by three quarters of `rise`."""
    path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 - rise:.1f} {x2:.1f} {y2 - rise:.1f} {x2:.1f} {y2:.1f}"
    return Path(path, (x1 + x2) / 2, (y1 + y2) / 2 - 0.75 * rise)


def _arc_height(distance: float) -> float:
    return min(_FLATTEST + 0.18 * distance, _STEEPEST)


def _depth(apart: int) -> float:
    """How far below it a curve's control points lie; it reaches three quarters of that."""
    return 6.0 + 14.0 * apart


def room_below(topology: Topology) -> float:
    """How much room the curves between NUMA nodes need below those of a host."""
    if not any(link.kind == "cpu" for link in topology.links):
        return 0.0
    return 0.75 * _depth(max(Counter(cpu.host for cpu in topology.of_kind("cpu")).values()) - 1) + 10
