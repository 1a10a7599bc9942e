"""The lines of a captured text, cleaned of what terminals, logs and web pages add to them, each with its number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from topo.errors import CaptureError
from topo.readers.limits import MAX_LISTING_CHARS

_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # a window title
    r"|(?:\x1b|\^\[|␛|\\(?:x1b|e|033|u001b))\[[0-?]*[ -/]*[@-~]"  # ESC, as itself or as a log spells it
    r"|\[\d{1,2}(?:;\d{1,2})*m"  # what is left where only the ESC was lost
    r"|\x1b[^\[]"
)
_PREFIX = re.compile(r"^(?:\[\d+,\d+\]<std(?:out|err)>:|[ \t]*(?:>+|#+|//))")
_RULE = re.compile(r"^[\s|+:=\-─━═│┃┼├┤┌┐└┘┬┴╞╡╪]*[-─━═]{3}[\s|+:=\-─━═│┃┼├┤┌┐└┘┬┴╞╡╪]*$")
_TYPOGRAPHY = str.maketrans(
    {"|": "\t", "│": "\t", "┃": "\t", "`": " ", "\u2013": "-", "\u2014": "-", "\u2212": "-"}
    | dict.fromkeys("\ufeff\u200b\u200e")
)
_NEWLINE = re.compile(r"\r\n|\n|\r")

_COMMAND = re.compile(r"(?:^|[\s/;|&])((?:nvidia-smi|rocm-smi|lspci|nvbandwidth|lstopo(?:-no-graphics)?)\b.*)$")


class Line(NamedTuple):
    """One line without its decoration (colours, comment signs, table bars); `number` counts from 1."""

    number: int
    text: str


def plain_lines(text: str, only: Callable[[str], bool] | None = None) -> Iterator[Line]:
    """The lines that say something, cleaned: neither blank ones nor rules, nor those that `only` does not take."""
    for number, line in enumerate(_NEWLINE.split(text), start=1):
        if only is not None and not only(line):
            continue
        for part in _unescaped(line):
            if part and not part.isspace() and not _RULE.match(part):
                yield Line(number, _clean(part))


def cleaned_lines(text: str, source: str = "", only: Callable[[str], bool] | None = None) -> tuple[Line, ...]:
    """As `plain_lines`; CaptureError where the text is too long to be what one command printed."""
    if len(text) > MAX_LISTING_CHARS:
        raise CaptureError(
            f"{len(text):,} characters are too many for one command's output (at most {MAX_LISTING_CHARS:,}): give "
            "the file of that command alone",
            source=source,
        )
    return tuple(plain_lines(text, only))


def lines_with(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """The cleaned lines in which the pattern is found before cleaning: a quick way to sniff a long text."""
    end = -1
    for match in pattern.finditer(text):
        if match.start() > end:
            begin = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.end())
            end = len(text) if end < 0 else end
            yield from (_clean(part) for part in _unescaped(text[begin:end].rstrip("\r")))


def command_in(line: str) -> str | None:
    """The command that the line shows being typed (`nvidia-smi topo -p2p r`), None where it shows none."""
    match = _COMMAND.search(line)
    return match[1].strip() if match else None


def _unescaped(line: str) -> list[str]:
    """The lines in a line: several where the text was kept as a JSON string, whose tabs and line ends are spelt."""
    if not ("\\t" in line or "\\n" in line) or not re.search(r"(?:GPU|NIC|mlx)\w*\d", line):
        return [line]
    return line.replace("\\t", "\t").replace('"', " ").split("\\n")


def _clean(line: str) -> str:
    line = _ESCAPES.sub("", line).translate(_TYPOGRAPHY).replace("**", "").replace("\\_", "_")
    return _PREFIX.sub(" ", line, count=1)
