"""A sweep: every point of a grid priced by many workers, written as it comes, and gone on with after a stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.sweep_points import failed_line, price_points
from topo.errors import EnvironmentMissing

if TYPE_CHECKING:
    from sim.sweep_file import SweepFile
    from sim.sweep_spec import Spec
    from sim.sweep_workers import Workers

MOST_AT_ONCE = 64
"""Points of one piece of work: enough to share a machine's plans, few enough to be written soon."""

LEAST_PIECES_PER_WORKER = 8
AHEAD = 2
"""Pieces per worker that are handed out before earlier ones are back."""

KILLED = "the process that priced this point was killed, perhaps for want of memory"

Points = tuple[int, ...]
Note = Callable[[Points, Sequence[bytes]], None]
"""Takes the lines of points that are priced."""
Progress = Callable[[int, int, float], None]
"""Told how many points are done, how many of them now, and for how many seconds the sweep runs."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a sweep did: points in all, priced now and before, and how long it took."""

    num_points: int
    num_now: int
    num_before: int
    elapsed_s: float


def run_sweep(spec: Spec, file: SweepFile, workers: Workers, progress: Progress) -> Summary:
    """Prices what is missing in the file; complete and sorted when this returns.

    EnvironmentMissing where the workers are gone, TopoError where the file cannot be written: what is done is kept.
    """
    begin = time.monotonic()
    before = len(file.done)

    def note(points: Points, lines: Sequence[bytes]) -> None:
        file.append(points, lines)
        progress(len(file.done), len(file.done) - before, time.monotonic() - begin)

    pieces = pieces_of(spec, frozenset(file.done), workers.count)
    try:
        while lost := _until_lost(spec, pieces, workers, note):
            for points in lost:
                _alone(spec, points, workers, note)
    except workers.gone as error:
        raise EnvironmentMissing(f"{workers.where} is gone ({type(error).__name__})") from None
    finally:
        file.close()
    file.finish()
    return Summary(spec.num_points, len(file.done) - before, before, time.monotonic() - begin)


def pieces_of(spec: Spec, done: Collection[int], num_workers: int) -> Iterator[Points]:
    """The points that are left, in pieces of points that stand beside each other and, as far as they can, share."""
    share = max(1, spec.num_points // (LEAST_PIECES_PER_WORKER * num_workers))
    limit = min(MOST_AT_ONCE, share)
    piece: list[int] = []
    for number in range(spec.num_points):
        ends_group = number % spec.num_sharing == 0 and len(piece) + spec.num_sharing > limit
        if piece and (len(piece) >= limit or ends_group):
            yield tuple(piece)
            piece = []
        if number not in done:
            piece.append(number)
    if piece:
        yield tuple(piece)


def _until_lost(spec: Spec, pieces: Iterator[Points], workers: Workers, note: Note) -> list[Points]:
    """Prices pieces until none is left or a worker is lost; returns those that were under way then."""
    pending: dict[Future[list[bytes]], Points] = {}
    with _opened(workers) as executor:
        try:
            for points in pieces:
                pending[executor.submit(price_points, spec, points)] = points
                if len(pending) >= AHEAD * workers.count:
                    _collect(pending, note)
            while pending:
                _collect(pending, note)
        except workers.lost:
            return _kept(pending, note)
    return []


def _collect(pending: dict[Future[list[bytes]], Points], note: Note) -> None:
    """Writes what is back first."""
    done, _ = wait(pending, return_when=FIRST_COMPLETED)
    for future in done:
        note(pending[future], future.result())
        del pending[future]


def _kept(pending: dict[Future[list[bytes]], Points], note: Note) -> list[Points]:
    """Writes what was priced before a worker was lost; returns the pieces that were not."""
    lost = []
    for future, points in pending.items():
        if future.done() and not future.cancelled() and future.exception() is None:
            note(points, future.result())
        else:
            lost.append(points)
    return lost


def _alone(spec: Spec, points: Points, workers: Workers, note: Note) -> None:
    """Prices a piece with nobody beside it, to tell whether it is what kills; a single point that kills is failed.

    A piece of several that kills is halved, and its halves are priced in the same way.
    """
    try:
        with _opened(workers) as executor:
            lines = executor.submit(price_points, spec, points).result()
    except workers.lost:
        lines = [failed_line(spec, points[0], KILLED)] if len(points) == 1 else []
    if lines:
        note(points, lines)
        return
    middle = len(points) // 2
    for half in (points[:middle], points[middle:]):
        _alone(spec, half, workers, note)


@contextmanager
def _opened(workers: Workers) -> Iterator[Executor]:
    yield from workers.open()


def estimate_s(spec: Spec, num_workers: int) -> float:
    """How long a sweep may take, in seconds, judged by its first, middle and last point priced here."""
    last = spec.num_points - 1
    begin = time.perf_counter()
    sample = sorted({0, last // 2, last})
    for number in sample:
        price_points(spec, (number,))
    return (time.perf_counter() - begin) / len(sample) * spec.num_points / num_workers
