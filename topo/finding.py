"""What is said of a machine beside its parts: notes on what is open or assumed, and findings with their evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["finding", "note"]
"""A finding hurts, and its evidence stands in the input; a note says what is open, assumed, or so by design."""

READING = "reading"
"""The rule of what a reader says of its own source."""

INCONSISTENT = "inconsistent"
"""The rule of a source that contradicts itself: what is made of it fits no real machine."""


@dataclass(frozen=True, slots=True)
class Quote:
    """One place of a source: its name, the line (from 1; None where the source has none) and its words, shortened."""

    source: str
    line: int | None
    text: str

    def __str__(self) -> str:
        where = self.source if self.line is None else f"{self.source}, line {self.line}"
        return f"{where}: {self.text}" if self.text else where


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about a machine; `rule` is what it breaks, `subjects` are the ids of the devices it is about."""

    rule: str
    severity: Severity
    sentence: str
    evidence: tuple[Quote, ...] = ()
    subjects: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.sentence


def notes(sentences: Iterable[str], rule: str = READING) -> tuple[Finding, ...]:
    """A note for each sentence."""
    return tuple(Finding(rule, "note", sentence) for sentence in sentences)
