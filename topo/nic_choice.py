"""Which NIC each GPU of a node speaks over: the nearest, dealt one by one, and never a slower one for being nearer.

NCCL ranks NICs by the rate that reaches the GPU, which PCIe limits, and deals GPUs over those that are equally good;
its search of channels then gives each port no more than it carries. Here a GPU takes, of the nearest NICs, the one of
which most is left for it; a farther one only where that is faster by itself and the GPU's share of it is larger. So
with one NIC more the GPU that has least has no less.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence

from topo import catalog
from topo.errors import RouteError
from topo.topology import Device, Link, LinkKind, Topology

__all__ = ["deal_nics", "is_on_pcie"]

_TO_NIC_KINDS: tuple[LinkKind, ...] = ("pcie", "cpu", "local", "c2c")

_NO_PCIE_BYTES_PER_S = 1e12
"""From this rate on, a link between a NIC and a CPU says that the NIC is no PCIe device (`lo`, bridges)."""

_Way = tuple[int, float]
"""Path class and bytes/s from a GPU to a NIC."""


def deal_nics(
    node: Topology, nics: Sequence[Device], port_bytes_per_s: Sequence[float]
) -> tuple[tuple[Device, ...], ...]:
    """For each local rank the NICs that are dealt to it, the one that it uses first; ports have these rates.

    A NIC that nobody uses goes, in turn, to the GPUs to which it is as near and as fast as the one they use. RouteError
    where no path leads from a GPU to a NIC.
    """
    ways = [_ways(node, gpu_id, nics, port_bytes_per_s) for gpu_id in node.gpu_ids]
    dealt = [[number] for number in _first_nics(ways)]
    used = {number for (number,) in dealt}
    for number in range(len(nics)):
        like_it = [mine for mine, way in zip(dealt, ways, strict=True) if way.get(number) == way[mine[0]]]
        if number not in used and like_it:
            min(like_it, key=len).append(number)
    return tuple(tuple(nics[number] for number in mine) for mine in dealt)


def _first_nics(ways: Sequence[dict[int, _Way]]) -> list[int]:
    """The number of the NIC that each rank uses; who has the nearest is served first."""
    users: Counter[int] = Counter()
    first = [-1] * len(ways)

    def most_left(rank: int, numbers: Iterable[int]) -> tuple[float, int]:
        return max(((ways[rank][nic][1] / (users[nic] + 1), -nic) for nic in numbers), default=(0.0, 0))

    nearest = [min(path_class for path_class, _ in way.values()) for way in ways]
    for rank in sorted(range(len(ways)), key=nearest.__getitem__):
        _, negative = most_left(rank, (nic for nic, way in ways[rank].items() if way[0] == nearest[rank]))
        first[rank] = -negative
        users[-negative] += 1
    for rank, own in enumerate(first):
        fastest = max(rate for path_class, rate in ways[rank].values() if path_class == nearest[rank])
        share, negative = most_left(rank, (nic for nic, (_, rate) in ways[rank].items() if rate > fastest))
        if share > ways[rank][own][1] / users[own]:
            users.subtract({own: 1, -negative: -1})
            first[rank] = -negative
    return first


def _ways(node: Topology, gpu_id: str, nics: Sequence[Device], port_bytes_per_s: Sequence[float]) -> dict[int, _Way]:
    """How a GPU reaches NICs, by their number."""
    reached = _reach(node, gpu_id)
    ways = {
        number: (reached[nic.id][0], min(reached[nic.id][1], port))
        for number, (nic, port) in enumerate(zip(nics, port_bytes_per_s, strict=True))
        if nic.id in reached
    }
    if not ways:
        raise RouteError(
            f"no path of PCIe leads from {gpu_id} to a NIC: add the missing links, or take it out with --gpus"
        )
    return ways


def _counted_bytes_per_s(link: Link) -> float:
    """What NCCL counts of a link's rate: 24 GB/s of Gen4 x16, which limit NICs of 200 and of 400 Gb/s alike."""
    if link.kind != "pcie":
        return link.bandwidth_bytes_per_s
    return link.bandwidth_bytes_per_s * catalog.pcie_effective_bytes_per_s(4, 16) / catalog.pcie_bytes_per_s(4, 16)


def is_on_pcie(node: Topology, nic: Device) -> bool:
    """Whether a NIC, or the card it is a port of, is a PCIe device, as far as the node says."""
    if nic.pci is not None:
        return True
    for link in node.links:
        if link.src == nic.id:
            parent = node.device(link.dst)
            if parent.kind == "nic_card" and link.kind == "local" and nic.kind != "nic_card":
                return is_on_pcie(node, parent)
            if link.kind == "pcie" and (parent.kind != "cpu" or link.bandwidth_bytes_per_s < _NO_PCIE_BYTES_PER_S):
                return True
    return False


def _reach(node: Topology, start: str) -> dict[str, tuple[int, float]]:
    """Path class (0 one switch, 1 several, 2 through a CPU, 3 across CPUs) and bytes/s from `start` to each device.

    Rates are as NCCL counts them. The path with the fewest links between CPUs is taken, then with the fewest CPUs and
    the fewest switches; no path leads through another GPU.
    """
    outgoing: dict[str, list[Link]] = {}
    for link in node.links:
        if link.kind in _TO_NIC_KINDS and link.state == "active":
            outgoing.setdefault(link.src, []).append(link)
    reached: dict[str, tuple[int, float]] = {}
    todo: list[tuple[tuple[int, int, int], float, str]] = [((0, 0, 0), -math.inf, start)]
    while todo:
        (cpu_links, cpus, switches), negative_rate, device_id = heapq.heappop(todo)
        if device_id in reached:
            continue
        path_class = 3 if cpu_links else 2 if cpus else 1 if switches > 1 else 0
        reached[device_id] = (path_class, -negative_rate)
        if device_id != start and node.device(device_id).kind in ("gpu", "process"):
            continue
        for link in outgoing.get(device_id, ()):
            kind = node.device(link.dst).kind
            steps = (
                cpu_links + (link.kind == "cpu"),
                cpus + (kind in ("cpu", "host_bridge")),
                switches + (kind == "pcie_switch"),
            )
            heapq.heappush(todo, (steps, max(negative_rate, -_counted_bytes_per_s(link)), link.dst))
    return reached
