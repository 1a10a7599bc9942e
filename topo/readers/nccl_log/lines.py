"""The records of an NCCL log: one for each `NCCL INFO` or `NCCL WARN`, whatever a launcher or collector put around it.

A record is what one process said: who spoke, at which level, and the words. mpirun, srun, torchrun, Kubernetes and time
stamps put labels in front of `host:pid:tid [dev]`; people cut that off, indent it, or copy it out of a web page. Where
two processes wrote into one line, the words of the first are cut short: such a record says so (`cut`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

MAX_PREFIX_CHARS = 400

_LEVEL = re.compile(r"NCCL (INFO|WARN) ?")
_SPEAKER = re.compile(
    r"(?:^|(?<=[^\w.\-]))(?P<host>[A-Za-z0-9_][\w.\-]*):(?P<pid>\d+):(?P<tid>\d+) \[(?P<dev>-?\d+)\] "
    r"(?:(?P<file>[\w./\-]+\.(?:cc|cu|c|h|cpp)):(?P<at>\d+)[^\[\]]{0,80})?$"
)
_DEVICE_ONLY = re.compile(r"\[(?P<dev>-?\d+)\] (?:(?P<file>[\w./\-]+\.(?:cc|cu|c|h|cpp)):(?P<at>\d+)[^\[\]]{0,80})?$")
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TERMINAL_PLACE = re.compile(r" {3,}\[\d+/\d+\]$")
_CONTAINER_JSON = re.compile(r'\{"log":"(.*)","stream":"\w+"')
"""A line as container runtimes keep it."""

_TITLES = ("=== System", "CPU/", "Pattern ")
_ROWS = ("+ ", *"0123456789")
_ESCAPES = (("&gt;", ">"), ("&lt;", "<"), ("&quot;", '"'), ("&amp;", "&"))


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who wrote a record: one thread of one process, for one CUDA device; None where the text does not say."""

    host: str | None = None
    pid: int | None = None
    tid: int | None = None
    cuda_dev: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One thing a process said. `line` counts from 1; `cut` marks words that another process' record broke off.

    `level` is INFO or WARN, empty for text around the records; `code` is where NCCL warns from (`init.cc:12`).
    """

    line: int
    speaker: Speaker
    level: str
    words: str
    cut: bool = False
    code: str = ""


def records(text: str) -> tuple[Record, ...]:
    """All records in order, and the other lines of the text between them (level empty, speaker unknown).

    Where the text has no `NCCL INFO` at all, as in an excerpt without any prefix, each line stands for a record.
    """
    bare = "NCCL INFO" not in text and "NCCL WARN" not in text
    margin = 0
    found: list[Record] = []
    for line, raw in _pieces(text):
        clean = _clean(raw)
        if bare:
            words, margin = _without_margin(clean, margin)
            found.append(Record(line, Speaker(), "INFO", words))
        elif "NCCL INFO" in clean or "NCCL WARN" in clean:
            found.extend(_split(clean, line))
        else:
            found.append(Record(line, Speaker(), "", clean))
    return _with_whole_hosts(found)


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, blank ones left out; what a progress bar overwrote stands by itself."""
    for line, raw in enumerate(text.split("\n"), start=1):
        for piece in raw.split("\r") if "\r" in raw else (raw,):
            if piece and not piece.isspace():
                yield line, piece


def _without_margin(clean: str, margin: int) -> tuple[str, int]:
    """The words of a line without prefix, and the margin from here on.

    Blanks count in rows of a block, behind the margin in which its title stands; elsewhere they are an indentation.
    """
    words = clean.lstrip(" \t>")
    if words.startswith(_TITLES):
        return words, len(clean) - len(words)
    if words.startswith(_ROWS) and clean[:margin].strip(" \t>") == "":
        return clean[margin:], margin
    return words, margin


def _clean(raw: str) -> str:
    """The line without colours, the ends that terminals and web pages leave, and blanks at its end."""
    clean = raw.rstrip()
    if clean.startswith('{"') and (wrapped := _CONTAINER_JSON.match(clean)):
        clean = wrapped[1].removesuffix("\\n").replace("\\u003e", ">").replace("\\u003c", "<").rstrip()
    if "\x1b" in clean:
        clean = _COLOUR.sub("", clean)
    if "&" in clean:
        for escape, character in _ESCAPES:
            clean = clean.replace(escape, character)
    if clean.endswith("]"):
        clean = _TERMINAL_PLACE.sub("", clean)
    return clean.rstrip()


def _split(clean: str, line: int) -> Iterator[Record]:
    """The records on one line: all but the last are cut off by the next one's prefix."""
    levels = list(_LEVEL.finditer(clean))
    for place, level in enumerate(levels):
        prefix_from = levels[place - 1].end() if place else 0
        speaker, code = _speaker(clean[max(prefix_from, level.start() - MAX_PREFIX_CHARS) : level.start()])
        is_last = place == len(levels) - 1
        words = clean[level.end() : len(clean) if is_last else levels[place + 1].start()]
        yield Record(line, speaker, level[1], words, not is_last, code)


def _speaker(prefix: str) -> tuple[Speaker, str]:
    match = _SPEAKER.search(prefix)
    if match:
        numbers = (int(match[name]) for name in ("pid", "tid", "dev"))
        return Speaker(match["host"], *numbers), _code(match)
    match = _DEVICE_ONLY.search(prefix)
    return (Speaker(cuda_dev=int(match["dev"])), _code(match)) if match else (Speaker(), "")


def _code(match: re.Match[str]) -> str:
    return f"{match['file']}:{match['at']}" if match["file"] else ""


def _with_whole_hosts(found: list[Record]) -> tuple[Record, ...]:
    """The records with hosts as whole lines name them: where two processes met, letters may be lost or too many.

    A name is mended where the same thread also wrote, and more often, under a name that ends like it.
    """
    count = Counter(record.speaker for record in found if record.speaker.host)
    names_of: dict[Speaker, list[Speaker]] = {}
    for speaker in count:
        names_of.setdefault(replace(speaker, host=None), []).append(speaker)
    mended: dict[Speaker, Speaker] = {}
    for names in names_of.values():
        for speaker in names:
            better = [other for other in names if count[other] > count[speaker] and _ends_alike(speaker, other)]
            if better:
                mended[speaker] = max(better, key=count.__getitem__)
    if not mended:
        return tuple(found)
    return tuple(replace(record, speaker=mended.get(record.speaker, record.speaker)) for record in found)


def _ends_alike(one: Speaker, other: Speaker) -> bool:
    return bool(one.host and other.host and (one.host.endswith(other.host) or other.host.endswith(one.host)))
