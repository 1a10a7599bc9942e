"""Captured texts of one machine with what their readers found in them, and the place of every fact in its text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from topo import readers
from topo.errors import CaptureError
from topo.finding import Finding, Quote

if TYPE_CHECKING:
    from topo.readers import Reader
    from topo.topology import Topology

LOG_FILE = "capture-log.txt"
"""What a saved capture holds beside its texts: which commands ran, and how they ended."""

_OF_GPUS = re.compile(r"\bNVIDIA\b|\bTesla\b|\bGPU ?\d")
"""What a text says that is meant to tell of GPUs."""

SMI_ERRORS = re.compile(
    r"^.*(?:NVIDIA-SMI has failed|No devices were found|Failed to initialize NVML|Failed to run topology matrix"
    r"|Unable to determine the device handle|Topology does not contain any PU|command not found"
    r"|is not recognized as an internal or external command).*$",
    re.MULTILINE | re.IGNORECASE,
)
"""What nvidia-smi or the shell says instead of a matrix."""

NOT_READ: tuple[tuple[str, re.Pattern[str], str], ...] = (
    (
        "nvidia-smi -q",
        re.compile(r"={3,}\s*NVSMI LOG\s*={3,}|<nvidia_smi_log>"),
        "nvidia-smi topo -m, -L and --query-gpu tell what is needed of it",
    ),
    (
        "amd-smi topology",
        re.compile(r"^\s*(?:ACCESS|WEIGHT|HOPS|LINK TYPE|NUMA BW) TABLE:", re.MULTILINE),
        "rocm-smi --showtopo tells the same",
    ),
    (
        "nvidia-smi",
        re.compile(r"\|\s*NVIDIA-SMI\s+\d"),
        "it tells nothing of how GPUs are joined: nvidia-smi topo -m does",
    ),
)
"""Outputs that are known and not read: what they are called, how they are told, and what to give in their place."""

MOST_QUOTED_CHARS = 160

_NEWLINE = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class Text:
    """A capture's text and where it is from: `source` stands in errors, `name` (where it is another) in evidence.

    `parts` are the texts that this one was joined from.
    """

    content: str
    source: str
    name: str = ""
    parts: tuple[Text, ...] = ()

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines, as readers count them."""
        return tuple(_NEWLINE.split(self.content))

    def quote(self, line: int | None) -> Quote:
        """A line of the text (or of the part that it comes from) as evidence, shortened."""
        for part in self.parts:
            if line is not None and line > len(part.lines):
                line -= len(part.lines)
            else:
                return part.quote(line)
        words = " ".join(self.lines[line - 1].split()) if line and line <= len(self.lines) else ""
        return Quote(self.name or self.source, line, words[:MOST_QUOTED_CHARS])

    def find(self, words: str | re.Pattern[str], after: int = 0) -> Quote | None:
        """The first line behind line `after` in which a regular expression is found."""
        pattern = re.compile(words)
        places = (number for number, line in enumerate(self.lines[after:], start=after + 1) if pattern.search(line))
        line = next(places, None)
        return None if line is None else self.quote(line)


def not_read(content: str) -> str:
    """What a text is that is known and not read, with what to give in its place; empty where it is none of these."""
    found = next(((title, instead) for title, mark, instead in NOT_READ if mark.search(content)), None)
    return f"the output of {found[0]} is not read, {found[1]}" if found else ""


def joined(texts: Sequence[Text]) -> Text:
    """Parts of one capture as one text."""
    if len(texts) == 1:
        return texts[0]
    more = f"and {len(texts) - 1} more"
    name = f"{texts[0].name} {more}" if texts[0].name else ""
    return Text("\n".join(text.content for text in texts), f"{texts[0].source} {more}", name, tuple(texts))


@dataclass(frozen=True)
class Output:
    """One format found in one text: the facts that its reader returns, or why they could not be read."""

    reader: Reader
    text: Text
    facts: Any = None
    problem: CaptureError | None = None

    @property
    def title(self) -> str:
        """What the format is called, and where it stands."""
        return f"{self.reader.title} ({self.text.name or self.text.source})"

    def quote(self, line: int | None) -> Quote:
        """A line of its text as evidence."""
        return self.text.quote(line)

    def topology(self) -> Topology:
        """The topology that the facts describe; CaptureError where they could not be read."""
        if self.problem is not None:
            raise self.problem
        return self.reader.build(self.facts)


@dataclass(frozen=True)
class Captures:
    """All texts of one machine, and the outputs found in them."""

    texts: tuple[Text, ...] = ()
    outputs: tuple[Output, ...] = ()

    def of(self, *formats: str) -> tuple[Output, ...]:
        """The outputs in these formats (names of READERS) that could be read."""
        return tuple(output for output in self.outputs if output.reader.name in formats and output.problem is None)

    def facts(self, form: str) -> Iterator[tuple[Output, Any]]:
        """The outputs in one format, each with its facts."""
        return ((output, output.facts) for output in self.of(form))

    def unread(self) -> Iterator[Finding]:
        """A note for each output that could not be read, and each error message that stands where one should."""
        for output in self.outputs:
            if output.problem is not None:
                evidence = (output.quote(output.problem.line),)
                yield Finding("unread", "note", f"{output.title} is left out: {output.problem}", evidence)
        for _, quote in self.error_messages():
            yield Finding("unread", "note", f"a command failed: {quote}", (quote,))
        failed = [text for text, _ in self.error_messages()]
        for text in sorted(self.texts, key=lambda text: text.name or text.source):
            if self._is_used(text) or text in failed or text.name == LOG_FILE:
                continue
            sentence = not_read(text.content) or (_OF_GPUS.search(text.content) and "in no known format")
            if sentence:
                yield Finding("unread", "note", f"{text.name or text.source} is left out: {sentence}")

    def error_messages(self) -> Iterator[tuple[Text, Quote]]:
        """The texts that hold nothing but what a command says where it fails, with that line."""
        for text in self.texts:
            match = None if self._is_used(text) else SMI_ERRORS.search(text.content)
            if match is not None:
                yield text, text.quote(text.content[: match.start()].count("\n") + 1)

    def _is_used(self, text: Text) -> bool:
        """Whether a reader knows something in the text."""
        return any(text is part for output in self.outputs for part in (output.text, *output.text.parts))

    def named(self, finding: Finding) -> Finding:
        """The finding with its evidence under the texts' names, as everywhere in these captures."""
        names = {text.source: text.name for text in self.texts if text.name}
        evidence = tuple(Quote(names.get(q.source, q.source), q.line, q.text) for q in finding.evidence)
        return Finding(finding.rule, finding.severity, finding.sentence, evidence, finding.subjects)


def read_texts(texts: Iterable[Text]) -> Captures:
    """Whatever is known of what these texts hold; what cannot be read is kept with its error, never raised."""
    texts = tuple(texts)
    found: dict[str, list[Text]] = {}
    for text in texts:
        for reader in readers.sniff_all(text.content):
            found.setdefault(reader.name, []).append(text)
    outputs: list[Output] = []
    for reader in readers.READERS.values():
        holding = found.get(reader.name, [])
        parts = [joined(holding)] if holding and reader.in_parts else holding
        outputs.extend(_read(reader, text) for text in parts)
    return Captures(texts, (*outputs, *_told_by_nvml(outputs)))


_SAME_AS_NVML = {
    "matrix": "nvidia-smi-topo",
    "query": "nvidia-smi-query",
    "nvlinks": "nvlink-status",
    "remotes": "nvlink-remote",
    "p2p": "nvidia-smi-p2p",
}
"""Facts of NVML, and the format of nvidia-smi's that tells the same."""


def _told_by_nvml(outputs: Sequence[Output]) -> Iterator[Output]:
    """What NVML told, in the formats of nvidia-smi that could not be read."""
    there = {output.reader.name for output in outputs if output.problem is None}
    for output in outputs:
        if output.reader.name == "nvml" and output.problem is None:
            for part, form in _SAME_AS_NVML.items():
                facts = getattr(output.facts, part)
                if facts is not None and form not in there:
                    yield Output(readers.READERS[form], output.text, facts)


def _read(reader: Reader, text: Text) -> Output:
    try:
        return Output(reader, text, reader.read(text.content, text.source))
    except CaptureError as error:
        return Output(reader, text, problem=error)
