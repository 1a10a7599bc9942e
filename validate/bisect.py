"""Which link is slow, and who is merely late: every pair alone, measured over predicted, and what the slow ones share.

A message between two ranks crosses the links of its route. A link on which every message is slow explains them all; a
rank that comes late explains none, since transfers are timed from when all have met, and lateness apart from them.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.schedule import COPY, Block, Rows, Schedule
from sim.workload import Workload
from topo.errors import MeasurementError
from validate.arrivals import Arrivals
from validate.jobs import BackendName, Job, Run

if TYPE_CHECKING:
    from sim.engines.network import Network
    from topo.topology import Topology
    from validate.measurement import Measurement

Pair = tuple[int, int]
"""Sender and receiver, by rank."""

TOLERANCE = 0.3
"""A pair that is slower than predicted by more than this share is slow."""

FASTEST_SHARE = 0.1
"""Where links are known, but not what share of them a message gets, the fastest tenth of the pairs says it."""

USUAL_SHARE = 0.5
"""Where no link is known, pairs are held against the usual one."""

MOST_RANKS = 32
"""Pairs are measured one after the other; of more ranks there are over a thousand."""


@dataclass(frozen=True, slots=True)
class PairTime:
    """One message from rank to rank: seconds as predicted, and as measured (the fastest, which noise cannot make)."""

    src: int
    dst: int
    predicted_s: float
    measured_s: float

    @property
    def ratio(self) -> float:
        """Measured over predicted time: 3 on a link that is cut to a third."""
        return self.measured_s / self.predicted_s


@dataclass(frozen=True, slots=True)
class Suspect:
    """Links that no measurement can tell apart, and the pairs that they slow down: by `ratio` in the median."""

    links: tuple[str, ...]
    pairs: tuple[Pair, ...]
    ratio: float


@dataclass(frozen=True, slots=True)
class Found:
    """All pairs, the links that explain the slow ones, and the pairs that no link explains."""

    pairs: tuple[PairTime, ...]
    suspects: tuple[Suspect, ...]
    unexplained: tuple[Pair, ...]
    tolerance: float = TOLERANCE

    @property
    def slow(self) -> tuple[PairTime, ...]:
        """Pairs that take longer than predicted by more than the tolerance allows."""
        return tuple(row for row in self.pairs if row.predicted_s / row.measured_s < 1 - self.tolerance)


def all_pairs(num_ranks: int) -> tuple[Pair, ...]:
    """Both directions of every pair."""
    return tuple((src, dst) for src in range(num_ranks) for dst in range(num_ranks) if src != dst)


def bisect_run(
    num_ranks: int, num_bytes: int, backend: BackendName, num_iterations: int = 5, num_warmups: int = 1
) -> Run:
    """One message of that size for each pair, in the order of `all_pairs`."""
    if not 2 <= num_ranks <= MOST_RANKS:
        raise MeasurementError(
            f"{num_ranks} ranks: 2 to {MOST_RANKS} can be measured pair by pair, choose some with --ranks or --gpus"
        )
    workload = Workload("all_reduce", num_bytes, "uint8")
    jobs = tuple(
        Job(
            workload,
            f"rank {src} to rank {dst}",
            message(num_ranks, src, dst),
            num_iterations,
            num_warmups,
            check=False,
        )
        for src, dst in all_pairs(num_ranks)
    )
    return Run(backend, num_ranks, jobs)


def message(num_ranks: int, src: int, dst: int) -> Schedule:
    """One chunk from rank to rank."""
    return Schedule("all_reduce", num_ranks, 1, (Block(Rows.of([(0, src, dst, 0, COPY, 0)])),))


def predicted_s(network: Network, num_ranks: int, num_bytes: int) -> dict[Pair, float]:
    """What the message of each pair takes alone."""
    from sim.engines.event import simulate

    workload = Workload("all_reduce", num_bytes, "uint8")
    return {pair: simulate(message(num_ranks, *pair), network, workload).duration_s for pair in all_pairs(num_ranks)}


def links_of(network: Network, num_ranks: int) -> dict[Pair, tuple[str, ...]]:
    """The links that each pair's message crosses."""
    import numpy as np

    pairs = all_pairs(num_ranks)
    columns = [np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True)]
    routes = network.routes(*columns)
    bounds = routes.first.tolist()
    links = [network.link_id(index) for index in routes.links.tolist()]
    return {pair: tuple(links[bounds[number] : bounds[number + 1]]) for number, pair in enumerate(pairs)}


def scale_of(
    found: Mapping[Pair, Measurement], predictions: Mapping[Pair, float], share: float = FASTEST_SHARE
) -> float | None:
    """Measured over predicted time of the pair behind which that share is faster; None where nothing was measured."""
    ratios = sorted(row.min_s / predictions[pair] for pair, row in found.items())
    return ratios[int(share * (len(ratios) - 1))] if ratios else None


def held_against(
    found: Mapping[Pair, Measurement], predictions: Mapping[Pair, float], scale: float = 1.0
) -> tuple[PairTime, ...]:
    """Each pair's fastest sample beside its prediction, times the scale."""
    return tuple(PairTime(*pair, predictions[pair] * scale, row.min_s) for pair, row in found.items())


def explain(pairs: Sequence[PairTime], links: Mapping[Pair, tuple[str, ...]], tolerance: float = TOLERANCE) -> Found:
    """The fewest links that explain the slow pairs: a link may be to blame if every pair that crosses it is slow.

    Of these the one that explains most is taken first (the greedy cover of a set), links that explain the same
    together.
    """
    bare = Found(tuple(pairs), (), (), tolerance)
    ratio = {(row.src, row.dst): row.ratio for row in pairs}
    left = {(row.src, row.dst) for row in bare.slow}
    users = _users(links, ratio)
    blamed = {link: crossing for link, crossing in users.items() if crossing <= left}
    suspects = []
    while left and blamed:
        most = max(len(crossing & left) for crossing in blamed.values())
        if not most:
            break
        first = next(link for link, crossing in blamed.items() if len(crossing & left) == most)
        explained = blamed[first]
        alike = tuple(link for link, crossing in blamed.items() if crossing == explained)
        slowed = tuple(sorted(explained & left))
        suspects.append(Suspect(alike, slowed, statistics.median(ratio[pair] for pair in slowed)))
        left -= explained
    return Found(tuple(pairs), tuple(suspects), tuple(sorted(left)), tolerance)


def _users(links: Mapping[Pair, tuple[str, ...]], measured: Mapping[Pair, float]) -> dict[str, set[Pair]]:
    """The measured pairs that cross each link, in order of appearance."""
    users: dict[str, set[Pair]] = {}
    for pair in measured:
        for link in links[pair]:
            users.setdefault(link, set()).add(pair)
    return users


@dataclass(frozen=True, slots=True)
class Bisection:
    """What was found on a machine: links that are slow, ranks that come late, and why it ended early, if it did.

    `scale` is measured over predicted time of the pairs that all are held against; None where the prediction itself is
    what they are held against.
    """

    machine: Topology
    num_bytes: int
    found: Found
    arrivals: Arrivals
    failure: str | None = None
    scale: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What the ranks are called."""
        return tuple(self.machine.device(device_id).name for device_id in self.machine.gpu_ids)

    @property
    def is_healthy(self) -> bool:
        """Whether no pair is slow, nobody late, and all was measured."""
        return not (self.found.slow or self.arrivals.late_ranks or self.failure)
