"""The header of a path matrix in a stream of words: device labels, and the titles of affinity columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from topo.errors import CaptureError
from topo.readers import topo_tokens as words
from topo.readers.limits import MAX_MATRIX_DEVICES
from topo.readers.topo_tokens import Token

_PHRASES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("gpu_numa", ("gpu", "numa", "id")),
    ("cpu", ("cpu", "affinity")),
    ("numa", ("numa", "affinity")),
    ("numa", ("node", "affinity")),
    ("gpu_numa", ("gpu", "numa")),
    ("cpu", ("cpu",)),
    ("numa", ("numa",)),
)
"""How the columns CPU Affinity, NUMA Affinity and GPU NUMA ID are titled; the short titles are what a cut leaves."""

_MOST_TITLE_WORDS = 7

P2P_MARKS = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})
"""Cells of the look-alike `topo -p2p`, which says whether peer access works, not along which path."""


@dataclass(frozen=True, slots=True)
class Header:
    """The device labels in order, the affinity columns after them (before them, if `leads`), and where it ends.

    Columns are called `cpu`, `numa` and `gpu_numa`: CPU Affinity, NUMA Affinity and GPU NUMA ID.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    leads: bool
    line: int
    end: int


class Stream:
    """The words of a text, with the questions that a grammar asks of them by position.

    `ends_in_word`: no line end or blank follows the last word, so it may be the beginning of a longer one.
    """

    def __init__(self, text: str, source: str = "") -> None:
        self.tokens: Sequence[Token] = words.tokenize(text, source)
        self.source = source
        self.ends_in_word = not text[-1].isspace()
        tokens = self.tokens
        self.labels = {
            token.text
            for token, *after in zip(tokens, tokens[1:], tokens[2:], strict=False)
            if token.first and not words.is_letters(token.text) and all(_is_path(cell) for cell in after)
        }
        """What stands at the head of a line before two cells: labels of rows, whatever they look like."""
        self._headers: dict[int, Header | None] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def same_line(self, position: int) -> Token | None:
        """The word here, where it stands on the same line as the one before it."""
        if position >= len(self.tokens) or self.tokens[position].first:
            return None
        return self.tokens[position]

    def rest(self, position: int, limit: int) -> list[Token]:
        """The words from here to the end of the line, at most `limit` (a text of one line is no row)."""
        rest: list[Token] = []
        while len(rest) < limit and (token := self.same_line(position)) is not None:
            rest.append(token)
            position += 1
        return rest

    def is_label(self, position: int) -> bool:
        """Whether the word here may be a device's label."""
        text = self.tokens[position].text
        return (words.is_name(text) or text in self.labels) and text not in P2P_MARKS

    def header_at(self, start: int) -> Header | None:
        """The header that begins here, None where none does. Rows, and prose about GPUs, are told apart from one."""
        if start not in self._headers:
            begins = words.is_gpu(self.tokens[start].text) and self._opens_header(start)
            self._headers[start] = self._header(start) if begins else None
        return self._headers[start]

    def _header(self, start: int) -> Header:
        names, position = self._names(start)
        leading = self._leading_columns(start)
        trailing, position = self._columns(position)
        line = self.tokens[start].line
        if len(names) > MAX_MATRIX_DEVICES:
            raise CaptureError(
                f"the header names {len(names)} devices, more than one machine has (at most {MAX_MATRIX_DEVICES}): "
                "give the matrix of one machine",
                source=self.source,
                line=line,
            )
        return Header(tuple(names), tuple(leading or trailing), leads=bool(leading), line=line, end=position)

    def _opens_header(self, start: int) -> bool:
        """A header goes on with a label, a title or nothing; a row with cells, prose with words."""
        if self.same_line(start + 1) is None:
            return start + 1 < len(self)
        return self.is_label(start + 1) or self._phrase_at(start + 1) is not None

    def _names(self, start: int) -> tuple[list[str], int]:
        names: dict[str, None] = {}
        position = start
        while position < len(self) and self.is_label(position):
            if self.tokens[position].text in names or (position > start and self._starts_row(position)):
                break
            names[self.tokens[position].text] = None
            position += 1
        return list(names), position

    def _starts_row(self, position: int) -> bool:
        """Whether a label is a row's: cells follow it, or stand further on in the line that begins with it."""
        after = self.same_line(position + 1)
        if after is not None and words.is_cell(after.text):
            return True
        return self.tokens[position].first and any(
            words.is_letters(token.text) for token in self.rest(position + 1, MAX_MATRIX_DEVICES)
        )

    def _columns(self, position: int) -> tuple[list[str], int]:
        columns: list[str] = []
        while (phrase := self._phrase_at(position)) and phrase[0] not in columns:
            columns.append(phrase[0])
            position += phrase[1]
        return columns, position

    def _leading_columns(self, start: int) -> list[str]:
        """The titles right before the first label on its line, as wikis that reorder columns have them."""
        if start == 0 or self.tokens[start - 1].text.lower() not in ("affinity", "id"):
            return []
        first = start
        while not self.tokens[first].first and start - first < _MOST_TITLE_WORDS:
            first -= 1
        for begin in range(first, start):
            columns, end = self._columns(begin)
            if columns and end == start:
                return columns
        return []

    def _phrase_at(self, position: int) -> tuple[str, int] | None:
        """The column titled here and how many words its title takes; a title may be cut at the end of its line."""
        for column, title in _PHRASES:
            given = [token.text.lower() for token in self.tokens[position : position + len(title)]]
            if len(given) < len(title) or given[:-1] != list(title[:-1]) or not title[-1].startswith(given[-1]):
                continue
            ends_line = self.same_line(position + len(title)) is None
            if ends_line or (given[-1] == title[-1] and len(title) > 1):
                return column, len(title)
        return None


def _is_path(token: Token) -> bool:
    return not token.first and words.is_letters(token.text)
