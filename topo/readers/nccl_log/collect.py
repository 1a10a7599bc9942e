"""All records of an NCCL log, in one pass -> the log as a value."""

from __future__ import annotations

import re

from topo.readers.nccl_log.blocks import Blocks
from topo.readers.nccl_log.communicators import communicators_of
from topo.readers.nccl_log.episodes import Episodes
from topo.readers.nccl_log.facts import Fact, NcclLog, Unread
from topo.readers.nccl_log.lines import Record, Speaker, records
from topo.readers.nccl_log.machine_facts import AnnouncedRank, Choice, GdrLine, NetworkDevice, Setting, Warned
from topo.readers.nccl_log.names import version_numbers
from topo.readers.nccl_log.notes import Note, announced_of, notes_of, plugin_of, version_of
from topo.readers.nccl_log.parse import facts_of, unread

_TOO_LONG = re.compile(r"\d{19}")
"""No line of NCCL's holds such a number, and what cannot be is not worth a conversion."""


def collect(text: str, source: str = "") -> NcclLog:
    """The log that the text holds; nothing is refused, what cannot be read stands in `unread`."""
    return _Collector(source).log(records(text))


class _Collector:
    """Takes the records one by one, and sorts what they say."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._episodes = Episodes()
        self._blocks = Blocks()
        self._notes: list[Note] = []
        self._seen: set[tuple[object, ...]] = set()
        self._versions: dict[str, None] = {}
        self._plugins: dict[str, None] = {}
        self._announced: list[AnnouncedRank] = []
        self._unread: list[Unread] = []

    def log(self, found: tuple[Record, ...]) -> NcclLog:
        """The log made of these records."""
        for record in found:
            self._take(record)
        self._blocks.finish()
        announced = tuple(_listed_once(self._announced))
        communicators, selected = communicators_of(self._episodes.finished(), announced)
        blocks = self._blocks
        unread = [*self._unread, *blocks.unread, *(note for note in self._notes if isinstance(note, Unread))]
        return NcclLog(
            source=self._source,
            versions=tuple(self._versions),
            communicators=communicators,
            selected=selected,
            systems=tuple(blocks.systems),
            paths=tuple(blocks.paths.values()),
            searches=tuple(sorted(blocks.searches, key=lambda search: search.line)),
            tuning=tuple(blocks.tuning),
            choices=tuple(note for note in self._notes if isinstance(note, Choice)),
            enabled=tuple(blocks.enabled),
            settings=tuple(note for note in self._notes if isinstance(note, Setting)),
            networks=tuple(note for note in self._notes if isinstance(note, NetworkDevice)),
            plugins=tuple(self._plugins),
            gdr=tuple(note for note in self._notes if isinstance(note, GdrLine)),
            warnings=tuple(note for note in self._notes if isinstance(note, Warned)),
            announced=announced,
            unread=tuple(sorted(unread, key=lambda line: line.line)),
        )

    def _take(self, record: Record) -> None:
        if _TOO_LONG.search(record.words):
            self._unread.append(unread(record, "a number of more than 18 digits"))
            return
        if self._blocks.take(record):
            return
        version = version_of(record)
        if version is not None:
            self._versions.setdefault(version)
        if not record.level:
            announced = announced_of(record)
            if announced is not None:
                self._announced.append(announced)
            return
        facts = facts_of(record)
        for fact in facts:
            self._fact(record.speaker, fact)
        if not facts:
            self._note(record)

    def _fact(self, speaker: Speaker, fact: Fact) -> None:
        if isinstance(fact, Unread):
            self._unread.append(fact)
        else:
            self._episodes.take(speaker, fact)

    def _note(self, record: Record) -> None:
        plugin = plugin_of(record)
        if plugin is not None:
            self._plugins.setdefault(plugin)
        known = next(iter(self._versions), None)
        for note in notes_of(record, version_numbers(known) if known else None):
            # Each rank repeats what it found on its host: once is enough, at the line where it first stands.
            key = tuple(getattr(note, name) for name in note.__slots__ if name != "line")
            if isinstance(note, Choice | Warned | Unread) or (type(note), *key) not in self._seen:
                self._seen.add((type(note), *key))
                self._notes.append(note)


def _listed_once(rows: list[AnnouncedRank]) -> list[AnnouncedRank]:
    """The list of ranks, where it is one list of ranks 0, 1, 2... without gaps; else nothing."""
    by_rank = {row.rank: row for row in rows}
    whole = len(by_rank) == len(rows) and set(by_rank) == set(range(len(rows)))
    return [by_rank[rank] for rank in sorted(by_rank)] if whole else []
