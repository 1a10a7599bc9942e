"""Where the machine could do better than what NCCL chooses on it: other protocols, and ways that NCCL does not take.

A row is OK if the machine does what is predicted of NCCL's choice. That choice may itself be the handicap: NCCL counts
with constants of its own, and has GPUs that are far apart pass host memory unless it is told otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topo.errors import TopoError
from topo.units import format_size
from topo.words import counted
from validate.causes import times_under
from validate.request import BUILTIN

if TYPE_CHECKING:
    from validate.compare import Comparison
    from validate.suspects import Machine

GAIN = 1.5
"""So many times as fast another way must be predicted, and so many times as long must be measured: models err."""

FEWEST = 2
"""At one size alone the clock and NCCL's tuner merely draw the line elsewhere."""


@dataclass(frozen=True, slots=True)
class _Way:
    """A variable that makes NCCL take another way, and what it needs."""

    setting: str
    needs: str


WAYS = (
    _Way(
        "NCCL_P2P_LEVEL=SYS", "GPUs of other sockets or root ports reached directly, which ACS and the IOMMU may forbid"
    ),
    _Way("NCCL_PROTO=LL", "protocol LL"),
    _Way("NCCL_PROTO=LL128", "protocol LL128"),
    _Way("NCCL_PROTO=Simple", "protocol Simple"),
)


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows that would be faster another way, with the times that are predicted for them then."""

    way: _Way
    rows: tuple[Comparison, ...]
    times_s: tuple[float, ...]

    @property
    def gain(self) -> float:
        """How many times as fast as NCCL's choice, at the size where that is most."""
        return max(row.prediction.duration_s / time_s for row, time_s in zip(self.rows, self.times_s, strict=True))

    @property
    def sentence(self) -> str:
        """It in words."""
        pairs = list(zip(self.rows, self.times_s, strict=True))
        row, time_s = max(pairs, key=lambda pair: pair[0].prediction.duration_s / pair[1])
        channels = counted(row.prediction.num_channels, "channel")
        chosen = f"{row.prediction.algorithm} by {row.prediction.protocol} on {channels}"
        first, last = (format_size(_size(one)) for one in (self.rows[0], self.rows[-1]))
        return (
            f"NCCL's own choice costs at {first} to {last}: {format_size(_size(row))} takes {time_s * 1e6:.3g} us as "
            f"predicted with {self.way.setting} ({self.way.needs}), {row.prediction.duration_s * 1e6:.3g} us as NCCL "
            f"chooses ({chosen}), {row.measurement.median_s * 1e6:.3g} us were measured"
        )


def better_ways(comparisons: Sequence[Comparison], machine: Machine) -> list[str]:
    """A sentence on the way that gains most over NCCL's own choice; none where its choice is about as good as any."""
    rows = sorted((row for row in comparisons if _is_chosen(row)), key=_size)
    found = sorted(_found(rows, machine), key=lambda one: (len(one.rows), one.gain), reverse=True)
    amd = f"; {_AMD}" if found and _has_amd_sockets(machine) else ""
    return [f"{found[0].sentence}{amd}"] if found else []


_AMD = (
    "NCCL counts the link between AMD's sockets as 16 GB/s, whatever it is, and gives rings over it few channels: a "
    "graph of your own (NCCL_GRAPH_FILE) says otherwise"
)


def _is_chosen(row: Comparison) -> bool:
    """Whether NCCL chose by itself what the row is."""
    measured = row.measurement
    return measured.backend != "gloo" and measured.algorithm == BUILTIN and row.prediction.planner.startswith("nccl")


def _found(rows: Sequence[Comparison], machine: Machine) -> Iterator[_Found]:
    for way in WAYS:
        name = way.setting.partition("=")[0]
        free = [row for row in rows if not _says(row, name)]
        try:
            times_s = times_under(f"env {way.setting}", free, machine.topology, machine.profile) if free else []
        except TopoError:
            continue
        gains = [(row, time_s) for row, time_s in zip(free, times_s, strict=True) if _gains(row, time_s)]
        if len(gains) >= FEWEST:
            yield _Found(way, tuple(row for row, _ in gains), tuple(time_s for _, time_s in gains))


def _says(row: Comparison, name: str) -> bool:
    return row.measurement.protocol is not None or any(one.name == name for one in row.measurement.environment)


def _gains(row: Comparison, time_s: float) -> bool:
    return min(row.prediction.duration_s, row.measurement.median_s) > GAIN * time_s


def _has_amd_sockets(machine: Machine) -> bool:
    """Whether the machine's GPUs hang on several sockets of AMD's."""
    from topo.edit import node_of

    cpus = [device for device in node_of(machine.topology).devices if device.kind == "cpu"]
    return len(cpus) > 1 and all(device.vendor == "AuthenticAMD" for device in cpus)


def _size(row: Comparison) -> int:
    return row.measurement.workload.num_bytes
