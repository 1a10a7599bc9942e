"""What of a plan crosses from one processor to another: which hops, and how many bytes each such link takes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sim.engines.loads import link_shares
from sim.networks import counted_network
from sim.plan import Plan, Tree
from sim.planners.options import Options
from topo.errors import RouteError
from topo.topology import Topology
from topo.units import format_size
from topo.words import counted, ranges

if TYPE_CHECKING:
    from sim.engines.network import Network
    from sim.planners.nccl_2_30 import Choice, NcclPlan
    from topo.cluster import Cluster

Hop = tuple[int, int]
Channel = TypeVar("Channel", tuple[int, ...], Tree)

WIDTH = 80
MOST_SHOWN = 8
"""Channels that the text shows, and hops of each; the document has them all."""

_NODE = re.compile(r"(^|->)node\d+/")


@dataclass(frozen=True, slots=True)
class Crossing:
    """The hops (from rank, to rank) of some channels' ring, or parents and children of their tree, between sockets."""

    graph: str
    channels: tuple[int, ...]
    hops: tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class SocketLoad:
    """What a link between processors carries when an algorithm runs over all channels, `num_links` of them alike.

    `bytes_per_byte` is for each byte of the workload; `bytes_per_s` at `num_bytes`, the largest size that is asked for,
    by NCCL's own estimate of the algorithm's time. The bandwidth is what NCCL counts.
    """

    algorithm: str
    link: str
    num_links: int
    bytes_per_byte: float
    num_bytes: int
    bytes_per_s: float
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Sockets:
    """All that a plan sends between processors; both are empty where nothing crosses."""

    crossings: tuple[Crossing, ...]
    loads: tuple[SocketLoad, ...]


def sockets_of(
    machine: Topology | Cluster, plan: NcclPlan, choice: Choice, environment: Mapping[str, str]
) -> Sockets | None:
    """What crosses between processors, by the routes that are simulated; None where no two are joined, or no route is.

    `choice` is NCCL's for the workload whose bytes are counted.
    """
    node = machine if isinstance(machine, Topology) else machine.node
    between = frozenset(link.id for link in node.links if link.kind == "cpu")
    if not between:
        return None
    network = counted_network(machine, Options(environment=tuple(environment.items())), plan)
    wiring = plan.wiring
    try:
        rings = _crossings("ring", wiring.rings, _ring_hops, network, between)
        trees = _crossings("tree", wiring.trees, _tree_hops, network, between)
        return Sockets((*rings, *trees), tuple(_loads(plan, choice, network, between)))
    except RouteError:
        return None


def _ring_hops(ring: Sequence[int]) -> list[Hop]:
    return [hop for hop in zip(ring, (*ring[1:], ring[0]), strict=True) if hop[0] != hop[1]]


def _tree_hops(tree: Tree) -> list[Hop]:
    return [(parent, child) for parent, children in enumerate(tree.down) for child in children]


def _crossings(
    graph: str,
    channels: Sequence[Channel],
    hops_of: Callable[[Channel], list[Hop]],
    network: Network,
    between: frozenset[str],
) -> Iterator[Crossing]:
    """The crossings of each distinct ring or tree that has any."""
    numbers: dict[Channel, list[int]] = {}
    for number, channel in enumerate(channels):
        numbers.setdefault(channel, []).append(number)
    for channel, places in numbers.items():
        hops = hops_of(channel)
        if not hops:
            continue
        routes = network.routes(np.array([src for src, _ in hops]), np.array([dst for _, dst in hops]))
        links, place = np.unique(routes.links, return_inverse=True)
        crosses = np.array([_is_between(network.link_id(link), between) for link in links.tolist()], dtype=bool)[place]
        counted = np.concatenate([[0], np.cumsum(crosses)])[routes.first]
        found = tuple(hop for hop, number in zip(hops, np.diff(counted).tolist(), strict=True) if number)
        if found:
            yield Crossing(graph, tuple(places), found)


def _loads(plan: NcclPlan, choice: Choice, network: Network, between: frozenset[str]) -> Iterator[SocketLoad]:
    """The loads by rings and by trees for the workload of a choice; of links that carry alike the first."""
    wiring = plan.wiring
    for algorithm in ("ring", "tree"):
        estimates_s = [seconds for (name, _), seconds in choice.times_s if name == algorithm and seconds > 0]
        if not estimates_s:
            continue
        run = Plan(algorithm, wiring.num_ranks, wiring.rings, choice.collective, trees=wiring.trees)
        shares = link_shares(run, network, wiring.node_ranks)
        alike: dict[tuple[float, float], list[str]] = {}
        for link in np.flatnonzero(shares).tolist():
            if _is_between(network.link_id(link), between):
                kind = round(float(shares[link]), 9), float(network.bandwidth_bytes_per_s[link])
                alike.setdefault(kind, []).append(network.link_id(link))
        for (share, bandwidth), links in alike.items():
            per_s = share * choice.num_bytes / min(estimates_s)
            yield SocketLoad(algorithm, links[0], len(links), share, choice.num_bytes, per_s, bandwidth)


def _is_between(link_id: str, between: frozenset[str]) -> bool:
    """Whether a link joins processors; in a cluster its ends carry their node's number in front."""
    return _NODE.sub(r"\1", link_id) in between


def socket_lines(sockets: Sockets | None) -> Iterator[str]:
    """The text of it: which hops of which channels cross, and what the links between processors carry."""
    if sockets is None:
        return
    yield "between sockets" if sockets.crossings else "between sockets: no hop of a ring or tree"
    for number, row in enumerate(sockets.crossings):
        if number == MOST_SHOWN:
            yield f"  ... {counted(len(sockets.crossings) - number, 'other')}: --format json has them all"
            break
        more = f" ... ({counted(len(row.hops), 'hop')})" if len(row.hops) > MOST_SHOWN else ""
        hops = " ".join(f"{src}>{dst}" for src, dst in row.hops[:MOST_SHOWN])
        yield f"  {row.graph} {ranges(row.channels):<7} {hops}{more}"
    for load in sockets.loads:
        yield from textwrap.wrap(_load_words(load), WIDTH, initial_indent="  ", subsequent_indent="      ")


def _load_words(load: SocketLoad) -> str:
    alike = f" (and {load.num_links - 1:,} alike)" if load.num_links > 1 else ""
    return (
        f"{load.link}{alike}: {load.bytes_per_byte:.3g} x the size by {load.algorithm}, "
        f"{load.bytes_per_s / 1e9:.3g} GB/s at {format_size(load.num_bytes)}; NCCL counts on "
        f"{load.bandwidth_bytes_per_s / 1e9:.3g}"
    )
