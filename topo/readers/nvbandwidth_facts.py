"""What nvbandwidth measured: one matrix per test case, with the direction that its title states."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Arrow = Literal["->", "<-", "<->"]
End = Literal["cpu", "gpu"]

_TITLE = re.compile(
    r"(CPU|GPU|Device)\s*\((row|column)s?\)\s*(<->|->|<-)\s*(CPU|GPU|Device)\s*\((row|column)s?\)", re.IGNORECASE
)
_UNIT = re.compile(r"\((GB/s|MB/s|ns|us)\)")
_SCALES = {"GB/s": 1e9, "MB/s": 1e6, "ns": 1e-9, "us": 1e-6}
_FLIPPED: dict[str, Arrow] = {"->": "<-", "<-": "->", "<->": "<->"}


@dataclass(frozen=True, slots=True)
class Title:
    """What a title says: the ends that rows and columns stand for, which way data goes between them, and the unit.

    `arrow` is from row to column, from column to row, or both ways at once; None, as the ends are, where the title
    has rows for no device (`memcpy local GPU(column)`). `scale` makes SI of a cell: bytes per second, or seconds.
    """

    row: End | None
    column: End | None
    arrow: Arrow | None
    quantity: Literal["bandwidth", "latency"]
    scale: float


def parse_title(words: str) -> Title | None:
    """The title in a line such as `memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)`; None where it is none."""
    unit = _UNIT.search(words)
    if unit is None or not re.search(r"\((?:row|column)s?\)", words):
        return None
    quantity: Literal["bandwidth", "latency"] = "latency" if unit[1] in ("ns", "us") else "bandwidth"
    match = _TITLE.search(words)
    if match is None or match[2].lower() == match[5].lower():
        return Title(None, None, None, quantity, _SCALES[unit[1]])
    one, other = _end(match[1]), _end(match[4])
    if match[2].lower() == "row":
        return Title(one, other, _FLIPPED[_FLIPPED[match[3]]], quantity, _SCALES[unit[1]])
    return Title(other, one, _FLIPPED[match[3]], quantity, _SCALES[unit[1]])


def _end(word: str) -> End:
    return "cpu" if word.lower() == "cpu" else "gpu"


@dataclass(frozen=True)
class MeasuredMatrix:
    """One test case: `cells` holds each (row, column) with its value in SI, None where nothing was measured."""

    test: str
    words: str
    title: Title
    cells: tuple[tuple[tuple[int, int], float | None], ...]
    line: int

    @cached_property
    def _cells(self) -> dict[tuple[int, int], float | None]:
        return dict(self.cells)

    @property
    def is_between_gpus(self) -> bool:
        """Whether it is a bandwidth from GPU to GPU, one way at a time."""
        title = self.title
        return title.quantity == "bandwidth" and title.row == title.column == "gpu" and title.arrow in ("->", "<-")

    def measured(self, src: int, dst: int) -> float | None:
        """What was measured from GPU `src` to GPU `dst`, whichever way the title writes it; None where nothing was."""
        return self._cells.get((dst, src) if self.title.arrow == "<-" else (src, dst))


@dataclass(frozen=True, slots=True)
class MeasuredGpu:
    """One GPU as nvbandwidth numbers it: its product's name and PCI address (Linux' form)."""

    number: int
    name: str
    address: str | None
    line: int


@dataclass(frozen=True, slots=True)
class NvbandwidthFacts:
    """All matrices of a text in order, and the GPUs that it lists. `failed` are test cases that gave no matrix."""

    matrices: tuple[MeasuredMatrix, ...]
    gpus: tuple[MeasuredGpu, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    source: str = ""

    @property
    def between_gpus(self) -> tuple[MeasuredMatrix, ...]:
        """The matrices of bandwidth from GPU to GPU, one way at a time."""
        return tuple(matrix for matrix in self.matrices if matrix.is_between_gpus)
