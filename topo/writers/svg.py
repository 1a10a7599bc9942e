"""A topology as an SVG picture: boxes for what contains what, lines as wide as their GB/s, red for what is degraded.

Every device and link is an element that scripts find: `id` is `device:ID` or `link:SRC->DST:KIND`, `data-id` the id
itself, `data-gb-per-s` a link's rate; its `title` says what it is. Colours follow the viewer's scheme, light or dark,
and widths, dashes and labels say the same without colour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from topo.containment import containment
from topo.topology import Device, Link, Topology
from topo.writers import svg_layout as layout
from topo.writers.hosts import NOT_TAKING_PART, idle_ids
from topo.writers.svg_layout import Box, Row
from topo.writers.svg_links import HUB_GAP, Bar, Stroke, Wires, room_below, stroke_width, trunks
from topo.writers.svg_style import STYLE
from topo.writers.svg_words import (
    attribute,
    escaped,
    identifier,
    kind_and_rate,
    link_class,
    notes,
    one_rate,
    rates,
    rectangle,
    stroke_class,
    title_of,
    words,
)
from topo.writers.text import LINK_TITLES, describe, headline

_LEAST_WIDTH = 480.0
_SWITCH_WIDTH, _SWITCH_HEIGHT = 96.0, 24.0
_LEGEND_COLUMN, _LEGEND_LINE = 280.0, 20.0
_NETWORK_ROWS_GAP = 24.0


def render(topology: Topology, *, hub_gap: float = HUB_GAP) -> str:
    """The picture as text: a headline, hosts with their devices, the network's switches, and a legend of the rates.

    `hub_gap` are the pixels of the links that lead up to an NVSwitch or to a switch that GPUs hang on.
    """
    wires = Wires(topology, containment(topology).up_link, hub_gap)
    by_row = layout.packed(layout.hosts_of(topology, room_below(topology)))
    rows = layout.rows_of(by_row, wires.rooms_above(layout.rows_of(by_row, [0.0] * len(by_row))))
    bars = wires.bars(rows)
    strokes = wires.strokes(rows, bars)
    picture = _Picture(max([_LEAST_WIDTH, *(row.right for row in rows)]), idle_ids(topology))
    picture.add_containers(rows)
    picture.add_strokes(strokes)
    picture.add_bars(bars, wires)
    picture.add_leaves(rows, wires.uplinks())
    bottom = max([layout.HEADLINE, *(row.bottom for row in rows)]) + layout.ROW_GAP
    bottom = picture.add_network(wires, bottom)
    bottom = picture.add_legend(wires.all_strokes(), bottom)
    return picture.text(topology, bottom)


@dataclass
class _Picture:
    """The elements so far; later ones lie on top. `right` is where the boxes end, `idle` are devices without a part."""

    right: float
    idle: frozenset[str] = frozenset()
    lines: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def text(self, topology: Topology, bottom: float) -> str:
        """The whole document."""
        width, height = f"{self.right + layout.MARGIN:.0f}", f"{bottom + layout.MARGIN / 2:.0f}"
        title = headline(topology)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escaped(title)}</title>",
            *([f"<desc>{escaped(' '.join(topology.remarks))}</desc>"] if topology.findings else []),
            f"<style>\n{STYLE}</style>",
            '<rect class="page" width="100%" height="100%"/>',
            words(title, layout.MARGIN, 27, "title", self.right - layout.MARGIN, 8.9),
        )
        return "\n".join([*head, *self.lines, "</svg>"]) + "\n"

    def add_containers(self, rows: Sequence[Row]) -> None:
        """Hosts, and devices that hold others, the outer ones first."""
        for box in (box for row in rows for box in row.boxes):
            if not box.devices and box.label:
                self._open("host", f"host:{box.label}", box.label, "", box.label)
                self.lines.append(rectangle(box.x, box.y, box.width, box.height, 8, "frame"))
                self.lines.append(words(box.label, box.x + 8, box.bottom - 8, "name", box.width - 16))
                self.lines.append("</g>")
            elif box.bar_y is not None:
                self._open_device(box.devices)
                self.lines.append(rectangle(box.x, box.y, box.width, box.height, 5, "box"))
                self.lines.append(rectangle(box.x, box.bar_y, box.width, layout.BAR_HEIGHT, 4, "bar"))
                self.lines.append(words(box.label, box.middle, box.bar_y + 14, "middle", box.width - 8))
                self.lines.append("</g>")

    def add_leaves(self, rows: Sequence[Row], uplinks: Mapping[str, str]) -> None:
        """Devices that hold nothing, with their name and what they are."""
        for box in (box for row in rows for box in row.boxes if box.devices and box.bar_y is None):
            self._open_device(box.devices)
            self.lines.append(rectangle(box.x, box.y, box.width, box.height, 5, "leaf"))
            device = box.devices[0]
            name, *rest = [*box.label.split("\n"), *notes(device, uplinks, device.id in self.idle)][:3]
            y = box.y + box.height / 2 + 4 - 6.5 * len(rest)
            self.lines.append(words(name, box.middle, y, "name middle", box.width - 6, 7.0))
            for number, note in enumerate(rest, start=1):
                self.lines.append(words(note, box.middle, y + 13 * number, "note middle", box.width - 6))
            self.lines.append("</g>")

    def add_strokes(self, strokes: Sequence[Stroke]) -> None:
        """All connections; those that are bad last, with their rate beside them."""
        for stroke in sorted(strokes, key=lambda stroke: stroke.is_bad):
            link, path = stroke.connection.link, stroke.path
            self._open_link(link, title_of(stroke))
            self.lines.append(
                f'<path class="{stroke_class(stroke)}" d="{path.d}" stroke-width="{stroke_width(link):.1f}"/>'
            )
            if stroke.is_bad:
                self.lines.append(words(rates(stroke), path.x + 7, path.y + 4, "alarm", 200))
            self.lines.append("</g>")

    def add_bars(self, bars: Sequence[Bar], wires: Wires) -> None:
        """Hubs above the rows, each with what joins it to its members."""
        for hub, path in trunks(bars):
            self.lines.append(
                f'<path class="link {link_class(wires.members(hub)[0].kind)}" d="{path}" stroke-width="8"/>'
            )
        for bar in bars:
            self._open_device((bar.hub,))
            self.lines.append(rectangle(bar.x, bar.y, bar.width, layout.BAR_HEIGHT, 4, "bar"))
            usual = Counter(one_rate(link) for link in wires.members(bar.hub)).most_common(1)[0][0]
            said = f"{describe(bar.hub)} {bar.hub.name}: {usual} to each, each way"
            self.lines.append(words(said, bar.x + bar.width / 2, bar.y + 14, "middle", bar.width - 8))
            self.lines.append("</g>")

    def add_network(self, wires: Wires, top: float) -> float:
        """The network's switches in rows below the hosts, those that join only switches below these; the next y."""
        leaves, spines = wires.network_switches()
        places, bottom = self._places_of_switches(leaves, spines, top)
        for stroke in wires.between_switches():
            link = stroke.connection.link
            upper, lower = sorted((places[link.src], places[link.dst]), key=lambda place: place.y)
            self._open_link(link, title_of(stroke))
            d = f"M{upper.x + _SWITCH_WIDTH / 2:.1f} {upper.y + upper.height:.1f}V{lower.y:.1f}"
            self.lines.append(f'<path class="{stroke_class(stroke)}" d="{d}" stroke-width="{stroke_width(link):.1f}"/>')
            self.lines.append("</g>")
        for switch in (*leaves, *spines):
            box = places[switch.id]
            self._open_device((switch,))
            self.lines.append(rectangle(box.x, box.y, box.width, box.height, 4, "bar"))
            self.lines.append(words(switch.name, box.middle, box.y + 15, "name middle", box.width - 8, 7.0))
            self.lines.append("</g>")
        return bottom

    def _places_of_switches(
        self, leaves: Sequence[Device], spines: Sequence[Device], top: float
    ) -> tuple[Mapping[str, Box], float]:
        places: dict[str, Box] = {}
        left = float(layout.MARGIN)
        x, y, pitch = left, top, _SWITCH_HEIGHT + _NETWORK_ROWS_GAP
        for leaf in leaves:
            if x > left and x + _SWITCH_WIDTH > self.right:
                x, y = left, y + pitch
            places[leaf.id] = Box((leaf,), leaf.name, x, y, _SWITCH_WIDTH, _SWITCH_HEIGHT, 0)
            x += _SWITCH_WIDTH + layout.GAP
        y += pitch if leaves else 0.0
        for spine in spines:
            places[spine.id] = Box((spine,), spine.name, left, y, self.right - left, _SWITCH_HEIGHT, 0)
            y += pitch
        return places, y

    def add_legend(self, strokes: Sequence[Stroke], top: float) -> float:
        """Each rate that occurs, by kind of link, with a line as wide as theirs; returns where it ends."""
        kinds = list(LINK_TITLES)
        entries = {
            (kinds.index(link.kind), -stroke_width(link), kind_and_rate(stroke), stroke_class(stroke))
            for stroke in strokes
            for link in (stroke.connection.link,)
        }
        columns = max(1, int((self.right - layout.MARGIN) // _LEGEND_COLUMN))
        for place, (_, minus_width, said, css) in enumerate(sorted(entries)):
            x = layout.MARGIN + place % columns * _LEGEND_COLUMN
            y = top + place // columns * _LEGEND_LINE + 8
            self.lines.append(f'<path class="{css}" d="M{x:.1f} {y:.1f}h34" stroke-width="{-minus_width:.1f}"/>')
            self.lines.append(words(said, x + 42, y + 4, "legend", _LEGEND_COLUMN - 46))
        return top + -(-len(entries) // columns) * _LEGEND_LINE

    def _open_device(self, devices: Sequence[Device]) -> None:
        said = [f"{device.name}: {describe(device)}" for device in devices[:1]]
        more = f" and {len(devices) - 1} alike" if len(devices) > 1 else ""
        kind, is_idle = devices[0].kind, devices[0].id in self.idle
        title = f"{said[0]}{more}{f', {NOT_TAKING_PART}' if is_idle else ''}"
        css = f"device {kind}{' idle' if is_idle else ''}"
        self._open(css, f"device:{devices[0].id}", devices[0].id, f' data-kind="{kind}"', title)

    def _open_link(self, link: Link, title: str) -> None:
        data = (
            f' data-kind="{link.kind}" data-gb-per-s="{link.bandwidth_bytes_per_s / 1e9:.6g}" data-state="{link.state}"'
        )
        self._open("connection", f"link:{link.src}->{link.dst}:{link.kind}", link.id, data, title)

    def _open(self, css: str, element_id: str, data_id: str, data: str, title: str) -> None:
        """Opens a group of an id that no other element has."""
        wanted = identifier(element_id)
        unique, copies = wanted, 1
        while unique in self.ids:
            copies += 1
            unique = f"{wanted}#{copies}"
        self.ids.add(unique)
        head = f'<g id={attribute(unique)} class="{css}" data-id={attribute(data_id)}{data}>'
        self.lines.append(f"{head}<title>{escaped(title)}</title>")
