"""How a table's cells stand in columns: what folds where, and how wide each column is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

GAP = 2
"""Blanks between two columns where there is room."""

_JOINT = re.compile(r"(?<=->)|(?<=/)|(?<=[A-Za-z]-)(?!>)")
"""Where a name may be folded: `GPU0->NVS0`, `node3/GPU0`, `parameter-server`."""


_INDENT = "  "


@dataclass(frozen=True, slots=True)
class Step:
    """One way to make a table narrower: blanks between columns, and what may fold.

    With `aside` 1 columns that can go under the table do so, with 2 also those that do so at last. With `cells` texts
    fold between words and at the joints of names; words longer than `longest` are then broken anywhere, None: none is.
    """

    gap: int = GAP
    titles: bool = True
    aside: int = 0
    cells: bool = False
    longest: int | None = None


_MILD = (Step(titles=False), Step(), Step(gap=1))
_ASIDE = tuple(Step(step.gap, step.titles, aside) for aside in (1, 2) for step in _MILD)
_FOLDED = tuple(Step(gap, aside=2, cells=True) for gap in (GAP, 1))
PIPE_STEPS = (*_MILD, *_ASIDE, *_FOLDED)
"""Mildest first; what needs more room than the last leaves runs over the edge."""

SCREEN_STEPS = (*PIPE_STEPS, *(Step(1, aside=2, cells=True, longest=longest) for longest in (10, 8)))
"""On a terminal words are broken anywhere at last, since it would break them itself."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells as people read them below titles of one or two lines; `right` says which columns hold numbers alone."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[bool, ...]

    def widths(self, screen: int, step: Step) -> list[int]:
        """How wide each column is: as its cells need it, of which the widest first give what the screen lacks."""
        widths = [max(1, *map(width_of, [_line(title), *cells])) for title, cells in self._columns()]
        least = self._least(step) if step.titles else widths
        while total(widths, step.gap) > screen:
            wider = [number for number, width in enumerate(widths) if width > least[number]]
            if not wider:
                break
            widths[max(wider, key=widths.__getitem__)] -= 1
        return widths

    def folded_titles(self, widths: Sequence[int]) -> list[str]:
        """The titles in as many lines as they need; the last line of each stands right above its cells."""
        folded = [_folded_title(title, width) for title, width in zip(self.titles, widths, strict=True)]
        height = max((title.count("\n") for title in folded), default=0)
        return ["\n" * (height - title.count("\n")) + title for title in folded]

    def folded_rows(self, widths: Sequence[int]) -> list[list[str]]:
        """The cells in as many lines as they need."""
        return [[_folded(cell, width) for cell, width in zip(row, widths, strict=True)] for row in self.rows]

    def plain(self, widths: Sequence[int], gap: int) -> str:
        """The lines in columns so wide, as they go into a pipe: no library need lay them out."""
        lines = []
        for row in (self.folded_titles(widths), *self.folded_rows(widths)):
            columns = [cell.split("\n") for cell in row]
            height = max(map(len, columns), default=0)
            padded = [
                _set([*column, *[""] * (height - len(column))], width, right=right)
                for column, width, right in zip(columns, widths, self.right, strict=True)
            ]
            lines += [(" " * gap).join(parts).rstrip() for parts in zip(*padded, strict=True)]
        return "".join(f"{line}\n" for line in lines)

    def _columns(self) -> list[tuple[str, list[str]]]:
        """Each title with its cells."""
        return [(title, [row[number] for row in self.rows]) for number, title in enumerate(self.titles)]

    def _least(self, step: Step) -> list[int]:
        """The width down to which each column may be narrowed. Numbers are left whole."""
        least = []
        for (title, cells), right in zip(self._columns(), self.right, strict=True):
            titles = title.split("\n") if "\n" in title else title.split()
            whole = [part.rstrip() for cell in cells for part in _parts(cell)] if step.cells and not right else cells
            width = max(1, *map(width_of, [*titles, *whole]))
            least.append(width if step.longest is None or right else min(width, step.longest))
        return least


def total(widths: Sequence[int], gap: int) -> int:
    """The width of a table whose columns are so wide."""
    return sum(widths) + gap * max(len(widths) - 1, 0)


def width_of(text: str) -> int:
    """How many places of the terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def wrapped(text: str, width: int, indent: str) -> list[str]:
    """The text in lines folded between words, all but the first indented; a word that is longer stays whole."""
    import textwrap

    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def phrased(text: str, width: int) -> list[str]:
    """The text in lines folded behind its commas and colons, where its phrases fit, so that each can be searched."""
    phrases = re.split(r"(?<=[,:;]) ", text)
    if max(map(width_of, phrases)) > width - len(_INDENT):
        return wrapped(text, width, _INDENT)
    kept = " ".join(phrase.replace(" ", "\xa0") for phrase in phrases)
    return [line.replace("\xa0", " ") for line in wrapped(kept, width, _INDENT)]


def _line(title: str) -> str:
    """A title in one line."""
    return " ".join(title.split("\n"))


def _folded_title(title: str, width: int) -> str:
    """A title in one line where it fits, else in its two lines, or folded between words."""
    import textwrap

    if width_of(_line(title)) <= width:
        return _line(title)
    return "\n".join(part for line in title.split("\n") for part in textwrap.wrap(line, width) or [""])


def _parts(cell: str) -> list[str]:
    """What of a cell stays together where it folds: words with the blanks behind them, and parts of names."""
    return [part for word in re.findall(r"\S+\s*", cell) for part in _JOINT.split(word)]


def _folded(cell: str, width: int) -> str:
    """A cell in as many lines as it needs, folded between words and at the joints of names."""
    if width_of(cell) <= width:
        return cell
    lines = [""]
    for part in _parts(cell):
        if lines[-1] and width_of(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _set(cells: Sequence[str], width: int, *, right: bool) -> list[str]:
    """Cells filled with blanks up to a width, on the left where they are set to the right."""
    blanks = [" " * (width - width_of(cell)) for cell in cells]
    return [blank + cell if right else cell + blank for cell, blank in zip(cells, blanks, strict=True)]
