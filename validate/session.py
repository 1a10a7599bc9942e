"""One run from request to comparison: plan, execute and predict the very same schedules, put both side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from topo.cores import num_cores
from topo.words import counted
from validate import gpu_state, loopback
from validate.compare import Comparison
from validate.jobs import Job, Run
from validate.launch import Outcome, launch
from validate.library_files import kept, with_choices
from validate.measurement_set import MeasurementSet
from validate.predicting import Predictor, hold_against
from validate.request import BUILTIN, Request, Way, algorithms_for, workloads_of
from validate.suspects import Machine
from validate.watching import untold

if TYPE_CHECKING:
    from sim.profile import Profile
    from sim.workload import Workload
    from topo.cluster import Cluster
    from topo.topology import Topology
    from validate.gpu_state import GpuState
    from validate.loopback import PointToPoint
    from validate.measurement import Measurement

__all__ = ["BUILTIN", "Request", "Session", "algorithms_for", "hold_against", "run_session", "workloads_of"]

Todo = tuple["Workload", Way]
Launch = Callable[..., Outcome]


@dataclass(frozen=True, slots=True)
class Session:
    """What was measured, and beside each measurement its comparison; None where nothing could be predicted.

    `unpredicted` says why, where there is more to say than that nothing here runs it. `machine` is what the rows were
    held against.
    """

    found: MeasurementSet
    comparisons: tuple[Comparison | None, ...]
    culprits: tuple[int, ...] = ()
    unpredicted: tuple[str, ...] = ()
    machine: Machine | None = None


Save = Callable[[Session], None]


def run_session(
    request: Request,
    machine: Topology | Cluster | None = None,
    profile: Profile | None = None,
    *,
    tell: Callable[[str], None] = untold,
    save: Save | None = None,
    launcher: Launch = launch,
) -> Session:
    """Measure, predict and compare.

    Without a machine, gloo's processes are given one made from point-to-point messages, which are measured first; no
    collective goes into that prediction. Results are kept when the run ends early, also when it is interrupted, with
    the reason in `failure`. `tell` is told again and again, in a few words, how far it is; `save` gets what there is
    each time another size has been measured. `launcher` starts the processes.
    """
    calibrates = machine is None and request.backend == "gloo" and request.num_ranks > 1
    calibration = loopback.calibration_jobs(request.num_ranks) if calibrates else ()
    predictor = Predictor.on(request, machine, profile)
    attempts = _Attempts(request, predictor, tell, save, launcher)
    first = attempts.measure(calibration, [(size, way) for size in request.workloads for way in request.ways])
    point_to_point = _fitted(first.calibrated, calibration)
    if point_to_point is not None:
        machine, profile = loopback.topology(point_to_point), loopback.profile(point_to_point)
        predictor.settle(machine, profile, loopback.cores(point_to_point))
    session = _compared(attempts, first, point_to_point)
    for number in range(2, request.retries + 2):
        low = _low(session)
        if request.min_ratio is None or session.found.failure is not None or not low:
            break
        session = _again(attempts, session, low, number)
    return session


@dataclass(frozen=True, slots=True)
class _Measured:
    """What one launch brought: rows by what they measured, and the calibration around them by the jobs' numbers."""

    rows: tuple[tuple[Todo, Measurement], ...]
    calibrated: dict[int, Measurement]
    outcome: Outcome
    states: tuple[GpuState, ...] = ()


@dataclass(frozen=True, slots=True)
class _Attempts:
    """How launches of one request are made."""

    request: Request
    predictor: Predictor
    tell: Callable[[str], None]
    save: Save | None
    launcher: Launch

    def measure(self, calibration: tuple[Job, ...], todo: list[Todo]) -> _Measured:
        """One launch; where it is interrupted, what had arrived until then."""
        before, arrived = len(calibration), _Arrivals(len(calibration), len(todo), len(self.request.ways), self.save)
        jobs = (*calibration, *(self._job(*what) for what in todo), *calibration)
        run = Run(self.request.backend, self.request.num_ranks, jobs)
        states = gpu_state.look("before") if run.backend == "nccl" else ()
        try:
            outcome = self.launcher(run, timeout_s=self.request.timeout_s, tell=self.tell, arrived=arrived.take)
        except (KeyboardInterrupt, SystemExit) as ended:
            outcome = Outcome(arrived.found, {}, failure=_interrupted(ended))
        if states:
            states = (*states, *gpu_state.look("after"))
        named = with_choices(outcome.measurements, dict(enumerate(jobs)), outcome.texts)
        own = range(before, before + len(todo))
        rows = tuple((todo[index - before], found) for index, found in named.items() if index in own)
        calibrated = {index: found for index, found in named.items() if index not in own}
        return _Measured(rows, calibrated, outcome, states)

    def _job(self, workload: Workload, way: Way) -> Job:
        request = self.request
        return Job(
            workload,
            way.algorithm,
            self.predictor.schedule(workload, way),
            request.num_iterations,
            request.num_warmups,
            settings=way.settings,
            protocol=way.protocol,
            graph=request.graph,
        )


@dataclass(slots=True)
class _Arrivals:
    """Results as they come; each time a size is through, what there is is saved."""

    num_before: int
    num_todo: int
    num_ways: int
    save: Save | None
    found: dict[int, Measurement] = field(default_factory=dict)

    def take(self, index: int, measurement: Measurement) -> None:
        """Keep a result."""
        self.found[index] = measurement
        number = index - self.num_before + 1
        if self.save is None or not 1 <= number <= self.num_todo or number % self.num_ways:
            return
        rows = tuple(found for place, found in self.found.items() if place >= self.num_before)
        so_far = MeasurementSet("this machine", rows, failure="it had not ended when this was written")
        self.save(Session(so_far, (None,) * len(rows)))


def _interrupted(ended: BaseException) -> str:
    """Who ended it, in words."""
    if isinstance(ended, KeyboardInterrupt):
        return "interrupted from the keyboard"
    return "told to end by a signal"


def _low(session: Session) -> list[int]:
    return [index for index, row in enumerate(session.comparisons) if row is not None and row.verdict == "LOW"]


def _fitted(found: dict[int, Measurement], calibration: tuple[Job, ...]) -> PointToPoint | None:
    """The point-to-point facts; None where the run ended before they were complete, or needed none.

    They are measured before and after all else, and both count alike: what the machine does meanwhile changes.
    """
    numbers = sorted(found)
    first, again = numbers[: len(calibration)], numbers[len(calibration) :]
    if not calibration or len(first) < len(calibration):
        return None
    rows = [found[number] for number in first]
    if len(again) == len(first):
        pairs = zip(rows, (found[number] for number in again), strict=True)
        rows = [replace(row, samples_s=(*row.samples_s, *later.samples_s)) for row, later in pairs]
    return loopback.fit(rows, num_cores())


def _compared(attempts: _Attempts, measured: _Measured, point_to_point: PointToPoint | None) -> Session:
    """The rows beside their predictions."""
    from topo.topology import Topology

    predictor, outcome = attempts.predictor, measured.outcome
    comparisons = []
    for number, (what, row) in enumerate(measured.rows, start=1):
        attempts.tell(f"predicting {number} of {len(measured.rows)}")
        comparisons.append(predictor.comparison(*what, row))
    simulator = predictor.simulator
    machine = simulator.machine if simulator else None
    found = MeasurementSet(
        name=machine.name if machine else "this machine",
        measurements=tuple(replace(row, provenance="topo validate run") for _, row in measured.rows),
        topology=machine if isinstance(machine, Topology) else None,
        profile=simulator.profile if simulator else None,
        point_to_point=point_to_point,
        failure=outcome.failure,
        remarks=tuple(filter(None, (gpu_state.summary(measured.states),))),
        findings=(*outcome.not_run.values(), *gpu_state.findings(measured.states)),
        gpus=measured.states,
        library_texts=kept(outcome.texts),
    )
    against = None if simulator is None else Machine(simulator.machine, simulator.profile)
    return Session(found, tuple(comparisons), outcome.culprits, tuple(predictor.problems), against)


def _again(attempts: _Attempts, session: Session, low: list[int], number: int) -> Session:
    """The session with those rows measured once more that were LOW; of both attempts the faster one stays."""
    rows = [session.found.measurements[index] for index in low]
    todo = [(row.workload, Way(row.algorithm, row.executor, row.protocol)) for row in rows]
    measured = attempts.measure((), todo)
    measurements, comparisons = list(session.found.measurements), list(session.comparisons)
    places = dict(zip(todo, low, strict=True))
    for what, found in measured.rows:
        place = places[what]
        if found.median_s < measurements[place].median_s:
            measurements[place] = replace(found, provenance=f"topo validate run, attempt {number}")
            comparisons[place] = attempts.predictor.comparison(*what, measurements[place])
    kept_low = sum(row is not None and row.verdict == "LOW" for row in (comparisons[place] for place in low))
    remark = f"attempt {number}: {counted(len(low), 'LOW row')} measured again, {kept_low} of them still LOW"
    found_now = replace(
        session.found,
        measurements=tuple(measurements),
        remarks=(*session.found.remarks, remark),
        findings=(*session.found.findings, *measured.outcome.not_run.values()),
        failure=measured.outcome.failure,
    )
    return replace(session, found=found_now, comparisons=tuple(comparisons), culprits=measured.outcome.culprits)
