"""Index arithmetic that the engines share: distinct values, ragged ranges and counting without sorting."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32]
Number = TypeVar("Number", bound=np.integer[Any])

_ONE = np.int32(1)


def distinct(key: Ints) -> tuple[Ints, npt.NDArray[np.int32]]:
    """The distinct keys in ascending order, and for each key its position among them.

    Keys from a range not much wider than their number are marked in a table, which costs no sort.
    """
    upper = int(key.max(initial=-1)) + 1
    if upper > 4 * len(key) + 1024:
        values, inverse = np.unique(key, return_inverse=True)
        return values, inverse.astype(np.int32)
    seen = np.zeros(upper, dtype=bool)
    seen[key] = True
    position = np.cumsum(seen, dtype=np.int32) - _ONE
    return np.flatnonzero(seen), position[key]


def ascending(values: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """The distinct values in ascending order, by sorting: numpy's `unique` hashes, which is slow where most differ."""
    values = np.sort(values)
    first = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    found: npt.NDArray[Number] = values[first]
    return found


def in_order(key: Ints) -> tuple[Ints, Ints]:
    """The keys, none below 0, in ascending order, and where each stood; equal ones stay as they stand.

    Where both fit 63 bits, each key is sorted with its place behind it: that is several times faster than an argsort.
    """
    bits = max(len(key) - 1, 0).bit_length()
    if int(key.max(initial=0)).bit_length() + bits > 63:
        order: Ints = np.argsort(key, kind="stable")
        return key[order], order
    both = key << bits
    both |= np.arange(len(key), dtype=np.int64)
    both.sort()
    return both >> bits, both & ((1 << bits) - 1)


def stable_order(key: npt.NDArray[np.integer]) -> Ints:
    """The order that sorts the keys and keeps equal ones as they stand (radix sort where they fit 16 bits)."""
    if int(key.max(initial=0)) < 2**16:
        order: Ints = np.argsort(key.astype(np.uint16), kind="stable")
        return order
    return in_order(key.astype(np.int64))[1]


def ragged(first: npt.NDArray[np.int32], chosen: npt.NDArray[np.integer]) -> Ints:
    """Positions first[c] .. first[c + 1] - 1 of all chosen c, joined."""
    begin: Ints = first[chosen].astype(np.int64)
    length: Ints = first[chosen + 1] - begin
    if len(length) and (length == 1).all():
        return begin
    skipped = np.cumsum(length) - length
    joined: Ints = np.arange(int(length.sum()), dtype=np.int64) + np.repeat(begin - skipped, length)
    return joined


class Deduplicator:
    """Removes repeated indices below a bound, in time linear in their number."""

    def __init__(self, bound: int) -> None:
        self._mark = np.zeros(bound, dtype=np.int32)
        self._count = np.arange(256, dtype=np.int32)

    def __call__(self, index: Ints) -> Ints:
        """The indices, each once."""
        if len(index) < 2:
            return index
        if len(index) > len(self._count):
            self._count = np.arange(2 * len(index), dtype=np.int32)
        position = self._count[: len(index)]
        self._mark[index] = position
        once: Ints = index[self._mark[index] == position]
        return once


def count_up(counts: Counts, index: npt.NDArray[np.integer]) -> None:
    """Add one at each index, as often as it is given."""
    if len(index) == 1:
        counts[index.item()] += _ONE
    else:
        np.add.at(counts, index, _ONE)


def count_down(counts: Counts, index: npt.NDArray[np.integer]) -> None:
    """Subtract one at each index, as often as it is given."""
    if len(index) == 1:
        counts[index.item()] -= _ONE
    else:
        np.subtract.at(counts, index, _ONE)


def offsets(lengths: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Where each of some ranges of these lengths begins when they are joined, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
