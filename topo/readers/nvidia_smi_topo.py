"""`nvidia-smi topo -m` and `-mp`: text -> facts. Which letters join which devices, and what else the table says.

Letters are kept as the driver prints them, except that SOC (drivers before NUMA awareness) is read as SYS and PSB
(one board's own switch) as PIX. Nothing is filled in: a pair that the text does not show is None.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from topo.errors import CaptureError
from topo.readers.topo_header import Stream
from topo.readers.topo_table import Row, Table, TableParser
from topo.readers.topo_tokens import is_gpu
from topo.words import counted

_OLD_LETTERS = {"SOC": "SYS", "PSB": "PIX"}

_FAILURES = re.compile(
    r"failed to run topology matrix|unable to determine the device handle|does not contain any pu|"
    r"nvidia-smi has failed|failed to initialize nvml|couldn't communicate with the nvidia driver|"
    r"no devices were found|nvidia-smi[:' ].{0,40}not found|command not found|no such file or directory|"
    r"insufficient permissions|driver/library version mismatch|gpu is lost",
    re.IGNORECASE,
)
"""How nvidia-smi, its libraries or the shell say that there is no matrix."""

_OTHERS_FAILURES = re.compile(r"command not found|no such file or directory", re.IGNORECASE)
"""What the shell says of any command: beside a matrix it need not be about nvidia-smi."""

_LOST_GPU = re.compile(r"unable to determine the device handle|gpu is lost", re.IGNORECASE)
_NIC_LEGEND = re.compile(r"\b(NIC\d+)\s*:\s*([A-Za-z][\w.\-]*)")

MOST_FAILURES = 4
"""So many lines in which nvidia-smi fails are told: the others say the same."""

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MatrixFacts:
    """One path matrix.

    `names` are the header's labels in its order. `cells` holds each pair of them once, the earlier label first, with
    its letters or None where the text does not show them. The affinities are pairs of label and text as printed: `""`
    is an empty CPU affinity (no allowed CPU on that node), `N/A` what the driver does not know; a row that lacks the
    column is absent. `nic_legend` maps labels to the interfaces' own names. `row_lines` are the lines of the rows.
    `notes` are sentences about the text. `complete` is False where rows or cells are missing. `behind_nvlinks` holds
    the PCIe path of pairs with NV#, where a second matrix (`-mp`) shows it.
    """

    names: tuple[str, ...]
    cells: tuple[tuple[tuple[str, str], str | None], ...]
    cpu_affinity: Pairs = ()
    numa: Pairs = ()
    gpu_numa_id: Pairs = ()
    nic_legend: Pairs = ()
    row_lines: tuple[tuple[str, int], ...] = ()
    complete: bool = True
    notes: tuple[str, ...] = ()
    source: str = ""
    behind_nvlinks: tuple[tuple[tuple[str, str], str], ...] = ()

    @cached_property
    def _letters(self) -> dict[tuple[str, str], str | None]:
        return dict(self.cells)

    @property
    def gpus(self) -> tuple[str, ...]:
        """The labels of GPUs, in header order."""
        return tuple(name for name in self.names if is_gpu(name))

    @property
    def nics(self) -> tuple[str, ...]:
        """The labels of network interfaces, in header order."""
        return tuple(name for name in self.names if not is_gpu(name))

    @cached_property
    def _behind(self) -> dict[tuple[str, str], str]:
        return dict(self.behind_nvlinks)

    @cached_property
    def _row_lines(self) -> dict[str, int]:
        return dict(self.row_lines)

    def line(self, name: str) -> int | None:
        """The line of that label's row, None where the text lacks it."""
        return self._row_lines.get(name)

    def pcie_letters(self, one: str, other: str) -> str | None:
        """The letters of the pair's PCIe path, in either order; those behind NV# are known from `-mp` alone."""
        behind = self._behind.get((one, other), self._behind.get((other, one)))
        return behind or self.letters(one, other)

    def letters(self, one: str, other: str) -> str | None:
        """The letters between two labels, in either order; None where the text does not show them."""
        return self._letters.get((one, other), self._letters.get((other, one)))


def sniff(text: str) -> bool:
    """Whether the text holds rows of path letters, as `nvidia-smi topo -m` prints them: damaged ones count."""
    if not re.search(r"GPU\d", text):
        return False
    try:
        parser = TableParser(Stream(text))
    except CaptureError:
        return False
    try:
        found = [table for table in parser.tables() if not table.is_p2p] or parser.headless()
    except CaptureError:
        return True  # rows of path letters that contradict themselves: `read` says how
    return bool(found)


def read(text: str, source: str = "") -> MatrixFacts:
    """The facts of the text's path matrix.

    CaptureError, with file and line, where there is no matrix, where it contradicts itself (asymmetric, two rows of
    one name, shifted cells, letters that no driver prints) or where the text holds matrices of several machines.
    """
    parser = TableParser(Stream(text, source))
    tables = parser.tables()
    matrices = [table for table in tables if not table.is_p2p]
    if not matrices:
        headless = None if tables else parser.headless()
        if headless is None:
            raise _no_matrix(parser, tables, text, source)
        matrices = [headless]
    facts = one_machine([_facts(table, source) for table in matrices])
    legend = tuple((nic, name) for nic, name in _NIC_LEGEND.findall(text) if nic in facts.names)
    return replace(facts, nic_legend=tuple(dict(legend).items()), notes=facts.notes + _notes(text))


def _facts(table: Table, source: str) -> MatrixFacts:
    names = table.header.names
    rows = _by_name(table.rows, source)
    cells = tuple(
        ((one, other), _agreed(one, other, names, rows, source))
        for place, one in enumerate(names)
        for other in names[place + 1 :]
    )
    for (one, other), letters in cells:
        if letters and letters.startswith("NV") and not (is_gpu(one) and is_gpu(other)):
            raise CaptureError(
                f"{one}-{other} is {letters}, yet only GPUs (GPU0, GPU1, ...) have NVLinks: a label is misspelt, or "
                "cells are shifted",
                source=source,
                line=(rows.get(one) or rows[other]).line,
            )
    missing = [name for name in names if name not in rows]
    whole = not missing and all(None not in row.cells for row in table.rows)
    notes = (f"the matrix lacks the rows of {', '.join(missing)}: their pairs are known from other rows only",)
    return MatrixFacts(
        names=names,
        cells=cells,
        cpu_affinity=_column("cpu", rows),
        numa=_column("numa", rows),
        gpu_numa_id=_column("gpu_numa", rows),
        row_lines=tuple((row.name, row.line) for row in table.rows),
        complete=whole,
        notes=notes if missing else (),
        source=source,
    )


def _by_name(rows: Iterable[Row], source: str) -> dict[str, Row]:
    by_name: dict[str, Row] = {}
    for row in rows:
        if row.name in by_name:
            raise CaptureError(
                f"two rows are called {row.name} (the first in line {by_name[row.name].line}): expected one row per "
                "device, give one capture per file",
                source=source,
                line=row.line,
            )
        by_name[row.name] = row
    return by_name


def _agreed(one: str, other: str, names: tuple[str, ...], rows: Mapping[str, Row], source: str) -> str | None:
    """The pair's letters, as its one or two rows show them; CaptureError where the two differ."""
    shown: list[tuple[str, Row]] = []
    for row_name, column in ((one, other), (other, one)):
        row = rows.get(row_name)
        letters = row.cells[names.index(column)] if row else None
        if row and letters:
            shown.append((_OLD_LETTERS.get(letters, letters), row))
    if len(shown) == 2 and shown[0][0] != shown[1][0]:
        (first, first_row), (second, second_row) = shown
        raise CaptureError(
            f"the matrix is not symmetric: {one}-{other} is {first} in line {first_row.line} and {second} in line "
            f"{second_row.line}; capture it again",
            source=source,
            line=second_row.line,
        )
    return shown[0][0] if shown else None


def _column(column: str, rows: Mapping[str, Row]) -> Pairs:
    return tuple((name, row.values[column]) for name, row in rows.items() if is_gpu(name) and column in row.values)


def one_machine(found: Sequence[MatrixFacts]) -> MatrixFacts:
    """The matrix with the most NV#, with the PCIe paths that another one (`-mp`) shows of the same pairs.

    CaptureError where they are of several machines: other devices, or other letters.
    """
    best = max(found, key=lambda facts: sum(_is_nvlink(letters) for _, letters in facts.cells))
    behind: dict[tuple[str, str], str] = {}
    for facts in found:
        clash = facts.names != best.names
        for (pair, letters), (_, known) in zip(facts.cells, best.cells, strict=False):
            if letters and known and letters != known:
                clash = clash or not _is_nvlink(known) or _is_nvlink(letters)
                behind.setdefault(pair, letters)
        if clash:
            raise _two_machines(facts, best)
    return replace(best, behind_nvlinks=tuple(behind.items()))


def _is_nvlink(letters: str | None) -> bool:
    return letters is not None and letters.startswith("NV")


def _two_machines(one: MatrixFacts, other: MatrixFacts) -> CaptureError:
    first, second = sorted((one, other), key=lambda facts: (facts.source, facts.row_lines[0][1]))
    lines = (first.row_lines[0][1], second.row_lines[0][1])
    rows = f"rows from lines {lines[0]} and {lines[1]}"
    if first.source != second.source:
        rows = f"rows from line {lines[0]} of {first.source} and line {lines[1]} of {second.source}"
    return CaptureError(
        f"two different matrices ({rows}): expected one machine, give one file per machine",
        source=second.source,
        line=lines[1],
    )


def _notes(text: str) -> tuple[str, ...]:
    said: list[str] = []
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        words = f"line {number}: {line.strip()[:120]}"
        if _LOST_GPU.search(line):
            said.append(f"nvidia-smi reports a GPU that the matrix may lack, {words}")
        elif _FAILURES.search(line) and not _OTHERS_FAILURES.search(line):
            said.append(f"a failure of nvidia-smi stands beside the matrix, which may lack something, {words}")
    return tuple(said[:MOST_FAILURES])


def _failure(text: str) -> tuple[int, str] | None:
    """The first line in which a tool says that it failed, with its number."""
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        if _FAILURES.search(line):
            return number, line.strip()[:120]
    return None


def _no_matrix(parser: TableParser, tables: list[Table], text: str, source: str) -> CaptureError:
    """Why there is nothing to read, as an error that names the line."""
    again = "run nvidia-smi topo -m again once that is repaired"
    if failure := _failure(text):
        number, said = failure
        return CaptureError(
            f"nvidia-smi printed a failure instead of a path matrix: {said!r}; {again}", source=source, line=number
        )
    if tables:
        return CaptureError(
            "a table of nvidia-smi topo -p2p, which shows whether peer access works but no paths: give the output of "
            "nvidia-smi topo -m",
            source=source,
            line=tables[0].header.line,
        )
    if headers := parser.headers():
        return CaptureError(
            f"the header names {counted(len(headers[0].names), 'device')} but no row of path letters follows: {again}",
            source=source,
            line=headers[0].line,
        )
    return CaptureError(
        "no path matrix: expected the output of nvidia-smi topo -m, a header GPU0 GPU1 ... and one row per device",
        source=source,
        line=1,
    )
