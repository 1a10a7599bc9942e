"""The files that one command writes, held against each other before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click


def require_apart(files: Iterable[tuple[str, Path | None]]) -> None:
    """Raise UsageError where two options name one file, by links too: the second would replace the first.

    What is no regular file (`/dev/null`, a pipe) may be named as often as one likes.
    """
    known: list[tuple[str, Path]] = []
    for option, path in files:
        if path is None or (path.exists() and not path.is_file()):
            continue
        for other, earlier in known:
            if _is_same(path, earlier):
                raise click.UsageError(
                    f"{option} {path} and {other} {earlier} are one file: give each a file of its own"
                )
        known.append((option, path))


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))
    except (OSError, RuntimeError):
        # What cannot be looked up (a circle of links) cannot be written either, which is said then.
        return False
