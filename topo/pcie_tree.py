"""Path letters -> the smallest PCIe tree that explains them.

    PIX   the two share one switch                  PXB   different switches, one below the other's top switch
    PHB   different switches (or none), one host bridge
    NODE  different host bridges of one NUMA node   SYS   different NUMA nodes

"At most this near" is an equivalence in a tree, so each level's groups follow from the level above: first NUMA nodes,
in them host bridges, in them top switches, in them leaf switches. Where letters leave a choice (pairs that the matrix
hides behind NV#, or does not show), groups are joined as long as no letters forbid it: fewer parts explain the same.
A hidden pair follows its NUMA node or CPU list first; a device without either follows the device before it. Groups of
one device get no switch of their own, and the largest leaf group sits on the top switch itself.

Letters that contradict a tree (A and B both PHB to C, but NODE to each other) exist. Then the groups keep as many of
the near pairs as fit, nearest first, and each pair left over becomes a `Shortcut`: a second attachment of these two
devices alone, so that the graph says what the matrix says, and a finding says that no tree does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

LEVELS = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Nearest first; the index of a pair's letters is its level."""

_PIX, _PXB, _PHB, _NODE = range(4)

PlaceOf = Mapping[str, tuple[str | None, str | None]]
"""A device's NUMA node and CPU list as the source prints them, for those that state either."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A PCIe switch: what is plugged into it, and the switches below it."""

    devices: tuple[str, ...]
    below: tuple[Switch, ...] = ()

    def all_devices(self) -> tuple[str, ...]:
        """What hangs from this switch at any depth."""
        return self.devices + tuple(name for switch in self.below for name in switch.all_devices())


@dataclass(frozen=True, slots=True)
class Bridge:
    """A host bridge: what is plugged into its ports, and its top switches."""

    devices: tuple[str, ...]
    switches: tuple[Switch, ...] = ()

    def all_devices(self) -> tuple[str, ...]:
        """What hangs from this bridge at any depth."""
        return self.devices + tuple(name for switch in self.switches for name in switch.all_devices())


@dataclass(frozen=True, slots=True)
class Node:
    """A NUMA node and its host bridges."""

    bridges: tuple[Bridge, ...]

    def all_devices(self) -> tuple[str, ...]:
        """What hangs from this node at any depth."""
        return tuple(name for bridge in self.bridges for name in bridge.all_devices())


@dataclass(frozen=True, slots=True)
class Shortcut:
    """Two devices whose letters no tree explains beside the others: nearer to each other than the tree puts them."""

    one: str
    other: str
    letters: str


@dataclass(frozen=True, slots=True)
class PcieTree:
    """NUMA nodes in the order of their first device, and the pairs that the tree cannot hold."""

    nodes: tuple[Node, ...]
    shortcuts: tuple[Shortcut, ...] = ()


def smallest_tree(
    names: Sequence[str], letters: Callable[[str, str], str | None], places: PlaceOf | None = None
) -> PcieTree:
    """The tree of the devices `names` whose letters are those of `letters`.

    `letters(a, b)` is one of LEVELS, in either order, or anything else for a pair whose PCIe path is not known.
    """
    return _Builder(tuple(names), letters, places or {}).tree()


class _Builder:
    def __init__(self, names: tuple[str, ...], letters: Callable[[str, str], str | None], places: PlaceOf) -> None:
        self._names = names
        self._rank = {name: rank for rank, name in enumerate(names)}
        self._places = places
        known = {name: level for level, name in enumerate(LEVELS)}
        self._level: dict[tuple[str, str], int] = {}
        # For each level and device, as bits by rank: the devices that are known to be farther away than that level.
        self._beyond = [dict.fromkeys(names, 0) for _ in LEVELS]
        for one, other in combinations(names, 2):
            found = known.get(letters(one, other) or "")
            if found is not None:
                self._level[one, other] = self._level[other, one] = found
                for level in range(found):
                    self._beyond[level][one] |= 1 << self._rank[other]
                    self._beyond[level][other] |= 1 << self._rank[one]

    def tree(self) -> PcieTree:
        nodes = tuple(self._node(group) for group in self._numa_groups())
        return PcieTree(nodes, self._shortcuts(nodes))

    def _node(self, members: Sequence[str]) -> Node:
        groups = self._joined(self._groups(members, _PHB), self._may_share)
        return Node(tuple(self._bridge(group) for group in groups))

    def _bridge(self, members: Sequence[str]) -> Bridge:
        groups = self._groups(members, _PXB)
        alone = tuple(group[0] for group in groups if len(group) == 1)
        return Bridge(alone, tuple(self._switch(group) for group in groups if len(group) > 1))

    def _switch(self, members: Sequence[str]) -> Switch:
        groups = self._joined(self._groups(members, _PIX), self._may_share)
        top = max(groups, key=len)
        return Switch(tuple(top), tuple(Switch(tuple(group)) for group in groups if group is not top))

    # --- groups ---

    def _groups(self, members: Sequence[str], level: int) -> list[list[str]]:
        """Members joined by letters of at most this level, nearest pairs first, unless a farther pair forbids it."""
        near = [
            (self._level[pair], pair) for pair in combinations(members, 2) if self._level.get(pair, level + 1) <= level
        ]
        group_of = {name: [name] for name in members}
        for _, (one, other) in sorted(near, key=lambda entry: entry[0]):
            first, second = group_of[one], group_of[other]
            if first is not second and not self._any_beyond(first, second, level):
                first.extend(second)
                group_of.update(dict.fromkeys(second, first))
        return self._in_order(group_of.values())

    def _in_order(self, groups: Iterable[list[str]]) -> list[list[str]]:
        unique = {id(group): group for group in groups}.values()
        return sorted((sorted(group, key=self._rank.__getitem__) for group in unique), key=lambda g: self._rank[g[0]])

    def _any_beyond(self, first: Sequence[str], second: Sequence[str], level: int) -> bool:
        members = sum(1 << self._rank[other] for other in second)
        return any(self._beyond[level][one] & members for one in first)

    def _joined(
        self, groups: list[list[str]], may_join: Callable[[Sequence[str], Sequence[str]], bool]
    ) -> list[list[str]]:
        """The groups, each joined to the nearest one before it that it may join."""
        joined: list[list[str]] = []
        for group in groups:
            earlier = next((other for other in reversed(joined) if may_join(other, group)), None)
            if earlier is None:
                joined.append(list(group))
            else:
                earlier.extend(group)
        return self._in_order(joined)

    def _may_share(self, first: Sequence[str], second: Sequence[str]) -> bool:
        """Nothing is known between the two groups, and they state no different NUMA node or CPU list."""
        unknown = not any((one, other) in self._level for one in first for other in second)
        return unknown and not self._places_differ(first, second)

    def _places_differ(self, first: Sequence[str], second: Sequence[str]) -> bool:
        ours, theirs = self._places_of(first), self._places_of(second)
        return bool(ours and theirs) and ours.isdisjoint(theirs)

    def _places_of(self, group: Sequence[str]) -> set[tuple[str | None, str | None]]:
        return {self._places[name] for name in group if name in self._places}

    def _numa_groups(self) -> list[list[str]]:
        """By letters, then by the stated NUMA node or CPU list, then whatever is left by its neighbour."""
        groups = self._groups(self._names, _NODE)

        def same_place(first: Sequence[str], second: Sequence[str]) -> bool:
            shared = self._places_of(first) & self._places_of(second)
            return bool(shared) and not self._any_beyond(first, second, _NODE)

        def either_silent(first: Sequence[str], second: Sequence[str]) -> bool:
            silent = not self._places_of(first) or not self._places_of(second)
            return silent and not self._any_beyond(first, second, _NODE)

        return self._joined(self._joined(groups, same_place), either_silent)

    # --- what no tree holds ---

    def _shortcuts(self, nodes: Sequence[Node]) -> tuple[Shortcut, ...]:
        tree_level = _levels_of(nodes)
        return tuple(
            Shortcut(one, other, LEVELS[self._level[one, other]])
            for one, other in combinations(self._names, 2)
            if (one, other) in self._level and self._level[one, other] < tree_level(one, other)
        )


def _levels_of(nodes: Sequence[Node]) -> Callable[[str, str], int]:
    """How near the tree puts two devices, as an index of LEVELS."""
    chains: dict[str, tuple[int, int, int, int]] = {}
    for number, node in enumerate(nodes):
        for bridge_number, bridge in enumerate(node.bridges):
            tops = [*bridge.switches, *(Switch((name,)) for name in bridge.devices)]
            for top_number, top in enumerate(tops):
                for leaf_number, leaf in enumerate((Switch(top.devices), *top.below)):
                    for name in leaf.devices:
                        chains[name] = (number, bridge_number, top_number, leaf_number)

    def level(one: str, other: str) -> int:
        same = [ours == theirs for ours, theirs in zip(chains[one], chains[other], strict=True)]
        return len(same) - same.index(False) if False in same else 0

    return level
