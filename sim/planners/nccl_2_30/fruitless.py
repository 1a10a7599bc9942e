"""Searches for further channels that found nothing better: the same ones need not be run again within a try.

What the next channel may be depends on what every link and port still has, hardly ever on how that came about: many
orders of the GPUs of a channel lead to the same state. Exact: the visits that a search would use again are taken from
the clock, and where they are more than it has, the search would have ended for lack of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from sim.planners.nccl_2_30.graphs import Trial
from sim.planners.nccl_2_30.ground import Ground, Route
from sim.planners.nccl_2_30.ledger import Ledger
from sim.planners.nccl_2_30.net_choice import NetChoice

MOST_STATES = 4096
"""More states of one try are not kept: they take memory, and those of the first channels save the most."""

State = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Used:
    """What a search for further channels used: visits, and the latency that it left (None: it reached no NIC)."""

    visits: int
    latency_inter_s: float | None


class Fruitless:
    """The searches of one try that found nothing, by the state that they began in."""

    def __init__(self, ground: Ground, ledger: Ledger, nets: NetChoice) -> None:
        edges = sorted({edge for route in _routes(ground) for edge, _ in route.charges})
        self._left_of = itemgetter(*edges) if edges else tuple
        self._ledger = ledger
        self._nets = nets
        self._known: dict[State, Used] = {}

    def forget(self) -> None:
        """Begin another try."""
        self._known.clear()

    def state(self, trial: Trial, count: int, ends: Sequence[Sequence[int]]) -> State:
        """All that the channels after the first `count` depend on, where they do not repeat the order of these."""
        mirrored = tuple(ends[count - 1]) if trial.cross_nic == 2 else ()
        return count, mirrored, self._ledger.num_hops, self._nets.left, self._left_of(self._ledger.left)

    def used(self, state: State) -> Used | None:
        """What a search from this state used in vain; None where that is not known."""
        return self._known.get(state)

    def keep(self, state: State, used: Used) -> None:
        """Keep what a search used that changed nothing."""
        if len(self._known) < MOST_STATES:
            self._known[state] = used


def _routes(ground: Ground) -> Iterable[Route]:
    for table in (ground.gpu_gpu, ground.gpu_net, ground.net_gpu):
        for row in table:
            yield from (route for route in row if route is not None)
