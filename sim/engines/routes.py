"""Which links a transfer between two devices of one machine occupies.

Traffic prefers the fastest class of link that joins the two ends at all, as NCCL's path types do: NVLink before
C2C before PCIe before the CPU's own links before a network. GPUs forward for others only on a synthetic description,
where nothing else could (a ring of GPUs). Within a class the route with the least time per byte is taken, then the one
with the fewest hops. Where GPUs may not reach each other's memory, what they exchange is written to that of the
sender's processor and read from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.engines.indexing import offsets, ragged
from sim.engines.shortest import Costs, shortest_path
from topo.errors import RouteError
from topo.topology import RANK_KINDS, DeviceKind, Link, LinkKind, Topology

if TYPE_CHECKING:
    from sim.profile import Profile

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Pairs = npt.NDArray[np.int64]
Ends = dict[str, dict[str, int]]
"""By device, the devices at the other ends of its links, each with the index of the link."""

CLASSES: tuple[frozenset[LinkKind], ...] = (
    frozenset({"nvlink", "xgmi", "local"}),
    frozenset({"c2c"}),
    frozenset({"pcie"}),
    frozenset({"cpu"}),
    frozenset({"network"}),
)
"""Link kinds from the preferred to the last resort; a route may use its class and all before it."""

TRANSIT: frozenset[DeviceKind] = frozenset(
    {"nvswitch", "pcie_switch", "host_bridge", "cpu", "nic_card", "net_switch", "nic"}
)
"""Device kinds that forward for others."""

_HOP_COST = 1e-15


_CLASS_OF: Mapping[LinkKind, int] = {kind: index for index, kinds in enumerate(CLASSES) for kind in kinds}


def link_class(kind: LinkKind) -> int:
    """Position of the kind in CLASSES."""
    return _CLASS_OF[kind]


def slowest(kinds: Iterable[LinkKind]) -> LinkKind | None:
    """The kind of the last resort among those given, None of none."""
    ranked = sorted(kinds, key=link_class)
    return ranked[-1] if ranked else None


@dataclass(frozen=True, slots=True)
class Route:
    """Links by their index in the topology, and the slowest class of link among them."""

    links: tuple[int, ...]
    slowest_kind: LinkKind | None


@dataclass(frozen=True, slots=True)
class Reach:
    """How ranks of one machine reach each other and the network, beyond what links there are.

    Without `peers` GPUs exchange data through the host's memory. `apart` numbers, for each rank, the part that it
    belongs to: ranks of different parts speak over their NICs. With `pxn` a GPU sends to a NIC that only the host joins
    to it through a GPU on NVLink that is nearer (NCCL's PXN).
    """

    peers: bool = True
    apart: tuple[int, ...] = ()
    pxn: bool = False


ALL_LINKS = Reach()
"""By the links alone."""


class Router:
    """Routes of one topology; a route between two attachment points is searched once."""

    def __init__(self, topology: Topology, *, peer_to_peer: bool = True) -> None:
        self._topology = topology
        self._peer_to_peer = peer_to_peer
        forwarding = TRANSIT.union(RANK_KINDS) if topology.synthetic else TRANSIT
        self._forwards = {device.id for device in topology.devices if device.kind in forwarding}
        classes = {link_class(kind) for kind in {link.kind for link in topology.links}}
        self._levels = range(min(classes, default=len(CLASSES)), len(CLASSES))
        self._known_ends: dict[int, tuple[Ends, Ends]] = {}
        self._transit: dict[int, Costs] = {}
        self._up_link: Mapping[str, Link] = {}
        self._paths: dict[tuple[int, str, str], tuple[int, ...] | None] = {}

    def route(self, src: str, dst: str) -> Route:
        """The route from device to device; RouteError where no active links join them."""
        if src == dst:
            return Route((), None)
        if not self._peer_to_peer and {self._topology.device(end).kind for end in (src, dst)} == {"gpu"}:
            return self._through_host(src, dst)
        for level in self._levels:
            links = self._within(level, src, dst)
            if links is not None:
                kinds = [self._topology.links[index].kind for index in links]
                return Route(links, slowest(kinds))
        raise RouteError(f"no path from {src} to {dst}: every way is missing or inactive, check the links of {src}")

    def ports(self, devices: Sequence[str]) -> tuple[list[int], list[int], LinkKind] | None:
        """The one link out of and the one into each device, where these lead all of them to one device that forwards.

        Then the route of any pair is two links, which need no search; `None` where a device has another choice.
        """
        if not self._peer_to_peer:
            return None
        inside = set(devices)
        for level in self._levels:
            links, usable = self._topology.links, self._up_to(level)
            leaving = [index for index in usable if links[index].src in inside]
            entering = [index for index in usable if links[index].dst in inside]
            hubs = {links[index].dst for index in leaving} | {links[index].src for index in entering}
            if hubs:
                up = self._fastest([links[index].src for index in leaving], leaving)
                down = self._fastest([links[index].dst for index in entering], entering)
                if len(hubs) > 1 or not hubs <= self._forwards or not len(up) == len(down) == len(inside):
                    return None
                ways = [up[device] for device in devices], [down[device] for device in devices]
                kinds = {links[index].kind for way in ways for index in way}
                return *ways, max(kinds, key=link_class)
        return None

    def _through_host(self, src: str, dst: str) -> Route:
        """From GPU to GPU through the memory of the sender's processor, or the processor where no memory is shown."""
        places = [src, self._processor_of(src)]
        for link in self._topology.adjacency[places[-1]]:
            if self._topology.device(link.dst).kind == "host_memory":
                places += [link.dst, places[-1]]
                break
        places += [self._processor_of(dst), dst]
        parts = [self.route(near, far) for near, far in pairwise(places)]
        links = tuple(link for part in parts for link in part.links)
        return Route(links, slowest(part.slowest_kind for part in parts if part.slowest_kind))

    def _processor_of(self, gpu: str) -> str:
        """The processor that a GPU hangs below."""
        from topo.containment import containment

        self._up_link = self._up_link or containment(self._topology).up_link
        place = gpu
        while place in self._up_link:
            place = self._up_link[place].dst
        if self._topology.device(place).kind != "cpu":
            raise RouteError(f"{gpu} hangs below no processor, through whose memory it could reach others: keep p2p on")
        return place

    def _up_to(self, level: int) -> list[int]:
        """The active links of this class and those before, by their index."""
        kinds = frozenset().union(*CLASSES[: level + 1])
        links = enumerate(self._topology.links)
        return [index for index, link in links if link.kind in kinds and link.state == "active"]

    def _fastest(self, names: Sequence[str], links: Sequence[int]) -> dict[str, int]:
        """The link under each name, the fastest where there are several."""
        kept = dict(zip(names, links, strict=True))
        if len(kept) < len(links):
            kept.clear()
            for name, index in zip(names, links, strict=True):
                self._keep(kept, name, index)
        return kept

    def _ends(self, level: int) -> tuple[Ends, Ends]:
        """What each device reaches, and what reaches it, over one link of this class or one before; told once."""
        if level not in self._known_ends:
            out: Ends = {}
            into: Ends = {}
            for index in self._up_to(level):
                link = self._topology.links[index]
                self._keep(out.setdefault(link.src, {}), link.dst, index)
                self._keep(into.setdefault(link.dst, {}), link.src, index)
            self._known_ends[level] = out, into
        return self._known_ends[level]

    def _keep(self, ends: dict[str, int], name: str, index: int) -> None:
        """Of parallel links under one name keep the faster."""
        links = self._topology.links
        known = ends.get(name)
        if known is None or links[index].bandwidth_bytes_per_s > links[known].bandwidth_bytes_per_s:
            ends[name] = index

    def _within(self, level: int, src: str, dst: str) -> tuple[int, ...] | None:
        all_out, all_into = self._ends(level)
        out, into = all_out.get(src, {}), all_into.get(dst, {})
        if dst in out:
            return (out[dst],)
        best: tuple[float, tuple[int, ...]] | None = None
        for near, up in out.items():
            for far, down in into.items():
                if near in self._forwards and far in self._forwards:
                    middle = self._between(level, near, far)
                    if middle is not None:
                        links = (up, *middle, down)
                        cost = sum(self._cost(self._topology.links[index]) for index in links)
                        best = min(best or (cost, links), (cost, links))
        return best[1] if best else None

    def _between(self, level: int, near: str, far: str) -> tuple[int, ...] | None:
        """Links between two devices that forward, through such devices only; None where there is no way."""
        if near == far:
            return ()
        key = (level, near, far)
        if key not in self._paths:
            self._paths[key] = self._search(level, near, far)
        return self._paths[key]

    def _search(self, level: int, near: str, far: str) -> tuple[int, ...] | None:
        if level not in self._transit:
            self._transit[level] = {
                src: {
                    dst: self._cost(self._topology.links[index]) for dst, index in ends.items() if dst in self._forwards
                }
                for src, ends in self._ends(level)[0].items()
                if src in self._forwards
            }
        path = shortest_path(self._transit[level], near, far)
        if path is None:
            return None
        out, _ = self._ends(level)
        return tuple(out[src][dst] for src, dst in pairwise(path))

    @staticmethod
    def _cost(link: Link) -> float:
        return 1 / link.bandwidth_bytes_per_s + _HOP_COST


@dataclass(frozen=True, eq=False)
class Routes:
    """Routes by number: route r crosses `links[first[r] : first[r + 1]]` and costs `latency_s[r]` beyond its bytes.

    `weight` says, for each of these crossings, for how many transfers one on the route counts; None is one each. What
    a GPU sends over several NICs at once counts for a part on each.
    """

    first: Ints
    links: Ints
    latency_s: Floats
    weight: Floats | None = None

    def take(self, chosen: npt.NDArray[np.integer]) -> Routes:
        """The chosen routes in the order given."""
        entries = ragged(self.first, chosen)
        weight = None if self.weight is None else self.weight[entries]
        return Routes(offsets(np.diff(self.first)[chosen]), self.links[entries], self.latency_s[chosen], weight)

    def followed_by(self, first: Ints, links: Ints, weight: Floats | None = None) -> Routes:
        """Each route with further links: route r goes on over `links[first[r] : first[r + 1]]`, of this weight."""
        own, more = np.diff(self.first), np.diff(first)
        joined = offsets(own + more)
        where = np.repeat(joined[:-1] - self.first[:-1], own) + np.arange(len(self.links))
        further = np.repeat(joined[:-1] + own - first[:-1], more) + np.arange(len(links))
        both = np.empty(len(self.links) + len(links), dtype=np.int32)
        both[where], both[further] = self.links, links
        if self.weight is None and weight is None:
            return Routes(joined, both, self.latency_s)
        weighed = np.ones(len(both))
        weighed[where] = 1.0 if self.weight is None else self.weight
        weighed[further] = 1.0 if weight is None else weight
        return Routes(joined, both, self.latency_s, weighed)

    @classmethod
    def of(cls, routes: Sequence[tuple[tuple[int, ...], float]]) -> Routes:
        """From the links and the latency of each."""
        first = np.cumsum([0, *(len(links) for links, _ in routes)], dtype=np.int32)
        links = [link for links, _ in routes for link in links]
        return cls(
            first, np.array(links, dtype=np.int32), np.array([latency_s for _, latency_s in routes], dtype=float)
        )


def latency_of(all_links: Sequence[Link], route: Sequence[int], profile: Profile) -> float:
    """Stated latencies of the links plus the profile's hop latency of the slowest class among them."""
    links = [all_links[index] for index in route]
    kind = slowest(link.kind for link in links)
    hop = profile.transport(kind).hop_latency_s if kind else 0.0
    return sum(link.latency_s for link in links) + hop


def effective_rates(links: Sequence[Link], profile: Profile) -> Floats:
    """What of each link's nominal rate the profile lets payload reach."""
    efficiency = {kind: profile.transport(kind).efficiency for kind in {link.kind for link in links}}
    return np.array([link.bandwidth_bytes_per_s * efficiency[link.kind] for link in links])
