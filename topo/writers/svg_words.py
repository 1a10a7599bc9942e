"""The words of a drawing, and how text gets safely into XML: escaped, without what XML forbids, cut to its room."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from xml.sax.saxutils import escape, quoteattr

from topo.catalog import pcie_width_words
from topo.topology import Device, Link
from topo.writers.svg_links import NEVER_LIMITS_BYTES_PER_S, Stroke
from topo.writers.text import LINK_TITLES

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOTE_CHARACTERS = 13
_SMALLEST_SHARE = 0.75
"""Text that does not fit is set smaller down to this share of its size, then cut."""


def escaped(text: str) -> str:
    """Text as the content of an element."""
    return escape(_NOT_IN_XML.sub("\ufffd", text))


def attribute(text: str) -> str:
    """Text as an attribute's value, with its quotation marks."""
    return quoteattr(_NOT_IN_XML.sub("\ufffd", text))


def identifier(text: str) -> str:
    """Text as an element's id: without white space and without what XML forbids."""
    return re.sub(r"\s", "_", _NOT_IN_XML.sub("_", text))


def words(text: str, x: float, y: float, css: str, room: float, character_width: float = 6.1) -> str:
    """A text element that starts at x (with the class `middle`: that x is the middle of), no wider than `room`."""
    needed = len(text) * character_width
    share = min(1.0, max(room / needed, _SMALLEST_SHARE)) if needed else 1.0
    fitting = max(1, int(room / (character_width * share) + 0.01))
    shown = text if len(text) <= fitting else text[: fitting - 1] + "…"
    size = f' style="font-size:{10 * share:.1f}px"' if share < 1 and character_width < 8 else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}"{size}>{escaped(shown)}</text>'


def rectangle(x: float, y: float, width: float, height: float, radius: float, css: str) -> str:
    """A rectangle with round corners."""
    return f'<rect class="{css}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}"/>'


def notes(device: Device, uplinks: Mapping[str, str], is_idle: bool) -> list[str]:
    """What stands below a device's name: that it is no rank, a GPU's model, a NIC's rate, where its cable leads to."""
    found = ["no rank"] if is_idle else []
    if device.kind == "gpu":
        capability = device.gpu.compute_capability if device.gpu else None
        model = device.model or (f"sm{capability}" if capability else "")
        found.extend(textwrap.wrap(model, _NOTE_CHARACTERS, break_long_words=False))
    if device.nic and device.nic.bandwidth_bytes_per_s:
        found.append(f"{device.nic.bandwidth_bytes_per_s * 8 / 1e9:g} Gb/s")
    if device.id in uplinks:
        found.append(f"→ {uplinks[device.id]}")
    return [note for note in found if note]


def link_class(kind: str) -> str:
    """The style class of a kind of link; `cpu` is the class of the device."""
    return "cpu-link" if kind == "cpu" else kind


def stroke_class(stroke: Stroke) -> str:
    """The style classes of a connection."""
    states = (stroke.connection.link.state, stroke.connection.back.state if stroke.connection.back else "active")
    down = " down" if "inactive" in states else ""
    return f"link {link_class(stroke.connection.link.kind)}{' bad' if stroke.is_bad else ''}{down}"


def rates(stroke: Stroke) -> str:
    """What a connection carries in GB/s, both directions apart where they differ, and whether it is down."""
    link, back = stroke.connection.link, stroke.connection.back
    if stroke.connection.is_even:
        return one_rate(link)
    return f"{one_rate(link)} there, {one_rate(back) if back else 'none'} back"


def one_rate(link: Link) -> str:
    """What a link carries in GB/s in its direction, or that it is down."""
    return "down" if link.state == "inactive" else f"{link.bandwidth_bytes_per_s / 1e9:.4g} GB/s"


def kind_and_rate(stroke: Stroke) -> str:
    """A connection's kind with its width or number of links, and its rates: a line of the legend."""
    link = stroke.connection.link
    if link.kind == "local" and link.bandwidth_bytes_per_s >= NEVER_LIMITS_BYTES_PER_S:
        return LINK_TITLES["local"]
    several = f" ({link.lanes} links)" if link.lanes > 1 else ""
    lanes = f" {pcie_width_words(link.lanes)}" if link.kind == "pcie" else several
    each = " each way" if stroke.connection.is_even and link.state == "active" else ""
    return f"{LINK_TITLES[link.kind]}{lanes}: {rates(stroke)}{each}"


def title_of(stroke: Stroke) -> str:
    """What the viewer says of a connection."""
    link = stroke.connection.link
    return f"{link.src} - {link.dst}: {kind_and_rate(stroke)}"
