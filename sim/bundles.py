"""Equal channels carried as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import gcd
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def bundled(channels: Sequence[T]) -> tuple[T, ...]:
    """The fewest channels that carry equal shares and stand for all of these: equal ones are one, as far as it goes.

    24 equal rings are one; two of one kind and one of another stay three. Nothing bounds what one channel moves, so
    that equal channels side by side take the time of one with all their data.
    """
    counts = Counter(channels)
    share = gcd(*counts.values())
    return tuple(channel for channel, count in counts.items() for _ in range(count // share))
