"""A machine beside what becomes of it: every change as a case of its own, or one upon the other, all priced alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from sim.cases import Case, changed
from sim.engines import ENGINES, KERNELS
from sim.planners import AUTO, TOPOLOGY
from topo.change_verbs import named_changes
from topo.changes import Change, Nodes, naming, require_consistent
from topo.errors import ChangeError

if TYPE_CHECKING:
    from sim.plan import Plan
    from sim.predict import Simulator
    from sim.prediction import Prediction
    from sim.workload import Workload

BASELINE = "baseline"

BREAKS_BELOW = 0.9
"""The share of a sweep's first busbw below which scaling has broken."""

SAME_TIME = 1e-9
"""Times that differ by less than this share are one time, worked out in two ways."""

POOREST_FIRST = ("ideal", "nccl-constants", "nccl-fitted")
"""The profiles that `auto` takes, by how much has to be known of a machine."""

Words = tuple[tuple[str, Change], ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """One case with what it is called; `sweep` is the text that counts nodes, where it is one of several counts."""

    label: str
    case: Case
    sweep: str = ""
    num_nodes: int = 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between what a duration lies, in seconds; `below` and `above` are how far the ends lie off, in logarithms."""

    low_s: float
    duration_s: float
    high_s: float

    @property
    def below(self) -> float:
        """The logarithm of the duration over the lower end."""
        return math.log(self.duration_s / self.low_s)

    @property
    def above(self) -> float:
        """The logarithm of the upper end over the duration."""
        return math.log(self.high_s / self.duration_s)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a variant costs for one workload under one algorithm, as it was `asked` for, beside the baseline's cost.

    The baseline runs the same algorithm, or its fastest where it does not run that. With `by_schedule` it is timed as
    the variant is, by its schedule, since only that can be compared; its own row shows another time. `fastest` marks
    the best of several algorithms on the same variant, of NCCL's kernels where any of them is timed as one.
    """

    variant: Variant
    asked: str
    prediction: Prediction
    plan: Plan
    baseline: Prediction
    baseline_plan: Plan
    by_schedule: bool = False
    extrapolated: bool = False
    efficiency: float | None = None
    fastest: bool = False

    @property
    def delta(self) -> float | None:
        """Time over the baseline's, minus 1; None for the baseline itself and where the baseline takes no time."""
        if self.variant.label == BASELINE or not self.baseline.duration_s:
            return None
        return self.prediction.duration_s / self.baseline.duration_s - 1

    @property
    def delta_bounds(self) -> tuple[float, float] | None:
        """Between what the delta lies, None where no range is known.

        As if the model erred on both times independently: their errors in logarithms add up in squares. Where a change
        is small the errors are mostly the same and cancel, so that the range is wider than it would have to be; where
        the time stays the same they are the same errors, and nothing is left of the range.
        """
        own, other = bounds_of(self.prediction), bounds_of(self.baseline)
        if own is None or other is None or self.delta is None:
            return None
        if abs(self.delta) < SAME_TIME:
            return 0.0, 0.0
        ratio = 1 + self.delta
        return ratio * math.exp(-math.hypot(own.below, other.above)) - 1, ratio * math.exp(
            math.hypot(own.above, other.below)
        ) - 1

    @property
    def num_new_rings(self) -> int | None:
        """How many channels' rings the baseline has not, wherever they begin; None for other ranks or algorithms."""
        plans = self.plan, self.baseline_plan
        if len({(plan.num_ranks, plan.algorithm) for plan in plans}) > 1 or not self.plan.rings:
            return None
        known = {_from_lowest(ring) for ring in self.baseline_plan.rings}
        return sum(_from_lowest(ring) not in known for ring in self.plan.rings)


@dataclass(frozen=True, slots=True)
class Scaling:
    """What a sweep over node counts shows for one workload: how far busbw holds, and what limits where it breaks."""

    sweep: str
    num_bytes: int
    first_nodes: int
    holds_up_to_nodes: int
    breaks_at_nodes: int | None = None
    efficiency: float | None = None
    limiting_link: str | None = None
    algorithm: str = AUTO


@dataclass(frozen=True, slots=True)
class Priced:
    """A variant made ready to be priced: its simulator, and the names of the algorithms that are asked of it."""

    variant: Variant
    simulator: Simulator
    names: tuple[str, ...]


def bounds_of(prediction: Prediction) -> Bounds | None:
    """The range of a predicted duration, None where the model states none: the one place that reads it."""
    low_s, high_s = prediction.low_s, prediction.high_s
    if low_s is None or high_s is None or not 0 < low_s <= prediction.duration_s <= high_s:
        return None
    return Bounds(low_s, prediction.duration_s, high_s)


def is_extrapolated(simulator: Simulator, prediction: Prediction) -> bool:
    """Whether a prediction lies beyond what its model was made from: by its own word, or its planner's."""
    plans = simulator.planner.nccl
    return prediction.extrapolated or (plans is not None and plans.extrapolated)


def variants(base: Case, texts: Sequence[str], *, cumulative: bool = False) -> tuple[Variant, ...]:
    """The baseline and one variant per text (one per count, where it counts nodes); `cumulative` adds each to the last.

    ChangeError where a change names nothing, contradicts another or makes no machine.
    """
    found = [Variant(BASELINE, base)]
    so_far: Words = ()
    for text in texts:
        words = named_changes(text)
        if cumulative:
            _refuse_many_counts(text, so_far)
            words = (*so_far, *words)
            require_consistent(text, [change for _, change in words])
            so_far = words
        label = f"then {text}" if cumulative and len(found) > 1 else text
        found += _by_count(base, label, words)
    return tuple(found)


def _refuse_many_counts(text: str, so_far: Words) -> None:
    if any(isinstance(change, Nodes) and len(change.counts) > 1 for _, change in so_far):
        raise ChangeError(text, "the change before it makes several machines: put `nodes` with several counts last")


def _by_count(base: Case, label: str, words: Words) -> Iterable[Variant]:
    """One variant, or one per count of nodes."""
    counting = next((change for _, change in words if isinstance(change, Nodes)), None)
    if counting is None or len(counting.counts) == 1:
        yield Variant(label, changed(base, words))
        return
    for count in counting.counts:
        counted = [(said, Nodes((count,)) if change is counting else change) for said, change in words]
        said = next(said for said, change in words if change is counting)
        name = label.replace(said, f"nodes {count}")
        yield Variant(name, changed(base, counted), label, count)


def made_ready(
    cases: Iterable[Variant], workload: Workload, profile: str, engine: str, planner: str
) -> tuple[Priced, ...]:
    """Each variant with its simulator and the algorithms that its case names; `all` are those that it can run.

    Like is compared with like: where `auto` would plan or time some of them otherwise than the others (a change names
    GPUs whose model the capture does not show), all are planned and timed as the poorest known one is.
    """
    variants = tuple(cases)
    found = tuple(_made_ready(variant, workload, profile, engine, planner) for variant in variants)
    poorest = min((priced.simulator.profile.name for priced in found), key=_place_of)
    planners = {_planner_of(priced) for priced in found}
    alike = poorest if profile == AUTO else profile, TOPOLOGY if planner == AUTO and len(planners) > 1 else planner
    if all(_is_planned_as(priced, *alike) for priced in found):
        return found
    return tuple(_made_ready(variant, workload, alike[0], engine, alike[1]) for variant in variants)


def _place_of(profile: str) -> int:
    """Where a profile stands among those that `auto` takes, the poorest first."""
    return POOREST_FIRST.index(profile) if profile in POOREST_FIRST else len(POOREST_FIRST)


def _planner_of(priced: Priced) -> str:
    with _blaming(priced.variant):
        return priced.simulator.planner.name


def _is_planned_as(priced: Priced, profile: str, planner: str) -> bool:
    named = priced.simulator.profile.name == profile or profile not in POOREST_FIRST
    return named and planner in (AUTO, _planner_of(priced))


def _made_ready(variant: Variant, workload: Workload, profile: str, engine: str, planner: str) -> Priced:
    with _blaming(variant):
        simulator = variant.case.simulator(profile, engine, planner)
        return Priced(variant, simulator, simulator.names(variant.case.algorithm, workload))


def outcomes(cases: Sequence[Priced], workloads: Iterable[Workload]) -> tuple[Outcome, ...]:
    """The price of each workload on each variant by each algorithm, in that order; the first variant is the baseline.

    Like is compared with like: what only a simulated schedule can show (a late rank, a parameter server) stands beside
    the baseline by its schedule, even where a closed form of NCCL's kernels gives the baseline's own time.
    """
    found: list[Outcome] = []
    for workload in workloads:
        own = _marked([_priced(cases[0], workload, name) for name in cases[0].names])
        by_schedule = cache(partial(cases[0].simulator.run_plan, workload=workload))
        rows = list(own)
        for case in cases[1:]:
            priced = (_priced(case, workload, name) for name in case.names)
            rows += _marked([_beside(row, own, by_schedule) for row in priced])
        found += [replace(row, efficiency=_efficiency(row, rows)) for row in rows]
    return tuple(found)


def _marked(rows: Sequence[Outcome]) -> list[Outcome]:
    """Outcomes of one variant, the fastest of several marked."""
    best = _fastest(rows)
    return [replace(row, fastest=row is best and len(rows) > 1) for row in rows]


def _fastest(rows: Sequence[Outcome]) -> Outcome:
    """The fastest of those that are timed alike: of NCCL's kernels where any are, else of all, by schedules."""
    return min([row for row in rows if row.prediction.engine == KERNELS] or rows, key=_duration_s)


def _duration_s(row: Outcome) -> float:
    return row.prediction.duration_s


def _beside(row: Outcome, own: Sequence[Outcome], by_schedule: Callable[[Plan], Prediction]) -> Outcome:
    """The outcome beside the baseline's own by the same algorithm, or beside its fastest where it has none.

    `by_schedule` simulates a plan of the baseline transfer by transfer.
    """
    base = next((other for other in own if other.asked == row.asked), None) or _fastest(own)
    if row.prediction.engine in ENGINES and base.prediction.engine not in ENGINES:
        return replace(row, baseline=by_schedule(base.plan), baseline_plan=base.plan, by_schedule=True)
    return replace(row, baseline=base.prediction, baseline_plan=base.plan)


def _blaming(variant: Variant) -> AbstractContextManager[None]:
    """Names the change in errors: what the baseline could, and this variant cannot, is the change's doing."""
    return nullcontext() if variant.label == BASELINE else naming(variant.label)


def _priced(case: Priced, workload: Workload, name: str) -> Outcome:
    with _blaming(case.variant):
        run = case.simulator.run(workload, name)
        chooses = case.simulator.planner_of(name, workload.collective).chooses
        plan = case.simulator.plan_that_runs(workload, name if chooses else run.algorithm)
    return Outcome(case.variant, name, run, plan, run, plan, extrapolated=is_extrapolated(case.simulator, run))


def _efficiency(row: Outcome, rows: Sequence[Outcome]) -> float | None:
    """Busbw over that of the fewest nodes of the same sweep and algorithm; None outside a sweep."""
    if not row.variant.sweep:
        return None
    of_sweep = [other for other in rows if (other.variant.sweep, other.asked) == (row.variant.sweep, row.asked)]
    first = min(of_sweep, key=lambda other: other.variant.num_nodes).prediction.busbw_bytes_per_s
    own = row.prediction.busbw_bytes_per_s
    return own / first if own is not None and first else None


def scalings(rows: Sequence[Outcome]) -> tuple[Scaling, ...]:
    """For each sweep over node counts, size and algorithm that runs on several of them, how far scaling holds."""
    groups: dict[tuple[str, int, str], list[Outcome]] = {}
    for row in rows:
        if row.variant.sweep and row.efficiency is not None:
            key = row.variant.sweep, row.prediction.workload.num_bytes, row.asked
            groups.setdefault(key, []).append(row)
    return tuple(_scaling(group) for group in groups.values() if len(group) > 1)


def _scaling(group: Sequence[Outcome]) -> Scaling:
    """What outcomes of one sweep, size and algorithm show."""
    ordered = sorted(group, key=lambda row: row.variant.num_nodes)
    first = held = ordered[0].variant.num_nodes
    what = ordered[0].variant.sweep, ordered[0].prediction.workload.num_bytes, first
    asked = ordered[0].asked
    for row in ordered:
        if (row.efficiency or 0.0) < BREAKS_BELOW:
            limiting = row.prediction.limiting
            link = limiting.link if limiting else None
            return Scaling(*what, held, row.variant.num_nodes, row.efficiency, link, algorithm=asked)
        held = row.variant.num_nodes
    return Scaling(*what, held, algorithm=asked)


def _from_lowest(ring: Sequence[int]) -> tuple[int, ...]:
    """The ring as it reads from its lowest rank on."""
    start = ring.index(min(ring))
    return (*ring[start:], *ring[:start])
