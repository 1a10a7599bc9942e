"""The machine as the page draws it: the parts that transfers touch, with the strokes that stand for each link."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from topo.topology import Device, Link, Topology
from topo.writers.svg import render
from topo.writers.svg_layout import HEADLINE, MARGIN, MAX_LOOSE
from topo.writers.svg_links import connections
from topo.writers.svg_words import attribute

if TYPE_CHECKING:
    from sim.prediction import Prediction
    from topo.cluster import Cluster

MOST_NODES = 16
"""Nodes of a cluster that are all drawn; of more the first two are."""

MOST_DEVICES = 1024
_BELOW_HEADLINE = HEADLINE - 10
_BESIDE = MARGIN - 4
_HUB_GAP = 44.0
"""So that a chunk is seen on its way up a link."""

WORDS_PX = 10.0
"""How high words of a drawing are that say nothing else, in its own pixels (topo/writers/svg_style.py)."""

LEAST_WORDS_PX = 9.05
"""On the screen: a larger picture than its frame is scrolled, since words that cannot be read say nothing."""

_CONNECTION = re.compile(r"""(<g class="connection" data-id=("[^"]*"|'[^']*')[^>]*>.*?<path )""", re.DOTALL)

PER_ROW = 16
"""So many ranks that hang on nothing stand in a row, where there are too many for one."""


@dataclass(frozen=True)
class Drawing:
    """A picture: the SVG text without its style, which stroke shows each link, what was left out, and what is down."""

    svg: str
    stroke_of: dict[str, str]
    notes: tuple[str, ...]
    down: tuple[str, ...] = ()

    @property
    def least_px(self) -> tuple[int, int]:
        """Width and height down to which every word of the picture is LEAST_WORDS_PX high at least; 0 without one."""
        view = re.search(r'viewBox="\S+ \S+ (\S+) (\S+)"', self.svg)
        if view is None:
            return 0, 0
        smallest = min((float(size) for size in re.findall(r"font-size:([\d.]+)px", self.svg)), default=WORDS_PX)
        scale = LEAST_WORDS_PX / min(smallest, WORDS_PX)
        return math.ceil(scale * float(view[1])), math.ceil(scale * float(view[2]))


def explicit(machine: Topology | Cluster) -> tuple[Topology, tuple[str, ...]]:
    """The machine written out, and a sentence where that is only a part of it."""
    if isinstance(machine, Topology):
        return machine, ()
    if machine.count <= MOST_NODES:
        return machine.explicit(), ()
    two = replace(machine, count=2, changes=())
    return two.explicit(), (f"2 of {machine.count} nodes are drawn, the others are built like them",)


def draw_used(machine: Topology | Cluster, link_ids: Iterable[str], agents: Sequence[str]) -> Drawing:
    """The picture of the parts that these links and agents need; of the whole machine where there are no links.

    Links between these parts that are down are drawn, too: what is missing explains the way that the data takes.
    """
    whole, notes = explicit(machine)
    alias = _fabric_names(whole)
    wanted = {alias.get(link_id, link_id) for link_id in link_ids}
    joined = {frozenset((link.src, link.dst)) for link in whole.links if link.id in wanted}
    if not joined:
        return draw_whole(machine)
    kept = {end for pair in joined for end in pair}.union(whole.gpu_ids, agents)
    links = tuple(
        link
        for link in whole.links
        if frozenset((link.src, link.dst)) in joined or (_is_down(link) and kept.issuperset((link.src, link.dst)))
    )
    devices = tuple(device for device in whole.devices if device.id in kept)
    used = replace(
        whole, devices=_in_rows(devices, links), links=links, findings=(), hidden_pairs=(), complete=False, nccl=None
    )
    if len(devices) < len(whole.devices):
        notes = (*notes, "parts that no transfer touches are left out here, the whole machine is drawn further down")
    return _drawn(used, alias, notes)


def draw_whole(machine: Topology | Cluster) -> Drawing:
    """The picture of all there is."""
    whole, notes = explicit(machine)
    return _drawn(whole, _fabric_names(whole), notes)


def _drawn(topology: Topology, alias: dict[str, str], notes: tuple[str, ...]) -> Drawing:
    stroke_of = {}
    for pair in connections(topology):
        for link in (pair.link, *((pair.back,) if pair.back else ())):
            stroke_of[link.id] = pair.link.id
    for name, link_id in alias.items():
        if link_id in stroke_of:
            stroke_of[name] = stroke_of[link_id]
    if len(topology.devices) > MOST_DEVICES:
        return Drawing("", stroke_of, (*notes, f"the machine has {len(topology.devices)} parts: too many to draw"))
    pairs = connections(topology)
    down = tuple(f"{pair.link.src}-{pair.link.dst}" for pair in pairs if _is_down(pair.link) or _is_down(pair.back))
    return Drawing(_plain(render(topology, hub_gap=_HUB_GAP)), stroke_of, notes, down)


def _is_down(link: Link | None) -> bool:
    return link is not None and link.state == "inactive"


def with_loads(drawing: Drawing, run: Prediction) -> str:
    """The picture with links coloured by their average load over a run, as it is before anything plays."""
    loads: dict[str, float] = {}
    for load in run.link_loads:
        stroke = drawing.stroke_of.get(load.link)
        if stroke is not None and run.duration_s > 0:
            share = load.num_bytes / load.bandwidth_bytes_per_s / run.duration_s
            loads[attribute(stroke)] = max(share, loads.get(attribute(stroke), 0.0))

    def coloured(found: re.Match[str]) -> str:
        return f'{found[1]}style="--load:{min(1.0, loads.get(found[2], 0.0)):.0%}" '

    return _CONNECTION.sub(coloured, drawing.svg)


def _plain(svg: str) -> str:
    """The picture without its style, which the page has once, and without ids, which several pictures would share.

    Nor with its headline, which the page says itself, and its margins, which the page has: the view begins inside.
    """
    svg = re.sub(r"<style>.*?</style>\n?", "", svg, count=1, flags=re.DOTALL)
    width, height = (float(size) for size in re.findall(r'viewBox="0 0 (\d+) (\d+)"', svg)[0])
    view = f'viewBox="{_BESIDE} {_BELOW_HEADLINE} {width - 2 * _BESIDE:.0f} {height - _BELOW_HEADLINE:.0f}"'
    svg = re.sub(r'width="\d+" height="\d+" viewBox="[^"]*"', view, svg, count=1)
    return re.sub(r'<g id=("[^"]*"|\'[^\']*\') ', "<g ", svg)


def _fabric_names(topology: Topology) -> dict[str, str]:
    """What a folded cluster calls the links of NICs (`nic->fabric`), by the ids that the drawing has."""
    names = {}
    for link in topology.links:
        if link.kind == "network" and topology.device(link.src).kind == "nic":
            names[f"{link.src}->fabric"] = link.id
        if link.kind == "network" and topology.device(link.dst).kind == "nic":
            names[f"fabric->{link.dst}"] = link.id
    return names


def _in_rows(devices: tuple[Device, ...], links: Sequence[object]) -> tuple[Device, ...]:
    """The devices, of which a long row of ranks without a host is cut into frames of PER_ROW."""
    ranks = [device.id for device in devices if device.kind in ("gpu", "process") and device.host is None]
    if len(ranks) <= MAX_LOOSE or any(device.kind in ("cpu", "pcie_switch") for device in devices):
        return devices
    frame = {}
    for first in range(0, len(ranks), PER_ROW):
        group = ranks[first : first + PER_ROW]
        frame.update(dict.fromkeys(group, f"{group[0]} to {group[-1]}"))
    return tuple(replace(device, host=frame.get(device.id, device.host)) for device in devices)
