"""Tables with the same GPUs across and down, whatever their cells are (`nvidia-smi topo -p2p`, `rocm-smi --showtopo`).

    table := GPU+ row*          row := GPU cell{one per GPU}

Like a path matrix, a row is known by what it is, a label with cells behind it, never by where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from topo.errors import CaptureError
from topo.readers.topo_header import Header, Stream
from topo.readers.topo_tokens import Token, is_gpu
from topo.words import counted

IsCell = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class SquareRow:
    """One GPU's row: a cell per GPU of the header, None for those that a cut text does not show."""

    name: str
    line: int
    cells: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class SquareTable:
    """One table: the GPUs of its header, which stands in `line`, and its rows, one per GPU or fewer (a cut text)."""

    names: tuple[str, ...]
    line: int
    rows: tuple[SquareRow, ...]

    @property
    def complete(self) -> bool:
        """Whether every GPU has its row, with all its cells."""
        return len(self.rows) == len(self.names) and all(None not in row.cells for row in self.rows)


def square_tables(stream: Stream, is_cell: IsCell, is_mark: IsCell) -> tuple[SquareTable, ...]:
    """All tables of the text in order; a header that no row follows is none.

    A row is taken for one of this kind of table by a word in it that `is_mark`, which no other kind of table has.
    CaptureError, with the line, where a row is short or holds a word that is no cell, or two rows have one name.
    """
    found: list[SquareTable] = []
    position = 0
    while position < len(stream):
        header = stream.header_at(position)
        if header is None:
            position += 1
            continue
        table, position = _table(stream, header, is_cell, is_mark)
        if table.rows:
            found.append(table)
    return tuple(found)


def _table(stream: Stream, header: Header, is_cell: IsCell, is_mark: IsCell) -> tuple[SquareTable, int]:
    names = tuple(name for name in header.names if is_gpu(name))
    rows: dict[str, SquareRow] = {}
    position = header.end
    while position < len(stream) and len(rows) < len(names):
        token, words = stream.tokens[position], [word.text for word in stream.rest(position + 1, len(names))]
        if token.text in names and (any(map(is_mark, words)) or (rows and any(map(is_cell, words)))):
            row, position = _row(stream, position, names, is_cell)
            if row.name in rows:
                raise _error(stream, token, f"two rows are called {row.name}: give one table per file")
            rows[row.name] = row
        elif token.text.startswith("Legend") or _is_other_header(stream, position, names):
            break
        else:
            position += 1
    return SquareTable(names, header.line, tuple(rows.values())), position


def _is_other_header(stream: Stream, position: int, names: Sequence[str]) -> bool:
    """A lone label of this table is a row that was cut; anything else that reads like a header is one."""
    header = stream.header_at(position)
    return header is not None and (len(header.names) > 1 or header.names[0] not in names)


def _row(stream: Stream, start: int, names: tuple[str, ...], is_cell: IsCell) -> tuple[SquareRow, int]:
    label, tokens = stream.tokens[start], stream.tokens
    cells: list[str] = []
    position = start + 1
    while position < len(tokens) and len(cells) < len(names) and is_cell(tokens[position].text):
        if tokens[position].first and tokens[position].line != tokens[position - 1].line + 1:
            break  # a terminal wraps to the very next line
        cells.append(tokens[position].text)
        position += 1
    at_end = position == len(tokens)
    if len(cells) < len(names) and not at_end and (position < len(tokens) - 1 or not stream.ends_in_word):
        raise _short_row(stream, label, len(cells), names, stream.same_line(position))
    if at_end and stream.ends_in_word and len(cells) - 1 != names.index(label.text):
        cells.pop()  # the text ends within this cell, which may have been the beginning of a longer one
    filled = cells + [None] * (len(names) - len(cells))
    return SquareRow(label.text, label.line, tuple(filled)), position if len(cells) == len(names) else len(tokens)


def _short_row(stream: Stream, label: Token, num_cells: int, names: Sequence[str], after: Token | None) -> CaptureError:
    what = f", then {after.text!r}, which is no cell of such a table" if after else ""
    cells, wanted = counted(num_cells, "cell"), counted(len(names), "GPU")
    message = f"row {label.text} has {cells} where the header names {wanted}{what}: capture it again"
    return _error(stream, label, message)


def _error(stream: Stream, at: Token, message: str) -> CaptureError:
    return CaptureError(message, source=stream.source, line=at.line)
