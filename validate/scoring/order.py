"""Whether a model tells which of two ways is faster: pairs of runs of one source that differ in what they forced."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import combinations

from validate.scoring.score import ScoredRow, ScoredRun, Scores

APART = 1.05
"""Ways whose measured times differ by less than this factor are as good as each other."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two ways to do the same; the first was measured faster."""

    faster: ScoredRun
    slower: ScoredRun
    num_bytes: int
    measured_s: tuple[float, float]
    predicted_s: tuple[float, float]

    @property
    def is_right(self) -> bool:
        """Whether the model says so as well; that both take the same time says nothing, and is wrong."""
        return self.predicted_s[0] < self.predicted_s[1]


def pairs_of(scores: Scores, model: str) -> tuple[Pair, ...]:
    """Every pair of scored rows of one machine, source, collective and size whose runs forced different ways.

    Only pairs that differ by more than APART in measurement count, and that the model has both times of.
    """
    groups: dict[Hashable, list[tuple[ScoredRun, ScoredRow]]] = {}
    for run in scores.runs:
        for row in run.scored:
            groups.setdefault((_where(run), row.num_bytes), []).append((run, row))
    return tuple(
        pair for group in groups.values() for one, other in combinations(group, 2) for pair in _pair(one, other, model)
    )


def _where(run: ScoredRun) -> Hashable:
    published = run.case.run
    machine = published.machine
    return published.source, machine.topology, machine.nodes, machine.gpus_per_node, published.collective


def _way(run: ScoredRun) -> Hashable:
    published = run.case.run
    return published.algorithm, published.protocol, published.num_channels


def _pair(one: tuple[ScoredRun, ScoredRow], other: tuple[ScoredRun, ScoredRow], model: str) -> Iterator[Pair]:
    (faster, fast), (slower, slow) = sorted((one, other), key=lambda both: both[1].measured_s)
    times = fast.predicted_s[model], slow.predicted_s[model]
    if _way(faster) == _way(slower) or slow.measured_s <= APART * fast.measured_s or None in times:
        return
    first, second = times
    assert first is not None
    assert second is not None
    yield Pair(faster, slower, fast.num_bytes, (fast.measured_s, slow.measured_s), (first, second))
