"""Output of nccl-tests as text -> a table of its rows; every generation since NCCL 2.4, also as people left it.

What a column means is taken from the titles above the rows, never from their place alone. A row is found by the two
numbers in front of a type's name, so that labels of mpirun, srun and log collectors in front of it do not matter; it
may be cut in pieces by them, or by a line of another process, and is then put together. A row that stays incomplete,
or holds anything but numbers (XXXXX in a manual), is refused with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from topo.errors import CaptureError
from topo.readers.limits import MAX_MATRIX_CHARS
from topo.readers.nccl_tests_table import (
    BEGINNINGS,
    DTYPES,
    Footer,
    NcclTestsHalf,
    NcclTestsRow,
    NcclTestsTable,
    SetAside,
    reason_to_set_aside,
    width_of,
)

__all__ = ["NcclTestsHalf", "NcclTestsRow", "NcclTestsTable", "SetAside", "read", "read_all", "sniff"]

_PER_SECOND = {"size": 10**6, "bytes": 10**3}
"""Units of `time` in a second, by the title of the size's column: only the oldest layout prints milliseconds."""

_NUMBER = r"\d{1,3}(?:[_,]\d{3})+|\d+"
_ROW = re.compile(
    rf"(?<![\w.,'\N{{RIGHT SINGLE QUOTATION MARK}}])({_NUMBER})\s+({_NUMBER})\s+({'|'.join(DTYPES)})(?=\s)(.*)"
)
_TITLES = re.compile(r"(?<!\S)(size|bytes)\s+(count|N)\s+type\s.*(?<!\S)(?:cpu)?time\s+algbw\s+busbw\b")
_LABEL = re.compile(r"\[\d+(?:,\d+)?\](?:<\w+>:?)?|\w{3} \w{3} +\d+ [\d:]{8} \d{4}<\w+>:|<std(?:out|err)>:")
_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_ODD_ROW = re.compile(rf"(?<![\w.])({'|'.join(DTYPES)})(?=\s)(.*)")
_CUT_ROW = re.compile(rf"(?:{_NUMBER})\s+(?:{_NUMBER})\s+(?:{'|'.join(sorted(BEGINNINGS))})")
_UNKNOWN_ROW = re.compile(rf"(?<![\w.,])({_NUMBER})\s+(?:{_NUMBER})\s+([A-Za-z]\w*)(?=\s)(.*)")
_FIGURE = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|N/A")
_RANK = re.compile(r"#\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?(?:Pid\s+\d+\s+)?on\s")
_DEVICE = re.compile(r"\bon\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s+(\S.*)")
_ITERATIONS = re.compile(r"warmup iters:\s*(\d+)\s+iters:\s*(\d+)")
_PER_PROCESS = re.compile(r"nThreads?:?\s+(\d+)\s+nGpus:?\s+(\d+)")
_STARTING = re.compile(r"Collective test starting:\s*(\w+?)_perf")
_PROGRAM = re.compile(r"(?<![\w.-])(\w+?)_perf(?:_mpi)?(?![\w.])")
_VERSION = re.compile(r"nccl-tests version (\S+)")
_LIBRARY = re.compile(r"NCCL version (\d+\.\d+\S*)|nccl-library=(\d+)")
_OUT_OF_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d+)(?:\s+(OK|FAILED))?")
_HALF = ("time", "algbw", "busbw")
_UNMEASURED = ("timestamp",)
"""Columns behind the figures that say nothing of the collective (-S)."""


def sniff(text: str) -> bool:
    """Whether the text holds a table of nccl-tests: its column titles."""
    return any(_TITLES.search(_plain(line)) for line in text.splitlines())


def read(text: str, source: str = "") -> NcclTestsTable:
    """The one table in the text; CaptureError where there is none, there are several, or a row cannot be read."""
    tables = read_all(text, source)
    if len(tables) > 1:
        raise CaptureError(f"holds {len(tables)} tables of nccl-tests: give one of them", source=source)
    return tables[0]


def read_all(text: str, source: str = "") -> tuple[NcclTestsTable, ...]:
    """Every table in the text, in order; CaptureError where there is none or a row cannot be read."""
    if len(text) > MAX_MATRIX_CHARS:
        raise CaptureError(f"{len(text)} characters: no output of nccl-tests is so long", source=source)
    tables = []
    draft = _Draft(source)
    for line, words in enumerate(text.splitlines(), start=1):
        plain = _plain(words)
        titles = _TITLES.search(plain)
        if draft.has_rows and (titles or _STARTING.search(plain) or _ITERATIONS.search(plain)):
            tables.append(draft.table())
            draft = _Draft(source)
        if titles:
            draft.titles(plain, line)
        else:
            draft.take(plain, line)
    if draft.has_rows or not tables:
        tables.append(draft.table())
    return tuple(tables)


def _plain(line: str) -> str:
    """The line without the labels that mpirun and its like put in front, and into the middle, of it."""
    return _LABEL.sub(" ", _COLOUR.sub("", line))


@dataclass(slots=True)
class _Columns:
    """Which columns there are, from the titles: those between type and time, then those of each half."""

    per_second: int
    middle: tuple[str, ...]
    halves: tuple[tuple[str, ...], ...]

    @property
    def num_figures(self) -> int:
        return sum(len(half) for half in self.halves)


@dataclass(slots=True)
class _Pending:
    """A row of which figures are still missing."""

    line: int
    num_bytes: int
    count: int
    dtype: str
    redop: str | None
    root: int | None
    figures: list[str]


@dataclass(slots=True)
class _Draft:
    """A table while its lines are read."""

    source: str
    columns: _Columns | None = None
    pending: _Pending | None = None
    rows: list[NcclTestsRow] = field(default_factory=list)
    set_aside: list[SetAside] = field(default_factory=list)
    ranks: dict[str, set[int]] = field(default_factory=dict)
    devices: dict[int, tuple[str, str]] = field(default_factory=dict)
    programs: set[str] = field(default_factory=set)
    started: str | None = None
    facts: dict[str, str] = field(default_factory=dict)
    footer: Footer | None = None

    @property
    def has_rows(self) -> bool:
        """Whether a row was seen, complete or not."""
        return bool(self.rows or self.set_aside or self.pending)

    def titles(self, plain: str, line: int) -> None:
        """Learn the columns."""
        words = [word for word in plain.replace("#", " ").split() if word not in _UNMEASURED]
        if "cputime" in words:
            raise self._refused("these are CPU times of the calls (-C 1), not times of the collective: run again", line)
        first = next(index for index, word in enumerate(words) if word in _PER_SECOND)
        starts = [index for index, word in enumerate(words) if word == "time"]
        ends = [*starts[1:], len(words)]
        if any(tuple(words[begin : begin + len(_HALF)]) != _HALF for begin in starts):
            raise self._refused("the column titles are cut, so that columns cannot be told: give whole lines", line)
        middle = tuple({"op": "redop"}.get(word, word) for word in words[first + 3 : starts[0]])
        halves = tuple(tuple(words[begin:end]) for begin, end in zip(starts, ends, strict=True))
        self.columns = _Columns(_PER_SECOND[words[first]], middle, halves[:2])

    def take(self, plain: str, line: int) -> None:
        """One line that is no title: a row, the rest of one, or something said around the table."""
        found = _ROW.search(plain)
        if found:
            self._complete()
            self._begin(found, line)
        elif self.pending is not None and _is_figures(plain):
            self.pending.figures += plain.split()
        elif self.columns and (strange := _UNKNOWN_ROW.search(plain)) and self._has_figures(strange[3]):
            raise self._refused(f"a row of {strange[1]} bytes of type {strange[2]!r}, which is unknown here", line)
        elif self.columns and (odd := _ODD_ROW.search(plain)) and self._has_figures(odd[2]):
            raise self._refused("a row whose size and count cannot be read: they are whole numbers as printed", line)
        elif self.has_rows and (_is_figures(plain) or _CUT_ROW.fullmatch(plain.strip())):
            raise self._refused("figures that belong to no row: a row is cut", line)
        elif not self.has_rows:
            self._around(plain)
        elif found := _OUT_OF_BOUNDS.search(plain):
            self.footer = Footer(line, int(found[1]), found[2] == "FAILED")
        if self.pending is not None and self.columns and len(self.pending.figures) >= self.columns.num_figures:
            self._complete()

    def _has_figures(self, text: str) -> bool:
        """Whether there are as many figures in it as in a row."""
        found = sum(bool(_FIGURE.fullmatch(word)) for word in text.split())
        return self.columns is not None and found >= self.columns.num_figures

    def table(self) -> NcclTestsTable:
        """What was read, checked; CaptureError where that is nothing."""
        self._complete()
        if not (self.rows or self.set_aside):
            raise CaptureError("no row of nccl-tests in it: give the whole output", source=self.source)
        groups = list(self.ranks.values())
        num_ranks = max(groups[0]) + 1 if len(groups) == 1 else None
        hosts = {host for host, _ in self.devices.values()}
        return NcclTestsTable(
            source=self.source,
            rows=tuple(self.rows),
            set_aside=tuple(self.set_aside),
            collective=self.started or (next(iter(self.programs)) if len(self.programs) == 1 else None),
            num_ranks=num_ranks,
            num_warmups=_whole(self.facts.get("warmups")),
            num_iterations=_whole(self.facts.get("iterations")),
            tests_version=self.facts.get("tests"),
            nccl_version=self.facts.get("nccl"),
            footer=self.footer,
            gpus_per_process=_whole(self.facts.get("gpus_per_process")),
            gpu_names=tuple(dict.fromkeys(gpu for _, gpu in self.devices.values())),
            num_hosts=len(hosts) if len(self.devices) == num_ranks else None,
        )

    def _around(self, plain: str) -> None:
        """Facts that stand above the rows."""
        if found := _RANK.search(plain):
            self.ranks.setdefault(found[2] or "0", set()).add(int(found[1]))
            if device := _DEVICE.search(plain):
                self.devices[int(found[1])] = (device[1], device[2].strip())
        if found := _ITERATIONS.search(plain):
            self.facts.update(warmups=found[1], iterations=found[2])
        if found := _PER_PROCESS.search(plain):
            self.facts["gpus_per_process"] = str(int(found[1]) * int(found[2]))
        if found := _STARTING.search(plain):
            self.started = found[1]
        if found := _VERSION.search(plain):
            self.facts["tests"] = found[1]
        if found := _LIBRARY.search(plain):
            self.facts.setdefault("nccl", found[1] or found[2])
        self.programs.update(_PROGRAM.findall(plain))

    def _begin(self, found: re.Match[str], line: int) -> None:
        """A row up to its figures; whatever another process wrote behind them is dropped."""
        if self.columns is None:
            raise self._refused("a row without column titles above it: give the whole output", line)
        words = found[4].split()
        redop = root = None
        if "redop" in self.columns.middle and words and words[0].isalpha():
            redop = words.pop(0)
        if "root" in self.columns.middle:
            glued = re.match(r"-?\d+(?![\d.])", words[0]) if words else None
            if glued is None:
                raise self._refused("a row without its root: it is cut, or its columns are not those above", line)
            root = int(glued[0])
            words[0] = words[0][glued.end() :]
        num_bytes, count = (int(re.sub("[_,]", "", number)) for number in found.group(1, 2))
        if any(re.match(r"0\d", number) for number in found.group(1, 2)) or num_bytes < count * width_of(found[3]):
            raise self._refused(
                f"a size of {found[1]} bytes for {found[2]} elements of {found[3]}: the row is cut or edited", line
            )
        self.pending = _Pending(line, num_bytes, count, found[3], redop, root, list(self._figures(words, line)))

    def _figures(self, words: list[str], line: int) -> Iterator[str]:
        for number, word in enumerate(filter(None, words)):
            if re.fullmatch(r"X+(\.X+)?", word):
                raise self._refused(
                    f"{word} stands where a number belongs: this is an example, not a measurement", line
                )
            if not _FIGURE.fullmatch(word):
                if re.match(r"[\d.]", word) and number < (self.columns.num_figures if self.columns else 0):
                    raise self._refused(f"{word!r} stands where a number belongs: the row is cut", line)
                return
            yield word

    def _complete(self) -> None:
        """Turn the pending row into a row of the table, or set it aside; CaptureError where figures are missing."""
        row, self.pending = self.pending, None
        if row is None or self.columns is None:
            return
        if len(row.figures) != self.columns.num_figures:
            raise self._refused(
                f"the row of {row.num_bytes} bytes has {len(row.figures)} figures where its titles announce "
                f"{self.columns.num_figures}: it is cut or edited",
                row.line,
            )
        halves = tuple(self._halves(row))
        reason = reason_to_set_aside(row.num_bytes, row.dtype, halves)
        if reason:
            self.set_aside.append(SetAside(row.line, row.num_bytes, reason))
            return
        facts = (row.line, row.num_bytes, row.count, row.dtype, row.redop, row.root)
        self.rows.append(NcclTestsRow(*facts, halves[0], halves[1] if len(halves) > 1 else None))

    def _halves(self, row: _Pending) -> Iterator[NcclTestsHalf]:
        assert self.columns is not None
        start = 0
        for titles in self.columns.halves:
            figures = row.figures[start : start + len(titles)]
            start += len(titles)
            if "N/A" in figures[:3]:
                raise self._refused(f"N/A stands for a time or rate of {row.num_bytes} bytes", row.line)
            algbw, busbw = (float(figure) for figure in figures[1:3])
            wrong = None if len(figures) < 4 or figures[3] == "N/A" else float(figures[3])
            unit = self.columns.per_second
            time_s = float(Fraction(figures[0]) / unit)
            yield NcclTestsHalf(time_s, algbw * 1e9, busbw * 1e9, wrong, _last_place(figures[0]) / unit)

    def _refused(self, sentence: str, line: int) -> CaptureError:
        return CaptureError(sentence, source=self.source, line=line)


def _is_figures(plain: str) -> bool:
    words = plain.split()
    return bool(words) and all(_FIGURE.fullmatch(word) for word in words)


def _last_place(figure: str) -> float:
    """The value of the last digit as printed: 0.01 for "8.14"."""
    digits = figure.lower().partition("e")[0]
    return 10.0 ** -len(digits.partition(".")[2])


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)
