"""What all outputs of `nvidia-smi nvlink` share: a line per GPU, and below it what is said of each of its links.

    section := "GPU 0: NAME (UUID: ...)"  ("Link 3: ..." | "Link 3, ...")*

The flags differ in what stands behind `Link N`; each has its reader, which takes the sections in which it finds that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from topo.errors import CaptureError
from topo.readers.plain_text import Line, cleaned_lines, command_in, lines_with

_GPU_LINE = re.compile(r"(?<!\w)(?<!for )GPU\s*(\d{1,3})\s*:\s*(\S.*?)?\s*$")
_NAME = re.compile(r"(.*?)\s*(?:\(\s*(?:UUID|S/N)\b.*)?$")
_AFTER_UUID = re.compile(r"\(\s*UUID[^)]*\)(.*)$")
_LINK_LINE = re.compile(r"\bLink\s*(\d{1,3})\s*([:,])\s*(\S.*?)\s*$")
_LINK_WORD = re.compile(r"\bLink\b")
_ELIDED = re.compile(r"^\s*(?:\[?\s*(?:\.{2,}|…)\s*\]?)\s*$")
_ONE_GPU = re.compile(r"(?:-i|--id)[\s=]+(\d{1,3})\b")


@dataclass(frozen=True, slots=True)
class LinkLine:
    """One link's line: its number, the sign behind that (`:` or `,`), and what is said of the link."""

    number: int
    sign: str
    said: str
    line: int


@dataclass(frozen=True, slots=True)
class Section:
    """One GPU's part of an output.

    `gpu` is its index, None where the text shows neither the GPU's line nor a command for one GPU. `remarks` are lines
    that are no links (NVML's messages). `elided` marks a part that somebody left out (`[...]`). `run` counts outputs:
    a command line, or an index that does not grow, begins a new one.
    """

    gpu: int | None
    name: str | None
    line: int
    links: tuple[LinkLine, ...]
    remarks: tuple[Line, ...]
    elided: bool
    run: int


class OfGpu(Protocol):
    """What a reader makes of a section."""

    @property
    def gpu(self) -> int | None:
        """The GPU's index."""

    @property
    def line(self) -> int:
        """Where it stands."""


T = TypeVar("T", bound=OfGpu)


def link_lines(text: str) -> Iterator[LinkLine]:
    """All lines of links in a text, whatever GPU they belong to (and without their numbers): enough to sniff it."""
    for line in lines_with(text, _LINK_WORD):
        match = _LINK_LINE.search(line)
        if match is not None:
            yield _link(match, 0)


def sections(text: str, source: str = "") -> tuple[Section, ...]:
    """The sections of a text in order, those of all flags alike."""
    found: list[Section] = []
    run, head, body = 0, _Head(None, None, 0), list[Line]()
    for line in cleaned_lines(text, source):
        command, gpu = command_in(line.text), _GPU_LINE.search(line.text)
        if command is None and (gpu is None or _LINK_LINE.search(line.text)):
            body.append(line)
            continue
        found.extend(_section(head, body, run))
        body = []
        if command is not None:
            one = _ONE_GPU.search(command)
            run, head = run + 1, _Head(int(one[1]) if one else None, None, line.number)
        elif gpu is not None:
            index, rest = int(gpu[1]), gpu[2] or ""
            run += head.gpu is not None and head.name is not None and index <= head.gpu
            name = _NAME.match(rest)
            head = _Head(index, name[1] if name else "", line.number)
            after = _AFTER_UUID.search(rest)
            body = [Line(line.number, after[1])] if after and after[1].strip() else []
    found.extend(_section(head, body, run))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Head:
    """The line that opens a section."""

    gpu: int | None
    name: str | None
    line: int


def _link(match: re.Match[str], line: int) -> LinkLine:
    return LinkLine(int(match[1]), match[2], match[3], line)


def _section(head: _Head, body: Sequence[Line], run: int) -> Iterable[Section]:
    """The section of a GPU's line, or of lines that stand before any such line; nothing where there is neither."""
    if head.name is None and not body:
        return
    links: list[LinkLine] = []
    remarks: list[Line] = []
    for line in body:
        match = _LINK_LINE.search(line.text)
        if match:
            links.append(_link(match, line.number))
        elif not _ELIDED.match(line.text):
            remarks.append(line)
    elided = any(_ELIDED.match(line.text) for line in body)
    opens = head.line if head.name is not None else body[0].number
    yield Section(head.gpu, head.name, opens, tuple(links), tuple(remarks), elided, run)


def once_per_gpu(found: Sequence[T], content: Callable[[T], Hashable], source: str) -> tuple[T, ...]:
    """What was found, each GPU once; CaptureError where one stands twice with different content."""
    first: dict[int | None, T] = {}
    for one in found:
        other = first.setdefault(one.gpu, one)
        if content(one) != content(other):
            raise CaptureError(
                f"GPU {one.gpu} stands twice (first in line {other.line}) and its links differ: expected one output "
                "of one machine, give one file for each",
                source=source,
                line=one.line,
            )
    return tuple(first.values())
