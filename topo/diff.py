"""What changed between two topologies: devices and links that were lost, added, slower or faster, and path letters.

Only what both sources show is compared. Two captures of one kind show the same things. A path matrix shows GPUs, NICs
and letters, and what else its topology holds is inferred, so against another source only those count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from topo.matching import match_devices
from topo.paths import letters_from
from topo.topology import Device, DeviceKind, Link, LinkKind, Topology
from topo.writers.text import LINK_TITLES, describe

ChangeKind = Literal["lost", "added", "slower", "faster", "changed"]
Part = Literal["device", "link", "letters"]

INFERRED_SOURCES = frozenset({"nvidia-smi topo -m", "rocm-smi --showtopo", "NCCL log"})
"""Sources that show letters between devices: their switches, NUMA nodes and rates are inferred."""

SAME_RATE = 0.001
"""Rates within this share of each other are equal: sources round."""

_SEEN_IN_A_MATRIX: tuple[DeviceKind, ...] = ("gpu", "process", "nic")
_COUNTED_IN_A_MATRIX: tuple[LinkKind, ...] = ("nvlink", "xgmi")


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `before` and `after` are words for people; rates are given where rates differ, in bytes/s."""

    change: ChangeKind
    part: Part
    name: str
    before: str | None = None
    after: str | None = None
    before_bytes_per_s: float | None = None
    after_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Diff:
    """All differences, and what was compared: how many devices, connections and pairs, and which kinds of devices."""

    changes: tuple[Change, ...]
    num_devices: int
    num_links: int
    num_pairs: int
    device_kinds: tuple[DeviceKind, ...]

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
    changes = [
        *_devices(before, after, same, device_kinds),
        *links.changes(),
        *(change for _, change in pairs if change is not None),
    ]
    kinds = {device.kind for device in (*before.devices, *after.devices)}
    there = tuple(kind for kind in device_kinds if kind in kinds)
    return Diff(tuple(changes), len(same), links.num_compared, len(pairs), there)


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
            yield Change("lost", "device", device.name, before=describe(device))
    for device in after.of_kind(*kinds):
        if device.id not in found:
            yield Change("added", "device", device.name, after=describe(device))


def _device(before: Device, after: Device) -> Iterator[Change]:
    """A NIC's rate, a GPU's model and capability, and the NUMA node, as far as both sources state them."""
    was, now = (device.nic.bandwidth_bytes_per_s if device.nic else None for device in (before, after))
    change = _compare(was, now)
    if change is not None and was and now:
        yield Change(change, "device", before.name, f"{was * 8 / 1e9:g} Gb/s", f"{now * 8 / 1e9:g} Gb/s", was, now)
    models = (before.model, after.model)
    if None in models:
        models = (_capability(before), _capability(after))
    for title, one, other in (("", *models), ("NUMA node ", before.numa_node, after.numa_node)):
        if one is not None and other is not None and one != other:
            yield Change("changed", "device", before.name, f"{title}{one}", f"{title}{other}")


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
        self._before, self._after, self._same = before, after, same
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
            yield Change(change[0], "link", name, *change[1:])

    def _name(self, device_id: str) -> str:
        return self._before.device(device_id).name

    def _link(
        self, key: tuple[str, str, LinkKind]
    ) -> tuple[ChangeKind, str | None, str | None, float | None, float | None] | None:
        one, other = self._ours.get(key), self._theirs.get(key)
        was, now = (None if link is None or link.state == "inactive" else link for link in (one, other))
        words = [None if link is None else _words(link) for link in (one, other)]
        rates = [None if link is None else link.bandwidth_bytes_per_s for link in (was, now)]
        if was is None or now is None:
            if was is now:
                return None
            return ("lost" if now is None else "added", words[0], words[1], rates[0], rates[1])
        change = _compare(*rates) or ("changed" if was.latency_s != now.latency_s else None)
        return None if change is None else (change, words[0], words[1], rates[0], rates[1])


def _words(link: Link) -> str:
    """A link's kind, lanes, rate and latency, or that it is down."""
    lanes = f" x{link.lanes}" if link.lanes > 1 else ""
    rate = "down" if link.state == "inactive" else f"{link.bandwidth_bytes_per_s / 1e9:.4g} GB/s"
    latency = f" {link.latency_s * 1e6:g} us" if link.latency_s else ""
    return f"{LINK_TITLES[link.kind]}{lanes} {rate}{latency}"


def _pairs(before: Topology, after: Topology, same: Mapping[str, str]) -> Iterator[tuple[str, Change | None]]:
    """Every pair of GPUs and NICs whose letters both sources show, with the change where they differ."""
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
            yield name, None if was == now else Change("changed", "letters", name, was, now)


def _is_hidden(topology: Topology, one: str, other: str, hidden: set[frozenset[str]]) -> bool:
    return frozenset((topology.device(one).name, topology.device(other).name)) in hidden
