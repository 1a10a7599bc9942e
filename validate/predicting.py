"""What a request's rows are predicted to take: the plans that are executed, and the very same ones simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sim.algorithms import ALGORITHMS
from sim.plan import in_order
from topo.errors import MeasurementError, NameChoiceError, TopoError
from topo.words import counted
from validate.as_run import Simulators
from validate.compare import Comparison, compare
from validate.request import BUILTIN, NCCL_ALGORITHMS, Request, Way
from validate.sharing import taking

if TYPE_CHECKING:
    from sim.plan import Plan
    from sim.predict import Simulator
    from sim.prediction import Prediction
    from sim.profile import Profile
    from sim.schedule import Schedule
    from sim.workload import Workload
    from topo.cluster import Cluster
    from topo.topology import Topology
    from validate.measurement import Measurement
    from validate.measurement_set import MeasurementSet
    from validate.sharing import Cores

GLOO_BUILTIN_IS = {"all_reduce": "ring", "all_gather": "ring"}
"""What gloo runs for its own collectives where nothing else is asked for (gloo/allreduce.cc, gloo/allgather.cc).

Its broadcast is a binomial tree and its reduce ends by a gather, which nothing here runs.
"""


@dataclass(slots=True)
class Predictor:
    """Plans and predictions of one request; without a simulator ranks are taken in their natural order.

    `problems` are sentences about what could not be predicted.
    """

    request: Request
    simulator: Simulator | None = None
    plans: dict[tuple[Workload, str], Plan] = field(default_factory=dict)
    cores: Cores | None = None
    problems: list[str] = field(default_factory=list)

    @classmethod
    def on(cls, request: Request, machine: Topology | Cluster | None, profile: Profile | None) -> Predictor:
        """For a machine, or for none yet: then plans are made without one, and stay when one comes."""
        predictor = cls(request, None if machine is None else _simulator(request, machine, profile))
        for workload in request.workloads:
            for way in request.ways:
                if way.executor != BUILTIN:
                    predictor.plans[workload, way.algorithm] = predictor._plan(workload, way.algorithm)
        return predictor

    def settle(self, machine: Topology, profile: Profile, cores: Cores) -> None:
        """Predict on this machine from now on, what was planned before, its processes sharing these cores."""
        self.simulator = _simulator(self.request, machine, profile)
        self.cores = cores

    def schedule(self, workload: Workload, way: Way) -> Schedule | None:
        """What is executed by point-to-point messages; None where the library runs its own collective."""
        return None if way.executor == BUILTIN else self.plans[workload, way.algorithm].schedule()

    def comparison(self, workload: Workload, way: Way, found: Measurement) -> Comparison | None:
        """The measurement beside its prediction; None where nothing can be predicted."""
        try:
            predicted = self._predicted(workload, way)
        except TopoError as error:
            if str(error) not in self.problems:
                self.problems.append(str(error))
            return None
        if predicted is None or predicted.duration_s <= 0:
            return None
        num_nodes = getattr(self.simulator.machine, "count", 1) if self.simulator else 1
        (row,) = compare([predicted], [found], self.request.tolerance, self.request.min_ratio, num_nodes)
        return row

    def _plan(self, workload: Workload, name: str) -> Plan:
        if self.simulator is not None:
            return self.simulator.plan(workload, name)
        chunks = self.request.num_chunks or 1
        return in_order(name, self.request.num_ranks, collective=workload.collective, num_chunks=chunks)

    def _predicted(self, workload: Workload, way: Way) -> Prediction | None:
        """The executed plan simulated; for the library's own collective, what it is known to run, if anything."""
        if self.simulator is None:
            return None
        if self.cores is not None:
            return self._sharing(self.cores, workload, way)
        if way.executor != BUILTIN:
            return self.simulator.run_plan(self.plans[workload, way.algorithm], workload)
        if way.algorithm != BUILTIN:
            return self._under(way).run(workload, way.algorithm)
        known = GLOO_BUILTIN_IS.get(workload.collective) if self.request.backend == "gloo" else "auto"
        return None if known is None else self._under(way).run(workload, known)

    def _sharing(self, cores: Cores, workload: Workload, way: Way) -> Prediction | None:
        """The prediction of processes that share cores: what links carry as simulated, in the time that cores allow."""
        assert self.simulator is not None, "it is settled with the cores"
        known = way.algorithm if way.executor != BUILTIN else GLOO_BUILTIN_IS.get(workload.collective)
        if known is None:
            return None
        plan = self._plan(workload, known) if way.executor == BUILTIN else self.plans[workload, known]
        used = cores.of_library() if way.executor == BUILTIN else cores
        duration_s = used.duration_s(plan.schedule(), workload)
        return taking(self.simulator.run_plan(plan, workload), duration_s, cores.num_cores)

    def _under(self, way: Way) -> Simulator:
        """The simulator, with the protocol that is asked for."""
        from sim.predict import Simulator

        assert self.simulator is not None, "only what can be predicted is"
        if way.protocol is None:
            return self.simulator
        options = replace(self.simulator.options, protocol=way.protocol)
        return Simulator(self.simulator.machine, self.simulator.profile, options)


def _simulator(request: Request, machine: Topology | Cluster, profile: Profile | None) -> Simulator:
    from sim.planners.options import Options
    from sim.predict import Simulator

    if machine.num_ranks != request.num_ranks:
        raise MeasurementError(
            f"{machine.name} has {counted(machine.num_ranks, 'rank')}, {request.num_ranks} are to be measured: "
            "choose others with --ranks, --gpus or --nodes"
        )
    return Simulator(machine, profile, Options(num_chunks=request.num_chunks))


def hold_against(
    found: MeasurementSet,
    machine: Topology | Cluster,
    profile: Profile | None = None,
    algorithm: str | None = None,
    tolerance: float | None = None,
    min_ratio: float | None = None,
) -> tuple[Comparison, ...]:
    """Every measurement beside its prediction on the machine.

    `algorithm` None predicts what was run, and what the simulator calls `auto` where the library chose by itself.
    MeasurementError where the ranks do not agree, or a collective is one that cannot be simulated.
    """
    simulators = Simulators(machine, profile)
    predictions = [_row(simulators, row, found.name, algorithm) for row in found.measurements]
    return compare(predictions, found.measurements, tolerance, min_ratio, getattr(machine, "count", 1))


def _row(simulators: Simulators, row: Measurement, name: str, algorithm: str | None) -> Prediction:
    from sim.predict import auto_candidates

    machine = simulators.machine
    if row.num_ranks != machine.num_ranks:
        ranks = counted(row.num_ranks, "rank")
        raise MeasurementError(
            f"{name} was measured with {ranks}, {machine.name} has {machine.num_ranks}: choose them with --gpus or "
            "--nodes"
        )
    what = algorithm or ("auto" if row.algorithm == BUILTIN else row.algorithm)
    for candidate in auto_candidates(row.workload.collective) if what == "auto" else (what,):
        _check_runs(candidate, row.workload.collective)
    return simulators.run(row, what)


def _check_runs(name: str, collective: str) -> None:
    """Errors for an algorithm that nobody knows, and for one that does not run the collective."""
    runs: Sequence[str] = ()
    if name in ALGORITHMS:
        runs = ALGORITHMS[name].collectives
    if name in NCCL_ALGORITHMS:
        runs = (*runs, *NCCL_ALGORITHMS[name].collectives)
    if not runs:
        raise NameChoiceError("algorithm", name, ("auto", *ALGORITHMS, *NCCL_ALGORITHMS))
    if collective not in runs:
        raise MeasurementError(f"{collective} cannot be simulated yet: {name} runs {', '.join(dict.fromkeys(runs))}")
