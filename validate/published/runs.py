"""Published runs from where they lie: the package's own, or a folder of `measurement/1` documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from topo.errors import CaptureError, MeasurementError
from validate.published.document import Published, read

SHIPPED = Path(__file__).parent / "runs.jsonl"
"""One `measurement/1` document a line, each with the source it was restated from."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """Rows that cannot be scored and why: `run` is their run (or file), `num_rows` how many there are."""

    run: str
    num_rows: int
    reason: str


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs in the order of their files, and what of the files could not be read."""

    runs: tuple[Published, ...]
    set_aside: tuple[SetAside, ...] = field(default=())


def shipped_runs() -> tuple[Published, ...]:
    """The runs that come with the package, by id."""
    return tuple(read(line, where) for where, line in _lines(SHIPPED))


def runs_in(folder: Path) -> Runs:
    """All runs in a folder's *.json (one document each) and *.jsonl (one a line), by file name.

    What is no `measurement/1` document is set aside with the reason, and so is a second document of one id and name.
    MeasurementError where the folder holds no run at all.
    """
    if not folder.is_dir():
        raise MeasurementError(f"{folder} is no folder: give one that holds measurement/1 documents")
    runs: dict[tuple[str, str], Published] = {}
    set_aside = []
    for where, text in _documents(folder):
        try:
            if isinstance(text, CaptureError):
                raise text
            run = read(text, where)
        except CaptureError as error:
            set_aside.append(_unread(where, error))
            continue
        if (run.id, run.name) in runs:
            reason = f"a second run of id {run.id} and name {run.name}: give each run a name of its own"
            set_aside.append(SetAside(where, len(run.samples), reason))
            continue
        runs[run.id, run.name] = run
    if not runs:
        first = f", such as {set_aside[0].run}: {set_aside[0].reason}" if set_aside else ""
        raise MeasurementError(f"{folder} holds no measurement/1 document (*.json, *.jsonl) that can be read{first}")
    return Runs(tuple(runs.values()), tuple(set_aside))


def _unread(where: str, error: CaptureError) -> SetAside:
    """What cannot be read, with its place said once; the line within one line of *.jsonl is always the first."""
    place = error.source + (f", line {error.line}" if error.line is not None else "")
    whole_file = where.endswith((".json", ".jsonl"))
    return SetAside(place if whole_file and place else where, 0, str(error).removeprefix(f"{place}: "))


def _documents(folder: Path) -> Iterator[tuple[str, str | CaptureError]]:
    """Where each document stands, and its text (or why there is none)."""
    from topo.textfile import read_file

    for path in sorted(folder.iterdir()):
        if path.suffix not in (".json", ".jsonl"):
            continue
        try:
            if path.suffix == ".jsonl":
                yield from _lines(path)
            else:
                yield str(path), read_file(path)
        except CaptureError as error:
            yield str(path), error


def _lines(path: Path) -> list[tuple[str, str]]:
    from topo.textfile import read_file

    lines = enumerate(read_file(path).split("\n"), start=1)
    return [(f"{path}, line {number}", line) for number, line in lines if line.strip()]
