"""One run from request to comparison: plan, execute and predict the very same schedules, put both side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sim.algorithms import ALGORITHMS
from sim.plan import Plan, in_order
from sim.workload import Workload
from topo.errors import MeasurementError, NameChoiceError
from validate import loopback
from validate.backends import BUILTIN_IN_PARTS
from validate.compare import TOLERANCE, Comparison, compare
from validate.jobs import BackendName, Job, Run
from validate.launch import Outcome, launch, untold
from validate.measurement_set import MeasurementSet
from validate.words import counted

if TYPE_CHECKING:
    from sim.predict import Simulator
    from sim.prediction import Prediction
    from sim.profile import Profile
    from topo.cluster import Cluster
    from topo.topology import Topology
    from validate.loopback import PointToPoint
    from validate.measurement import Measurement

BUILTIN = "builtin"
GLOO_BUILTIN_IS = {"all_reduce": "ring", "all_gather": "ring"}
"""What gloo runs for its own collectives where nothing else is asked for (gloo/allreduce.cc, gloo/allgather.cc).

Its broadcast is a binomial tree and its reduce ends by a gather, which nothing here runs.
"""


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure. `algorithms` are `builtin` and names of ALGORITHMS; all workloads are run by each of them."""

    backend: BackendName
    num_ranks: int
    workloads: tuple[Workload, ...]
    algorithms: tuple[str, ...] = (BUILTIN,)
    num_chunks: int | None = None
    num_iterations: int = 20
    num_warmups: int = 5
    timeout_s: float = 300.0
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if self.num_ranks < 2:
            raise MeasurementError(f"{counted(self.num_ranks, 'rank')}: a collective needs at least 2, see --ranks")
        if not self.algorithms:
            raise MeasurementError("no algorithm is to be measured: name some with --algorithm")
        if any(workload.collective == "all_to_all" for workload in self.workloads):
            raise MeasurementError(
                "all_to_all is simulated but not run: each rank has a buffer of its own there, which no backend lays "
                "out yet; measure another --collective"
            )
        for name in self.algorithms:
            if name not in (BUILTIN, *ALGORITHMS):
                raise NameChoiceError("algorithm", name, (BUILTIN, *ALGORITHMS))
            for workload in self.workloads:
                if workload.collective not in _run_by(name):
                    others = ", ".join(algorithms_for(workload.collective)) or "nothing"
                    raise MeasurementError(
                        f"{name} runs {', '.join(_run_by(name))}, not {workload.collective}: that is run by {others}"
                    )


def algorithms_for(collective: str) -> tuple[str, ...]:
    """What can run a collective (by its own name): the library's call, and those of ALGORITHMS that are made for it."""
    return tuple(name for name in (BUILTIN, *ALGORITHMS) if collective in _run_by(name))


def _run_by(name: str) -> tuple[str, ...]:
    return tuple(BUILTIN_IN_PARTS) if name == BUILTIN else ALGORITHMS[name].collectives


def workloads_of(
    collective: str, sizes: Sequence[int], dtype: str, reduction: str, num_ranks: int
) -> tuple[Workload, ...]:
    """One workload per size; where every rank owns an equal part, sizes as nccl-tests runs them.

    That is rounded down to whole parts, and at least one element each. The same size is not run twice.
    """
    whole = [Workload(collective, size, dtype, reduction) for size in sizes]
    if not BUILTIN_IN_PARTS.get(collective, False):
        return tuple(whole)
    step = [workload.element_bytes * num_ranks for workload in whole]
    rounded = [max(size // unit, 1) * unit for size, unit in zip(sizes, step, strict=True)]
    return tuple(Workload(collective, size, dtype, reduction) for size in dict.fromkeys(rounded))


@dataclass(frozen=True, slots=True)
class Session:
    """What was measured, and beside each measurement its comparison; None where nothing could be predicted."""

    found: MeasurementSet
    comparisons: tuple[Comparison | None, ...]
    culprits: tuple[int, ...] = ()


def run_session(
    request: Request,
    machine: Topology | Cluster | None = None,
    profile: Profile | None = None,
    *,
    tell: Callable[[str], None] = untold,
) -> Session:
    """Measure, predict and compare.

    Without a machine, gloo's processes are given one made from point-to-point messages, which are measured first; no
    collective goes into that prediction. Results are kept when the run ends early, with the reason in `failure`.
    `tell` is told again and again, in a few words, how far it is.
    """
    calibrates = machine is None
    calibration = loopback.calibration_jobs(request.num_ranks) if calibrates else ()
    simulator = None if machine is None else _simulator(machine, profile, request)
    plans = _plans(request, simulator)
    todo = [(workload, name) for workload in request.workloads for name in request.algorithms]
    jobs = tuple(_job(request, workload, name, plans) for workload, name in todo)
    run = Run(request.backend, request.num_ranks, (*calibration, *jobs))
    outcome = launch(run, timeout_s=request.timeout_s, tell=tell)
    measured = [(job, found) for job, found in outcome.measurements.items() if job >= len(calibration)]
    point_to_point = _fitted(outcome, calibration) if calibrates else None
    if point_to_point is not None:
        simulator = _simulator(loopback.topology(point_to_point), loopback.profile(point_to_point), request)
    comparisons = []
    for number, (job, found) in enumerate(measured, start=1):
        tell(f"predicting {number} of {len(measured)}")
        comparisons.append(_comparison(request, simulator, plans, todo[job - len(calibration)], found))
    measurements = tuple(found for _, found in measured)
    return Session(_document(outcome, measurements, simulator, point_to_point), tuple(comparisons), outcome.culprits)


def _simulator(machine: Topology | Cluster, profile: Profile | None, request: Request) -> Simulator:
    from sim.planners.topology import Options
    from sim.predict import Simulator

    if machine.num_ranks != request.num_ranks:
        raise MeasurementError(
            f"{machine.name} has {counted(machine.num_ranks, 'rank')}, {request.num_ranks} are to be measured: "
            "choose others with --ranks, --gpus or --nodes"
        )
    return Simulator(machine, profile, Options(num_chunks=request.num_chunks))


def _plans(request: Request, simulator: Simulator | None) -> dict[tuple[Workload, str], Plan]:
    """What is executed and, unchanged, predicted: the planner's choice on a given machine, else the natural order."""
    return {
        (workload, name): _plan(request, simulator, workload, name)
        for workload in request.workloads
        for name in request.algorithms
        if name != BUILTIN
    }


def _plan(request: Request, simulator: Simulator | None, workload: Workload, name: str) -> Plan:
    if simulator is not None:
        return simulator.plan(workload, name)
    chunks = request.num_chunks or 1
    return in_order(name, request.num_ranks, collective=workload.collective, num_chunks=chunks)


def _job(request: Request, workload: Workload, name: str, plans: Mapping[tuple[Workload, str], Plan]) -> Job:
    plan = plans.get((workload, name))
    schedule = None if plan is None else plan.schedule()
    return Job(workload, name, schedule, request.num_iterations, request.num_warmups)


def _fitted(outcome: Outcome, calibration: tuple[Job, ...]) -> PointToPoint | None:
    """The point-to-point facts; None where the run ended before they were complete."""
    if any(index not in outcome.measurements for index in range(len(calibration))):
        return None
    found = {
        (job.algorithm, job.workload.num_bytes): outcome.measurements[index] for index, job in enumerate(calibration)
    }
    return loopback.fit(found)


def _comparison(
    request: Request,
    simulator: Simulator | None,
    plans: Mapping[tuple[Workload, str], Plan],
    what: tuple[Workload, str],
    found: Measurement,
) -> Comparison | None:
    predicted = None if simulator is None else _predicted(request, simulator, plans, what)
    return None if predicted is None else Comparison(predicted, found, request.tolerance)


def _predicted(
    request: Request, simulator: Simulator, plans: Mapping[tuple[Workload, str], Plan], what: tuple[Workload, str]
) -> Prediction | None:
    """The executed plan simulated; for the library's own collective, what it is known to run, if anything."""
    workload, name = what
    if name != BUILTIN:
        return simulator.run_plan(plans[what], workload)
    known = GLOO_BUILTIN_IS.get(workload.collective) if request.backend == "gloo" else "auto"
    return None if known is None else simulator.run(workload, known)


def _document(
    outcome: Outcome,
    measurements: tuple[Measurement, ...],
    simulator: Simulator | None,
    point_to_point: PointToPoint | None,
) -> MeasurementSet:
    from topo.topology import Topology

    machine = simulator.machine if simulator else None
    stamped = tuple(replace(found, provenance="topo validate run") for found in measurements)
    return MeasurementSet(
        name=machine.name if machine else "this machine",
        measurements=stamped,
        topology=machine if isinstance(machine, Topology) else None,
        profile=simulator.profile if simulator else None,
        point_to_point=point_to_point,
        failure=outcome.failure,
    )


def hold_against(
    found: MeasurementSet,
    machine: Topology | Cluster,
    profile: Profile | None = None,
    algorithm: str | None = None,
    tolerance: float = TOLERANCE,
) -> tuple[Comparison, ...]:
    """Every measurement beside its prediction on the machine.

    `algorithm` None predicts what was run, and what the simulator calls `auto` where the library chose by itself.
    MeasurementError where the ranks do not agree, or a collective is one that cannot be simulated.
    """
    from sim.predict import Simulator, auto_candidates

    simulator = Simulator(machine, profile)
    predictions = []
    for row in found.measurements:
        if row.num_ranks != machine.num_ranks:
            ranks = counted(row.num_ranks, "rank")
            raise MeasurementError(
                f"{found.name} was measured with {ranks}, {machine.name} has {machine.num_ranks}: "
                "choose them with --gpus or --nodes"
            )
        name = algorithm or ("auto" if row.algorithm == BUILTIN else row.algorithm)
        for candidate in auto_candidates(row.workload.collective) if name == "auto" else (name,):
            _check_runs(candidate, row.workload.collective)
        predictions.append(simulator.run(row.workload, name))
    return compare(predictions, found.measurements, tolerance)


def _check_runs(name: str, collective: str) -> None:
    if name not in ALGORITHMS:
        raise NameChoiceError("algorithm", name, ("auto", *ALGORITHMS))
    if collective not in ALGORITHMS[name].collectives:
        runs = ", ".join(ALGORITHMS[name].collectives)
        raise MeasurementError(f"{collective} cannot be simulated yet: {name} runs {runs}")
