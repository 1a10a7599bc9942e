"""`nvbandwidth`, as text or `-j` (JSON): measured bandwidth and latency between CPUs and GPUs, in both forms alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from topo.errors import CaptureError
from topo.readers.nvbandwidth_facts import MeasuredGpu, MeasuredMatrix, NvbandwidthFacts, Title, parse_title
from topo.readers.pci_address import canonical
from topo.readers.plain_text import Line, cleaned_lines, lines_with

FORMAT = "nvbandwidth"

_TEST = re.compile(r"\bRunning\s+(\w+)\.\s*$")
_GPU = re.compile(r"\bDevice\s+(\d{1,3}):\s*(\S.*?)\s*(?:\(([0-9A-Fa-f:.]+)\))?\s*$")
_LISTED_GPU = re.compile(r"(\d{1,3}):\s*(\S.*?)\s*(?:\(([0-9A-Fa-f:.]+)\))?\s*$")
_FAILED = re.compile(r"^\s*(Waived|Error|Not Found)\b:?\s*(.*?)\s*$", re.IGNORECASE)
_CELL = re.compile(r"N/A|\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)
_ENDS = re.compile(r"\((?:row|column)s?\)")
_WHOLE = re.compile(r"N/A|\d+\.\d\d")
_JSON = re.compile(r'"nvbandwidth"\s*:\s*\{')


def sniff(text: str) -> bool:
    """Whether the text holds a matrix of nvbandwidth, or its JSON document."""
    if _JSON.search(text):
        return True
    return any(parse_title(line) for line in lines_with(text, _ENDS))


def read(text: str, source: str = "") -> NvbandwidthFacts:
    """The facts of the text or JSON document.

    CaptureError, with file and line, where there is no matrix, or rows have other columns than their header.
    """
    facts = _read_json(text, source) if _JSON.search(text) else _read_text(text, source)
    if not facts.matrices:
        failed = f" (its tests failed: {facts.failed[0][0]} {facts.failed[0][1]})" if facts.failed else ""
        raise CaptureError(
            f"no matrix of {FORMAT}{failed}: expected a title such as memcpy CE GPU(row) -> GPU(column) bandwidth "
            "(GB/s), a line of GPU numbers and one row per GPU",
            source=source,
            line=1,
        )
    return facts


# --- text ---


@dataclass(slots=True)
class _Draft:
    """A matrix while its lines are read: `columns` is empty until its header was seen."""

    test: str
    words: str
    title: Title
    line: int
    columns: tuple[int, ...] = ()
    rows: dict[int, tuple[float | None, ...]] = field(default_factory=dict)

    def matrix(self) -> MeasuredMatrix:
        cells = tuple(
            ((row, column), value)
            for row, values in self.rows.items()
            for column, value in zip(self.columns, values, strict=True)
        )
        return MeasuredMatrix(self.test, self.words, self.title, cells, self.line)


def _read_text(text: str, source: str) -> NvbandwidthFacts:
    lines = cleaned_lines(text, source)
    ends_in_word = not text[-1:].isspace()
    matrices = tuple(draft.matrix() for draft in _drafts(lines, source, ends_in_word) if draft.rows)
    gpus = {int(match[1]): _gpu(match, line.number) for line in lines if (match := _GPU.search(line.text))}
    return NvbandwidthFacts(matrices, tuple(gpus.values()), tuple(_failed(lines)), source)


def _drafts(lines: Sequence[Line], source: str, ends_in_word: bool) -> Iterator[_Draft]:
    test, draft = "", None
    for line in lines:
        may_be_cut = ends_in_word and line is lines[-1]
        if running := _TEST.search(line.text):
            test = running[1]
        if title := parse_title(line.text):
            if draft is not None:
                yield draft
            draft = _Draft(test, " ".join(line.text.split()), title, line.number)
        elif draft is not None and not draft.columns:
            draft.columns = _header(line)
        elif draft is not None and (row := _row(line, draft, source, may_be_cut=may_be_cut)):
            draft.rows[row[0]] = row[1]
    if draft is not None:
        yield draft


def _header(line: Line) -> tuple[int, ...]:
    """The numbers 0, 1, 2 ... with which the line ends; () where it does not."""
    words = line.text.split()
    for start, word in enumerate(words):
        if word == "0" and words[start:] == [str(number) for number in range(len(words) - start)]:
            return tuple(range(len(words) - start))
    return ()


def _row(line: Line, draft: _Draft, source: str, *, may_be_cut: bool) -> tuple[int, tuple[float | None, ...]] | None:
    """The row's number and values in SI; None where the line is no row.

    A line that `may_be_cut` is none if cells are missing, and its last cell is not shown unless it is whole.
    """
    words = line.text.split()
    wanted = len(draft.columns)
    cells = words[-wanted:]
    numbers = [word for word in words[-wanted - 2 :] if _CELL.fullmatch(word)]
    if len(numbers) == min(len(words), wanted + 1) > wanted and words[-wanted - 1].isdecimal():
        values = [_value(cell, draft.title) for cell in cells]
        if may_be_cut and not _WHOLE.fullmatch(cells[-1]):
            values[-1] = None
        return int(words[-wanted - 1]), tuple(values)
    if len(words) > 1 and all(map(_CELL.fullmatch, words)) and not may_be_cut:
        raise CaptureError(
            f"a row of {len(words) - 1} cells, but line {draft.line} heads {wanted} columns: it is cut or shifted",
            source=source,
            line=line.number,
        )
    return None


def _value(cell: str, title: Title) -> float | None:
    return None if cell.upper() == "N/A" else float(cell) * title.scale


def _gpu(match: re.Match[str], line: int) -> MeasuredGpu:
    return MeasuredGpu(int(match[1]), match[2], canonical(match[3]) if match[3] else None, line)


def _failed(lines: Iterable[Line]) -> Iterator[tuple[str, str]]:
    """The test cases that say that they gave nothing, with their words."""
    test = ""
    for line in lines:
        if running := _TEST.search(line.text):
            test = running[1]
        elif test and (failed := _FAILED.match(line.text)):
            yield test, " ".join(part for part in failed.groups() if part)


# --- JSON ---


def _read_json(text: str, source: str) -> NvbandwidthFacts:
    content = _decode(text, source)
    matrices: list[MeasuredMatrix] = []
    failed: list[tuple[str, str]] = []
    for case in content.get("testcases") or ():
        if not isinstance(case, dict):
            continue
        name = str(case.get("name", ""))
        line = _line_of(text, name)
        title = parse_title(str(case.get("bandwidth_description", "")))
        matrix = case.get("bandwidth_matrix")
        if title is None or not isinstance(matrix, list):
            failed.append((name, str(case.get("status", "no matrix"))))
            continue
        cells = tuple(_json_cells(matrix, title, name, source, line))
        matrices.append(MeasuredMatrix(name, str(case["bandwidth_description"]), title, cells, line))
    return NvbandwidthFacts(tuple(matrices), tuple(_json_gpus(content, text)), tuple(failed), source)


def _decode(text: str, source: str) -> Mapping[str, Any]:
    """The object behind "nvbandwidth"; what mpirun and its like print around the document is left out."""
    import json

    match = _JSON.search(text)
    start = match.end() - 1 if match else 0
    try:
        content, _ = json.JSONDecoder().raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise CaptureError(
            f"the JSON breaks off or is malformed ({error.msg}): run nvbandwidth -j again",
            source=source,
            line=error.lineno,
        ) from None
    except RecursionError:
        raise CaptureError("the JSON is nested too deep to be nvbandwidth's", source=source, line=1) from None
    return content if isinstance(content, dict) else {}


def _json_cells(
    matrix: Sequence[Any], title: Title, name: str, source: str, line: int
) -> Iterator[tuple[tuple[int, int], float | None]]:
    for row, cells in enumerate(matrix):
        for column, cell in enumerate(cells if isinstance(cells, list) else [cells]):
            if not _CELL.fullmatch(str(cell)):
                raise CaptureError(
                    f"the matrix of {name} holds {str(cell)[:40]!r}, expected numbers and N/A", source=source, line=line
                )
            yield (row, column), _value(str(cell), title)


def _json_gpus(content: Mapping[str, Any], text: str) -> Iterator[MeasuredGpu]:
    listed = content.get("GPU Device list")
    for words in listed if isinstance(listed, list) else ():
        match = _LISTED_GPU.match(str(words))
        if match is not None:
            yield _gpu(match, _line_of(text, str(words)))


def _line_of(text: str, words: str) -> int:
    """The line in which a JSON document writes the words."""
    place = text.find(f'"{words}"')
    return text.count("\n", 0, max(place, 0)) + 1
