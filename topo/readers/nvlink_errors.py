"""`nvidia-smi nvlink -e` (`--errorcounters`): how often each NVLink of each GPU failed to get data across."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from topo.errors import CaptureError
from topo.readers.nvlink_sections import LinkLine, Section, link_lines, once_per_gpu, sections

FORMAT = "nvidia-smi nvlink -e"

_COUNTER = re.compile(r"([A-Za-z][^:]*?)\s*:\s*(\S+)\s*$")
_TITLE = re.compile(r"\b(?:errors?|ber|fec|replay|recovery|discards?|crc|integrity)\b", re.IGNORECASE)
_RATES = re.compile(r"\bBER\b")


@dataclass(frozen=True, slots=True)
class ErrorCounter:
    """One counter of one link, called as the driver calls it (`Replay Errors`).

    `count` is None where the driver prints no whole number (bit error rates, `N/A`); `said` is what it prints.
    """

    number: int
    name: str
    count: int | None
    said: str
    line: int


@dataclass(frozen=True, slots=True)
class GpuErrors:
    """The counters of one GPU's NVLinks; `complete` is False where the text shows that some are left out."""

    gpu: int | None
    name: str | None
    counters: tuple[ErrorCounter, ...]
    complete: bool
    line: int

    @property
    def links(self) -> tuple[int, ...]:
        """The numbers of the links that are shown."""
        return tuple(dict.fromkeys(counter.number for counter in self.counters))

    @property
    def failed(self) -> tuple[ErrorCounter, ...]:
        """The counters above 0."""
        return tuple(counter for counter in self.counters if counter.count)


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """The error counters of the NVLinks of all GPUs that the text shows."""

    gpus: tuple[GpuErrors, ...]
    source: str = ""


def sniff(text: str) -> bool:
    """Whether the text holds links with error counters."""
    return any(_counter(link) for link in link_lines(text))


def read(text: str, source: str = "") -> ErrorFacts:
    """The facts of the output; CaptureError, with file and line, where the text is something else."""
    gpus = [
        GpuErrors(section.gpu, section.name, counters, not section.elided, section.line)
        for section in sections(text, source)
        if (counters := _counters(section))
    ]
    if not gpus:
        raise CaptureError(
            f"no NVLink error counters: expected the output of {FORMAT}, lines such as Link 0: Replay Errors: 0",
            source=source,
            line=1,
        )
    return ErrorFacts(once_per_gpu(gpus, _content, source), source)


def _counters(section: Section) -> tuple[ErrorCounter, ...]:
    return tuple(counter for link in section.links if (counter := _counter(link)) is not None)


def _counter(link: LinkLine) -> ErrorCounter | None:
    match = _COUNTER.match(link.said)
    if match is None or not _TITLE.search(match[1]):
        return None
    whole = match[2].isdecimal() and not _RATES.search(match[1])
    return ErrorCounter(link.number, match[1], int(match[2]) if whole else None, match[2], link.line)


def _content(gpu: GpuErrors) -> Sequence[tuple[int, str]]:
    return tuple((counter.number, counter.name) for counter in gpu.counters)
