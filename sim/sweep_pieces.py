"""What workers get of a sweep: a few points at a time, with all that pricing them takes and nothing else.

Whoever gets a piece needs nothing that was sent before: any worker can price it, on this machine or another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.sweep_spec import Spec, Value

MOST_AT_ONCE = 64
"""Points of one piece: enough to share a machine's plans, few enough to be written soon."""

LEAST_PIECES_PER_WORKER = 8

Point = Mapping[str, "Value"]
"""The values of a point by axis."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Points of a spec by number, written out; `settings` is the spec without its values, of which there may be many.

    `sweep_id` is that of the whole spec.
    """

    sweep_id: str
    settings: Spec
    points: tuple[tuple[int, Point], ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of its points."""
        return tuple(number for number, _ in self.points)

    def halves(self) -> tuple[Piece, Piece]:
        """Its first points and the others."""
        middle = len(self.points) // 2
        return replace(self, points=self.points[:middle]), replace(self, points=self.points[middle:])


def piece_of(spec: Spec, numbers: Iterable[int], sweep_id: str | None = None) -> Piece:
    """These points of a spec, whose id may be given, since to tell it takes a walk over all values."""
    points = tuple((number, spec.point(number)) for number in numbers)
    return Piece(sweep_id or spec.id, replace(spec, values=()), points)


def pieces_of(spec: Spec, done: Collection[int], num_workers: int) -> Iterator[Piece]:
    """The points that are left, in pieces of points that stand beside each other and, as far as they can, share."""
    sweep_id = spec.id
    share = max(1, spec.num_points // (LEAST_PIECES_PER_WORKER * num_workers))
    limit = min(MOST_AT_ONCE, share)
    numbers: list[int] = []
    for number in range(spec.num_points):
        ends_group = number % spec.num_sharing == 0 and len(numbers) + spec.num_sharing > limit
        if numbers and (len(numbers) >= limit or ends_group):
            yield piece_of(spec, numbers, sweep_id)
            numbers = []
        if number not in done:
            numbers.append(number)
    if numbers:
        yield piece_of(spec, numbers, sweep_id)
