"""Diagnoses for people, as a table, and as the `doctor/1` document."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from topo.table import Column, Table
from topo.table_grid import phrased
from topo.units import format_size

if TYPE_CHECKING:
    from sim.doctor import Cost, Diagnosis

WIDTH = 80

COLUMNS = (
    Column("severity", "severity"),
    Column("rule", "rule"),
    Column("sentence", "sentence"),
    Column("evidence", "evidence"),
    Column("lost", "lost_share", ".0%"),
    Column("fix", "fix"),
)


def as_text(name: str, found: Sequence[Diagnosis]) -> str:
    """Findings in full (evidence, cost, why it hurts, what to do), then notes in a line each."""
    findings = [row for row in found if row.finding.severity == "finding"]
    notes = [row for row in found if row.finding.severity == "note"]
    lines = phrased(f"{name}: {summary(found)}", WIDTH)
    for row in findings:
        lines += ["", *_wrapped(f"FINDING  {row.finding.sentence}", 9), *_details(row)]
    if notes:
        lines.append("")
    for row in notes:
        lines += _wrapped(f"note     {row.finding.sentence}", 9)
        lines += [line for quote in row.finding.evidence[:1] for line in _wrapped(f"         {quote}", 9)]
    return "\n".join(lines) + "\n"


def summary(found: Sequence[Diagnosis]) -> str:
    """How many findings and notes there are."""
    counts = [sum(row.finding.severity == severity for row in found) for severity in ("finding", "note")]
    words = [
        f"{count} {word}{'' if count == 1 else 's'}" for count, word in zip(counts, ("finding", "note"), strict=True)
    ]
    return f"{words[0] if counts[0] else 'no finding'}, {words[1] if counts[1] else 'no note'}"


def _details(row: Diagnosis) -> Iterator[str]:
    for quote in row.finding.evidence:
        yield from _wrapped(f"   seen  {quote}", 9)
    if row.cost is not None:
        yield from _wrapped(f"  costs  {in_words(row.cost)}", 9)
    if row.rule is not None:
        yield from _wrapped(f"    why  {row.rule.why}", 9)
        yield from _wrapped(f"    fix  {row.rule.fix}", 9)


def in_words(cost: Cost) -> str:
    """A cost as a sentence."""
    return (
        f"{cost.lost_share:.0%} of an all-reduce: busbw {cost.now_bytes_per_s / 1e9:.1f} instead of "
        f"{cost.mended_bytes_per_s / 1e9:.1f} GB/s at {format_size(cost.num_bytes)} (one ring, simulated)"
    )


def _wrapped(line: str, indent: int) -> list[str]:
    return textwrap.wrap(line, WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False) or [line]


def as_table(found: Sequence[Diagnosis]) -> Table:
    """One row for each finding and note."""
    rows = tuple(
        (
            row.finding.severity,
            row.finding.rule,
            row.finding.sentence,
            "; ".join(map(str, row.finding.evidence)) or None,
            row.cost.lost_share if row.cost else None,
            row.rule.fix if row.rule and row.finding.severity == "finding" else None,
        )
        for row in found
    )
    return Table(COLUMNS, rows)


def as_document(name: str, found: Sequence[Diagnosis]) -> str:
    """The `doctor/1` document."""
    from topo.jsonio import encode_document

    parts = {
        key: [_plain(row) for row in found if row.finding.severity == severity]
        for key, severity in (("findings", "finding"), ("notes", "note"))
    }
    return encode_document("doctor/1", {"topology": name, "healthy": not parts["findings"], **parts})


def _plain(row: Diagnosis) -> dict[str, Any]:
    finding, cost = row.finding, row.cost
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "sentence": finding.sentence,
        "subjects": finding.subjects,
        "evidence": finding.evidence,
        "cost": None
        if cost is None
        else {
            "num_bytes": cost.num_bytes,
            "now_busbw_bytes_per_s": cost.now_bytes_per_s,
            "mended_busbw_bytes_per_s": cost.mended_bytes_per_s,
            "lost_share": cost.lost_share,
        },
        "why": row.rule.why if row.rule else None,
        "fix": row.rule.fix if row.rule else None,
    }
