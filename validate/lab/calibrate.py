"""What TCP makes of a lab's limits, from messages between two hosts and to one host alone; no collective is looked at.

A limit counts whole frames, a message's payload is a few percent less; acknowledgements take from the other direction,
and the token bucket lets a first burst pass for nothing. All of that is in these measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sim.profile import Profile, Transport
from sim.schedule import COPY, Block, Rows, Schedule
from sim.workload import Workload
from topo.errors import MeasurementError
from topo.topology import Topology
from validate.jobs import Job
from validate.measurement import Measurement

ONE_WAY, BOTH_WAYS, IN_CAST = "one way", "both ways", "in-cast"
TINY_BYTES, SMALL_BYTES, LARGE_BYTES = 8, 2**20, 4 * 2**20
NUM_ITERATIONS = 3

ACKNOWLEDGEMENTS_SHARE = 0.05
"""At most so much of a direction goes to acknowledging the other: 66 bytes for two frames of 1514 would be 2 %."""


@dataclass(frozen=True, slots=True)
class PointToPoint:
    """What messages get of the limit they pass.

    `one_way_share` is payload over limit while one direction is in use, `both_ways_share` while both are. `message_s`
    is a message of 8 bytes; `start_s` is what a long message takes beyond its bytes at that rate, below 0 where the
    token bucket gives more than the start costs. `in_cast_s` is what three hosts (or all others) need to send to one,
    `in_cast_expected_s` what they should: nothing is fitted to that, it shows that ports are shared as the model says.
    """

    one_way_share: float
    both_ways_share: float
    message_s: float
    start_s: float
    in_cast_s: float = 0.0
    in_cast_expected_s: float = 0.0

    @property
    def is_crowded(self) -> bool:
        """Whether both ways lose more than acknowledgements cost: then the processor limits, and not the links."""
        return self.both_ways_share < (1 - ACKNOWLEDGEMENTS_SHARE) * self.one_way_share

    @property
    def goodput_share(self) -> float:
        """The share that predictions count with: of both directions in use, unless the processor spoils that."""
        return self.one_way_share if self.is_crowded else self.both_ways_share


def jobs(num_ranks: int) -> tuple[Job, ...]:
    """The messages to measure."""
    senders = range(1, min(num_ranks, 4))
    patterns = {
        ONE_WAY: [(0, 0, 1, 0, COPY, 0)],
        BOTH_WAYS: [(0, 0, 1, 0, COPY, 0), (0, 1, 0, 1, COPY, 0)],
        IN_CAST: [(0, rank, 0, index, COPY, 0) for index, rank in enumerate(senders)],
    }
    wanted = (
        *((ONE_WAY, num_bytes) for num_bytes in (TINY_BYTES, SMALL_BYTES, LARGE_BYTES)),
        *((BOTH_WAYS, num_bytes) for num_bytes in (SMALL_BYTES, LARGE_BYTES)),
        (IN_CAST, SMALL_BYTES),
    )
    return tuple(_job(num_ranks, pattern, patterns[pattern], num_bytes) for pattern, num_bytes in wanted)


def _job(num_ranks: int, pattern: str, rows: list[tuple[int, int, int, int, int, int]], num_bytes: int) -> Job:
    """Each row carries `num_bytes` of its own."""
    schedule = Schedule("all_reduce", num_ranks, len(rows), (Block(Rows.of(rows)),))
    workload = Workload("all_reduce", num_bytes * len(rows), "uint8")
    return Job(workload, pattern, schedule, NUM_ITERATIONS, num_warmups=1, check=False)


def fit(found: Mapping[tuple[str, int], Measurement], topology: Topology) -> PointToPoint:
    """The facts from the measurements by pattern and bytes of the whole workload.

    The rate is that of the bytes between two sizes, so that neither latency nor the free burst enters it. Medians.
    """
    median_s = {key: row.median_s for key, row in found.items()}
    pair = _limit_between(topology, 0, 1)
    one_way = _rate(median_s[ONE_WAY, SMALL_BYTES], median_s[ONE_WAY, LARGE_BYTES])
    both_ways = _rate(median_s[BOTH_WAYS, 2 * SMALL_BYTES], median_s[BOTH_WAYS, 2 * LARGE_BYTES])
    facts = PointToPoint(
        one_way_share=min(one_way / pair, 1.0),
        both_ways_share=min(both_ways / pair, 1.0),
        message_s=median_s[ONE_WAY, TINY_BYTES],
        start_s=median_s[ONE_WAY, SMALL_BYTES] - SMALL_BYTES / one_way,
    )
    job = next(job for job in jobs(topology.num_ranks) if job.algorithm == IN_CAST)
    expected_s = _expected_s(job, topology, facts)
    return replace(facts, in_cast_s=median_s[IN_CAST, job.workload.num_bytes], in_cast_expected_s=expected_s)


def _expected_s(job: Job, topology: Topology, facts: PointToPoint) -> float:
    """What the job's messages take on the topology."""
    from sim.engines.event import simulate
    from sim.engines.network import network_of

    if job.schedule is None:
        raise MeasurementError(f"{job.label} has no schedule to simulate")
    return simulate(job.schedule, network_of(topology, profile(facts)), job.workload).duration_s


def _rate(small_s: float, large_s: float) -> float:
    if large_s <= small_s:
        raise MeasurementError(
            f"a message of {LARGE_BYTES} bytes took {large_s:.3f} s, one of {SMALL_BYTES} bytes {small_s:.3f} s: "
            "the machine is too busy to measure on, try again"
        )
    return (LARGE_BYTES - SMALL_BYTES) / (large_s - small_s)


def _limit_between(topology: Topology, src: int, dst: int) -> float:
    """The least limit on the way from rank to rank."""
    from sim.engines.routes import Router

    route = Router(topology).route(topology.gpu_ids[src], topology.gpu_ids[dst])
    return min(topology.links[index].bandwidth_bytes_per_s for index in route.links)


def profile(found: PointToPoint) -> Profile:
    """Links at the goodput's share of their limit; a hop costs what a long message takes beyond its bytes.

    Where the token bucket's burst gives more than a start costs, that is nothing: while a host waits for a message the
    bucket fills again.
    """
    return Profile(
        name="lab",
        provenance="messages between two hosts of the lab, and to one; no collective was looked at",
        transports=(Transport("network", found.goodput_share, max(found.start_s, 0.0)),),
    )
