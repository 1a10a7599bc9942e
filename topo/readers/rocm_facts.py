"""What rocm-smi tells of a machine's GPUs: weights, hops and link types of pairs, NUMA nodes, and what they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["weight", "hops", "type", "access", "bandwidth"]
"""Which table: how far two GPUs are, over how many links, links of which type, whether memory is reached, MB/s."""

KINDS: tuple[Kind, ...] = ("weight", "hops", "type", "access", "bandwidth")
UNKNOWN_TYPE = "XXXX"
"""What rocm-smi prints for a link type that it does not know."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class RocmTable:
    """One table: each pair once, the GPU of the lower number first, with its cell as printed (None: not shown)."""

    kind: Kind
    cells: tuple[tuple[Pair, str | None], ...]
    line: int

    @cached_property
    def _cells(self) -> dict[Pair, str | None]:
        return dict(self.cells)

    def cell(self, one: str, other: str) -> str | None:
        """The cell of a pair, in either order; None where the text does not show it."""
        return self._cells.get((one, other), self._cells.get((other, one)))


@dataclass(frozen=True, slots=True)
class RocmGpu:
    """One GPU (`GPU0`), None for what the text does not say.

    `numa_node` is what the driver's own topology says, `numa_affinity` what Linux says of the PCI device; `name`,
    `architecture` (`gfx942`) and `address` (Linux' form) stand in the text where its author asked for them as well.
    """

    label: str
    number: int
    numa_node: int | None = None
    numa_affinity: int | None = None
    name: str | None = None
    architecture: str | None = None
    address: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """A warning or an error that rocm-smi prints between the tables."""

    words: str
    line: int


@dataclass(frozen=True)
class RocmFacts:
    """The GPUs in the order of the tables, and the tables that the text holds, each kind once at most."""

    gpus: tuple[RocmGpu, ...]
    tables: tuple[RocmTable, ...]
    notes: tuple[Note, ...] = ()
    source: str = ""

    def table(self, kind: Kind) -> RocmTable | None:
        """The table of that kind, None where the text holds none."""
        return next((table for table in self.tables if table.kind == kind), None)

    def cell(self, kind: Kind, one: str, other: str) -> str | None:
        """The cell of a pair in the table of that kind, None where it is not shown."""
        table = self.table(kind)
        return table.cell(one, other) if table else None

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Every two GPUs, in the tables' order."""
        labels = [gpu.label for gpu in self.gpus]
        return tuple((one, other) for place, one in enumerate(labels) for other in labels[place + 1 :])

    @property
    def complete(self) -> bool:
        """Whether the link type of every pair is known."""
        return all(self.cell("type", one, other) not in (None, UNKNOWN_TYPE) for one, other in self.pairs)
