"""Why a row may be LOW, ranked by what the evidence can show.

First what the measurement says of itself, settings that cost speed; then causes under which the machine would take as
long as was measured (validate.causes); then what the share of the predicted speed and the sizes that are slow tell.
Nothing here is proof. Each suspect is named with what speaks for it and how to find out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.clock.profile import regime_of
from topo.units import format_rate, format_size
from topo.words import counted
from validate.as_run import EITHER_WAY
from validate.causes import Cause, Fit, fits
from validate.compare import Comparison

if TYPE_CHECKING:
    from sim.profile import Profile
    from topo.cluster import Cluster
    from topo.topology import Topology

FAR_BELOW = 0.4
"""Below this share of the predicted speed another way is taken, not the same one more slowly."""

LARGE_BYTES = 4 * 2**20
"""From here on links decide rather than latencies."""

MOST_CAUSES = 2
"""More causes that fit are not named: they predict nearly the same."""

FEW_ROWS = 3
"""With no more rows than this, one that is LOW is not the exception."""

NOTHING_KNOWN = (
    "no cause that is known here explains the LOW rows: topo validate bisect tells a slow link from a rank that is late"
)

SMALL_AS_PREDICTED = 1.3
"""Small messages that take up to so many times what is predicted are not what is slow."""


@dataclass(frozen=True, slots=True)
class _Cause:
    """A setting that costs speed: when it does, and what it does then."""

    applies: Callable[[str], bool]
    effect: str


def _is_on(value: str) -> bool:
    return value.strip() not in ("", "0")


def _is_off(value: str) -> bool:
    return value.strip() == "0"


def _always(value: str) -> bool:
    return bool(value.strip())


# What chooses how NCCL runs (validate.as_run) is predicted as it was, and no suspect.
SETTINGS: Mapping[str, _Cause] = {
    "NCCL_P2P_DISABLE": _Cause(_is_on, "sends what GPUs have for each other through host memory"),
    "NCCL_P2P_LEVEL": _Cause(_always, "decides which GPUs reach each other directly, in place of NCCL's own rule"),
    "NCCL_SHM_DISABLE": _Cause(_is_on, "sends over the network what host memory could carry"),
    "NCCL_NVLS_ENABLE": _Cause(_is_off, "keeps NVSwitch from reducing (NVLS)"),
    "NCCL_IB_DISABLE": _Cause(_is_on, "leaves InfiniBand and RoCE unused: sockets carry the network's traffic"),
    "NCCL_NET": _Cause(lambda value: value.strip().lower() == "socket", "has sockets carry the network's traffic"),
    "NCCL_NET_GDR_LEVEL": _Cause(lambda value: value.strip().upper() in ("0", "LOC"), "keeps NICs from reading GPUs"),
    "NCCL_NET_DISABLE_INTRA": _Cause(_is_on, "keeps GPUs of one node from using a NIC between them"),
    "NCCL_TOPO_FILE": _Cause(_always, "has NCCL plan for the machine that the file describes"),
}


@dataclass(frozen=True, slots=True)
class Machine:
    """What rows were held against: a machine under a profile, None for its default."""

    topology: Topology | Cluster
    profile: Profile | None = None


NO_COST_OF_THEIR_OWN = (*EITHER_WAY, "NCCL_TOPO_FILE")
"""Settings that are to make a machine faster as often as not."""


def suspects(comparisons: Sequence[Comparison], machine: Machine | None = None) -> list[str]:
    """Sentences about what may make rows LOW, the most likely first; none where no row is.

    Without a machine nothing is predicted anew, so that causes are not tried.
    """
    low = [row for row in comparisons if row.verdict == "LOW"]
    if not low or any(row.measurement.backend == "gloo" for row in low):
        return []
    settings = list(_settings(comparisons, low, machine))
    if settings:
        return settings
    if len(low) == 1 and len(comparisons) > FEW_ROWS:
        return [f"only {format_size(_size(low[0]))} is LOW, no other size is: measure it again before anything else"]
    found = [fit for fit in fits(comparisons, machine.topology, machine.profile) if fit.explains] if machine else []
    named = [f"suspect: {fit.cause.words}: {fit.evidence}; {fit.cause.check}" for fit in found[:MOST_CAUSES]]
    ways = list(_ways(low, comparisons))
    if named and (low[0].num_nodes == 1 or not _network_is_slow(comparisons)):
        ways = []
    return [*ways, *named, *_pattern(low, comparisons)] or [NOTHING_KNOWN]


def harmless(comparisons: Sequence[Comparison]) -> list[str]:
    """Settings that cost speed elsewhere and cost none here, in sentences; none where a row is LOW."""
    if any(row.verdict == "LOW" for row in comparisons):
        return []
    found = dict.fromkeys(pair for row in comparisons for pair in _costly(row) if pair[0] not in NO_COST_OF_THEIR_OWN)
    return [f"{name}={value} {SETTINGS[name].effect}: no row is LOW for it" for name, value in found]


def _costly(row: Comparison) -> Iterator[tuple[str, str]]:
    """Settings of a row that cost speed."""
    for setting in row.measurement.environment:
        cause = SETTINGS.get(setting.name)
        if cause is not None and cause.applies(setting.value):
            yield setting.name, setting.value


def _settings(comparisons: Sequence[Comparison], low: Sequence[Comparison], machine: Machine | None) -> Iterator[str]:
    """One sentence for each, those first with which the prediction comes closest to what was measured."""
    found = dict.fromkeys(pair for row in low for pair in _costly(row))
    causes = {pair: Cause(f"env {pair[0]}={pair[1]}", SETTINGS[pair[0]].effect, "") for pair in found}
    tried = fits(comparisons, machine.topology, machine.profile, tuple(causes.values())) if machine and found else ()
    fit_of = {fit.cause: fit for fit in tried}
    for pair in sorted(found, key=lambda pair: fit_of[causes[pair]].off if causes[pair] in fit_of else float("inf")):
        name, value = pair
        yield (
            f"suspect: {name}={value} {SETTINGS[name].effect}{_as_far(fit_of.get(causes[pair]))}; measure without it, "
            f"or predict with it (topo simulate --env {name}={value})"
        )


def _as_far(fit: Fit | None) -> str:
    """How far a setting explains the rows, in words."""
    if fit is None or fit.off >= fit.plain:
        return ""
    so = f": with it {1 / fit.factor:.2f} of the measured time is predicted, without it {fit.plain_share:.2g}"
    return so if fit.explains else f"{so}, so that it is not all"


def _ways(low: Sequence[Comparison], rows: Sequence[Comparison]) -> Iterator[str]:
    """What is far below at sizes where links decide takes another way than the prediction."""
    far = [row for row in low if row.ratio < FAR_BELOW and _size(row) >= LARGE_BYTES]
    if not far:
        return
    largest = max(far, key=_size)
    measured, predicted = largest.measurement.busbw_bytes_per_s, largest.prediction.busbw_bytes_per_s or 0.0
    carried = f"at {format_size(_size(largest))} busbw is {format_rate(measured)} of {format_rate(predicted)}"
    if far[0].num_nodes > 1:
        ways = "sockets in place of RDMA (the NCCL log says NET/Socket)", "NICs that do not reach GPUs directly (GDR)"
        ways = ways if _network_is_slow(rows) else ways[::-1]
        slower = _slower_when_small(rows)
        small = "" if slower is None else f", small messages take {slower:.2g} times as long as predicted"
        yield f"suspect: the network carries far less than its NICs can, {carried}{small}: {ways[0]}, or {ways[1]}"
    else:
        yield (
            f"suspect: GPUs do not reach each other directly (P2P), {carried}: the NCCL log says via SHM, nvidia-smi "
            "topo -p2p r shows the pairs; ACS or the IOMMU may be the cause"
        )


def _network_is_slow(rows: Sequence[Comparison]) -> bool:
    """Whether small messages are slow as well, as they are through sockets, or nobody knows."""
    slower = _slower_when_small(rows)
    return slower is None or slower >= SMALL_AS_PREDICTED


def _slower_when_small(rows: Sequence[Comparison]) -> float | None:
    """Measured over predicted time of small messages, the median; None where none was measured."""
    small = [1 / row.ratio for row in rows if regime_of(_size(row)) == "latency"]
    return statistics.median(small) if small else None


def _pattern(low: Sequence[Comparison], rows: Sequence[Comparison]) -> Iterator[str]:
    """What tells where only some sizes are slow."""
    regimes = {regime_of(_size(row)) for row in low}
    if {regime_of(_size(row)) for row in rows} == regimes:
        return
    if regimes == {"latency"}:
        late_s = statistics.median(row.measurement.median_s - row.prediction.duration_s for row in low)
        yield (
            f"only small messages are LOW, by about {late_s * 1e6:.0f} us each: launches, the host's processor (its "
            "clock, other work on it) or the network's latency, not the rate of a link"
        )
    elif regimes == {"knee"}:
        yield (
            f"{counted(len(low), 'size')} between small and large {'is' if len(low) == 1 else 'are'} LOW: another "
            "algorithm or protocol than predicted (NCCL_DEBUG_SUBSYS=TUNING logs it for each size), not a link's rate"
        )


def _size(row: Comparison) -> int:
    return row.measurement.workload.num_bytes
