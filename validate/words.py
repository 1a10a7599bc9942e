"""What stays short in sentences: lists, and the errors of others."""

from __future__ import annotations

from collections.abc import Sequence

MOST_NAMED = 8
MOST_CHARS = 300


def listed(names: Sequence[object], most: int = MOST_NAMED) -> str:
    """The names with commas; of more than `most` the first ones, and how many more there are."""
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def sentence_of(error: BaseException) -> str:
    """The first line of a foreign error with its type: libraries append stack traces of their own."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.') if lines else 'no message'}"[:MOST_CHARS]
