"""How two devices reach each other: nvidia-smi's letters, and the nominal rate of the path, computed from the graph.

Letters, nearest first:

    NV#   # NVLinks: direct ones together, or over an NVSwitch as many as the end with fewer links has
    XGMI  AMD's direct links (rocm-smi's word: nvidia-smi has none for them)
    PIX   at most one PCIe switch          PXB   several PCIe switches
    PHB   one host bridge, or a CPU of which no host bridges are modelled
    NODE  two host bridges of one NUMA node          SYS   from NUMA node to NUMA node
    NET   only over a network (not nvidia-smi's: it never shows two hosts)

A path runs through switches, bridges, CPUs and cards, never through another GPU or, short of NET, another NIC. Where
several exist, the nearest letters count, and among those the path with the fewest links. A card (`nic_card`) that
several NICs share is no switch. A link of kind c2c, or an NVLink to the CPU (POWER9), is that GPU's way to its CPU.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from topo.errors import RouteError
from topo.topology import Device, DeviceKind, Link, LinkKind, Topology

_DIRECT: tuple[tuple[LinkKind, str], ...] = (("nvlink", "NV{lanes}"), ("xgmi", "XGMI"))
_IN_A_HOST: frozenset[LinkKind] = frozenset({"pcie", "c2c", "local", "cpu"})
_TO_CPU_ONLY: frozenset[LinkKind] = frozenset({"nvlink", "xgmi"})


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far paths of some letters go: what they may run through, over how many host bridges, between CPUs or not."""

    through: frozenset[DeviceKind]
    max_bridges: int = 2
    between_cpus: bool = False
    over_network: bool = False


_SWITCHES: frozenset[DeviceKind] = frozenset({"pcie_switch", "nic_card"})
_HOST: frozenset[DeviceKind] = _SWITCHES | {"host_bridge", "cpu"}
_REACHES = (
    ("PXB", _Reach(_SWITCHES)),
    ("PHB", _Reach(_HOST, max_bridges=1)),
    ("NODE", _Reach(_HOST)),
    ("SYS", _Reach(_HOST, between_cpus=True)),
    ("NET", _Reach(_HOST | {"nic", "net_switch"}, between_cpus=True, over_network=True)),
)
"""Nearest first; PIX is a PXB path with at most one switch on it."""

_Path = tuple[Link, ...]


def letters(topology: Topology, one: str, other: str) -> str | None:
    """The letters between two devices (their ids), None where no path joins them."""
    return letters_from(topology, one, (other,))[other]


def letters_from(topology: Topology, one: str, others: Iterable[str]) -> dict[str, str | None]:
    """The letters between one device and each of the others: one search for all, for a row of a matrix."""
    wanted = [topology.device(other).id for other in others]
    found: dict[str, str | None] = {other: _direct_letters(topology, one, other) for other in wanted}
    rest = [other for other in wanted if found[other] is None]
    found.update({other: name for other, (name, _) in _nearest(topology, one, rest).items()})
    return found


def path(topology: Topology, one: str, other: str) -> tuple[Link, ...]:
    """The links from one device to the other, in order, by the nearest letters. RouteError where no path joins them.

    Over several NVSwitches (or over parallel direct links of several kinds) this is the first of the equal ways.
    """
    ways = _direct_ways(topology, one, other)
    return ways[0] if ways else _routed(topology, one, other)


def path_bandwidth(topology: Topology, one: str, other: str) -> float:
    """Nominal bytes/s from one device to the other: the slowest link of `path`, over all parallel NVLink ways together.

    RouteError where no path joins them.
    """
    ways = _direct_ways(topology, one, other) or (_routed(topology, one, other),)
    return sum(min(link.bandwidth_bytes_per_s for link in way) for way in ways)


def _routed(topology: Topology, one: str, other: str) -> _Path:
    if one == other:
        raise RouteError(f"{one} to itself: expected two different devices")
    found = _nearest(topology, one, (other,)).get(other)
    if found is None:
        raise RouteError(f"no path joins {one} and {other}: add the missing links, or leave one of them out")
    return found[1]


def _direct_ways(topology: Topology, one: str, other: str) -> tuple[_Path, ...]:
    """The parallel ways of the nearest kind of direct link: the link itself and those over each NVSwitch."""
    for kind, _ in _DIRECT:
        ways: list[_Path] = []
        for link in topology.adjacency[topology.device(one).id]:
            if link.kind == kind and link.dst == topology.device(other).id:
                ways.append((link,))
            elif link.kind == kind and topology.device(link.dst).kind == "nvswitch":
                onward = (far for far in topology.adjacency[link.dst] if far.dst == other and far.kind == kind)
                ways.extend((link, far) for far in onward)
        if ways:
            return tuple(ways)
    return ()


def _direct_letters(topology: Topology, one: str, other: str) -> str | None:
    ways = _direct_ways(topology, one, other)
    if not ways:
        return None
    lanes = sum(min(link.lanes for link in way) for way in ways)
    return dict(_DIRECT)[ways[0][0].kind].format(lanes=lanes)


def _nearest(topology: Topology, one: str, others: Iterable[str]) -> dict[str, tuple[str, _Path]]:
    """For each of the others that a path reaches: the nearest letters and that path."""
    rest = set(others) - {one}
    found: dict[str, tuple[str, _Path]] = {}
    for name, reach in _REACHES:
        if not rest:
            break
        for other, links in _search(topology, one, rest, reach).items():
            switches = sum(topology.device(link.dst).kind == "pcie_switch" for link in links[:-1])
            found[other] = ("PIX" if name == "PXB" and switches <= 1 else name, links)
        rest -= found.keys()
    return found


def _search(topology: Topology, start: str, targets: set[str], reach: _Reach) -> dict[str, _Path]:
    """Breadth first: the path with the fewest links to each target within reach, counting host bridges on the way."""
    came_by: dict[tuple[str, int], tuple[tuple[str, int], Link] | None] = {(start, 0): None}
    found: dict[str, _Path] = {}
    todo = deque(came_by)
    while todo and len(found) < len(targets):
        here = todo.popleft()
        for link in topology.adjacency[here[0]]:
            far = topology.device(link.dst)
            bridges = min(here[1] + (far.kind == "host_bridge"), 2)
            state = (far.id, bridges)
            if state in came_by or bridges > reach.max_bridges or not _passable(topology, link, far, reach):
                continue
            came_by[state] = (here, link)
            if far.id in targets and far.id not in found:
                found[far.id] = _traced(came_by, state)
            if far.kind in reach.through:
                todo.append(state)
    return found


def _passable(topology: Topology, link: Link, far: Device, reach: _Reach) -> bool:
    """Whether paths of this reach use the link at all."""
    near = topology.device(link.src)
    if link.kind in _TO_CPU_ONLY:
        return "cpu" in (near.kind, far.kind)
    if link.kind not in _IN_A_HOST and not reach.over_network:
        return False
    return reach.between_cpus or not (near.kind == far.kind == "cpu")


def _traced(came_by: dict[tuple[str, int], tuple[tuple[str, int], Link] | None], end: tuple[str, int]) -> _Path:
    links: list[Link] = []
    step = came_by[end]
    while step is not None:
        here, link = step
        links.append(link)
        step = came_by[here]
    return tuple(reversed(links))
