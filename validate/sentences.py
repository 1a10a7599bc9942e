"""What stands beside a table in sentences: how its numbers are meant, what limits, what went wrong."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from topo.cores import num_cores
from topo.units import format_rate, format_size
from topo.words import counted
from validate.better import better_ways
from validate.compare import LATENCIES, Comparison, Delta, Difference
from validate.held_out import held_out
from validate.suspects import Machine, harmless, suspects
from validate.words import listed

if TYPE_CHECKING:
    from validate.measurement import Measurement
    from validate.session import Session

WIRE_APART = 0.05
"""Up to this share busbw and what the link carried are the same."""


def of_session(session: Session, backend: str, *, gates: bool) -> list[str]:
    """What a user must know beside the table of a run; `gates` where verdicts decide the exit status."""
    found = session.found
    compared = [row for row in session.comparisons if row is not None]
    notes = [*_point_to_point(session), *legend(compared)]
    if found.measurements and not compared:
        notes += _why_nothing(found.measurements[0], backend)
    if backend == "gloo":
        notes += noise(session)
    if found.point_to_point is not None:
        notes += [f"held out, {row.sentence}" for row in held_out(compared)]
    notes += session.unpredicted
    notes += limits(compared)
    notes += wire(compared) if backend != "gloo" else []
    notes += outliers(found.measurements)
    if gates:
        notes += verdicts(compared)
        notes += suspects(compared, session.machine)
        notes += better_ways(compared, session.machine) if session.machine else []
    notes += found.remarks
    notes += found.findings
    notes += found.wrong
    if found.failure is not None:
        kept = counted(len(found.measurements), "result")
        notes.append(f"{found.failure}; {kept} so far {'is' if len(found.measurements) == 1 else 'are'} kept")
    return notes


def _why_nothing(row: Measurement, backend: str) -> list[str]:
    """Why no row is predicted, where nobody has said it yet."""
    if row.num_ranks < 2:
        return ["nothing is predicted: one rank has nobody to send to, its times are what a call costs"]
    if backend != "gloo":
        return []
    name = row.workload.collective
    return [f"nothing is predicted: what runs {name} here is not known, so that only measured times are shown"]


def of_comparisons(comparisons: Sequence[Comparison], machine: Machine | None = None) -> list[str]:
    """What a user must know beside the table of a file's measurements and their predictions."""
    return [
        *legend(comparisons),
        *launches(comparisons),
        *limits(comparisons),
        *wire(comparisons),
        *verdicts(comparisons),
        *suspects(comparisons, machine),
        *harmless(comparisons),
        *(better_ways(comparisons, machine) if machine else []),
    ]


def of_changes(deltas: Sequence[Delta]) -> list[str]:
    """How the verdicts between two measurements are meant."""
    if not deltas:
        return []
    return [
        f"SLOWER and FASTER: the medians differ by more than {deltas[0].tolerance:.0%}, and 1 lies outside the 95 % "
        "interval of after / before, as far as there are samples for one"
    ]


def of_differences(differences: Sequence[Difference]) -> list[str]:
    """What is not the same in software and environment before and after: the first to suspect."""
    if not differences:
        return []
    return [f"what differs besides: {listed([row.sentence for row in differences])}"]


def legend(comparisons: Sequence[Comparison]) -> list[str]:
    """How errors and verdicts are meant."""
    if not comparisons:
        return []
    asked = comparisons[0].min_ratio
    if asked is not None:
        within = f"LOW: measured slower than {asked:.0%} of the predicted speed"
    else:
        tolerances = sorted({row.tolerance for row in comparisons})
        most = " to ".join(f"{share:.0%}" for share in dict.fromkeys((tolerances[0], tolerances[-1])))
        beyond = " of the predicted range" if any(row.prediction.low_s is not None for row in comparisons) else ""
        within = f"OK within {most}{beyond}; LOW: measured slower than that"
    spread = any(row.measurement.relative_spread is not None for row in comparisons)
    return [
        f"error % = predicted / measured - 1, {within}; HIGH: measured faster than predicted, the prediction is too "
        "slow" + ("; ± % = half of 10th to 90th percentile of the samples, of their median" if spread else "")
    ]


def launches(comparisons: Sequence[Comparison]) -> list[str]:
    """Which rows are OK though slower than the tolerance, since launches may have cost as much."""
    allowed = [row for row in comparisons if row.is_allowed_for_launches]
    if not allowed:
        return []
    largest = max(allowed, key=lambda row: row.measurement.workload.num_bytes)
    size = format_size(largest.measurement.workload.num_bytes)
    more_us = (largest.expected_s[1] - largest.prediction.duration_s) * 1e6
    return [
        f"{_sizes(allowed)} OK by what launching kernels may cost, which differs from harness to harness and is more "
        f"where one process drives several GPUs: at {size} up to {more_us:,.0f} us beyond the prediction"
    ]


def noise(session: Session) -> list[str]:
    """That processes on one machine share its cores, and how far single runs were apart."""
    found = session.found.measurements
    if not found:
        return []
    cores = counted(num_cores(), "core")
    share = f"on loopback {found[0].num_ranks} processes share {cores} with all else that runs here"
    spreads = [row.relative_spread for row in found if row.relative_spread is not None]
    if not spreads:
        return [f"{share}: a single sample tells nothing of how far runs are apart, use -n"]
    off = [row for row in session.comparisons if row is not None and row.verdict != "OK"]
    inside = sum(row.within_samples for row in off)
    of_these = f"; {inside} of {counted(len(off), 'LOW or HIGH row')} predicted within their 10th to 90th percentile"
    return [
        f"{share}: samples spread by ± {statistics.median(spreads):.0%} in the median row, ± {max(spreads):.0%} at "
        f"worst, and more from run to run; a verdict says no more than that{of_these if off else ''}",
    ]


def limits(comparisons: Sequence[Comparison]) -> list[str]:
    """Which link limits from which size to which, as predicted; algorithms that agree in it share a sentence."""
    alike: dict[str, list[str]] = {}
    for algorithm, rows in _by_algorithm(comparisons).items():
        parts = [f"{_sizes(list(group))} {limit}" for limit, group in groupby(rows, key=lambda row: row.limit)]
        predicted = sorted({_what(row) for row in rows} - {algorithm})
        called = f"{algorithm} (predicted as {' or '.join(predicted)})" if predicted else algorithm
        alike.setdefault("; ".join(parts), []).append(called)
    return [f"{', '.join(names)}, as predicted: {limit}" for limit, names in alike.items()]


def _what(row: Comparison) -> str:
    """The algorithm that was simulated, and for which it had to stand in."""
    instead_of = row.prediction.instead_of
    return row.prediction.algorithm + (f" in place of {instead_of}" if instead_of else "")


def wire(comparisons: Sequence[Comparison]) -> list[str]:
    """One sentence where busbw is no speed of a wire: what the limiting link carried in the largest such row."""
    apart = [row for row in comparisons if _is_no_wire_speed(row)]
    if not apart:
        return []
    row = max(apart, key=lambda row: row.measurement.workload.num_bytes)
    limiting, carried = row.prediction.limiting, row.wire_bytes_per_s
    if limiting is None or carried is None:
        return []
    size, busbw = format_size(row.measurement.workload.num_bytes), format_rate(row.measurement.busbw_bytes_per_s)
    return [
        f"busbw is no speed of a wire here: at {size} {limiting.link} carried {format_rate(carried)} where busbw is "
        f"{busbw}, since {row.prediction.algorithm} moves other bytes over it than the flat ring that busbw is made for"
    ]


def _is_no_wire_speed(row: Comparison) -> bool:
    carried, busbw = row.wire_bytes_per_s, row.measurement.busbw_bytes_per_s
    return carried is not None and busbw > 0 and abs(carried / busbw - 1) > WIRE_APART and row.limit != LATENCIES


def outliers(measurements: Sequence[Measurement]) -> list[str]:
    """That single runs took far longer than the others, and what to do about it."""
    rows = [row for row in measurements if row.num_outliers]
    if not rows:
        return []
    worst = max(rows, key=lambda row: max(row.samples_s) / row.median_s)
    times = max(worst.samples_s) / worst.median_s
    many = f"{counted(sum(row.num_outliers for row in rows), 'sample')} in {counted(len(rows), 'row')}"
    where = f"{worst.algorithm}, {format_size(worst.workload.num_bytes)}"
    return [
        f"outliers: {many} far off, up to {times:.3g} times the median ({where}): something else ran, or more warm-ups "
        "are needed (-w)"
    ]


def verdicts(comparisons: Sequence[Comparison]) -> list[str]:
    """One sentence for each stretch of sizes with the same verdict that is not OK: the worst of it, with its reason."""
    notes = []
    for algorithm, rows in _by_algorithm(comparisons).items():
        for verdict, group in groupby(rows, key=lambda row: row.verdict):
            stretch = list(group)
            if verdict == "OK":
                continue
            worst = max(stretch, key=lambda row: abs(row.relative_error))
            many = f", {len(stretch)} rows, worst {_sizes([worst])}" if len(stretch) > 1 else ""
            notes.append(f"{algorithm} {_sizes(stretch)} {verdict}{many}: {worst.reason}")
    return notes


def _by_algorithm(comparisons: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    rows: dict[str, list[Comparison]] = {}
    for row in comparisons:
        rows.setdefault(row.measurement.algorithm, []).append(row)
    return rows


def _sizes(rows: Sequence[Comparison]) -> str:
    first, last = (format_size(row.measurement.workload.num_bytes) for row in (rows[0], rows[-1]))
    return first if first == last else f"{first} to {last}"


def _point_to_point(session: Session) -> list[str]:
    facts = session.found.point_to_point
    if facts is None:
        return []
    return [
        "predicted from point-to-point messages alone, no collective was looked at: a pair gets "
        f"{format_rate(facts.pair_bytes_per_s)}, all together {format_rate(facts.total_bytes_per_s)}, a hop costs "
        f"{facts.hop_latency_s * 1e6:.0f} us while all send ({facts.pair_latency_s * 1e6:.0f} us for a pair alone)"
    ]
