"""A topology as a Graphviz graph: the thicker an edge, the more GB/s; a link that is down is red and dashed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from topo.topology import Device, Link, Topology
from topo.writers.hosts import NOT_TAKING_PART, idle_ids

_SHAPES = {
    "gpu": ("box", "#76b900"),
    "process": ("box", "#76b900"),
    "nvswitch": ("hexagon", "#c5e59a"),
    "cpu": ("box", "#cfd8dc"),
    "nic": ("ellipse", "#90caf9"),
    "nic_card": ("ellipse", "#bbdefb"),
    "net_switch": ("hexagon", "#90caf9"),
}
_OTHER_SHAPE = ("box", "#eeeeee")


def render(topology: Topology) -> str:
    """The graph in DOT: one node per device, one edge per pair and kind of link, labelled in GB/s per direction."""
    idle = idle_ids(topology)
    lines = [f"graph {_quoted(topology.name or 'topology')} {{", "  node [style=filled, fontname=sans-serif];"]
    lines.extend(f"  {_quoted(device.id)} [{_node(device, device.id in idle)}];" for device in topology.devices)
    lines.extend(f"  {edge};" for edge in _edges(topology))
    return "\n".join([*lines, "}"]) + "\n"


def _node(device: Device, is_idle: bool) -> str:
    shape, color = _SHAPES.get(device.kind, _OTHER_SHAPE)
    words = "\n".join(word for word in (device.name, device.model, NOT_TAKING_PART if is_idle else None) if word)
    style = ', style="filled,dashed"' if is_idle else ""
    return f'label={_quoted(words)}, shape={shape}, fillcolor="{color}"{style}'


def _edges(topology: Topology) -> Iterator[str]:
    """Both directions of a link are one edge where they are equal, and two with arrows where they differ."""
    by_ends = {(link.src, link.dst, link.kind): link for link in topology.links}
    for (src, dst, kind), link in by_ends.items():
        back = by_ends.get((dst, src, kind))
        same = back is not None and (back.bandwidth_bytes_per_s, back.state) == (link.bandwidth_bytes_per_s, link.state)
        if same and src > dst:
            continue
        ends = f"{_quoted(dst)} -- {_quoted(src)}" if same else f"{_quoted(src)} -- {_quoted(dst)}"
        yield f"{ends} [{_edge(link)}{'' if same else ', dir=forward'}]"


def _edge(link: Link) -> str:
    gb_per_s = link.bandwidth_bytes_per_s / 1e9
    width = min(max(1 + math.log2(max(gb_per_s, 1)), 1), 12)
    state = "" if link.state == "active" else ", color=red, style=dashed"
    return f'label="{link.kind} {gb_per_s:.4g}", penwidth={width:.1f}{state}'


def _quoted(text: str) -> str:
    """A DOT string; its escapes are JSON's."""
    return json.dumps(text, ensure_ascii=False)
