"""`nvidia-smi topo -p2p r|w|n|a|p|...`: whether GPUs reach each other's memory, and why not where they do not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from topo.errors import CaptureError
from topo.readers.limits import MAX_MATRIX_CHARS
from topo.readers.plain_text import cleaned_lines, command_in
from topo.readers.square_table import SquareTable, square_tables
from topo.readers.topo_header import Stream

FORMAT = "nvidia-smi topo -p2p"

MEANINGS: Mapping[str, str] = {
    "OK": "works",
    "CNS": "the chipset does not support it",
    "GNS": "the GPU does not support it",
    "TNS": "the topology does not support it",
    "DR": "disabled by a driver's registry key",
    "NS": "not supported",
    "U": "unknown",
}
"""What a cell says of a pair of GPUs: NVML's peer-to-peer states."""

_SELF = "X"
_GPU = re.compile(r"\bGPU\d")
_MARK = re.compile(rf"\b(?:{'|'.join(MEANINGS)})\b")
_CAPABILITY = re.compile(r"topo\s+(?:-p2p|--p2pstatus)[\s=]+([a-z]+)")
_LEGEND = re.compile(r"^\s*([A-Z]{1,4})\s*=\s*(\S.*?)\s*$")


@dataclass(frozen=True)
class P2pTable:
    """One table: `cells` holds each ordered pair (row, column) with its mark, None where the text is cut.

    `capability` is what was asked for (`r` read, `w` write, `n` NVLink, `a` atomics, `p` PCIe), as the command line in
    the text says; None where the text shows no command.
    """

    names: tuple[str, ...]
    cells: tuple[tuple[tuple[str, str], str | None], ...]
    row_lines: tuple[tuple[str, int], ...]
    capability: str | None = None
    complete: bool = True

    @cached_property
    def _marks(self) -> dict[tuple[str, str], str | None]:
        return dict(self.cells)

    @cached_property
    def _lines(self) -> dict[str, int]:
        return dict(self.row_lines)

    def mark(self, one: str, other: str) -> str | None:
        """What the row of `one` says of `other` (`OK`, `CNS`); the other row's word where that row is missing."""
        mark = self._marks.get((one, other))
        return self._marks.get((other, one)) if mark is None else mark

    def line(self, one: str) -> int | None:
        """The line of that GPU's row."""
        return self._lines.get(one)

    @property
    def refused(self) -> tuple[tuple[str, str, str], ...]:
        """The pairs, each once, that are not `OK` (in either direction) with their marks, in the table's order."""
        found: dict[tuple[str, str], str] = {}
        for (one, other), mark in self.cells:
            pair = (one, other) if self.names.index(one) < self.names.index(other) else (other, one)
            if mark not in (None, "OK"):
                found.setdefault(pair, str(mark))
        return tuple((one, other, mark) for (one, other), mark in found.items())


@dataclass(frozen=True, slots=True)
class P2pFacts:
    """The tables of one text, one per capability asked for; `meanings` explains each mark that stands in one."""

    tables: tuple[P2pTable, ...]
    meanings: tuple[tuple[str, str], ...]
    source: str = ""


def sniff(text: str) -> bool:
    """Whether the text holds a table of peer-to-peer marks."""
    if len(text) > MAX_MATRIX_CHARS or not (_GPU.search(text) and _MARK.search(text)):
        return False
    try:
        stream = Stream(text)
    except CaptureError:
        return False
    try:
        return bool(_square_tables(stream, _meanings(text)))
    except CaptureError:
        return True  # rows of marks that are cut or shifted: `read` says how


def read(text: str, source: str = "") -> P2pFacts:
    """The facts of the text's peer-to-peer tables.

    CaptureError, with file and line, where there is none, or where a table is shifted or holds an unknown mark.
    """
    meanings = _meanings(text)
    found = _square_tables(Stream(text, source), meanings) if text.strip() else ()
    if not found:
        raise CaptureError(
            f"no table of peer-to-peer states: expected the output of {FORMAT} r, a header GPU0 GPU1 ... and rows of "
            f"{', '.join(MEANINGS)}",
            source=source,
            line=1,
        )
    commands = _capabilities(text)
    tables = tuple(_table(table, commands, source) for table in found)
    used = {mark for table in tables for _, mark in table.cells if mark}
    return P2pFacts(tables, tuple((mark, meanings[mark]) for mark in meanings if mark in used), source)


def _square_tables(stream: Stream, meanings: Mapping[str, str]) -> tuple[SquareTable, ...]:
    """The tables of marks; a lone GPU's table has none, and is a path matrix as well."""
    return square_tables(stream, lambda word: word == _SELF or word in meanings, lambda word: word in meanings)


def _table(table: SquareTable, commands: list[tuple[int, str]], source: str) -> P2pTable:
    cells: list[tuple[tuple[str, str], str | None]] = []
    for row in table.rows:
        for other, cell in zip(table.names, row.cells, strict=True):
            if cell is not None and (cell == _SELF) != (row.name == other):
                raise CaptureError(
                    f"cells of row {row.name} are lost or shifted: {cell} stands under {other}, expected {_SELF} under "
                    f"{row.name} alone",
                    source=source,
                    line=row.line,
                )
            if row.name != other:
                cells.append(((row.name, other), cell))
    before = [letter for line, letter in commands if line <= table.line]
    lines = tuple((row.name, row.line) for row in table.rows)
    return P2pTable(table.names, tuple(cells), lines, before[-1] if before else None, table.complete)


def _capabilities(text: str) -> list[tuple[int, str]]:
    """The lines in which the text shows the command, with what was asked for."""
    commands = ((line.number, command_in(line.text)) for line in cleaned_lines(text))
    return [(number, match[1]) for number, said in commands if said and (match := _CAPABILITY.search(said))]


def _meanings(text: str) -> dict[str, str]:
    """The known marks, and those that the text's own legend adds to them."""
    legend = (_LEGEND.match(line.text) for line in cleaned_lines(text))
    added = {match[1]: match[2] for match in legend if match and match[1] not in (_SELF, *MEANINGS)}
    return {**MEANINGS, **(added if "Status Ok" in text else {})}
