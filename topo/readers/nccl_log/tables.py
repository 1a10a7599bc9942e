"""NCCL's tables in a log: what it expects of each algorithm and protocol, and which of them are enabled at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from topo.readers.nccl_log.facts import Unread
from topo.readers.nccl_log.machine_facts import Enabled, TuningEntry
from topo.readers.nccl_log.names import FUNCTIONS, algorithm_name, function_name, protocol_name

ENABLED_TITLE = "Enabled NCCL Func/Proto/Algo Matrix"

_CELL = re.compile(r" *(\d+(?:\.\d*)?)/ *(\d+(?:\.\d*)?) *")
_PROTOCOLS_EACH = 3


@dataclass(slots=True)
class TuningTable:
    """The columns of one thread's tuning table while its rows go by: (algorithm, protocol) for each cell."""

    columns: tuple[tuple[str, str], ...] = ()

    def take(self, line: int, words: str) -> Iterator[TuningEntry | Unread]:
        """The cells of a row, or nothing for a row of titles; since NCCL 2.18 three algorithms make a block."""
        name, *cells = (cell.strip() for cell in words.rstrip().rstrip("|").split("|"))
        if name == "Algorithm":
            self.columns = tuple((algorithm_name(cell), "") for cell in cells for _ in range(_PROTOCOLS_EACH))
        elif name == "Protocol":
            names = [protocol_name(cell) for cell in cells]
            pairs = zip(self.columns, names, strict=False)
            self.columns = tuple((algorithm, protocol) for (algorithm, _), protocol in pairs)
        elif name == "Latency/AlgBw":
            halves = [cell.partition("/") for cell in cells]
            self.columns = tuple((algorithm_name(a.strip()), protocol_name(p.strip())) for a, _, p in halves)
        elif name.lower() in FUNCTIONS:
            yield from self._row(line, words, function_name(name), cells)

    def _row(self, line: int, words: str, function: str, cells: Sequence[str]) -> Iterator[TuningEntry | Unread]:
        matches = [_CELL.fullmatch(cell) for cell in cells]
        if len(cells) != len(self.columns) or None in matches:
            yield Unread(line, "a row of the tuning table without its titles, or not as NCCL prints it", words[:120])
            return
        for (algorithm, protocol), match in zip(self.columns, matches, strict=True):
            assert match is not None
            latency_us, gb_per_s = float(match[1]), float(match[2])
            yield TuningEntry(line, function, algorithm, protocol, latency_us * 1e-6, gb_per_s * 1e9)


@dataclass(slots=True)
class EnabledMatrix:
    """The columns of the matrix of what is enabled, while its rows go by."""

    protocols: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()

    def take(self, line: int, words: str) -> Enabled | None:
        """A function's row; None for the titles."""
        parts = [part.split() for part in words.split("|")]
        if len(parts) != 3 or len(parts[0]) != 1:
            return None
        if parts[0] == ["Function"]:
            self.protocols = tuple(protocol_name(word) for word in parts[1])
            self.algorithms = tuple(algorithm_name(word) for word in parts[2])
            return None
        if len(parts[1]) != len(self.protocols) or len(parts[2]) != len(self.algorithms):
            return None
        protocols = tuple(name for name, on in zip(self.protocols, parts[1], strict=True) if on != "0")
        algorithms = tuple(name for name, on in zip(self.algorithms, parts[2], strict=True) if on != "0")
        return Enabled(line, function_name(parts[0][0]), protocols, algorithms)
