"""Where a topology's parts lie in a drawing, in pixels: boxes in boxes, as containment has them.

A device that holds others is a box with a bar at its bottom, which is the device itself; what it holds stands in a
row above the bar. Hosts are packed into rows, with room above each row for links between devices.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from topo.containment import Containment, containment
from topo.topology import Device, DeviceKind, Topology
from topo.writers.hosts import idle_ids
from topo.writers.text import alike, describe, span

LEAF_WIDTH, LEAF_HEIGHT = 70, 50
BAR_HEIGHT = 20
LINE_GAP = 20
"""Between a row of devices and the bar below it: the room for their PCIe links."""

PAD, GAP = 7, 8
MARGIN = 28
HEADLINE = 46
ROW_GAP = 26
LEAST_ROW_WIDTH = 1560
_ASPECT = 2.2
"""Hosts are packed into rows so that, links aside, the whole is about this much wider than high."""

MAX_LOOSE = 24
"""More devices than this that hang on nothing and differ in their number alone are drawn as one."""

LABEL_HEIGHT = 18
CHARACTER_WIDTH = 6.1
"""Of the drawing's text at its usual size, on average: a drawing knows no font's metrics."""

HUB_KINDS: tuple[DeviceKind, ...] = ("nvswitch", "net_switch")


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of one device (several alike ones are drawn as one), or of a host; `bar_y` is None for leaves."""

    devices: tuple[Device, ...]
    label: str
    x: float
    y: float
    width: float
    height: float
    depth: int
    bar_y: float | None = None

    @property
    def middle(self) -> float:
        """The x of its centre."""
        return self.x + self.width / 2

    @property
    def top(self) -> float:
        """The y at which links from above arrive: the bar's where there is one."""
        return self.y if self.bar_y is None else self.bar_y

    @property
    def bottom(self) -> float:
        """The y at which links from below arrive."""
        return self.y + self.height


@dataclass(frozen=True, slots=True)
class Row:
    """A row of hosts: its boxes from the outside in, and the y from which on links have room above them."""

    boxes: tuple[Box, ...]
    top: float
    bottom: float
    right: float


@dataclass(frozen=True, slots=True)
class _Block:
    """A box before it has a place: its size, and its children with their offsets in it."""

    devices: tuple[Device, ...]
    label: str
    width: float
    height: float
    children: tuple[tuple[float, float, _Block], ...] = ()
    has_bar: bool = False

    def placed(self, x: float, y: float, depth: int) -> Iterator[Box]:
        """The boxes of this block and all in it, outer ones first."""
        bar_y = y + self.height - BAR_HEIGHT if self.has_bar else None
        yield Box(self.devices, self.label, x, y, self.width, self.height, depth, bar_y)
        for dx, dy, child in self.children:
            yield from child.placed(x + dx, y + dy, depth + 1)


def hosts_of(topology: Topology, room_below: float) -> list[_Block]:
    """Every host as a block, in order; hubs (NVSwitches, network switches) belong to none.

    `room_below` is kept free in each host for links between its NUMA nodes.
    """
    tree, idle = containment(topology), idle_ids(topology)
    roots: dict[str | None, list[Device]] = {}
    for device in (topology.device(root) for root in tree.roots):
        if device.kind not in (*HUB_KINDS, "host_memory"):
            roots.setdefault(device.host, []).append(device)
    return [
        _host(
            host or "",
            [_block(topology, tree, group, idle) for group in alike(devices, tree, MAX_LOOSE, idle)],
            room_below,
            len(roots) > 1,
        )
        for host, devices in roots.items()
    ]


def packed(hosts: Sequence[_Block]) -> list[list[_Block]]:
    """The hosts by rows, in order: as many in each as make the whole about `_ASPECT` times wider than high."""
    area = sum((host.width + 2 * GAP) * (host.height + ROW_GAP) for host in hosts)
    row_width = max(LEAST_ROW_WIDTH, math.sqrt(_ASPECT * area))
    rows: list[list[_Block]] = []
    width = math.inf
    for host in hosts:
        width += host.width + 2 * GAP
        if width > row_width:
            rows.append([])
            width = host.width + 2 * GAP
        rows[-1].append(host)
    return rows


def rows_of(by_row: Sequence[Sequence[_Block]], rooms_above: Sequence[float]) -> list[Row]:
    """The rows with their places; `rooms_above` is what each keeps free above its boxes for links."""
    rows, y = [], float(HEADLINE)
    for hosts, room in zip(by_row, rooms_above, strict=True):
        boxes: list[Box] = []
        x = float(MARGIN)
        for host in hosts:
            boxes.extend(host.placed(x, y + room, 0))
            x += host.width + 2 * GAP
        bottom = y + room + max(host.height for host in hosts)
        rows.append(Row(tuple(boxes), y, bottom, x - 2 * GAP))
        y = bottom + ROW_GAP
    return rows


def boxes_by_id(rows: Sequence[Row]) -> Mapping[str, Box]:
    """Each drawn device's box, by its id; devices drawn as one share theirs."""
    return {device.id: box for row in rows for box in row.boxes for device in box.devices}


def shown_name(device: Device) -> str:
    """A device's name without what its surroundings say already: its host, and what holds a switch or a card."""
    if device.kind in ("pcie_switch", "host_bridge", "nic_card"):
        return device.name.rsplit("/", 1)[-1]
    return device.name.removeprefix(f"{device.host}/") if device.host else device.name


def _host(name: str, blocks: Sequence[_Block], room_below: float, has_frame: bool) -> _Block:
    pad = PAD if has_frame else 0
    bottom = max(room_below, LABEL_HEIGHT if has_frame else 0)
    children, width, height = _side_by_side(blocks, pad)
    return _Block((), name if has_frame else "", width, height + bottom + pad, children)


def _block(topology: Topology, tree: Containment, group: Sequence[Device], idle: Collection[str]) -> _Block:
    """One device with all it holds, or several alike ones as a single leaf."""
    if len(group) > 1:
        name = span([shown_name(device) for device in group])
        label = f"{len(group)} x"
        return _Block(tuple(group), f"{name}\n{label}", max(LEAF_WIDTH, len(name) * CHARACTER_WIDTH + GAP), LEAF_HEIGHT)
    device = group[0]
    below = [d for child in tree.children.get(device.id, ()) if _is_drawn(d := topology.device(child))]
    held = [_block(topology, tree, alike_ones, idle) for alike_ones in alike(below, tree, idle=idle)]
    is_leaf = not held and device.kind not in ("cpu", "pcie_switch", "host_bridge")
    if is_leaf:
        return _Block((device,), shown_name(device), LEAF_WIDTH, LEAF_HEIGHT)
    label = describe(device) if device.kind == "cpu" else shown_name(device)
    children, width, height = _side_by_side(held, PAD)
    width = max(width, min(len(label) * CHARACTER_WIDTH + 2 * PAD, 3 * LEAF_WIDTH))
    return _Block((device,), label, width, height + (LINE_GAP if held else 0) + BAR_HEIGHT, children, has_bar=True)


def _is_drawn(device: Device) -> bool:
    """Memory belongs to its NUMA node and would only repeat it."""
    return device.kind != "host_memory"


def _side_by_side(blocks: Sequence[_Block], pad: float) -> tuple[tuple[tuple[float, float, _Block], ...], float, float]:
    """The blocks in a row that ends in one line at the bottom, with their offsets; then the row's width and height."""
    height = max((block.height for block in blocks), default=0.0)
    x, placed = float(pad), []
    for block in blocks:
        placed.append((x, pad + height - block.height, block))
        x += block.width + GAP
    return tuple(placed), (x - GAP if blocks else x) + pad, height + (pad if blocks else 0)
