"""Tables: rows of plain cells, written for people (terminal, pipe, Markdown) or for programs (CSV)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from topo.table_grid import PIPE_STEPS, SCREEN_STEPS, Grid, Step, phrased, total, wrapped
from topo.words import printable

Cell = str | int | float | None

PIPE_COLUMNS = 80
"""How wide a table may be in a pipe or file."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column: `title` with its unit for people, `key` for CSV, `spec` how a float is written for people.

    A title may have two lines ("algbw\\nGB/s"); where there is room they are one. `show` writes a cell in full for
    people ("1 MiB") where programs are to have the plain number. `aside` words the cell, as `{}`, in a note under a
    table that is too wide, with `at_last` only where the others' notes do not make it fit; without it the column always
    stands in the table.
    """

    title: str
    key: str
    spec: str = ".4g"
    show: Callable[[Any], str] | None = None
    aside: str = ""
    at_last: bool = False

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
        """The table for people, in columns, behind its title; nothing is ever cut.

        Where stdout is a terminal (and `terminal` says that this goes there), it is no wider than the screen and its
        titles are bold; in a pipe or file no wider than 80 columns, or than COLUMNS says where that is more. A table
        that would be wider is narrowed step by step: titles fold, gaps shrink to one blank, columns that have an
        `aside` go under it as numbered notes, and at last columns of text fold. Numbers always keep their line.
        """
        import sys

        if terminal and sys.stdout.isatty():
            return self._narrowed(_screen_columns(), SCREEN_STEPS, _on_screen)
        return self._narrowed(_pipe_columns(), PIPE_STEPS, Grid.plain)

    def _narrowed(self, screen: int, steps: Sequence[Step], draw: Callable[[Grid, Sequence[int], int], str]) -> str:
        """The table by the first of these steps with which it fits, or by the last."""
        level = -1
        for step in steps:
            if step.aside > level:
                level = step.aside
                grid, notes = self._with_notes(level)
            widths = grid.widths(screen, step)
            if total(widths, step.gap) <= screen:
                break
        head = "".join(f"{line}\n" for line in phrased(printable(self.title), screen))
        return head + draw(grid, widths, step.gap) + _listed(notes, screen)

    def _grid(self) -> Grid:
        """The cells as people read them."""
        titles = tuple(column.title for column in self.columns)
        return Grid(titles, tuple(map(tuple, self._shown())), tuple(self._is_right()))

    def _with_notes(self, level: int) -> tuple[Grid, list[str]]:
        """The table without columns that go aside, the numbers of its notes in their place; and these notes."""
        away = {
            number: column.aside
            for number, column in enumerate(self.columns)
            if column.aside and level > column.at_last
        }
        if not away:
            return self._grid(), []
        stays = [number for number in range(len(self.columns)) if number not in away]
        notes: dict[str, int] = {}
        rows: list[tuple[Cell, ...]] = []
        for row in self.rows:
            parts = [
                words.format(self.columns[number].shown(row[number]))
                for number, words in away.items()
                if row[number] is not None
            ]
            mark = f"[{notes.setdefault(', '.join(parts), len(notes) + 1)}]" if parts else None
            rows.append((*(row[number] for number in stays), mark))
        columns = (*(self.columns[number] for number in stays), Column("note", "note"))
        return Table(columns, tuple(rows))._grid(), list(notes)

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


def _pipe_columns() -> int:
    """80, or more where the environment's COLUMNS says so."""
    import os

    said = os.environ.get("COLUMNS", "")
    return max(PIPE_COLUMNS, int(said) if said.isdecimal() else 0)


def _on_screen(grid: Grid, widths: Sequence[int], gap: int) -> str:
    """The lines in columns so wide for a terminal, titles bold."""
    from rich.console import Console
    from rich.table import Table as RichTable

    table = RichTable(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for title, right, width in zip(grid.folded_titles(widths), grid.right, widths, strict=True):
        table.add_column(title, justify="right" if right else "left", width=width, overflow="fold")
    for row in grid.folded_rows(widths):
        table.add_row(*row)
    console = Console(
        width=total(widths, gap),
        height=len(grid.rows) + 1,  # Without a height rich takes no word on the width where TERM is "dumb".
        force_terminal=True,
        highlight=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as captured:
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _harmless(cell: Cell) -> Cell:
    """A cell as CSV holds it: no text that begins as a formula does."""
    if cell is None:
        return ""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell


def _listed(notes: Sequence[str], screen: int) -> str:
    """Numbered notes, folded where the screen ends."""
    lines = [
        line for number, note in enumerate(notes, start=1) for line in wrapped(f"[{number}] {note}", screen, "    ")
    ]
    return "".join(f"{line}\n" for line in lines)
