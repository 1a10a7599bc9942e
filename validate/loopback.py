"""The machine's own loopback as a topology, from point-to-point measurements alone.

Two processes that pass a buffer back and forth show what one pair gets; all processes sending to their neighbour at
once show what everybody together gets, since on one machine the processor is what they share. Collectives are never
looked at here: they are what the model made from this is checked against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sim.profile import Profile, Transport
from sim.schedule import COPY, REDUCE, Block, Rows, Schedule
from sim.workload import Workload
from topo.errors import MeasurementError
from topo.topology import Device, Link, Provenance, Topology
from topo.words import counted
from validate.jobs import Job
from validate.measurement import Measurement
from validate.sharing import Cores, MessageCost

PING_PONG, NEIGHBOURS, COMBINING, SEVERAL = "ping-pong", "neighbours", "combining", "several"
SIZES = (8, 64 * 2**10, 512 * 2**10, 4 * 2**20)
SMALL_BYTES, LARGE_BYTES = SIZES[0], SIZES[-1]
HOPS = dict(zip(SIZES, ((5, 25), (5, 25), (2, 8), (1, 4)), strict=True))
"""How many messages one after the other are in a sample: what it costs beside them falls out of the difference."""

WORDS = {
    PING_PONG: "one pair",
    NEIGHBOURS: "all neighbours at once",
    COMBINING: "all neighbours at once, adding what comes",
    SEVERAL: "all neighbours at once, several messages a step",
}
NUM_SEVERAL = 4


@dataclass(frozen=True, slots=True)
class PointToPoint:
    """What messages between processes of one machine cost.

    `pair_latency_s` is a small message of one pair alone, `hop_latency_s` one while all processes send;
    `pair_bytes_per_s` is what one pair alone gets, `total_bytes_per_s` what all get together. `step_s` is what
    a step costs beside its messages, `costs` what messages cost by size, on `num_cores` cores.
    """

    num_ranks: int
    pair_latency_s: float
    hop_latency_s: float
    pair_bytes_per_s: float
    total_bytes_per_s: float
    num_cores: int = 0
    step_s: float = 0.0
    costs: tuple[MessageCost, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """One calibration: a pattern, the bytes of a message, and how many follow each other."""

    pattern: str
    num_bytes: int
    num_hops: int

    @property
    def num_messages(self) -> int:
        """Messages of a rank in a step."""
        return NUM_SEVERAL if self.pattern == SEVERAL else 1


def trials() -> tuple[Trial, ...]:
    """What is measured, in order."""
    hops = [
        *(Trial(pattern, size, count) for pattern in (PING_PONG, NEIGHBOURS) for size in SIZES for count in HOPS[size]),
        *(Trial(COMBINING, size, HOPS[size][-1]) for size in SIZES),
        *(Trial(SEVERAL, SMALL_BYTES, count) for count in HOPS[SMALL_BYTES]),
    ]
    return tuple(hops)


def calibration_jobs(num_ranks: int, num_iterations: int = 10) -> tuple[Job, ...]:
    """The point-to-point measurements that `fit` needs, one for each of `trials`."""
    if num_ranks < 2:
        raise MeasurementError(f"{counted(num_ranks, 'rank')}: messages need at least 2")
    return tuple(
        Job(
            Workload("all_reduce", trial.num_bytes * num_ranks * trial.num_messages, "uint8"),
            trial.pattern,
            _schedule(trial, num_ranks),
            num_iterations,
            num_warmups=2,
            check=False,
            purpose=f"calibration by {WORDS[trial.pattern]}, {counted(trial.num_hops, 'message')} in a row",
        )
        for trial in trials()
    )


def _schedule(trial: Trial, num_ranks: int) -> Schedule:
    """One message per step: between ranks 0 and 1 in turn, or from every rank to the next."""
    steps = range(trial.num_hops)
    if trial.pattern == PING_PONG:
        rows = [(step, step % 2, 1 - step % 2, 0, COPY, 0) for step in steps]
    else:
        operation = REDUCE if trial.pattern == COMBINING else COPY
        # No rank sends the chunk that it receives, so that nothing has to be put aside.
        rows = [
            (step, rank, (rank + 1) % num_ranks, (rank + step) % num_ranks + part * num_ranks, operation, 0)
            for step in steps
            for rank in range(num_ranks)
            for part in range(trial.num_messages)
        ]
    return Schedule("all_reduce", num_ranks, num_ranks * trial.num_messages, (Block(Rows.of(rows)),))


def fit(measurements: Sequence[Measurement], num_cores: int) -> PointToPoint:
    """What messages cost, from the measurements of `trials` in their order."""
    by_trial = dict(zip(trials(), (found.median_s for found in measurements), strict=True))
    num_ranks = measurements[0].num_ranks
    hop_s = {
        (pattern, num_bytes): _hop_s(by_trial, pattern, num_bytes)
        for pattern in (PING_PONG, NEIGHBOURS)
        for num_bytes in SIZES
    }
    several_s = _hop_s(by_trial, SEVERAL, SMALL_BYTES)
    at_a_time = min(num_cores, num_ranks) / num_ranks
    return PointToPoint(
        num_ranks=num_ranks,
        pair_latency_s=hop_s[PING_PONG, SMALL_BYTES],
        hop_latency_s=hop_s[NEIGHBOURS, SMALL_BYTES],
        pair_bytes_per_s=_rate(hop_s[PING_PONG, SMALL_BYTES], hop_s[PING_PONG, LARGE_BYTES]),
        total_bytes_per_s=num_ranks * _rate(hop_s[NEIGHBOURS, SMALL_BYTES], hop_s[NEIGHBOURS, LARGE_BYTES]),
        num_cores=num_cores,
        step_s=hop_s[PING_PONG, SMALL_BYTES] * _share_of_steps(several_s / hop_s[NEIGHBOURS, SMALL_BYTES]),
        costs=tuple(
            MessageCost(
                num_bytes,
                hop_s[PING_PONG, num_bytes],
                hop_s[NEIGHBOURS, num_bytes],
                _combine_s(by_trial, num_bytes) * at_a_time,
            )
            for num_bytes in SIZES
        ),
    )


def _hop_s(by_trial: Mapping[Trial, float], pattern: str, num_bytes: int) -> float:
    """What one more message takes; of the whole time where noise has made few take as long as many."""
    few, many = (Trial(pattern, num_bytes, num_hops) for num_hops in HOPS[num_bytes])
    beyond_s = by_trial[many] - by_trial[few]
    return beyond_s / (many.num_hops - few.num_hops) if beyond_s > 0 else by_trial[many] / many.num_hops


def _share_of_steps(dearer: float) -> float:
    """Which share of a step with one message is the step's own; one with several costs `dearer` times as much."""
    share_of_message = (dearer - 1) / (NUM_SEVERAL - 1)
    return 1 - min(1.0, max(0.0, share_of_message))


def _combine_s(by_trial: Mapping[Trial, float], num_bytes: int) -> float:
    """What a step takes longer in which everybody adds what comes."""
    num_hops = HOPS[num_bytes][-1]
    with_s, without_s = (by_trial[Trial(pattern, num_bytes, num_hops)] for pattern in (COMBINING, NEIGHBOURS))
    return max(0.0, with_s - without_s) / num_hops


def _rate(small_s: float, large_s: float) -> float:
    """Bytes per second beyond the latency; of the whole time where noise has made the small message the slower one."""
    beyond_s = large_s - small_s
    return (LARGE_BYTES - SMALL_BYTES) / (beyond_s if beyond_s > 0 else large_s)


def cores(found: PointToPoint) -> Cores:
    """The processes on their cores."""
    return Cores(found.num_ranks, found.num_cores, found.costs, found.step_s)


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

    That is for what is simulated over links; how processes share cores is in `cores`.
    """
    return Profile(
        name="loopback",
        provenance="point-to-point messages between processes of this machine; no collective was looked at",
        transports=(Transport("local", hop_latency_s=found.hop_latency_s),),
    )
