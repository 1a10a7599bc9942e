"""The structural rules of a topology, one function each: what has passed them is never asked again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import TypeVar, get_args

from topo.errors import TopologyError
from topo.topology import RANK_KINDS, DeviceKind, LinkKind, LinkState, Topology, some

K = TypeVar("K", bound=Hashable)

RATES_BYTES_PER_S = (1.0, 1e18)
"""Between these lies the rate of anything that is built: outside, what engines divide would overflow."""
MOST_LATENCY_S = 1e6
"""More than eleven days on one link is a slip of the keyboard."""


def _repeated(values: Sequence[K]) -> K | None:
    """The first value that stands a second time, None where none does; it is looked for only where there is one."""
    if len(set(values)) == len(values):
        return None
    counts = Counter(values)
    return next(value for value in values if counts[value] > 1)


def _unique_device_ids(topology: Topology) -> None:
    """An id names one device."""
    by_id = {device.id: device for device in topology.devices}
    if "" in by_id:
        raise TopologyError(f"a device of kind {by_id[''].kind} has an empty id: give it one")
    if len(by_id) < len(topology.devices):
        twice = _repeated([device.id for device in topology.devices])
        raise TopologyError(f"two devices are called {twice!r}: ids must be unique, rename one")


def _sound_devices(topology: Topology) -> None:
    """Kinds are a closed list, since routes and path letters depend on them; numbers are those of real things."""
    # A machine has many devices and links, and few kinds of them: each kind is checked on the first that is of it.
    for device in {device.kind: device for device in reversed(topology.devices)}.values():
        _check_word(device.id, "kind", device.kind, DeviceKind)
    for device in topology.devices:
        if device.gpu and (device.gpu.compute_capability or 0) < 0:
            raise TopologyError(f"GPU {device.id} has a compute capability below 0: ten times CUDA's is expected")
        if device.nic and device.nic.bandwidth_bytes_per_s is not None:
            _check_rate(f"NIC {device.id}", device.nic.bandwidth_bytes_per_s)
        if device.nic and device.nic.latency_s is not None:
            _check_latency(f"NIC {device.id}", device.nic.latency_s)


def _sound_links(topology: Topology) -> None:
    """Kinds and states are closed lists; no engine meets rates and latencies that nothing has which can be built."""
    facts = attrgetter("kind", "state", "bandwidth_bytes_per_s", "latency_s", "lanes")
    for link in {facts(link): link for link in reversed(topology.links)}.values():
        _check_word(link.id, "kind", link.kind, LinkKind)
        _check_word(link.id, "state", link.state, LinkState)
        _check_rate(f"link {link.id}", link.bandwidth_bytes_per_s)
        _check_latency(f"link {link.id}", link.latency_s)
        if link.lanes < 1:
            raise TopologyError(f"link {link.id} has {link.lanes} lanes: at least 1, or leave the link out")


def _check_word(what: str, name: str, word: str, known: object) -> None:
    if word not in get_args(known):
        raise TopologyError(f"{what}: unknown {name} {word!r}, one of {', '.join(get_args(known))}")


def _links_join_devices(topology: Topology) -> None:
    """A link joins two different devices that exist, and each (src, dst, kind) stands once."""
    ids = {device.id for device in topology.devices}
    for link in topology.links:
        if link.src not in ids or link.dst not in ids:
            end = link.dst if link.src in ids else link.src
            raise TopologyError(f"link {link.id} leads to {end!r}, which is no device: known are {some(sorted(ids))}")
        if link.src == link.dst:
            raise TopologyError(f"link {link.id} joins {link.src!r} to itself: remove it")
    if twice := _repeated([(link.src, link.dst, link.kind) for link in topology.links]):
        src, dst, kind = twice
        raise TopologyError(f"two {kind} links {src}->{dst}: give one link with the sum of their lanes")


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
    kinds: dict[str, str] = {device.id: device.kind for device in topology.devices}
    for rank, gpu_id in enumerate(topology.gpu_ids):
        kind = kinds.get(gpu_id)
        if kind is None:
            raise TopologyError(f"rank {rank} is {gpu_id!r}, which is no device: known are {some(sorted(kinds))}")
        if kind not in RANK_KINDS:
            raise TopologyError(f"rank {rank} is {gpu_id!r}, a {kind}: a rank is a gpu or a process")
    twice = _repeated(topology.gpu_ids)
    if twice is not None:
        raise TopologyError(f"{twice!r} stands for two ranks: each device is one rank")


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
    _sound_devices,
    _sound_links,
    _links_join_devices,
    _ranks_are_devices,
    _hidden_pairs_are_devices,
    _ranks_connected,
)
"""The structural rules, one function each; a rule's docstring states it."""
