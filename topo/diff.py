"""What changed between two topologies: devices and links that were lost, added, slower or faster, and path letters.

Only what both sources show is compared. Two captures of one kind show the same things. A path matrix shows GPUs, NICs
and letters, and what else its topology holds is inferred, so against another source only those count. The rate of a
link that was inferred is a guess that turns with the number of links, so then the numbers are compared. Where a source
shows no host bridges (NCCL's XML, presets), NODE and PHB are one statement: the same NUMA node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from topo.catalog import pcie_width_words
from topo.gpu_models import is_same_product
from topo.matching import match_devices
from topo.matrix_notes import NVLINK_GENERATION
from topo.paths import letters_from
from topo.topology import Device, DeviceKind, Link, LinkKind, Topology
from topo.writers.text import LINK_TITLES, describe

ChangeKind = Literal["lost", "added", "slower", "faster", "changed"]
Part = Literal["device", "link", "letters"]
Aspect = Literal["model", "numa_node", "rate", "lanes", "latency"]

INFERRED_SOURCES = frozenset({"nvidia-smi topo -m", "rocm-smi --showtopo", "NCCL log"})
"""Sources that show letters between devices: their switches, NUMA nodes and rates are inferred."""

SAME_RATE = 0.001
"""Rates within this share of each other are equal: sources round."""

_SEEN_IN_A_MATRIX: tuple[DeviceKind, ...] = ("gpu", "process", "nic")
_WITHIN_A_NODE = {"PHB", "NODE"}
_COUNTED_IN_A_MATRIX: tuple[LinkKind, ...] = ("nvlink", "xgmi")


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `before` and `after` are words for people; rates are given where rates differ, in bytes/s.

    `kind` is the device's or link's; `aspect` what of it changed (None: the whole thing is lost or added).
    """

    change: ChangeKind
    part: Part
    name: str
    before: str | None = None
    after: str | None = None
    before_bytes_per_s: float | None = None
    after_bytes_per_s: float | None = None
    kind: DeviceKind | LinkKind | None = None
    aspect: Aspect | None = None


@dataclass(frozen=True, slots=True)
class Diff:
    """All differences, and what was compared: how many devices, connections and pairs, and which kinds of devices.

    `num_bridged_pairs` are pairs that are NODE on one side and PHB on the other, equal since one shows no host bridges.
    """

    changes: tuple[Change, ...]
    num_devices: int
    num_links: int
    num_pairs: int
    device_kinds: tuple[DeviceKind, ...]
    num_bridged_pairs: int = 0

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not self.changes


def diff(before: Topology, after: Topology) -> Diff:
    """What is different in `after`, devices first, then links, then letters; equal things are only counted."""
    device_kinds, link_kinds = _shown(before, after)
    same = match_devices(before, after, device_kinds)
    links = _Links(before, after, same, link_kinds)
    pairs = list(_pairs(before, after, same))
    shows_bridges = all(topology.of_kind("host_bridge") for topology in (before, after))
    other = [pair for pair in pairs if pair.before != pair.after]
    bridged = [] if shows_bridges else [pair for pair in other if {pair.before, pair.after} == _WITHIN_A_NODE]
    changes = [
        *_devices(before, after, same, device_kinds),
        *links.changes(),
        *(pair for pair in other if pair not in bridged),
    ]
    kinds = {device.kind for device in (*before.devices, *after.devices)}
    there = tuple(kind for kind in device_kinds if kind in kinds)
    return Diff(tuple(changes), len(same), links.num_compared, len(pairs), there, len(bridged))


def _shown(before: Topology, after: Topology) -> tuple[tuple[DeviceKind, ...], tuple[LinkKind, ...]]:
    """The kinds of devices and links that both sources show."""
    sources = [topology.provenance[0].kind if topology.provenance else "" for topology in (before, after)]
    is_inferred = any(source in INFERRED_SOURCES for source in sources)
    device_kinds: tuple[DeviceKind, ...] = _SEEN_IN_A_MATRIX if is_inferred else get_args(DeviceKind)
    link_kinds: tuple[LinkKind, ...] = get_args(LinkKind)
    if sources[0] == sources[1]:
        return (*device_kinds, *(("nvswitch",) if is_inferred else ())), (
            _COUNTED_IN_A_MATRIX if is_inferred else link_kinds
        )
    ours, theirs = ({device.kind for device in topology.devices} for topology in (before, after))
    both: set[LinkKind] = {link.kind for link in before.links} & {link.kind for link in after.links}
    return (
        tuple(kind for kind in device_kinds if kind in ours & theirs),
        () if is_inferred else tuple(kind for kind in link_kinds if kind in both),
    )


def _devices(
    before: Topology, after: Topology, same: Mapping[str, str], kinds: tuple[DeviceKind, ...]
) -> Iterator[Change]:
    found = set(same.values())
    for device in before.of_kind(*kinds):
        if device.id in same:
            yield from _device(device, after.device(same[device.id]))
        else:
            yield Change("lost", "device", device.name, before=describe(device), kind=device.kind)
    for device in after.of_kind(*kinds):
        if device.id not in found:
            yield Change("added", "device", device.name, after=describe(device), kind=device.kind)


def _device(before: Device, after: Device) -> Iterator[Change]:
    """A NIC's rate, a GPU's model and capability, and the NUMA node, as far as both sources state them."""
    was, now = (device.nic.bandwidth_bytes_per_s if device.nic else None for device in (before, after))
    change = _compare(was, now)
    if change is not None and was and now:
        words = (f"{was * 8 / 1e9:g} Gb/s", f"{now * 8 / 1e9:g} Gb/s")
        yield Change(change, "device", before.name, *words, was, now, before.kind, "rate")
    models = (before.model, after.model)
    if None in models:
        models = (_capability(before), _capability(after))
    if None not in models and not is_same_product(*map(str, models)):
        yield Change("changed", "device", before.name, *models, kind=before.kind, aspect="model")
    nodes = (before.numa_node, after.numa_node)
    if None not in nodes and nodes[0] != nodes[1]:
        words = (f"NUMA node {nodes[0]}", f"NUMA node {nodes[1]}")
        yield Change("changed", "device", before.name, *words, kind=before.kind, aspect="numa_node")


def _capability(device: Device) -> str | None:
    capability = device.gpu.compute_capability if device.gpu else None
    return None if capability is None else f"sm{capability}"


def _compare(before: float | None, after: float | None) -> ChangeKind | None:
    """Whether a rate fell or rose; None where it is the same, or one side does not state it."""
    if before is None or after is None or abs(after / before - 1) <= SAME_RATE:
        return None
    return "slower" if after < before else "faster"


class _Links:
    """Compares the links whose ends are matched; those of lost and added devices went with them."""

    def __init__(self, before: Topology, after: Topology, same: Mapping[str, str], kinds: tuple[LinkKind, ...]) -> None:
        self._before = before
        self._are_rates_known = not (_are_rates_guessed(before) or _are_rates_guessed(after))
        back = {other: one for one, other in same.items()}
        self._ours = {
            (link.src, link.dst, link.kind): link
            for link in before.links
            if link.kind in kinds and link.src in same and link.dst in same
        }
        self._theirs = {
            (back[link.src], back[link.dst], link.kind): link
            for link in after.links
            if link.kind in kinds and link.src in back and link.dst in back
        }
        self.num_compared = len(
            {(frozenset((src, dst)), kind) for src, dst, kind in self._ours.keys() & self._theirs.keys()}
        )

    def changes(self) -> Iterator[Change]:
        """One change for both directions where they changed alike, else one each."""
        found = {key: self._link(key) for key in [*self._ours, *(key for key in self._theirs if key not in self._ours)]}
        told: set[tuple[str, str, LinkKind]] = set()
        for (src, dst, kind), change in found.items():
            if change is None or (src, dst, kind) in told:
                continue
            both_ways = found.get((dst, src, kind)) == change
            if both_ways:
                told.add((dst, src, kind))
            name = f"{self._name(src)} {'-' if both_ways else '->'} {self._name(dst)}"
            yield replace(change, name=name)

    def _name(self, device_id: str) -> str:
        return self._before.device(device_id).name

    def _link(self, key: tuple[str, str, LinkKind]) -> Change | None:
        """The change of one direction, not named yet; None where it is the same, or down on both sides."""
        one, other = self._ours.get(key), self._theirs.get(key)
        was, now = (None if link is None or link.state == "inactive" else link for link in (one, other))
        words = tuple(None if link is None else self._words(link) for link in (one, other))
        rates = tuple(link.bandwidth_bytes_per_s if link and self._are_rates_known else None for link in (was, now))
        change: ChangeKind | None
        aspect: Aspect | None = None
        if was is None or now is None:
            change = None if was is now else "lost" if now is None else "added"
        elif not self._are_rates_known:
            change, aspect = _compare(was.lanes, now.lanes), "lanes"
        else:
            change, aspect = _compare(rates[0], rates[1]), "rate"
            if change is None and was.latency_s != now.latency_s:
                change, aspect = "changed", "latency"
        if change is None:
            return None
        return Change(change, "link", "", words[0], words[1], rates[0], rates[1], key[2], aspect)

    def _words(self, link: Link) -> str:
        """A link's kind, lanes, rate (where it is no guess) and latency, or that it is down."""
        width = pcie_width_words(link.lanes) if link.kind == "pcie" else f"x{link.lanes}"
        lanes = width if link.lanes > 1 or not self._are_rates_known else ""
        rate = f"{link.bandwidth_bytes_per_s / 1e9:.4g} GB/s" if self._are_rates_known else ""
        latency = f"{link.latency_s * 1e6:g} us" if link.latency_s else ""
        said = (lanes, "down" if link.state == "inactive" else rate, latency)
        return " ".join(word for word in (LINK_TITLES[link.kind], *said) if word)


def _are_rates_guessed(topology: Topology) -> bool:
    """Whether the rates of NVLinks were inferred from their number, and no further capture told them."""
    if not topology.provenance or topology.provenance[0].kind not in INFERRED_SOURCES:
        return False
    is_assumed = any(finding.rule == NVLINK_GENERATION for finding in topology.findings)
    return is_assumed or len(topology.provenance) == 1


def _pairs(before: Topology, after: Topology, same: Mapping[str, str]) -> Iterator[Change]:
    """Every pair of GPUs and NICs whose letters both sources show, changed or not."""
    ends = [device.id for device in before.of_kind(*_SEEN_IN_A_MATRIX) if device.id in same]
    hidden = [{frozenset(pair) for pair in topology.hidden_pairs} for topology in (before, after)]
    for place, one in enumerate(ends):
        others = ends[place + 1 :]
        ours = letters_from(before, one, others)
        theirs = letters_from(after, same[one], [same[other] for other in others])
        for other in others:
            was, now = ours[other], theirs[same[other]]
            if was is None or now is None or _is_hidden(before, one, other, hidden[0]):
                continue
            if _is_hidden(after, same[one], same[other], hidden[1]):
                continue
            name = f"{before.device(one).name} - {before.device(other).name}"
            yield Change("changed", "letters", name, was, now)


def _is_hidden(topology: Topology, one: str, other: str, hidden: set[frozenset[str]]) -> bool:
    return frozenset((topology.device(one).name, topology.device(other).name)) in hidden
