"""Tables: rows of plain cells, written for people (terminal, pipe, Markdown) or for programs (CSV)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from topo.words import printable

Cell = str | int | float | None

GAP = 2
"""Blanks between two columns where there is room."""

PIPE_COLUMNS = 80
"""How wide a table may be in a pipe or file before columns go aside, where they can."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

_JOINT = re.compile(r"(?<=->)|(?<=/)|(?<=[A-Za-z]-)(?!>)")
"""Where a name may be folded: `GPU0->NVS0`, `node3/GPU0`, `parameter-server`."""

_BROKEN_WIDTHS = (10, 8)
"""Words are broken anywhere down to these widths; what needs more room than that runs over the edge of the screen."""

_NARROWINGS = (
    *((GAP, False, None), (1, False, None), (GAP, True, None), (1, True, None)),
    *((1, True, width) for width in _BROKEN_WIDTHS),
)
"""How a table is made to fit, mildest first: gap, whether cells of text fold, and how long their words may stay."""


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column: `title` with its unit for people, `key` for CSV, `spec` how a float is written for people.

    A title may have two lines ("algbw\\nGB/s"); where there is room they are one. `show` writes a cell in full for
    people ("1 MiB") where programs are to have the plain number. `aside` words the cell, as `{}`, in a note under a
    table that is too wide; without it the column always stands in the table.
    """

    title: str
    key: str
    spec: str = ".4g"
    show: Callable[[Any], str] | None = None
    aside: str = ""

    @property
    def line(self) -> str:
        """The title in one line."""
        return " ".join(self.title.split("\n"))

    def shown(self, cell: Cell) -> str:
        """The cell as people read it, in one line."""
        if cell is None:
            return "-"
        if self.show is not None:
            return self.show(cell)
        return format(cell, self.spec) if isinstance(cell, float) else printable(" ".join(str(cell).splitlines()))


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of plain cells with their columns; how it looks is decided when it is written."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""

    def csv(self) -> str:
        """RFC 4180 with the columns' keys as header and numbers in full.

        A text that a spreadsheet would take for a formula gets an apostrophe in front: names come from captures.
        """
        import csv
        import io

        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([column.key for column in self.columns])
        writer.writerows([[_harmless(cell) for cell in row] for row in self.rows])
        return text.getvalue()

    def markdown(self) -> str:
        """A table of GitHub's Markdown."""
        rows = [[cell.replace("|", "\\|") for cell in row] for row in self._shown()]
        titles = [column.line.replace("|", "\\|") for column in self.columns]
        rules = ["---:" if right else "---" for right in self._is_right()]
        return "".join(f"| {' | '.join(row)} |\n" for row in (titles, rules, *rows))

    def text(self, *, terminal: bool) -> str:
        """The table for people, in columns, behind its title in one line; nothing is ever cut.

        In a pipe or file each row is one line of its natural width. Where stdout is a terminal (and `terminal` says
        that this goes there), titles are bold, and a table wider than the screen is narrowed: titles fold, gaps shrink
        to one blank, columns of text fold. Numbers always keep their line. In both, columns that have an `aside` go
        under a table that would be wider than the screen (in a pipe: 80 columns) as numbered notes.
        """
        import sys

        on_screen = terminal and sys.stdout.isatty()
        screen = _screen_columns() if on_screen else PIPE_COLUMNS
        if not any(column.aside for column in self.columns) or _total(self._natural(), GAP) <= screen:
            return self._within(screen) if on_screen else self._plain([[column.line] for column in self.columns])
        table, notes = self._with_notes()
        if on_screen:
            return table._within(screen) + _listed(notes, screen)
        tall = _total(table._natural(), GAP) > screen
        titles = [column.title.split("\n") if tall else [column.line] for column in table.columns]
        return table._plain(titles) + _listed(notes, screen)

    def _with_notes(self) -> tuple[Table, list[str]]:
        """The table without its columns that go aside, the numbers of its notes in their place; and these notes."""
        stays = [number for number, column in enumerate(self.columns) if not column.aside]
        notes: dict[str, int] = {}
        rows = []
        for row in self.rows:
            asides = [(column, cell) for column, cell in zip(self.columns, row, strict=True) if column.aside]
            said = ", ".join(column.aside.format(column.shown(cell)) for column, cell in asides if cell is not None)
            mark = f"[{notes.setdefault(said, len(notes) + 1)}]" if said else None
            rows.append((*(row[number] for number in stays), mark))
        columns = (*(self.columns[number] for number in stays), Column("note", "note"))
        return Table(columns, tuple(rows), self.title), list(notes)

    def _within(self, screen: int) -> str:
        """The table for a terminal, as narrow as it has to be."""
        for gap, folded, longest in _NARROWINGS:
            widths = self._narrowed(self._least(folded_cells=folded, longest=longest), screen, gap)
            if _total(widths, gap) <= screen:
                break
        return self._drawn(widths, gap)

    def _plain(self, titles: Sequence[Sequence[str]]) -> str:
        """The lines at their natural widths below titles of so many lines: no library need lay them out."""
        height = max(map(len, titles), default=0)
        columns = []
        for lines, (_, cells), right in zip(titles, self._by_column(), self._is_right(), strict=True):
            column = [*[""] * (height - len(lines)), *lines, *cells]
            columns.append(_set(column, max(1, *map(_width, column)), right=right))
        head = f"{printable(self.title)}\n" if self.title else ""
        return head + "".join(f"{(' ' * GAP).join(cells).rstrip()}\n" for cells in zip(*columns, strict=True))

    def _natural(self) -> list[int]:
        """The width that each column needs for nothing to fold."""
        return [max(1, *map(_width, [column.line, *cells])) for column, cells in self._by_column()]

    def _least(self, *, folded_cells: bool, longest: int | None = None) -> list[int]:
        """The width down to which each column may be narrowed.

        Titles fold between words (or where they have a second line); with `folded_cells` those of text do, too, and at
        the joints of names; with `longest` what is longer still is broken. Numbers are left whole.
        """
        least = []
        for (column, cells), right in zip(self._by_column(), self._is_right(), strict=True):
            title = column.title.split("\n") if "\n" in column.title else column.title.split()
            whole = [part.rstrip() for cell in cells for part in _parts(cell)] if folded_cells and not right else cells
            width = max(1, *map(_width, [*title, *whole]))
            least.append(width if longest is None or right else min(width, longest))
        return least

    def _narrowed(self, least: Sequence[int], screen: int, gap: int) -> list[int]:
        """The natural widths, of which the widest columns first give what the screen lacks."""
        narrowed = self._natural()
        while _total(narrowed, gap) > screen:
            wider = [number for number, width in enumerate(narrowed) if width > least[number]]
            if not wider:
                break
            narrowed[max(wider, key=narrowed.__getitem__)] -= 1
        return narrowed

    def _drawn(self, widths: Sequence[int], gap: int) -> str:
        """The lines of the table for a terminal, its columns as wide as given."""
        from rich.console import Console
        from rich.table import Table as RichTable

        table = RichTable(box=None, pad_edge=False, padding=(0, gap, 0, 0))
        titles = [_folded_title(column, width) for column, width in zip(self.columns, widths, strict=True)]
        height = max((title.count("\n") for title in titles), default=0)
        for title, right, width in zip(titles, self._is_right(), widths, strict=True):
            # The last line of a title stands right above its cells.
            header = "\n" * (height - title.count("\n")) + title
            table.add_column(header, justify="right" if right else "left", width=width, overflow="fold")
        for row in self._shown():
            table.add_row(*(_folded(cell, width) for cell, width in zip(row, widths, strict=True)))
        console = Console(
            width=_total(widths, gap),
            height=len(self.rows) + 1,  # Without a height rich takes no word on the width where TERM is "dumb".
            force_terminal=True,
            highlight=False,
            markup=False,
            emoji=False,
        )
        with console.capture() as captured:
            console.print(table)
        head = f"{printable(self.title)}\n" if self.title else ""
        return head + "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())

    def _by_column(self) -> list[tuple[Column, list[str]]]:
        """Each column with its cells as people read them."""
        shown = self._shown()
        return [(column, [row[number] for row in shown]) for number, column in enumerate(self.columns)]

    def _shown(self) -> list[list[str]]:
        return [[column.shown(cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]

    def _is_right(self) -> list[bool]:
        """Columns that hold numbers and nothing else are set to the right."""
        return [all(not isinstance(cell, str) for cell in cells) for cells in zip(*self.rows, strict=True)] or [
            False for _ in self.columns
        ]


def _screen_columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def _harmless(cell: Cell) -> Cell:
    """A cell as CSV holds it: no text that begins as a formula does."""
    if cell is None:
        return ""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell


def _listed(notes: Sequence[str], screen: int) -> str:
    """Numbered notes, folded where the screen ends."""
    import textwrap

    lines = [
        line
        for number, note in enumerate(notes, start=1)
        for line in textwrap.wrap(
            f"[{number}] {note}", screen, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
    ]
    return "".join(f"{line}\n" for line in lines)


def _total(widths: Sequence[int], gap: int) -> int:
    """The width of a table whose columns are so wide."""
    return sum(widths) + gap * max(len(widths) - 1, 0)


def _folded_title(column: Column, width: int) -> str:
    """A title in one line where it fits, else in its two lines, or folded between words."""
    import textwrap

    if _width(column.line) <= width:
        return column.line
    return "\n".join(part for line in column.title.split("\n") for part in textwrap.wrap(line, width) or [""])


def _parts(cell: str) -> list[str]:
    """What of a cell stays together where it folds: words with the blanks behind them, and parts of names."""
    return [part for word in re.findall(r"\S+\s*", cell) for part in _JOINT.split(word)]


def _folded(cell: str, width: int) -> str:
    """A cell in as many lines as it needs, folded between words and at the joints of names."""
    if _width(cell) <= width:
        return cell
    lines = [""]
    for part in _parts(cell):
        if lines[-1] and _width(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _set(cells: Sequence[str], width: int, *, right: bool) -> list[str]:
    """Cells filled with blanks up to a width, on the left where they are set to the right."""
    blanks = [" " * (width - _width(cell)) for cell in cells]
    return [blank + cell if right else cell + blank for cell, blank in zip(cells, blanks, strict=True)]


def _width(text: str) -> int:
    """How many places of the terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
