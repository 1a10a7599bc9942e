"""A sweep: every point of a grid priced by many workers, written as it comes, and gone on with after a stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.sweep_pieces import Piece, piece_of, pieces_of
from sim.sweep_points import failed_lines, price_points
from topo.errors import EnvironmentMissing

if TYPE_CHECKING:
    from sim.sweep_file import SweepFile
    from sim.sweep_spec import Spec
    from sim.sweep_workers import Workers

AHEAD = 2
"""Pieces per worker that are handed out before earlier ones are back."""

KILLED = "the process that priced this point was killed, perhaps for want of memory"

Note = Callable[[Sequence[int], Sequence[bytes]], None]
"""Takes the numbers of points that are priced, and their lines."""
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

    def note(numbers: Sequence[int], lines: Sequence[bytes]) -> None:
        file.append(numbers, lines)
        progress(len(file.done), len(file.done) - before, time.monotonic() - begin)

    pieces = pieces_of(spec, frozenset(file.done), workers.count)
    try:
        while lost := _until_lost(pieces, workers, note):
            for piece in lost:
                _alone(piece, workers, note)
    except workers.gone as error:
        raise EnvironmentMissing(f"{workers.where} is gone ({type(error).__name__})") from None
    finally:
        file.close()
    file.finish()
    return Summary(spec.num_points, len(file.done) - before, before, time.monotonic() - begin)


def _until_lost(pieces: Iterator[Piece], workers: Workers, note: Note) -> list[Piece]:
    """Prices pieces until none is left or a worker is lost; returns those that were under way then."""
    pending: dict[Future[list[bytes]], Piece] = {}
    with _opened(workers) as executor:
        try:
            for piece in pieces:
                pending[executor.submit(price_points, piece)] = piece
                if len(pending) >= AHEAD * workers.count:
                    _collect(pending, note)
            while pending:
                _collect(pending, note)
        except workers.lost:
            return _kept(pending, note)
    return []


def _collect(pending: dict[Future[list[bytes]], Piece], note: Note) -> None:
    """Writes what is back first."""
    done, _ = wait(pending, return_when=FIRST_COMPLETED)
    for future in done:
        note(pending[future].numbers, future.result())
        del pending[future]


def _kept(pending: dict[Future[list[bytes]], Piece], note: Note) -> list[Piece]:
    """Writes what was priced before a worker was lost; returns the pieces that were not."""
    lost = []
    for future, piece in pending.items():
        if future.done() and not future.cancelled() and future.exception() is None:
            note(piece.numbers, future.result())
        else:
            lost.append(piece)
    return lost


def _alone(piece: Piece, workers: Workers, note: Note) -> None:
    """Prices a piece with nobody beside it, to tell whether it is what kills; a single point that kills is failed.

    A piece of several that kills is halved, and its halves are priced in the same way.
    """
    try:
        with _opened(workers) as executor:
            lines = executor.submit(price_points, piece).result()
    except workers.lost:
        lines = failed_lines(piece, KILLED) if len(piece.points) == 1 else []
    if lines:
        note(piece.numbers, lines)
        return
    for half in piece.halves():
        _alone(half, workers, note)


@contextmanager
def _opened(workers: Workers) -> Iterator[Executor]:
    yield from workers.open()


def estimate_s(spec: Spec, num_workers: int) -> float:
    """How long a sweep may take, in seconds, judged by its first, middle and last point priced here."""
    last = spec.num_points - 1
    begin = time.perf_counter()
    sample = sorted({0, last // 2, last})
    for number in sample:
        price_points(piece_of(spec, (number,)))
    return (time.perf_counter() - begin) / len(sample) * spec.num_points / num_workers
