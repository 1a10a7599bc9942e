"""`nvidia-smi nvlink -s` (`--status`): the rate of each NVLink of each GPU, or that it is down."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from topo.errors import CaptureError
from topo.readers.nvlink_sections import LinkLine, Section, link_lines, once_per_gpu, sections

FORMAT = "nvidia-smi nvlink -s"

State = Literal["active", "inactive", "unknown"]
Verdict = Literal["links", "all inactive", "unsupported", "unreadable", "silent"]

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*GB/s\b")
_INACTIVE = re.compile(r"<?\s*in-?active\s*>?$|<?\s*(?:down|disabled|off)\s*>?$", re.IGNORECASE)
_NO_RATE = re.compile(r"<[^<>]+>$|\[?N/A\]?$|\[?(?:Unknown Error|Not Supported|Unknown)\]?$", re.IGNORECASE)
_MESSAGES: tuple[tuple[Verdict, re.Pattern[str]], ...] = (
    ("all inactive", re.compile(r"\ball links are in-?active\b", re.IGNORECASE)),
    ("unsupported", re.compile(r"\bdoes not (?:have or )?support nvlink\b", re.IGNORECASE)),
    ("unreadable", re.compile(r"\bunable to (?:retrieve|get) (?:the )?nvlink\b", re.IGNORECASE)),
)
"""What is printed instead of links, by what it means; newer drivers write Nvlink, older ones NVLink."""


@dataclass(frozen=True, slots=True)
class NvlinkState:
    """One link: `bytes_per_s` is its rate in one direction (None unless active), `said` the source's words."""

    number: int
    state: State
    bytes_per_s: float | None
    said: str
    line: int


@dataclass(frozen=True, slots=True)
class GpuNvlinks:
    """The NVLinks of one GPU.

    `gpu` is NVML's index (None where the text does not say); `verdict` is "links" where links are listed, else what is
    said in their place ("silent": nothing is). `complete` is False where links are left out (`[...]`, or a gap in
    their numbers), so that they must not be counted.
    """

    gpu: int | None
    name: str | None
    links: tuple[NvlinkState, ...]
    verdict: Verdict
    complete: bool
    line: int

    def in_state(self, state: State) -> tuple[NvlinkState, ...]:
        """The links that are in that state."""
        return tuple(link for link in self.links if link.state == state)


@dataclass(frozen=True, slots=True)
class NvlinkFacts:
    """The NVLinks of all GPUs that the text shows; none where the command printed nothing (no NVLink hardware)."""

    gpus: tuple[GpuNvlinks, ...]
    source: str = ""


def sniff(text: str) -> bool:
    """Whether the text holds links with their rates, or a message in their place (an empty text tells nothing)."""
    if any(words.search(text) for _, words in _MESSAGES):
        return True
    states = (_state(link) for link in link_lines(text))
    return any(state is not None and state.state != "unknown" for state in states)


def read(text: str, source: str = "") -> NvlinkFacts:
    """The facts of the output; an empty text is a machine without NVLink, on which the command prints nothing.

    CaptureError, with file and line, where the text is something else, or one GPU stands twice with other links.
    """
    found = sections(text, source)
    runs = {section.run for section in found if _states(section) or _message(section)}
    if not runs and text.strip("\ufeff \t\r\n"):
        raise CaptureError(
            f"no NVLink rates: expected the output of {FORMAT}, GPU lines and below them Link 0: 25 GB/s",
            source=source,
            line=1,
        )
    gpus = [_gpu(section) for section in found if section.run in runs and _is_of_this_output(section)]
    return NvlinkFacts(once_per_gpu(gpus, _content, source), source)


def _is_of_this_output(section: Section) -> bool:
    """Not the parts before the first GPU, nor those whose links are another flag's (capabilities, counters)."""
    said = bool(_states(section)) or _message(section) is not None
    return said or (section.name is not None and not section.links)


def _gpu(section: Section) -> GpuNvlinks:
    links = _states(section)
    verdict: Verdict = "links" if links else _message(section) or "silent"
    whole = not section.elided and [link.number for link in links] == list(range(len(links)))
    return GpuNvlinks(section.gpu, section.name, links, verdict, whole, section.line)


def _states(section: Section) -> tuple[NvlinkState, ...]:
    """The links of a section that tell their rate or state; () where they tell something else."""
    read_as = [_state(link) for link in section.links]
    known = [state for state in read_as if state is not None]
    has_states = any(state.state != "unknown" for state in known)
    return tuple(known) if has_states else ()


def _state(link: LinkLine) -> NvlinkState | None:
    if link.sign != ":":
        return None
    rate = _RATE.match(link.said)
    if rate is not None and float(rate[1]) > 0:
        return NvlinkState(link.number, "active", float(rate[1]) * 1e9, link.said, link.line)
    if rate is not None or _INACTIVE.match(link.said):
        return NvlinkState(link.number, "inactive", None, link.said, link.line)
    return NvlinkState(link.number, "unknown", None, link.said, link.line) if _NO_RATE.match(link.said) else None


def _message(section: Section) -> Verdict | None:
    said = " ".join(line.text for line in section.remarks)
    return next((verdict for verdict, words in _MESSAGES if words.search(said)), None)


def _content(gpu: GpuNvlinks) -> tuple[Verdict, Sequence[tuple[int, str]]]:
    return gpu.verdict, tuple((link.number, link.said) for link in gpu.links)
