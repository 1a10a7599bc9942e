"""Ring orders that follow the topology: the order whose slowest hop is fastest, several where a mesh has room.

Behind one switch every order is as good, so ranks keep theirs. On NVLink meshes the cycle is searched over direct
links, and further cycles over the lanes that are left, each used in both directions. On PCIe trees neighbours are
taken by rate, then by hops, which keeps the ring inside a switch before it crosses to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topo.topology import Topology

if TYPE_CHECKING:
    from sim.engines.routes import Router
    from topo.cluster import Cluster

Order = tuple[int, ...]
Preference = Callable[[int, int], tuple[float, ...]]

MOST_RANKS_TO_SEARCH = 64
_MOST_VISITS = 20_000


@dataclass(frozen=True, slots=True)
class Hop:
    """One directed pair of ranks: rate of its route, links on it, and NVLink lanes if it is one direct link."""

    rate_bytes_per_s: float
    num_links: int
    lanes: int


Hops = dict[tuple[int, int], Hop]


def ring_orders(machine: Topology | Cluster) -> tuple[Order, ...]:
    """One order per channel.

    In a cluster every order of the node is turned once per NIC, so that each channel enters the nodes through a NIC of
    its own, and then repeated node after node.
    """
    if not isinstance(machine, Topology):
        size = machine.node.num_ranks
        return tuple(
            tuple(where * size + rank for where in range(machine.count) for rank in order)
            for inside in ring_orders(machine.node)
            for order in _turns(inside, [machine.nic_of(rank).id for rank in inside])
        )
    natural = tuple(range(machine.num_ranks))
    if not 3 <= machine.num_ranks <= MOST_RANKS_TO_SEARCH or behind_one_switch(machine):
        return (natural,)
    hops = measure_hops(machine)
    mesh = mesh_orders(hops, machine.num_ranks)
    return mesh or (fastest_slowest_hop(hops, machine.num_ranks) or natural,)


def _turns(order: Order, nics: list[str]) -> list[Order]:
    """The order begun at the first rank of each NIC."""
    starts = [place for place, nic in enumerate(nics) if nic not in nics[:place]]
    return [(*order[place:], *order[:place]) for place in starts]


def behind_one_switch(machine: Topology) -> bool:
    """Whether one NVSwitch or network switch joins all ranks directly (several NVSwitches count as one)."""
    kind = {device.id: device.kind for device in machine.devices}
    joined: dict[str, set[str]] = {"nvswitch": set(), "net_switch": set()}
    for link in machine.links:
        if kind[link.dst] in joined and link.state == "active":
            joined[kind[link.dst]].add(link.src)
    return any(set(machine.gpu_ids) <= ranks for ranks in joined.values())


def measure_hops(machine: Topology) -> Hops:
    """Every directed pair of ranks that a route joins."""
    from sim.engines.routes import Router

    router = Router(machine)
    ranks = range(machine.num_ranks)
    return {(a, b): _hop(machine, router, a, b) for a in ranks for b in ranks if a != b}


def _hop(machine: Topology, router: Router, a: int, b: int) -> Hop:
    links = [machine.links[index] for index in router.route(machine.gpu_ids[a], machine.gpu_ids[b]).links]
    direct = len(links) == 1 and links[0].kind in ("nvlink", "xgmi")
    return Hop(min(link.bandwidth_bytes_per_s for link in links), len(links), links[0].lanes if direct else 0)


def mesh_orders(hops: Hops, num_ranks: int) -> tuple[Order, ...]:
    """Cycles over direct NVLinks, each taking one lane both ways, until no further one is found."""
    lanes = {pair: hop.lanes for pair, hop in hops.items()}
    orders: list[Order] = []
    while True:
        free = {pair for pair, left in lanes.items() if left > 0}
        order = _cycle(num_ranks, free, lambda a, b: (-lanes[a, b], b))
        if order is None:
            return tuple(orders)
        orders += [order, (order[0], *reversed(order[1:]))]
        for a, b in zip(order, (*order[1:], order[0]), strict=True):
            lanes[a, b] -= 1
            lanes[b, a] -= 1


def fastest_slowest_hop(hops: Hops, num_ranks: int) -> Order | None:
    """The cycle whose slowest hop is fastest, preferring fast and short hops; None if the search gives up."""
    for floor in sorted({hop.rate_bytes_per_s for hop in hops.values()}, reverse=True):
        allowed = {pair for pair, hop in hops.items() if hop.rate_bytes_per_s >= floor}
        order = _cycle(num_ranks, allowed, lambda a, b: (hops[a, b].num_links, -hops[a, b].rate_bytes_per_s, b))
        if order is not None:
            return order
    return None


def _cycle(num_ranks: int, allowed: set[tuple[int, int]], preference: Preference) -> Order | None:
    """A Hamiltonian cycle over allowed hops by depth-first search in order of preference, None if there is none."""
    choices = {
        a: sorted((b for b in range(num_ranks) if (a, b) in allowed), key=lambda b: preference(a, b))
        for a in range(num_ranks)
    }
    path, used, tried = [0], {0}, [iter(choices[0])]
    for _ in range(_MOST_VISITS):
        if len(path) == num_ranks and (path[-1], 0) in allowed:
            return tuple(path)
        following = next((b for b in tried[-1] if b not in used), None)
        if following is not None and len(path) < num_ranks:
            path.append(following)
            used.add(following)
            tried.append(iter(choices[following]))
            continue
        used.discard(path.pop())
        tried.pop()
        if not path:
            return None
    return None
