"""The grammar of a path matrix: a header of device labels, then one row per device, in a stream of words.

    header := name+ column*            (or column* name+: affinity columns first, as some wikis print them)
    row    := name cell{one per name} value*

A row is known by what it is (a label followed by path letters), never by where it stands, so one parser reads tabs,
blanks, markdown, prefixed, wrapped and single-line texts. It checks what a row says about itself; what rows say about
each other is checked by `nvidia_smi_topo`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from topo.errors import CaptureError
from topo.readers import topo_tokens as words
from topo.readers.topo_header import P2P_MARKS, Header, Stream
from topo.readers.topo_tokens import Token
from topo.words import counted


@dataclass(frozen=True, slots=True)
class Row:
    """One device's row: a cell per name of the header (None = not shown) and the affinities that the row states."""

    name: str
    line: int
    cells: tuple[str | None, ...]
    values: Mapping[str, str]
    short: bool


@dataclass(slots=True)
class Table:
    """One matrix as found: its header and rows, before the rows are held against each other."""

    header: Header
    rows: list[Row] = field(default_factory=list)
    is_p2p: bool = False


def _tab_places(found: list[Token]) -> list[int]:
    """In which field, by the tabs before it, each word stands: from 0; empty where not all have tabs before them."""
    places: list[int] = []
    for token in found:
        places.append((places[-1] if places else -1) + token.tabs)
    return places if all(token.tabs for token in found) else []


class TableParser:
    """Finds all matrices in a stream of words."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._tokens = stream.tokens

    def tables(self) -> list[Table]:
        """All matrices of the text in order; a header that no row follows is none."""
        found: list[Table] = []
        position = 0
        while position < len(self._tokens):
            header = self._stream.header_at(position)
            if header is None:
                position += 1
                continue
            table, position = self._table(header)
            if table.rows or table.is_p2p:
                found.append(table)
        return found

    def headers(self) -> list[Header]:
        """All headers, with or without rows."""
        found = (self._stream.header_at(position) for position in range(len(self._tokens)))
        return [header for header in found if header is not None and (len(header.names) > 1 or header.columns)]

    def headless(self) -> Table | None:
        """The matrix of a text whose header is lost, where the diagonal of X proves that rows and columns agree."""
        names: list[str] = []
        for position, token in enumerate(self._tokens):
            if token.first and token.text in self._stream.labels and token.text not in names:
                line = self._stream.rest(position + 1, len(self._stream.labels) + 3)
                if not words.is_name(token.text) or not all(words.may_stand_in_row(word.text) for word in line):
                    return None  # with no header to hold rows against, only rows without a stray word are trusted
                names.append(token.text)
        if len(names) < 2 or not any(map(words.is_gpu, names)):
            return None
        header = Header(tuple(names), (), leads=False, line=self._tokens[0].line, end=0)
        try:
            table, _ = self._table(header)
        except CaptureError:
            return None  # not a matrix without its header either: the caller says what is missing
        return table if len(table.rows) == len(names) and not any(row.short for row in table.rows) else None

    # --- rows ---

    def _table(self, header: Header) -> tuple[Table, int]:
        table = Table(header)
        position = header.end
        while position < len(self._tokens):
            if self._tokens[position].text.startswith("Legend") or self._is_next_header(position, header):
                break
            if not self._is_row(position, header):
                position += 1
                continue
            row, position = self._row(position, header)
            if row is None:
                return Table(header, is_p2p=True), position
            table.rows.append(row)
        self._only_last_row_is_short(table)
        return table, position

    def _is_next_header(self, position: int, header: Header) -> bool:
        """A lone label of this header is a row that was cut, not the header of another matrix."""
        found = self._stream.header_at(position)
        return found is not None and (len(found.names) > 1 or bool(found.columns) or found.names[0] not in header.names)

    def _is_row(self, position: int, header: Header) -> bool:
        text = self._tokens[position].text
        after = self._stream.same_line(position + 1)
        if after is None or not (text in header.names or words.is_device(text) or text in self._stream.labels):
            return False
        line = [word.text for word in self._stream.rest(position + 1, len(header.names) + len(header.columns))]
        if "X" in line:
            return words.is_letters(after.text) or self._tokens[position].first
        # Without its X a row is cut or wrapped before it, or damaged; with hardly any letters a line is prose.
        is_whole = all(map(words.may_stand_in_row, line))
        return words.is_letters(after.text) and (is_whole or sum(map(words.is_letters, line)) > 2)

    def _row(self, start: int, header: Header) -> tuple[Row | None, int]:
        """The row that starts here and the position after it; None instead of the row where it is one of -p2p."""
        label = self._tokens[start]
        cells, position = self._cells(start + 1, len(header.names))
        after = self._stream.same_line(position)
        if after is not None and after.text in P2P_MARKS:
            return None, position
        if label.text not in header.names:
            raise self._error(
                label,
                f"row {label.text} is not among the {counted(len(header.names), 'device')} of the header in line "
                f"{header.line}",
            )
        self._check_what_follows(label, after, len(cells), header)
        values, end = self._values(position, header)
        short = len(cells) < len(header.names)
        placed = self._placed(cells, header, label, has_values=bool(values))
        self._check_diagonal(label, placed, header)
        if header.leads:
            values = self._leading_values(start, header)
        return Row(label.text, label.line, tuple(placed), values, short and placed[-1] is None), end

    def _cells(self, position: int, wanted: int) -> tuple[list[Token], int]:
        """Up to `wanted` cells from here, over line ends where a terminal wrapped the row."""
        cells: list[Token] = []
        while position < len(self._tokens) and len(cells) < wanted and words.is_cell(self._tokens[position].text):
            if self._tokens[position].first and not self._continues(position):
                break
            cells.append(self._tokens[position])
            position += 1
        if self._stream.ends_in_word and position == len(self._tokens) and cells and words.may_be_cut(cells[-1].text):
            cells.pop()  # the text ends within this cell: NV1 may have been NV18
        return cells, position

    def _continues(self, position: int) -> bool:
        """Whether a line that begins with path letters goes on with the row above: `X    = Self` does not."""
        token, after = self._tokens[position], self._stream.same_line(position + 1)
        adjacent = token.line == self._tokens[position - 1].line + 1
        return adjacent and words.is_letters(token.text) and (after is None or not after.text.startswith("="))

    def _check_what_follows(self, label: Token, after: Token | None, found: int, header: Header) -> None:
        wanted = len(header.names)
        if after is None or (found < wanted and words.is_value(after.text)):
            return
        if found == wanted:
            if words.is_letters(after.text):
                names = f"the header in line {header.line} names {counted(wanted, 'device')}"
                raise self._error(label, f"row {label.text} has more than {wanted} path cells, but {names}")
            return
        if after is self._tokens[-1] and words.is_beginning(after.text):
            return  # the text was cut in the middle of a cell: the cell is not shown
        if words.is_device(after.text):
            raise self._wrong_count(label, found, header)
        raise self._error(
            label,
            f"unknown path letters {after.text!r} in row {label.text}, expected X, NV#, PIX, PXB, PHB, NODE or SYS: "
            "give the output of nvidia-smi topo -m (other vendors' tools print other letters)",
        )

    def _placed(self, cells: list[Token], header: Header, label: Token, *, has_values: bool) -> list[str | None]:
        """One cell per name. Where some lack, tabs tell which; without tabs only a row cut at its end is taken."""
        wanted = len(header.names)
        texts = [cell.text if words.is_letters(cell.text) else None for cell in cells]
        if len(cells) == wanted:
            return texts
        places = _tab_places(cells)
        if places and places[-1] < wanted and places != list(range(len(cells))):
            at = dict(zip(places, texts, strict=True))
            return [at.get(place) for place in range(wanted)]
        if not has_values:
            return texts + [None] * (wanted - len(cells))
        raise self._wrong_count(label, len(cells), header)

    def _check_diagonal(self, label: Token, cells: list[str | None], header: Header) -> None:
        own = header.names.index(label.text)
        strays = [header.names[place] for place, cell in enumerate(cells) if cell == "X" and place != own]
        if strays or (cells[own] != "X" and any(cells[own:])):
            where = f"X stands under {strays[0]}" if strays else f"{cells[own] or 'nothing'} stands there"
            raise self._error(
                label, f"cells of row {label.text} are lost or shifted: {where}, expected X under {label.text}"
            )

    def _only_last_row_is_short(self, table: Table) -> None:
        for row in table.rows[:-1]:
            if row.short:
                raise self._wrong_count(row, sum(cell is not None for cell in row.cells), table.header)

    def _wrong_count(self, row: Token | Row, found: int, header: Header) -> CaptureError:
        name = row.name if isinstance(row, Row) else row.text
        wanted = f"the header in line {header.line} names {counted(len(header.names), 'device')}"
        return self._error(row, f"row {name} has {found} path cells, but {wanted}: capture it again")

    # --- affinities ---

    def _values(self, position: int, header: Header) -> tuple[dict[str, str], int]:
        """The affinities that follow a row's cells, and the position after them."""
        found = self._value_run(position)
        position += len(found)
        if len(found) < len(header.columns) and not header.leads:
            further = self._wrapped_values(position, header)
            position += len(further)
            if found and further and len(found) + len(further) > len(header.columns):
                broken = found.pop().text + further.pop(0).text  # the terminal broke a list in two
                found.append(self._tokens[position - 1]._replace(text=broken))
            found.extend(further)
        if found:
            return self._assigned(found, header, is_cut=position >= len(self._tokens)), position
        title, number = self._stream.same_line(position), self._stream.same_line(position + 1)
        if title and number and title.text.upper() == "NUMA" and words.is_value(number.text):
            return {"numa": number.text}, position + 2
        return {}, position

    def _value_run(self, position: int) -> list[Token]:
        found: list[Token] = []
        while (token := self._stream.same_line(position)) is not None and words.is_value(token.text):
            found.append(token)
            position += 1
        return found

    def _wrapped_values(self, position: int, header: Header) -> list[Token]:
        """The affinities on the next line, where a terminal wrapped the row and nothing else stands there."""
        if position >= len(self._tokens) or self._tokens[position].line != self._tokens[position - 1].line + 1:
            return []
        most = len(header.columns) + 1
        line = [self._tokens[position], *self._stream.rest(position + 1, most)]
        whole = words.is_value(line[0].text) or words.is_rest_of_list(line[0].text)
        return line if whole and len(line) <= most and all(words.is_value(token.text) for token in line[1:]) else []

    def _leading_values(self, start: int, header: Header) -> dict[str, str]:
        found: list[Token] = []
        position = start
        while not self._tokens[position].first and words.is_value(self._tokens[position - 1].text):
            position -= 1
            found.insert(0, self._tokens[position])
        return self._assigned(found[-len(header.columns) :], header, is_cut=False)

    def _assigned(self, found: list[Token], header: Header, *, is_cut: bool) -> dict[str, str]:
        """Values to columns: in order where all are there, else by tabs, else by what the driver leaves empty."""
        columns = list(header.columns)
        texts = [token.text for token in found[: len(columns)]]
        if not texts:
            return {}
        places = [] if header.leads else _tab_places(found)
        lacks_one = len(texts) == len(columns) - 1 and (texts[-1] == "N/A" or texts[-1].isdigit())
        if len(texts) < len(columns) and places:
            # The driver prints an empty field before GPU NUMA ID, so the last column may stand one tab further.
            given = {columns[min(place, len(columns) - 1)]: text for place, text in zip(places, texts, strict=True)}
        elif lacks_one and not is_cut:
            # Only CPU Affinity is ever left empty (no allowed CPU on that node); the others then say N/A.
            given = dict(zip(columns[1:], texts, strict=True))
        else:
            given = dict(zip(columns, texts, strict=False))
        return ({"cpu": ""} if "cpu" in columns else {}) | given

    def _error(self, at: Token | Row, message: str) -> CaptureError:
        return CaptureError(message, source=self._stream.source, line=at.line)
