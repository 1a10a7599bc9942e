"""`rocm-smi --showtopo` (and `--shownodesbw`, `--showproductname`, `--showbus` beside it), as text or `--json`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from topo.errors import CaptureError
from topo.readers.limits import MAX_MATRIX_CHARS
from topo.readers.pci_address import ADDRESS, canonical
from topo.readers.plain_text import Line, cleaned_lines
from topo.readers.rocm_facts import Kind, Note, RocmFacts, RocmGpu, RocmTable
from topo.readers.square_table import SquareRow, SquareTable, square_tables
from topo.readers.topo_header import Stream

FORMAT = "rocm-smi --showtopo"

_TITLES: Mapping[Kind, re.Pattern[str]] = {
    "weight": re.compile(r"\bWeight between two GPUs\b", re.IGNORECASE),
    "hops": re.compile(r"\bHops between two GPUs\b", re.IGNORECASE),
    "type": re.compile(r"\bLink Type between two GPUs\b", re.IGNORECASE),
    "access": re.compile(r"\bLink accessibility between two GPUs\b", re.IGNORECASE),
    "bandwidth": re.compile(r"={3,}\s*Bandwidth\s*={3,}|\bmin-max bandwidth\b", re.IGNORECASE),
}
_OWN_WORDS = re.compile(r"\b(?:XGMI|PCIE|XXXX)\b|between\s+two\s+GPUs|\(Topology\)|between DRM devices")
_TYPE = re.compile(r"XGMI|PCIE|XXXX")
_CELL = re.compile(r"XGMI|PCIE|XXXX|\d{1,6}(?:-\d{1,9})?|N/A|True|False")
_DIAGONAL = frozenset({"0", "N/A", "True", "0-0"})

_OF_GPU = r"GPU\s*\[?\s*(\d{1,3})\s*\]?\s*:\s*"
_SAID: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("numa_node", re.compile(_OF_GPU + r"\(Topology\)\s*Numa\s+Node:\s*(-?\d+)", re.IGNORECASE)),
    ("numa_affinity", re.compile(_OF_GPU + r"\(Topology\)\s*Numa\s+Affinity:\s*(-?\d+)", re.IGNORECASE)),
    ("name", re.compile(_OF_GPU + r"Card Series:\s*(\S.*?)\s*$", re.IGNORECASE)),
    ("architecture", re.compile(_OF_GPU + r"GFX Version:\s*(gfx\w+)", re.IGNORECASE)),
    ("address", re.compile(_OF_GPU + rf"PCI Bus:\s*({ADDRESS})", re.IGNORECASE)),
)
_NOTE = re.compile(r"\b(?:ERROR|WARNING):\s*\S.*|.*\bNot supported on the given system\b.*")


def sniff(text: str) -> bool:
    """Whether the text holds a table of rocm-smi, or its JSON form."""
    if len(text) > MAX_MATRIX_CHARS or not _OWN_WORDS.search(text):
        return False
    try:
        stream = Stream(text)
    except CaptureError:
        return False
    try:
        return bool(_tables(stream) or _json_cells(text))
    except CaptureError:
        return True  # tables that are cut or shifted: `read` says how


def read(text: str, source: str = "") -> RocmFacts:
    """The facts of the text's tables.

    CaptureError, with file and line, where there is none, where rows are short or shifted, where a table is not
    symmetric, or where two tables are of different GPUs.
    """
    lines = cleaned_lines(text, source)
    tables = _kinds(_tables(Stream(text, source)), lines, source) if text.strip() else {}
    found = [_table(kind, table, source) for kind, table in tables.items()] or _json_tables(text)
    if not found:
        raise CaptureError(
            f"no table of GPUs: expected the output of {FORMAT}, a header GPU0 GPU1 ... and one row per GPU",
            source=source,
            line=1,
        )
    labels = next(iter(tables.values())).names if tables else _labels(found)
    gpus = _gpus(labels, lines)
    return RocmFacts(gpus, tuple(found), _notes(lines), source)


def _tables(stream: Stream) -> tuple[SquareTable, ...]:
    """All square tables; numbers alone make one only in a text that has rocm-smi's titles."""
    titled = any(token.text.lower() == "between" for token in stream.tokens)

    def is_mark(word: str) -> bool:
        return bool(_TYPE.fullmatch(word)) or (titled and _is_cell(word))

    return square_tables(stream, _is_cell, is_mark)


def _is_cell(word: str) -> bool:
    return _CELL.fullmatch(word) is not None


def _kinds(tables: Iterable[SquareTable], lines: Sequence[Line], source: str) -> dict[Kind, SquareTable]:
    """The tables by kind: what cells can only be, else the title above; numbers without a title are left out."""
    by_kind: dict[Kind, SquareTable] = {}
    for table in tables:
        kind = _kind(table, lines)
        if kind is None:
            continue
        first = by_kind.setdefault(kind, table)
        if first.names != table.names or (first is not table and _contents(first) != _contents(table)):
            raise CaptureError(
                f"two tables of {kind} (the other in line {first.line}): expected one machine, give one file for each",
                source=source,
                line=table.line,
            )
    names = {table.names: table for table in by_kind.values()}
    if len(names) > 1:
        first, other = list(names.values())[:2]
        raise CaptureError(
            f"this table is of {len(other.names)} GPUs, that in line {first.line} of {len(first.names)}: expected the "
            "same GPUs, capture it again",
            source=source,
            line=other.line,
        )
    return by_kind


def _contents(table: SquareTable) -> list[tuple[str, tuple[str | None, ...]]]:
    return [(row.name, row.cells) for row in table.rows]


def _kind(table: SquareTable, lines: Sequence[Line]) -> Kind | None:
    cells = {cell for row in table.rows for cell in row.cells if cell}
    if any(map(_TYPE.fullmatch, cells)):
        return "type"
    if cells & {"True", "False"}:
        return "access"
    if any("-" in cell for cell in cells):
        return "bandwidth"
    above = [line for line in lines if line.number <= table.line]
    said = (" ".join(line.text.split()) for line in reversed(above))
    titles = (kind for words in said for kind, title in _TITLES.items() if title.search(words))
    return next(titles, None)


def _table(kind: Kind, table: SquareTable, source: str) -> RocmTable:
    rows = {row.name: row for row in table.rows}
    for row in table.rows:
        own = row.cells[table.names.index(row.name)]
        if own is not None and own not in _DIAGONAL:
            raise CaptureError(
                f"cells of row {row.name} are lost or shifted: {own} stands under {row.name} itself",
                source=source,
                line=row.line,
            )
    pairs = combinations(table.names, 2)
    return RocmTable(kind, tuple((pair, _agreed(pair, table.names, rows, source)) for pair in pairs), table.line)


def _agreed(pair: tuple[str, str], names: Sequence[str], rows: Mapping[str, SquareRow], source: str) -> str | None:
    """The pair's cell, as its one or two rows show it; CaptureError where they differ."""
    shown: list[tuple[str, SquareRow]] = []
    for name, column in (pair, pair[::-1]):
        row = rows.get(name)
        cell = row.cells[names.index(column)] if row else None
        if row and cell is not None:
            shown.append((cell, row))
    if len(shown) == 2 and shown[0][0] != shown[1][0]:
        (first, first_row), (second, second_row) = shown
        raise CaptureError(
            f"the table is not symmetric: {pair[0]}-{pair[1]} is {first} in line {first_row.line} and {second} in line "
            f"{second_row.line}; capture it again",
            source=source,
            line=second_row.line,
        )
    return shown[0][0] if shown else None


def _gpus(labels: Sequence[str], lines: Iterable[Line]) -> tuple[RocmGpu, ...]:
    said: dict[int, dict[str, object]] = {}
    for line in lines:
        for key, pattern in _SAID:
            match = pattern.search(line.text)
            if match is not None:
                of_gpu = said.setdefault(int(match[1]), {"line": line.number})
                of_gpu.setdefault(key, _value(key, match[2]))
    numbers = [int(label.removeprefix("GPU")) for label in labels]
    return tuple(
        RocmGpu(label, number, **said.get(number, {}))  # type: ignore[arg-type]
        for label, number in zip(labels, numbers, strict=True)
    )


def _value(key: str, words: str) -> object:
    if key.startswith("numa"):
        return int(words) if int(words) >= 0 else None  # -1: the machine tells no node
    if key == "architecture":
        # Some versions print the last two hexadecimal digits of gfx90a in decimal.
        return re.sub(r"^gfx90(1\d)$", lambda match: f"gfx90{int(match[1]):x}", words.lower())
    return canonical(words) if key == "address" else words


def _notes(lines: Iterable[Line]) -> tuple[Note, ...]:
    found = ((line.number, _NOTE.search(line.text)) for line in lines)
    return tuple(Note(" ".join(match[0].split())[:160], number) for number, match in found if match)


_JSON_CELL = re.compile(
    r'"\(Topology\) (Weight|Hops|Link type) between DRM devices (\d{1,3}) and (\d{1,3})"\s*:\s*"([^"]*)"', re.IGNORECASE
)
_JSON_KINDS: Mapping[str, Kind] = {"weight": "weight", "hops": "hops", "link type": "type"}


def _json_cells(text: str) -> list[re.Match[str]]:
    return list(_JSON_CELL.finditer(text))


def _json_tables(text: str) -> list[RocmTable]:
    """The tables of the JSON form, which holds one entry per pair."""
    by_kind: dict[Kind, dict[tuple[str, str], str | None]] = {}
    first_line: dict[Kind, int] = {}
    for match in _json_cells(text):
        kind = _JSON_KINDS[match[1].lower()]
        one, other = sorted((int(match[2]), int(match[3])))
        first_line.setdefault(kind, text.count("\n", 0, match.start()) + 1)
        by_kind.setdefault(kind, {})[f"GPU{one}", f"GPU{other}"] = match[4] or None
    return [RocmTable(kind, tuple(cells.items()), first_line[kind]) for kind, cells in by_kind.items()]


def _labels(tables: Iterable[RocmTable]) -> tuple[str, ...]:
    labels = {label for table in tables for pair, _ in table.cells for label in pair}
    return tuple(sorted(labels, key=lambda label: int(label.removeprefix("GPU"))))
