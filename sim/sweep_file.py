"""The file of a sweep: lines that are appended as they come, found again after a stop, and sorted at the end.

Lines carry their point's number, so that they may come in any order; when all are there the file is put in the order of
points, and holds the same bytes however many workers made it. Parquet cannot be added to once it is closed: its rows
wait in a file of lines beside it until the last one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from sim.sweep_parquet import require_pyarrow, write_parquet
from sim.sweep_points import SCHEMA, problem_of
from topo.errors import CaptureError, TopoError

PARQUET = ".parquet"
SUFFIXES = (".jsonl", PARQUET)


class SweepFile:
    """What a sweep of one id has written; `done` are the numbers of the points that are there.

    `num_failed` of them say that they failed, as `failure` (a point's number and its words) does.
    """

    def __init__(self, path: Path, sweep_id: str) -> None:
        """Opens the file for appending, and reads what is there.

        CaptureError where it holds anything but lines of this sweep or is no file, TopoError where it cannot be written
        or another process writes it.
        """
        if path.suffix not in SUFFIXES:
            raise CaptureError(f"a sweep is written to a file that ends in {' or '.join(SUFFIXES)}", source=str(path))
        if path.suffix == PARQUET:
            require_pyarrow()
        self.path = path
        self._lines = path.with_name(f"{path.name}.jsonl") if path.suffix == PARQUET else path
        if path != self._lines and path.exists():
            raise CaptureError("this file is there and complete: remove it, or give another with -o", source=str(path))
        self._sorted = True
        self._last = -1
        self.done: set[int] = set()
        self.num_failed = 0
        self.failure: tuple[int, str] | None = None
        if self._lines.exists() and not self._lines.is_file():
            raise CaptureError("no regular file, so no sweep could go on with it", source=str(self._lines))
        try:
            self._stream: BinaryIO = self._lines.open("r+b" if self._lines.exists() else "x+b")
            self._end = self._taken_over(sweep_id)
        except OSError as error:
            raise TopoError(f"-o {path}: cannot be written ({error.strerror})") from None

    def _taken_over(self, sweep_id: str) -> int:
        """Locks and reads the file; returns where its last whole line ends, and lets what follows stand there."""
        try:
            self._lock()
            end = self._read(sweep_id)
            # What a kill cut off in the middle of a line is written anew.
            self._stream.truncate(end)
            self._stream.seek(end)
        except BaseException:
            self._stream.close()
            raise
        return end

    def _lock(self) -> None:
        """Keeps the file from other sweeps until it is closed; TopoError where another one has it.

        Where the system or the file system knows no locks there is none.
        """
        try:
            import fcntl
        except ImportError:
            return
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TopoError(
                f"{self._lines}: another sweep is writing there: wait for it, or give another file with -o"
            ) from None
        except OSError:
            return

    def _read(self, sweep_id: str) -> int:
        """Notes the points that are there; returns where the last whole line ends."""
        end = 0
        for number, line in enumerate(self._stream, start=1):
            if not line.endswith(b"\n"):
                break
            self._note(_point_of(line, sweep_id, str(self._lines), number), line)
            end += len(line)
        return end

    def _note(self, point: int, line: bytes) -> None:
        self._sorted &= point > self._last
        self._last = point
        self.done.add(point)
        problem = problem_of(line)
        if problem is not None:
            self.num_failed += 1
            self.failure = min(self.failure or (point, problem), (point, problem))

    def append(self, points: Sequence[int], lines: Sequence[bytes]) -> None:
        """Writes the lines of these points; TopoError where they cannot be, with the file as it was before."""
        block = b"".join(lines)
        try:
            self._stream.write(block)
            self._stream.flush()
        except OSError as error:
            self._restore()
            raise TopoError(f"{self._lines}: cannot be written ({error.strerror})") from None
        self._end += len(block)
        for point, line in zip(points, lines, strict=True):
            self._note(point, line)

    def _restore(self) -> None:
        """Cuts off what was written in part; where even that fails the next start does it."""
        try:
            os.truncate(self._lines, self._end)
        except OSError:
            return

    def close(self) -> None:
        """Ends writing, complete or not."""
        try:
            self._stream.close()
        except OSError:
            self._restore()

    def finish(self) -> None:
        """Puts the lines in the order of points, and turns them into Parquet where that was asked for."""
        self.close()
        try:
            if not self._sorted:
                self._sort()
            if self.path.suffix == PARQUET:
                write_parquet(self._lines, self.path)
                self._lines.unlink()
        except OSError as error:
            raise TopoError(
                f"{self.path}: all points are in {self._lines}, but cannot be put in order ({error.strerror})"
            ) from None

    def _sort(self) -> None:
        temporary = self._lines.with_name(f"{self._lines.name}.sorted")
        with self._lines.open("rb") as stream, temporary.open("wb") as out:
            places: list[tuple[int, int]] = []
            place = 0
            for line in stream:
                places.append((_point_of(line, None, str(self._lines), 0), place))
                place += len(line)
            for _, start in sorted(places):
                stream.seek(start)
                out.write(stream.readline())
        temporary.replace(self._lines)


def _point_of(line: bytes, sweep_id: str | None, source: str, number: int) -> int:
    """The number of a line's point; CaptureError where it is no line of this sweep (None: of any)."""
    import msgspec

    try:
        found = msgspec.json.decode(line)
        schema, own_id, point = found["schema"], found["sweep"], found["point"]
    except (msgspec.DecodeError, KeyError, TypeError):
        raise CaptureError("no line of a sweep: give another file with -o", source=source, line=number) from None
    if schema != SCHEMA or not isinstance(point, int) or (sweep_id is not None and own_id != sweep_id):
        raise CaptureError(
            f"a line of another sweep ({own_id}): give another file with -o, or remove this one",
            source=source,
            line=number,
        )
    return point
