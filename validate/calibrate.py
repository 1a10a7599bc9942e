"""A machine's own measurements into a profile: the shipped terms are the prior, and each row moves them a little."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.clock.fit import Fitted, fit, spreads
from sim.clock.jobs import Jobs, Operation, jobs_of, operation_of, shown_by
from sim.clock.kernels import times_s
from sim.clock.machine import MachineClock
from sim.clock.profile import REGIMES, Band, FittedTerm, KernelProfile, regime_of
from sim.clock.terms import TERMS
from sim.predict import BY_MESSAGES
from sim.profile import Profile, fitted
from topo.errors import MeasurementError
from topo.words import counted
from validate.as_run import fixed_by, version_of
from validate.calibrate_doubts import doubts
from validate.compare import BY_NCCL
from validate.measurement_set import MeasurementSet
from validate.request import BUILTIN

if TYPE_CHECKING:
    from sim.planners.nccl_2_30 import NcclPlan
    from topo.cluster import Cluster
    from topo.topology import Topology
    from validate.measurement import Measurement

Floats = npt.NDArray[np.float64]

FEWEST_SIZES = 3
LEARNED = 0.1
"""A term that the rows tell less of than this share of its prior variance stays what the shipped profile says."""
OUTLIER = 1.5
"""A row that many times slower or faster than the fit is no noise."""
UNLIKE = 0.08
"""A regime whose rows the fit misses by more than this (median, logarithm) is not what the prior holds possible."""
FREER = 4.0
"""By so much further may terms go then."""
NUM_RESAMPLES = 40
CONFIDENCE = (0.025, 0.975)
BAND = (0.1, 0.9)
MOST_ERROR = 0.5
"""A fit that misses half of the rows left out by more than this share explains nothing."""
_DECIDES = {
    "latency": "latencies decide (to 64 KiB)",
    "knee": "both decide (to 16 MiB)",
    "bandwidth": "rates decide (beyond 16 MiB)",
}
NEEDED = {"latency": "launch and hop latencies", "bandwidth": "shares of links and networks"}
"""What sizes of a regime identify: without any the profile would repeat the shipped one there."""


@dataclass(frozen=True, slots=True)
class LearnedTerm:
    """One term that the measurements moved: before, after, and its 95 % confidence interval by resampling rows."""

    name: str
    unit: str
    meaning: str
    shipped: float
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class FittedRow:
    """One measured row beside the time of the fit without that row."""

    source: str
    collective: str
    algorithm: str
    num_bytes: int
    measured_s: float
    predicted_s: float

    @property
    def ratio(self) -> float:
        """Measured over predicted time."""
        return self.measured_s / self.predicted_s

    @property
    def is_outlier(self) -> bool:
        """Whether the fit cannot explain it: a degraded run, or a size at which something else happens."""
        return not 1 / OUTLIER < self.ratio < OUTLIER


@dataclass(frozen=True, slots=True)
class Calibration:
    """A profile, what was learned, the rows left out one at a time, and sentences about what was set aside."""

    profile: Profile
    terms: tuple[LearnedTerm, ...]
    rows: tuple[FittedRow, ...]
    remarks: tuple[str, ...] = ()

    @property
    def outliers(self) -> tuple[FittedRow, ...]:
        """Rows that the fit cannot explain."""
        return tuple(row for row in self.rows if row.is_outlier)

    @property
    def median_abs_error(self) -> float:
        """Of rows that the fit had not seen."""
        return float(np.median([abs(1 / row.ratio - 1) for row in self.rows]))


def calibrate(
    sets: Sequence[MeasurementSet], machine: Topology | Cluster, name: str, remarks: Iterable[str] = ()
) -> Calibration:
    """The profile of this machine by its own measurements.

    MeasurementError where ranks do not agree, where rows are given twice, where fewer than three sizes were measured,
    where no size tells of latencies or of bandwidth, or where the fit explains nothing; the sentence says which.
    """
    said = list(remarks)
    _refuse_twice(sets)
    rows = [(found.name, row) for found in sets for row in _usable(found, machine, said)]
    _require_sizes([row for _, row in rows])
    base = fitted(machine)
    assert base.kernels is not None, "the shipped profile has kernels"
    jobs = _jobs(machine, base.kernels, [row for _, row in rows])
    measured = np.array([row.median_s for _, row in rows])
    prior = np.array(base.kernels.values)
    spread, unlike = _spread(jobs, measured, prior)
    said += unlike
    found = fit(jobs, measured, prior, spread)
    said += doubts(jobs, measured, prior, machine.name)
    without = _left_out(jobs, measured, prior, spread, found.values)
    fitted_rows = tuple(
        FittedRow(source, row.workload.collective, row.algorithm, row.workload.num_bytes, row.median_s, float(time))
        for (source, row), time in zip(rows, without, strict=True)
    )
    said += [
        f"{row.source}: {row.algorithm} {row.collective} of {row.num_bytes} bytes took {row.ratio:.2f} times what the "
        "fit without it says"
        for row in fitted_rows
        if row.is_outlier
    ]
    provenance = f"{machine.name}: {counted(len(rows), 'row')} of its own, prior {base.kernels.name}"
    kernels = replace(
        base.kernels,
        name=name,
        provenance=provenance,
        terms=_terms(found, base.kernels),
        bands=_bands(fitted_rows, base.kernels.bands, several=jobs.several[0]),
        seen_kernels=tuple(sorted({*base.kernels.seen_kernels, *shown_by(jobs)})),
    )
    profile = replace(base, name=name, provenance=kernels.provenance, kernels=kernels)
    calibration = Calibration(profile, _learned(jobs, measured, prior, spread, found), fitted_rows, tuple(said))
    _require_explained(calibration, machine)
    return calibration


def _refuse_twice(sets: Sequence[MeasurementSet]) -> None:
    """Refuse a set that another holds as well, or that holds its rows twice, under whatever source.

    The same run may come as text and as JSON, which tell of different things and round differently: what counts is the
    workload, the ranks, and the time to four digits. Single rows of two runs may agree in that by chance; half of them
    do not.
    """
    before: list[tuple[str, set[tuple[object, ...]]]] = []
    for one in sets:
        rows: set[tuple[object, ...]] = {
            (row.workload, row.num_ranks, row.algorithm, f"{row.median_s:.3e}") for row in one.measurements
        }
        again = len(one.measurements) - len(rows)
        if again and 2 * again >= len(rows):
            raise MeasurementError(f"{one.name} holds {counted(again, 'row')} twice: keep each once")
        for name, others in before:
            again = len(rows & others)
            if again and 2 * again >= min(len(rows), len(others)):
                raise MeasurementError(
                    f"{counted(again, 'row')} of {one.name} stand in {name} as well, to four digits: "
                    "they would count twice, give one of the two"
                )
        before.append((one.name, rows))


def _require_explained(found: Calibration, machine: Topology | Cluster) -> None:
    error = found.median_abs_error
    if not error <= MOST_ERROR:
        faster = float(np.median([row.ratio for row in found.rows]))
        raise MeasurementError(
            f"the fit explains nothing: rows left out of it took {faster:.3g} times the predicted time and were missed "
            f"by {100 * error:.0f} % (medians), at most {100 * MOST_ERROR:.0f} % is a fit; were they measured on "
            f"{machine.name} of this size, and in the units that the file says?"
        )


def _usable(found: MeasurementSet, machine: Topology | Cluster, said: list[str]) -> list[Measurement]:
    kept = []
    for row in found.measurements:
        what = f"{found.name}: {row.algorithm} {row.workload.collective} of {row.workload.num_bytes} bytes"
        if row.num_ranks != machine.num_ranks:
            raise MeasurementError(
                f"{what} was measured with {counted(row.num_ranks, 'rank')}, {machine.name} has {machine.num_ranks}: "
                "choose them with --gpus or --nodes"
            )
        if row.correct is False:
            said.append(f"{what} is set aside: its result is wrong")
        elif row.backend not in BY_NCCL or row.executor != BUILTIN:
            said.append(f"{what} is set aside: NCCL's own kernels are calibrated, not {row.executor} on {row.backend}")
        else:
            kept.append(row)
    return kept


def _require_sizes(rows: Sequence[Measurement]) -> None:
    sizes = {row.workload.num_bytes for row in rows}
    if len(sizes) < FEWEST_SIZES:
        raise MeasurementError(
            f"{counted(len(sizes), 'size')} measured: {FEWEST_SIZES} are needed, such as 1 KiB, 1 MiB and 1 GiB"
        )
    shown = {regime_of(num_bytes) for num_bytes in sizes}
    missing = [regime for regime in NEEDED if regime not in shown]
    if missing:
        where = {"latency": "up to 64 KiB", "bandwidth": "above 16 MiB"}[missing[0]]
        raise MeasurementError(
            f"no size {where} was measured, so that {NEEDED[missing[0]]} are not identified: measure one too"
        )


def _jobs(machine: Topology | Cluster, kernels: KernelProfile, rows: Sequence[Measurement]) -> Jobs:
    """What NCCL runs for each row, under what the row fixed."""
    from sim.planners.nccl_2_30.front_door import plan_machine
    from sim.planners.nccl_2_30.versions import as_chosen_by

    plans: dict[tuple[tuple[str, str], ...], NcclPlan] = {}
    parts = []
    for row in rows:
        fixed = fixed_by(row)
        if fixed not in plans:
            plans[fixed] = plan_machine(machine, dict(fixed))
        facts = MachineClock(kernels, plans[fixed], machine.name).facts
        operation = _operation(as_chosen_by(plans[fixed], version_of(row)), row)
        parts.append(jobs_of(facts, [operation], gpus_per_process=row.gpus_per_process))
    return Jobs.joined(parts)


def _operation(plan: NcclPlan, row: Measurement) -> Operation:
    work = row.workload
    if work.collective in BY_MESSAGES:
        return operation_of(plan, work.collective, work.num_bytes, None)
    logged = row.choice.algorithm if row.choice else None
    named = logged if row.algorithm == BUILTIN else row.algorithm
    choice = plan.choose(
        work.collective,
        work.num_bytes,
        dtype=work.dtype,
        reduction=work.reduction,
        algorithms=None if named is None else (named,),
    )
    return operation_of(plan, work.collective, work.num_bytes, choice)


def _spread(jobs: Jobs, measured: Floats, prior: Floats) -> tuple[Floats, list[str]]:
    """How far terms may go from the shipped ones, and a sentence on each regime for which that is further than usual.

    Rows far from what the prior holds possible weigh little, which is right for a few and wrong where a whole regime
    agrees with itself: then it is the machine that is unlike others, and its profile has to follow it.
    """
    spread = spreads(machine=True)
    ratios = measured / times_s(fit(jobs, measured, prior, spread).values, jobs)
    said = []
    for regime in REGIMES:
        here = ratios[[regime_of(num_bytes) == regime for num_bytes in jobs.num_bytes]]
        if len(here) and abs(math.log(float(np.median(here)))) > UNLIKE:
            times = f"{float(np.median(here)):.2f} times"
            said.append(
                f"{counted(len(here), 'row')} where {_DECIDES[regime]} took {times} what such a machine is known for: "
                "fitted all the same, topo validate compare says what may be wrong with it"
            )
    return (spread * FREER if said else spread), said


def _left_out(jobs: Jobs, measured: Floats, prior: Floats, spread: Floats, start: Floats) -> Floats:
    """Each row's time by the fit to all others: what is held back judges the fit."""
    times = np.empty(len(jobs))
    for row in range(len(jobs)):
        others = np.flatnonzero(np.arange(len(jobs)) != row)
        found = fit(jobs.take(others), measured[others], prior, spread, start=start)
        times[row] = times_s(found.values, jobs.take(np.array([row])))[0]
    return times


def _learned(jobs: Jobs, measured: Floats, prior: Floats, spread: Floats, found: Fitted) -> tuple[LearnedTerm, ...]:
    """Terms that the rows tell something of, with intervals by resampling rows (seeded: the same rows, the same)."""
    chance = np.random.default_rng(0)
    draws = []
    for _ in range(NUM_RESAMPLES):
        rows = chance.integers(0, len(jobs), len(jobs))
        again = fit(jobs.take(rows), measured[rows], prior, spread, start=found.values)
        draws.append(again.values)
    low, high = np.quantile(np.array(draws), CONFIDENCE, axis=0)
    return tuple(
        LearnedTerm(
            term.name,
            term.unit,
            term.meaning,
            float(prior[place]),
            float(found.values[place]),
            float(low[place]),
            float(high[place]),
        )
        for place, term in enumerate(TERMS)
        if found.learned[place] >= LEARNED
    )


def _terms(found: Fitted, shipped: KernelProfile) -> tuple[FittedTerm, ...]:
    """The fitted terms; one that was not learned keeps its shipped value."""
    return tuple(
        FittedTerm(old.name, float(value), float(error), float(share)) if share >= LEARNED else old
        for old, value, error, share in zip(
            _in_order(shipped), found.values, found.log_errors, found.learned, strict=True
        )
    )


def _in_order(profile: KernelProfile) -> tuple[FittedTerm, ...]:
    by_name = {term.name: term for term in profile.terms}
    return tuple(by_name[term.name] for term in TERMS)


def _bands(rows: Sequence[FittedRow], shipped: Sequence[Band], *, several: bool) -> tuple[Band, ...]:
    """The range by regime from rows left out; the shipped one where a regime has fewer than three."""
    bands = []
    for regime in REGIMES:
        ratios = [row.ratio for row in rows if regime_of(row.num_bytes) == regime]
        if len(ratios) >= FEWEST_SIZES:
            low, high = np.quantile(ratios, BAND)
            # What is predicted lies in its own range, wherever few rows happen to lie.
            bands.append(Band(regime, bool(several), min(float(low), 1.0), max(float(high), 1.0), len(ratios)))
    own = {(band.regime, band.several_nodes) for band in bands}
    return (*bands, *(band for band in shipped if (band.regime, band.several_nodes) not in own))
