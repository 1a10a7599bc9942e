"""What hangs below what in a machine: from each NUMA node down its PCIe links, and on to what shares a card or chip."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from topo.topology import DeviceKind, Link, LinkKind, Topology

_ROOT_KINDS: tuple[DeviceKind, ...] = ("cpu", "net_switch")
_NEVER_BELOW: tuple[DeviceKind, ...] = ("cpu", "nvswitch", "net_switch")


@dataclass(frozen=True, slots=True)
class Containment:
    """The roots, each device's children, and the link by which a child goes up; all in the topology's order."""

    roots: tuple[str, ...]
    children: Mapping[str, tuple[str, ...]]
    up_link: Mapping[str, Link]


def containment(topology: Topology) -> Containment:
    """The machine as a forest: NUMA nodes first, then what no path joins to one (a ring of GPUs, a lone switch)."""
    return _Growth(topology).forest()


class _Growth:
    """Grows the forest: from all processors over PCIe first, so that a shortcut on a chip never wins over PCIe."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._order = {device.id: place for place, device in enumerate(topology.devices)}
        self._children: dict[str, list[str]] = {}
        self._up_link: dict[str, Link] = {}
        self._below: dict[LinkKind, dict[str, list[Link]]] = {"pcie": {}, "local": {}}
        for link in topology.links:
            if link.kind in self._below and topology.device(link.src).kind not in _NEVER_BELOW:
                self._below[link.kind].setdefault(link.dst, []).append(link)

    def forest(self) -> Containment:
        """The finished forest."""
        roots = dict.fromkeys(device.id for device in self._topology.of_kind(*_ROOT_KINDS))
        self._grow_from(roots)
        for device in self._topology.devices:
            if device.id not in self._up_link and device.id not in roots:
                roots[device.id] = None
                self._grow_from((device.id,))
        children = {
            parent: tuple(sorted(below, key=self._order.__getitem__)) for parent, below in self._children.items()
        }
        return Containment(tuple(roots), children, self._up_link)

    def _grow_from(self, roots: Collection[str]) -> None:
        grown = list(roots)
        for kind in self._below:
            for parent in grown:
                for link in self._below[kind].get(parent, ()):
                    if link.src not in self._up_link and link.src not in roots:
                        self._up_link[link.src] = link
                        self._children.setdefault(parent, []).append(link.src)
                        grown.append(link.src)
