"""What NCCL prints over several lines: system trees, paths, searches with their channels, and tables.

The lines of one thread belong together, whatever other threads write between them. Every rank prints the tree and
paths of its host; each is kept once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from topo.readers.nccl_log.facts import Unread
from topo.readers.nccl_log.lines import Record, Speaker
from topo.readers.nccl_log.machine_facts import Enabled, GraphSearch, SystemPath, SystemTree, TuningEntry
from topo.readers.nccl_log.system import Row, is_row, read_paths, read_tree, starts_paths
from topo.readers.nccl_log.tables import ENABLED_TITLE, EnabledMatrix, TuningTable

GB = 1e9

_SEARCH = re.compile(
    r"Pattern (\d+), crossNic (\d+), nChannels (\d+), (?:bw|speed) (\d+(?:\.\d*)?)/(\d+(?:\.\d*)?),(?: nvlink \d+,)? "
    r"type (?:([A-Z0-9]+)/([A-Z0-9]+)|\d+), sameChannels (\d+)$"
)
_CHANNEL = re.compile(r" *(\d+) :((?: [A-Z]+/[0-9A-Fa-f\-]+)+)$")
_TREE_END = "====="


@dataclass(slots=True)
class _Thread:
    """What one thread is in the middle of."""

    rows: list[Row] = field(default_factory=list)
    damaged: bool = False
    search: GraphSearch | None = None
    table: TuningTable = field(default_factory=TuningTable)


class Blocks:
    """Collects what spans several lines while the records of a log go by, in order."""

    def __init__(self) -> None:
        self.systems: list[SystemTree] = []
        self.paths: dict[tuple[str | None, str, str], SystemPath] = {}
        self.searches: list[GraphSearch] = []
        self.tuning: list[TuningEntry] = []
        self.enabled: list[Enabled] = []
        self.unread: list[Unread] = []
        self._threads: dict[Speaker, _Thread] = {}
        self._seen_trees: set[tuple[str | None, tuple[str, ...]]] = set()
        self._seen_paths: set[tuple[str | None, str]] = set()
        self._matrix: EnabledMatrix | None = None

    def take(self, record: Record) -> bool:
        """Whether the record is part of something that spans lines; if so it is used up."""
        if not record.level:
            return self._around(record)
        words = record.words
        thread = self._threads.get(record.speaker)
        first = words[:1]
        if thread is not None and thread.rows and first not in "+ CG=":
            self._end_tree(record.speaker, thread, ended=False)
        if first in " +=0123456789CGNPLARBS":
            return self._dispatch(record, words, first)
        if words.startswith(ENABLED_TITLE):
            self._matrix = EnabledMatrix()
            return True
        return False

    def finish(self) -> None:
        """The log is over: what is still open ends here."""
        for speaker, thread in self._threads.items():
            if thread.rows:
                self._end_tree(speaker, thread, ended=False)
            self._end_search(thread)

    def _dispatch(self, record: Record, words: str, first: str) -> bool:
        if first == "=" or words.startswith("CPU/") or (first in "+ " and is_row(words)):
            return self._tree_row(record, words)
        if first in "GN" and starts_paths(words):
            self._add_paths(record)
            return True
        if words.startswith("Pattern "):
            return self._start_search(record)
        if first in " 0123456789" and (match := _CHANNEL.fullmatch(words)):
            return self._channel(record, match)
        if "|" in words and first in " LARBPM":
            return self._table_row(record)
        return False

    def _thread(self, speaker: Speaker) -> _Thread:
        return self._threads.setdefault(speaker, _Thread())

    def _tree_row(self, record: Record, words: str) -> bool:
        thread = self._thread(record.speaker)
        title = words.startswith("=== System")
        if words.startswith(_TREE_END):
            if thread.rows:
                self._end_tree(record.speaker, thread, ended=True)
            return True
        if starts_paths(words):
            self._add_paths(record)
            return True
        if title and thread.rows:
            self._end_tree(record.speaker, thread, ended=False)
        if not title and not thread.rows and not words.startswith("CPU/"):
            self.unread.append(Unread(record.line, "a row of a system tree without its beginning", words.strip()[:120]))
            return True
        thread.rows.append((record.line, words))
        thread.damaged = thread.damaged or record.cut
        return True

    def _end_tree(self, speaker: Speaker, thread: _Thread, *, ended: bool) -> None:
        rows, thread.rows = thread.rows, []
        damaged, thread.damaged = thread.damaged, False
        key = (speaker.host, tuple(words for _, words in rows))
        if key in self._seen_trees:
            return
        self._seen_trees.add(key)
        tree, unread = read_tree(rows, speaker.host, ended=ended)
        self.systems.append(replace(tree, complete=tree.complete and not damaged))
        self.unread.extend(unread)

    def _add_paths(self, record: Record) -> None:
        host = record.speaker.host
        if record.cut or (host, record.words) in self._seen_paths:
            return
        self._seen_paths.add((host, record.words))
        for found in read_paths(record.line, record.words, host):
            self.paths.setdefault((host, found.src, found.dst), found)

    def _start_search(self, record: Record) -> bool:
        thread = self._thread(record.speaker)
        self._end_search(thread)
        match = None if record.cut else _SEARCH.fullmatch(record.words)
        if match is None:
            self.unread.append(Unread(record.line, "no search as NCCL prints them", record.words[:120]))
            return True
        pattern, cross_nic, channels = (int(number) for number in match.group(1, 2, 3))
        intra, inter = (float(number) * GB for number in match.group(4, 5))
        speaker = record.speaker
        thread.search = GraphSearch(
            record.line, speaker.host, speaker.cuda_dev, pattern, cross_nic, channels, intra, inter, match[6], match[7],
            match[8] != "0",
        )  # fmt: skip
        return True

    def _channel(self, record: Record, match: re.Match[str]) -> bool:
        thread = self._thread(record.speaker)
        search = thread.search
        if search is None or record.cut or int(match[1]) != len(search.channels):
            self.unread.append(Unread(record.line, "a channel that follows no search", record.words[:120]))
            return True
        thread.search = replace(search, channels=(*search.channels, tuple(match[2].split())))
        return True

    def _end_search(self, thread: _Thread) -> None:
        if thread.search is not None:
            self.searches.append(thread.search)
            thread.search = None

    def _table_row(self, record: Record) -> bool:
        if record.cut:
            self.unread.append(Unread(record.line, "another process wrote into this line", record.words[:120]))
            return True
        for found in self._thread(record.speaker).table.take(record.line, record.words):
            if isinstance(found, Unread):
                self.unread.append(found)
            else:
                self.tuning.append(found)
        return True

    def _around(self, record: Record) -> bool:
        """Text without a prefix: rows of the matrix of what is enabled stand so."""
        if self._matrix is None or "|" not in record.words:
            return False
        found = self._matrix.take(record.line, record.words)
        if found is not None:
            self.enabled.append(found)
        return True
