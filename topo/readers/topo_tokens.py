"""The text of `nvidia-smi topo` as a stream of words: cleaned of what terminals, web pages and people add to it.

Nothing here knows where a column begins. Tabs, blanks, line prefixes and lost separators all differ between captures,
so a word carries its line and the tabs before it, and the grammar above decides by what the words are.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from topo.errors import CaptureError
from topo.readers.limits import MAX_MATRIX_CHARS
from topo.readers.plain_text import plain_lines

LETTERS = r"(?:NV[1-9]\d?|SYS|SOC|NODE|PHB|PXB|PIX|PSB|X)"
"""One cell that states a path. SOC is what drivers before NUMA awareness wrote for SYS; PSB is PIX inside one board."""

_LETTER = re.compile(LETTERS)
_GPU = re.compile(r"GPU\d+")
_DEVICE = re.compile(r"(?:GPU|NIC)\d+")
_NAME = re.compile(r"(?=.*\d)[A-Za-z][\w.\-]*")
_VALUE = re.compile(r"N/A|\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*,?")
_UNSHOWN = frozenset({"N/A", "ERR", "ERR!", "?", "-", "--"})

_GLUED_CELLS = re.compile(rf"(?:{LETTERS}){{2,}}")
_GLUED_NAMES = re.compile(r"((?:(?:GPU|NIC)\d+)+)([a-z]\w*)?")
_GLUED_MLX = re.compile(r"(?:mlx\d_(?:bond_)?\d+){2,}")
_PREFIX_AND_LABEL = re.compile(r"(.*(?:[:>\])]|N/A|\d))((?:GPU|NIC)\d+|mlx\d_(?:bond_)?\d+)")
_LABEL_AND_CELLS = re.compile(rf"((?:GPU|NIC)\d+)((?:{LETTERS})+)")
_CELL_AND_VALUE = re.compile(r"(SYS|SOC|NODE|PHB|PXB|PIX|PSB|X)(\d[\d,\-]*)")


class Token(NamedTuple):
    """One word: `tabs` counts the tabs before it since the word before, `first` says that it begins its line."""

    text: str
    line: int
    tabs: int
    first: bool


def is_letters(text: str) -> bool:
    """Whether the word is a cell that states a path (or X)."""
    return _LETTER.fullmatch(text) is not None


def is_cell(text: str) -> bool:
    """Whether the word may fill a cell: path letters, or a mark that nothing is known."""
    return text in _UNSHOWN or is_letters(text)


def is_beginning(text: str) -> bool:
    """Whether the word is what a cut leaves of path letters (`NO` of NODE, `NV`)."""
    return any(letters.startswith(text) for letters in ("NODE", "SYS", "SOC", "PHB", "PXB", "PIX", "NV"))


def may_be_cut(text: str) -> bool:
    """Whether the word is whole path letters and may yet be the beginning of others (`NV1` of NV18)."""
    return re.fullmatch(r"NV\d", text) is not None


def is_rest_of_list(text: str) -> bool:
    """Whether the word is what a line end leaves of an affinity (`-191` of `128-191`)."""
    return re.fullmatch(r"[\d,\-]+", text) is not None


def may_stand_in_row(text: str) -> bool:
    """Whether the word is a cell (even one cut off) or an affinity: what follows a label in its row."""
    return is_cell(text) or is_value(text) or is_beginning(text)


def is_gpu(text: str) -> bool:
    """Whether the word is a GPU's label (`GPU0`)."""
    return _GPU.fullmatch(text) is not None


def is_device(text: str) -> bool:
    """Whether the word can only be a device's label (`GPU0`, `NIC3`)."""
    return _DEVICE.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Whether the word may be a device's label, including a network interface's own name (`mlx5_0`, `bnxt_re1`)."""
    return _NAME.fullmatch(text) is not None and not is_letters(text)


def is_value(text: str) -> bool:
    """Whether the word may be an affinity: a list of numbers, or N/A."""
    return _VALUE.fullmatch(text) is not None


def tokenize(text: str, source: str = "") -> list[Token]:
    """The words of a text in order. CaptureError where it is too large, empty, binary or a web page."""
    _refuse_other_than_text(text, source)
    tokens: list[Token] = []
    for line in plain_lines(text):
        tokens.extend(_words(line.text, line.number))
    return tokens


def _refuse_other_than_text(text: str, source: str) -> None:
    if len(text) > MAX_MATRIX_CHARS:
        raise CaptureError(
            f"{len(text):,} characters are too many for the output of nvidia-smi topo -m (at most "
            f"{MAX_MATRIX_CHARS:,}): give the file of that command alone",
            source=source,
        )
    if not text.strip("\ufeff \t\r\n"):
        raise CaptureError(
            "the file is empty: expected the output of nvidia-smi topo -m, capture it again", source=source, line=1
        )
    if "\0" in text or sum(not (char.isprintable() or char.isspace() or char == "\x1b") for char in text[:4096]) > 400:
        raise CaptureError(
            "binary data, not text: expected the output of nvidia-smi topo -m as the terminal shows it",
            source=source,
            line=1,
        )
    if re.match(r"\s*<(?:!doctype\s+html|html|head|body)\b", text[:1024].lstrip("\ufeff"), re.IGNORECASE):
        raise CaptureError(
            "an HTML page, not the output of nvidia-smi topo -m: save the plain text of the matrix instead",
            source=source,
            line=1,
        )


def _words(line: str, number: int) -> list[Token]:
    words: list[Token] = []
    end = 0
    for match in re.finditer(r"\S+", line):
        tabs = line.count("\t", end, match.start())
        for part in _separated(match[0]):
            words.append(Token(part, number, tabs, first=not words))
            tabs = 1  # parts of one glued word are neighbouring fields: the tab between them is what was lost
        end = match.end()
    return words


def _separated(word: str) -> list[str]:
    """The words that a lost separator ran together (`SYSSYS`, `GPU0GPU1mlx5_0`, `GPU1NV4`); mostly just the word."""
    if _GLUED_CELLS.fullmatch(word) and (cells := _LETTER.findall(word)).count("X") < 2:
        return cells
    if names := _GLUED_NAMES.fullmatch(word):
        return _DEVICE.findall(names[1]) + (_separated(names[2]) if names[2] else [])
    if _GLUED_MLX.fullmatch(word):
        return re.findall(r"mlx\d_(?:bond_)?\d+", word)
    if pair := _PREFIX_AND_LABEL.fullmatch(word):
        return [pair[1], pair[2]]
    if pair := _LABEL_AND_CELLS.fullmatch(word):
        return [pair[1], *_LETTER.findall(pair[2])]
    if pair := _CELL_AND_VALUE.fullmatch(word):
        return [pair[1], pair[2]]
    return [word]
