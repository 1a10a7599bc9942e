"""The machine's own loopback as a topology, from point-to-point measurements alone.

Two processes that pass a buffer back and forth show what one pair gets; all processes sending to their neighbour at
once show what everybody together gets, since on one machine the processor is what they share. Collectives are never
looked at here: they are what the model made from this is checked against.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sim.profile import Profile, Transport
from sim.schedule import COPY, Block, Rows, Schedule
from sim.workload import Workload
from topo.errors import MeasurementError
from topo.topology import Device, Link, Provenance, Topology
from validate.jobs import Job
from validate.measurement import Measurement
from validate.words import counted

PING_PONG, NEIGHBOURS = "ping-pong", "neighbours"
SMALL_BYTES, LARGE_BYTES = 8, 4 * 2**20
HOPS = {SMALL_BYTES: 20, LARGE_BYTES: 4}
"""Messages one after the other in one sample, so that what a sample costs beside them weighs little."""


@dataclass(frozen=True, slots=True)
class PointToPoint:
    """What messages between processes of one machine cost.

    `pair_latency_s` is a small message of one pair alone, `hop_latency_s` one while all processes send;
    `pair_bytes_per_s` is what one pair alone gets, `total_bytes_per_s` what all get together.
    """

    num_ranks: int
    pair_latency_s: float
    hop_latency_s: float
    pair_bytes_per_s: float
    total_bytes_per_s: float


def calibration_jobs(num_ranks: int, num_iterations: int = 10) -> tuple[Job, ...]:
    """The point-to-point measurements that `fit` needs, in its order."""
    if num_ranks < 2:
        raise MeasurementError(f"{counted(num_ranks, 'rank')}: messages need at least 2")
    return tuple(
        Job(
            Workload("all_reduce", num_bytes, "uint8"),
            pattern,
            _schedule(pattern, num_ranks, HOPS[num_bytes]),
            num_iterations,
            num_warmups=2,
            check=False,
            purpose=f"calibration by {'one pair' if pattern == PING_PONG else 'all neighbours at once'}",
        )
        for pattern in (PING_PONG, NEIGHBOURS)
        for num_bytes in HOPS
    )


def _schedule(pattern: str, num_ranks: int, num_hops: int) -> Schedule:
    """One chunk per step: between ranks 0 and 1 in turn, or from every rank to the next."""
    if pattern == PING_PONG:
        rows = [(step, step % 2, 1 - step % 2, 0, COPY, 0) for step in range(num_hops)]
    else:
        rows = [
            (step, rank, (rank + 1) % num_ranks, 0, COPY, 0) for step in range(num_hops) for rank in range(num_ranks)
        ]
    return Schedule("all_reduce", num_ranks, 1, (Block(Rows.of(rows)),))


def fit(measurements: Mapping[tuple[str, int], Measurement]) -> PointToPoint:
    """Latencies from the small messages, rates from what the large ones take longer; keys are (pattern, bytes)."""
    hop_s = {
        (pattern, num_bytes): found.median_s / HOPS[num_bytes] for (pattern, num_bytes), found in measurements.items()
    }
    num_ranks = next(iter(measurements.values())).num_ranks
    return PointToPoint(
        num_ranks=num_ranks,
        pair_latency_s=hop_s[PING_PONG, SMALL_BYTES],
        hop_latency_s=hop_s[NEIGHBOURS, SMALL_BYTES],
        pair_bytes_per_s=_rate(hop_s[PING_PONG, SMALL_BYTES], hop_s[PING_PONG, LARGE_BYTES]),
        total_bytes_per_s=num_ranks * _rate(hop_s[NEIGHBOURS, SMALL_BYTES], hop_s[NEIGHBOURS, LARGE_BYTES]),
    )


def _rate(small_s: float, large_s: float) -> float:
    """Bytes per second beyond the latency; of the whole time where noise has made the small message the slower one."""
    beyond_s = large_s - small_s
    return (LARGE_BYTES - SMALL_BYTES) / (beyond_s if beyond_s > 0 else large_s)


def topology(found: PointToPoint) -> Topology:
    """Processes around one shared link: each reaches it at the rate of a pair, and it carries what all get together."""
    ranks = tuple(f"rank{rank}" for rank in range(found.num_ranks))
    entry, leave = "loopback-in", "loopback-out"
    links = [Link(entry, leave, "local", found.total_bytes_per_s)]
    for rank in ranks:
        links += [
            Link(rank, entry, "local", found.pair_bytes_per_s),
            Link(leave, rank, "local", found.pair_bytes_per_s),
        ]
    devices = (*(Device(rank, "process") for rank in ranks), Device(entry, "net_switch"), Device(leave, "net_switch"))
    return Topology(
        devices,
        tuple(links),
        ranks,
        name="loopback",
        provenance=(Provenance("point-to-point messages between processes of this machine"),),
    )


def profile(found: PointToPoint) -> Profile:
    """Links as the topology has them, and a hop as dear as while all processes send.

    Steps in which few ranks send are charged the same, which makes trees over many ranks too slow. To charge a hop by
    the share of ranks that send, between `pair_latency_s` and `hop_latency_s`, was tried on 2 busy cores with 2, 4 and
    8 ranks (6 runs each, 8 B to 16 KiB, ring, tree and parameter server): the median absolute error became 42 %
    instead of 36 %, better for trees and worse for parameter servers. So one latency stands for all.
    """
    return Profile(
        name="loopback",
        provenance="point-to-point messages between processes of this machine; no collective was looked at",
        transports=(Transport("local", hop_latency_s=found.hop_latency_s),),
    )
