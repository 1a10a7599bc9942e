"""The structural rules of a topology, one function each: what has passed them is never asked again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import product
from typing import get_args

from topo.errors import TopologyError
from topo.topology import RANK_KINDS, DeviceKind, LinkKind, LinkState, Topology, some

RATES_BYTES_PER_S = (1.0, 1e18)
"""Between these lies the rate of anything that is built: outside, what engines divide would overflow."""
MOST_LATENCY_S = 1e6
"""More than eleven days on one link is a slip of the keyboard."""


def _unique_device_ids(topology: Topology) -> None:
    """An id names one device."""
    ids = {device.id for device in topology.devices}
    if len(ids) == len(topology.devices) and "" not in ids:
        return
    seen: set[str] = set()
    for device in topology.devices:
        if not device.id:
            raise TopologyError(f"a device of kind {device.kind} has an empty id: give it one")
        if device.id in seen:
            raise TopologyError(f"two devices are called {device.id!r}: ids must be unique, rename one")
        seen.add(device.id)


def _known_kinds(topology: Topology) -> None:
    """Kinds are a closed list, since routes and path letters depend on them."""
    device_kinds, link_kinds, link_states = (frozenset(get_args(kind)) for kind in (DeviceKind, LinkKind, LinkState))
    for device in topology.devices:
        if device.kind not in device_kinds:
            raise TopologyError(f"{device.id}: unknown kind {device.kind!r}, one of {', '.join(get_args(DeviceKind))}")
    # Here and below: what many links have in common is told from all at once; only a fault is looked for one by one.
    if {(link.kind, link.state) for link in topology.links} <= set(product(link_kinds, link_states)):
        return
    for link in topology.links:
        if link.kind not in link_kinds:
            raise TopologyError(f"{link.id}: unknown kind {link.kind!r}, one of {', '.join(get_args(LinkKind))}")
        if link.state not in link_states:
            raise TopologyError(f"{link.id}: unknown state {link.state!r}, one of {', '.join(get_args(LinkState))}")


def _links_join_devices(topology: Topology) -> None:
    """A link joins two different devices that exist, and each (src, dst, kind) stands once."""
    ids = {device.id for device in topology.devices}
    if any(link.src == link.dst or link.src not in ids or link.dst not in ids for link in topology.links):
        _refuse_loose_ends(topology, ids)
    if len({(link.src, link.dst, link.kind) for link in topology.links}) < len(topology.links):
        counts = Counter((link.src, link.dst, link.kind) for link in topology.links)
        (src, dst, kind), _ = counts.most_common(1)[0]
        raise TopologyError(f"two {kind} links {src}->{dst}: give one link with the sum of their lanes")


def _refuse_loose_ends(topology: Topology, ids: Collection[str]) -> None:
    for link in topology.links:
        if link.src not in ids or link.dst not in ids:
            end = link.dst if link.src in ids else link.src
            raise TopologyError(f"link {link.id} leads to {end!r}, which is no device: known are {some(sorted(ids))}")
        if link.src == link.dst:
            raise TopologyError(f"link {link.id} joins {link.src!r} to itself: remove it")


def _physical_numbers(topology: Topology) -> None:
    """Rates and latencies are those of things that can be built: no engine meets anything else."""
    # Machines have many links and few rates: each combination is checked on the first link that has it.
    numbers = {(link.bandwidth_bytes_per_s, link.latency_s, link.lanes): link for link in reversed(topology.links)}
    for link in numbers.values():
        _check_rate(f"link {link.id}", link.bandwidth_bytes_per_s)
        _check_latency(f"link {link.id}", link.latency_s)
        if link.lanes < 1:
            raise TopologyError(f"link {link.id} has {link.lanes} lanes: at least 1, or leave the link out")
    for device in topology.devices:
        if device.gpu and (device.gpu.compute_capability or 0) < 0:
            raise TopologyError(f"GPU {device.id} has a compute capability below 0: ten times CUDA's is expected")
        if device.nic and device.nic.bandwidth_bytes_per_s is not None:
            _check_rate(f"NIC {device.id}", device.nic.bandwidth_bytes_per_s)
        if device.nic and device.nic.latency_s is not None:
            _check_latency(f"NIC {device.id}", device.nic.latency_s)


def _check_rate(what: str, rate: float) -> None:
    least, most = RATES_BYTES_PER_S
    if not 0 < rate < math.inf:
        raise TopologyError(f"{what} has bandwidth {rate} B/s: it must be positive and finite")
    if not least <= rate <= most:
        raise TopologyError(f"{what} has bandwidth {rate} B/s: expected {least:g} to {most:g}, check its unit")


def _check_latency(what: str, latency_s: float) -> None:
    if not 0 <= latency_s < math.inf:
        raise TopologyError(f"{what} has latency {latency_s} s: it must be finite and not negative")
    if latency_s > MOST_LATENCY_S:
        raise TopologyError(f"{what} has latency {latency_s} s: at most {MOST_LATENCY_S:g}, check its unit")


def _ranks_are_devices(topology: Topology) -> None:
    """Each rank is one GPU (or CPU process) of this machine."""
    by_id = {device.id: device for device in topology.devices}
    ranks = set(topology.gpu_ids)
    if (
        len(ranks) == len(topology.gpu_ids)
        and ranks <= by_id.keys()
        and {by_id[rank].kind for rank in topology.gpu_ids} <= set(RANK_KINDS)
    ):
        return
    seen: set[str] = set()
    for rank, gpu_id in enumerate(topology.gpu_ids):
        if (device := by_id.get(gpu_id)) is None:
            raise TopologyError(f"rank {rank} is {gpu_id!r}, which is no device: known are {some(sorted(by_id))}")
        if device.kind not in RANK_KINDS:
            raise TopologyError(f"rank {rank} is {gpu_id!r}, a {device.kind}: a rank is a gpu or a process")
        if gpu_id in seen:
            raise TopologyError(f"{gpu_id!r} stands for two ranks: each device is one rank")
        seen.add(gpu_id)


def _hidden_pairs_are_devices(topology: Topology) -> None:
    """A pair whose relation is not shown is of two devices that are."""
    if not topology.hidden_pairs:
        return
    names = {device.name for device in topology.devices}
    for pair in topology.hidden_pairs:
        for name in pair:
            if name not in names:
                raise TopologyError(
                    f"the hidden pair {pair[0]}, {pair[1]} names {name!r}, which is no device: known are "
                    f"{some(sorted(names))}"
                )


def _ranks_connected(topology: Topology) -> None:
    """Every two ranks can reach each other, unless the source shows only part of the machine."""
    if not topology.complete or len(topology.gpu_ids) < 2:
        return
    start = topology.gpu_ids[0]
    src = [link.src for link in topology.links if link.state == "active"]
    dst = [link.dst for link in topology.links if link.state == "active"]
    for near, far, way in ((src, dst, f"from {start} to"), (dst, src, f"to {start} from")):
        reached = _reached(start, near, far, topology.gpu_ids)
        lost = [gpu_id for gpu_id in topology.gpu_ids if gpu_id not in reached]
        if lost:
            raise TopologyError(f"no path {way} {some(lost)}: add the missing links, or take the GPUs out with --gpus")


def _reached(start: str, near: Sequence[str], far: Sequence[str], wanted: Iterable[str]) -> set[str]:
    """The devices to which steps from near[i] to far[i] lead from the first; of any but those wanted some may lack.

    Links mostly stand in an order in which one pass finds them all; only where it does not are they sorted by device.
    """
    reached = {start}
    for device, neighbour in zip(near, far, strict=True):
        if device in reached:
            reached.add(neighbour)
    if reached.issuperset(wanted):
        return reached
    neighbours: dict[str, list[str]] = {}
    for device, neighbour in zip(near, far, strict=True):
        neighbours.setdefault(device, []).append(neighbour)
    todo = list(reached)
    while todo:
        for neighbour in neighbours.get(todo.pop(), ()):
            if neighbour not in reached:
                reached.add(neighbour)
                todo.append(neighbour)
    return reached


CHECKS: tuple[Callable[[Topology], None], ...] = (
    _unique_device_ids,
    _known_kinds,
    _links_join_devices,
    _physical_numbers,
    _ranks_are_devices,
    _hidden_pairs_are_devices,
    _ranks_connected,
)
"""The structural rules, one function each; a rule's docstring states it."""
