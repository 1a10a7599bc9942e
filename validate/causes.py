"""What may be wrong with a machine, as changes of it: each is predicted and held against what was measured.

A cause explains rows that are LOW if the machine would take about as long as was measured were it so. That is evidence
and no proof: two causes may predict the same, and what the model does not know explains nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.clock.profile import REGIMES, regime_of
from sim.planners import AUTO
from topo.errors import TopoError
from topo.units import format_size
from topo.words import counted
from validate.request import BUILTIN

if TYPE_CHECKING:
    from sim.profile import Profile
    from topo.cluster import Cluster
    from topo.topology import Topology
    from validate.compare import Comparison

EXPLAINED = math.log(1.25)
"""So far off, a prediction still explains a time: as much as a row may be off before it is LOW."""

REFUTED = math.log(2)
"""So much slower than it was, and a size that is fine refutes a cause by itself."""

BETTER = 0.5
"""A cause must leave at most this share of what is off without it."""

MOST_ROWS = 12
"""Rows that causes are held against; more of the same run tell little more."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that may be wrong: the change that makes it so (`topo what-if`), in words, and how to find out."""

    change: str
    words: str
    check: str


_PCIE = "nvidia-smi -q -d PCIE and LnkSta of lspci show it, under load"
_NICS = "the NCCL log lists the NICs that it uses (NET/IB), ibstat their rates; NCCL_IB_HCA may leave some out"
_CHANNELS = "the NCCL log says how many (coll channels); NCCL_MAX_NCHANNELS, NCCL_MAX_CTAS or a plugin may limit them"
_CHOICE = "the NCCL log says it for each size (NCCL_DEBUG_SUBSYS=TUNING); /etc/nccl.conf or a tuner plugin may say so"

CAUSES = (
    Cause(
        "p2p off",
        "GPUs do not reach each other directly (P2P), all passes host memory",
        "the NCCL log says via SHM, nvidia-smi topo -p2p r shows the pairs; ACS or the IOMMU may be the cause",
    ),
    Cause(
        "env NCCL_NVLS_ENABLE=0",
        "NVSwitches do not reduce (NVLS)",
        "the NCCL log says whether NVLS is there; the fabric manager must run, and containers need its devices",
    ),
    Cause("scale nic bandwidth x0.5", "only half of the NICs, or of their rate, is in use", _NICS),
    Cause("scale nic bandwidth x0.25", "only a quarter of the NICs, or of their rate, is in use", _NICS),
    Cause("scale nic bandwidth x0.125", "only an eighth of the NICs, or of their rate, is in use", _NICS),
    Cause("scale nvlink bandwidth x0.5", "half of the NVLinks are in use", "nvidia-smi nvlink -s shows which are up"),
    Cause("set pcie width=8", "a PCIe link has 8 lanes in place of 16, or is a generation lower", _PCIE),
    Cause("set pcie width=4", "a PCIe link has 4 lanes in place of 16, or is two generations lower", _PCIE),
    *(
        Cause(
            f"env NCCL_MAX_NCHANNELS={number}", f"NCCL runs on {number} channel{'s' if number > 1 else ''}", _CHANNELS
        )
        for number in (1, 2, 4, 8)
    ),
    Cause("env NCCL_PROTO=LL", "NCCL takes protocol LL at all sizes", _CHOICE),
    Cause("env NCCL_PROTO=Simple", "NCCL takes protocol Simple at all sizes", _CHOICE),
    Cause("env NCCL_ALGO=Ring", "NCCL takes rings at all sizes", _CHOICE),
    Cause("env NCCL_ALGO=Tree", "NCCL takes trees at all sizes", _CHOICE),
)
"""In the order in which they are named where several fit equally well."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How a cause explains rows.

    `off` is how far measured times lie from those predicted with the cause, in logarithms, `plain` how far without it:
    the median of the kind of sizes where that is most. `factor` is measured over predicted with it, the median of all.
    """

    cause: Cause
    off: float
    plain: float
    factor: float
    num_rows: int
    first_bytes: int

    @property
    def explains(self) -> bool:
        """Whether the measured times are what the machine would take, were it so."""
        return self.off <= EXPLAINED and self.off <= BETTER * self.plain

    @property
    def plain_share(self) -> float:
        """What is predicted without the cause, as a share of the measured time."""
        return math.exp(-self.plain)

    @property
    def evidence(self) -> str:
        """It in words."""
        rows = f"{counted(self.num_rows, 'size')} from {format_size(self.first_bytes)} on"
        return (
            f"were it so (--change {self.cause.change!r}), {rows} would take {1 / self.factor:.2f} of the "
            f"measured time, where {self.plain_share:.2g} is predicted without"
        )


def fits(
    comparisons: Sequence[Comparison],
    machine: Topology | Cluster,
    profile: Profile | None,
    causes: Sequence[Cause] = CAUSES,
) -> tuple[Fit, ...]:
    """How each cause explains the rows that are LOW, the best first; what the machine cannot be changed to is left out.

    So is a cause that would make rows slow that are not.
    """
    run = [row for row in comparisons if row.measurement.executor == BUILTIN]
    low = _spread_out([row for row in run if row.verdict == "LOW"])
    if not low:
        return ()
    fine = _spread_out([row for row in run if row.verdict != "LOW" and regime_of(_size(row)) != REGIMES[0]])
    found = _fits(low, fine, machine, profile, causes)
    return tuple(sorted(found, key=lambda fit: fit.off))


def _fits(
    low: Sequence[Comparison],
    fine: Sequence[Comparison],
    machine: Topology | Cluster,
    profile: Profile | None,
    causes: Sequence[Cause],
) -> Iterator[Fit]:
    for cause in causes:
        try:
            times_s = times_under(cause.change, (*low, *fine), machine, profile)
        except TopoError:
            continue
        if not _refuted(fine, times_s[len(low) :], _size(low[0])):
            yield _fit(cause, low, times_s[: len(low)])


def _refuted(fine: Sequence[Comparison], times_s: Sequence[float], first_low_bytes: int) -> bool:
    """Whether sizes that are not LOW would be: most of those beyond the first LOW one, or any one by far."""
    logs = [math.log(time_s / row.measurement.median_s) for row, time_s in zip(fine, times_s, strict=True)]
    beyond = [log for row, log in zip(fine, logs, strict=True) if _size(row) > first_low_bytes]
    return (bool(beyond) and statistics.median(beyond) > EXPLAINED) or max(logs, default=0.0) > REFUTED


def times_under(
    change: str, rows: Sequence[Comparison], machine: Topology | Cluster, profile: Profile | None
) -> list[float]:
    """What the rows take on the machine that is changed so, in seconds; TopoError where it cannot be."""
    from sim.cases import Case, changed
    from topo.change_verbs import named_changes
    from validate.as_run import Simulators

    case = changed(Case(machine), named_changes(change))
    simulators = Simulators(case.machine, profile, case.options.environment)
    return [simulators.run(row.measurement, _what(row)).duration_s for row in rows]


def _what(row: Comparison) -> str:
    """What of it is predicted: the library's choice anew where it chose by itself."""
    return AUTO if row.measurement.algorithm == BUILTIN else row.measurement.algorithm


def _spread_out(rows: Sequence[Comparison]) -> list[Comparison]:
    """At most MOST_ROWS of them, from all sizes alike."""
    ordered = sorted(rows, key=_size)
    if len(ordered) <= MOST_ROWS:
        return ordered
    return [ordered[place * (len(ordered) - 1) // (MOST_ROWS - 1)] for place in range(MOST_ROWS)]


def _size(row: Comparison) -> int:
    return row.measurement.workload.num_bytes


def _fit(cause: Cause, rows: Sequence[Comparison], times_s: Sequence[float]) -> Fit:
    logs = [math.log(row.measurement.median_s / time_s) for row, time_s in zip(rows, times_s, strict=True)]
    plain = [math.log(row.measurement.median_s / row.prediction.duration_s) for row in rows]
    return Fit(
        cause,
        off=_worst_regime(rows, logs),
        plain=_worst_regime(rows, plain),
        factor=math.exp(statistics.median(logs)),
        num_rows=len(rows),
        first_bytes=_size(rows[0]),
    )


def _worst_regime(rows: Sequence[Comparison], logs: Sequence[float]) -> float:
    """The median distance of the kind of sizes where it is largest: a cause must hold for small and large ones."""
    by_regime: dict[str, list[float]] = {}
    for row, log in zip(rows, logs, strict=True):
        by_regime.setdefault(regime_of(_size(row)), []).append(abs(log))
    return max(statistics.median(values) for values in by_regime.values())
