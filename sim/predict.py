"""The front door: a machine and a workload in, a prediction out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.algorithms import ALGORITHMS
from sim.answer import prediction_of
from sim.engines import ENGINES, KERNELS
from sim.engines import engine as find_engine
from sim.engines.loads import link_shares
from sim.engines.run import Run
from sim.latencies import stated_wait_s
from sim.naming import ALL, named_algorithms
from sim.networks import Networks
from sim.planners import AUTO, NCCL, PLANNERS, TOPOLOGY, Prepared, prepare
from sim.planners import planner as find_planner
from sim.planners.options import Options
from sim.profile import load_profile
from sim.workload import Workload
from topo.errors import ScheduleError, TopoError, TopologyError
from topo.topology import Topology
from topo.words import counted

if TYPE_CHECKING:
    from sim.clock.machine import MachineClock
    from sim.engines.network import Network
    from sim.plan import Plan
    from sim.prediction import Prediction
    from sim.profile import Profile
    from sim.schedule import Schedule
    from topo.cluster import Cluster


MOST_ROWS_FOR_EVENT = 16_384
"""Transfers up to which `auto` takes the event engine, which then costs less than a second or two."""

MOST_SCHEDULES = 8
DIRECT = "direct"
BY_MESSAGES = ("all_to_all", "sendrecv")
"""What NCCL makes of grouped sends and receives."""
AUTO_CANDIDATES = ("ring", "tree")
"""What `auto` chooses from where no planner does: the faster one as simulated."""


def auto_candidates(collective: str) -> tuple[str, ...]:
    """What `auto` chooses from for a collective where no planner does; ScheduleError where nothing runs it yet."""
    found = tuple(name for name in (*AUTO_CANDIDATES, "direct") if collective in ALGORITHMS[name].collectives)
    if not found:
        known = sorted({name for row in ALGORITHMS.values() for name in row.collectives})
        raise ScheduleError(f"{collective} cannot be simulated yet: choose one of {', '.join(known)}")
    return found


def predict(
    machine: Topology | Cluster,
    workload: Workload,
    *,
    algorithm: str = "auto",
    profile: Profile | None = None,
    options: Options | None = None,
    engine: str = "auto",
    planner: str = AUTO,
) -> Prediction:
    """The simulated run of the workload; with `algorithm="auto"` that of the planner's choice.

    `profile` None takes the machine's default. For several workloads on one machine use a `Simulator`.
    """
    return Simulator(machine, profile, options, engine, planner).run(workload, algorithm)


class Simulator:
    """A machine under a profile, made ready once and then asked for any number of workloads."""

    def __init__(
        self,
        machine: Topology | Cluster,
        profile: Profile | None = None,
        options: Options | None = None,
        engine: str = "auto",
        planner: str = AUTO,
        starts_s: Sequence[float] = (),
    ) -> None:
        """`profile` None takes the machine's default, `options` None leaves all to the planner.

        `planner` is a name of PLANNERS, or `auto`: NCCL's where it can plan the machine, else the topology's.
        `starts_s` says how much later than the first each rank starts; without it all start together.
        """
        _require_shown(machine)
        self.machine = machine
        self.profile = profile or load_profile("auto", machine)
        self.options = options or Options()
        self.engine = engine
        if engine not in ("auto", KERNELS):
            find_engine(engine)
        self._planner = planner if planner == AUTO else find_planner(planner).name
        self._starts_s = _checked_starts(starts_s, machine.num_ranks)
        self._schedules: dict[Plan, Schedule] = {}
        self._link_shares: dict[Hashable, npt.NDArray[np.float64]] = {}
        self._networks = Networks(machine, self.profile, self.options, lambda: self.planner.nccl, self._starts_s)

    def run(self, workload: Workload, algorithm: str = "auto", *, spans: bool = False) -> Prediction:
        """The prediction for one workload; `spans` keeps the times of every transfer.

        `auto` is the planner's choice, or the faster simulated of AUTO_CANDIDATES where the planner makes none.
        """
        if not spans and self._clock and (plan := self._plan_of_kernels(workload, algorithm)):
            return self._run_kernels(self._clock, plan, workload)
        if self.engine == KERNELS and not spans:
            raise ScheduleError(f"NCCL has no kernel for {workload.collective} by {algorithm}: use --engine auto")
        if algorithm != AUTO or self.planner_of(AUTO, workload.collective).chooses:
            return self.run_plan(self.plan(workload, algorithm), workload, spans=spans)
        runs = (self.run(workload, name, spans=spans) for name in auto_candidates(workload.collective))
        return min(runs, key=lambda run: run.duration_s)

    def plan_that_runs(self, workload: Workload, algorithm: str) -> Plan:
        """What would run, also where that is a kernel of NCCL's that is timed without a schedule."""
        try:
            return self.plan(workload, algorithm)
        except ScheduleError:
            if self._clock and (by_kernels := self._plan_of_kernels(workload, algorithm)):
                return by_kernels
            raise

    def plan(self, workload: Workload, algorithm: str) -> Plan:
        """What would run."""
        return self.planner_of(algorithm, workload.collective).plan(workload, algorithm)

    def names(self, text: str, workload: Workload) -> tuple[str, ...]:
        """The algorithms that `--algorithm` names, each once; `all` are those that can run the workload here.

        One rank exchanges nothing, so that all of them are one and the same copy: of these the first is named.
        NameChoiceError for an unknown name, ScheduleError for one that does not run this collective.
        """
        if text != ALL:
            return named_algorithms(text, workload.collective)
        found = self.algorithms_for(workload)
        if not found:
            raise ScheduleError(
                f"--algorithm {ALL}: none can run {workload.collective} on {self.machine.name} under these options"
            )
        return found[:1] if self.machine.num_ranks == 1 else found

    def algorithms_for(self, workload: Workload) -> tuple[str, ...]:
        """Every algorithm that can run the workload here: by a schedule, or by a kernel that can be timed."""
        scheduled = (row.name for row in ALGORITHMS.values() if workload.collective in row.collectives)
        known = self._clock and workload.collective in PLANNERS[NCCL].collectives
        kernels = PLANNERS[NCCL].algorithms if known else ()
        return tuple(name for name in dict.fromkeys((*scheduled, *kernels)) if self._can(workload, name))

    def _can(self, workload: Workload, algorithm: str) -> bool:
        try:
            if self._clock and self._plan_of_kernels(workload, algorithm):
                return True
            if self.engine == KERNELS:
                return False
            self.plan(workload, algorithm)
        except TopoError:
            return False
        return True

    @property
    def unlike_any_fitted(self) -> str:
        """What generations and networks the clock's profile was fitted to, where this machine is of none of them."""
        clock = self._clock
        return ", ".join(clock.profile.seen) if clock and clock.is_strange else ""

    @cached_property
    def _clock(self) -> MachineClock | None:
        """The clock of NCCL's kernels, None where this simulator is to run schedules."""
        nccl = self.planner.nccl
        together = self.machine.num_ranks > 1 and self._starts_s is None and self.options.num_chunks is None
        wanted = together and self.engine in ("auto", KERNELS)
        if not wanted or nccl is None or self.profile.kernels is None:
            if self.engine == KERNELS:
                raise ScheduleError(
                    "--engine kernels times what NCCL's planner plans, all ranks starting together, under a fitted "
                    "profile: use --engine auto"
                )
            return None
        from sim.clock.machine import MachineClock

        return MachineClock(self.profile.kernels, nccl, self.machine.name)

    @property
    def planner(self) -> Prepared:
        """The planner of this machine, made ready."""
        return self._prepared[0]

    @property
    def why_not_nccl(self) -> str:
        """Why `auto` did not take NCCL's planner; empty where it did, or another was named."""
        return self._prepared[1]

    @cached_property
    def _prepared(self) -> tuple[Prepared, str]:
        return prepare(self._planner, self.machine, self.options, lambda: self._networks.under("simple"))

    @cached_property
    def _by_topology(self) -> Prepared:
        return PLANNERS[TOPOLOGY].on(self.machine, self.options.without_peers(), lambda: self._networks.under("simple"))

    @cached_property
    def _by_messages(self) -> Prepared:
        """NCCL's own sends and receives: its planner has taken in what steers it, and plans no rows of theirs."""
        options = replace(self.options, environment=())
        return PLANNERS[TOPOLOGY].on(self.machine, options, lambda: self._networks.under("simple"))

    def planner_of(self, algorithm: str, collective: str) -> Prepared:
        """The planner for an algorithm: what no library's planner knows is planned by the topology."""
        if self._planner == AUTO:
            if PLANNERS[NCCL].plans(algorithm, collective):
                return self.planner
            return self._by_messages if self._sends(collective) else self._by_topology
        if not PLANNERS[self._planner].plans(algorithm, collective):
            what = f"{collective} by {algorithm}" if algorithm != AUTO else collective
            raise ScheduleError(f"--planner {self._planner} knows no {what}: use --planner {TOPOLOGY}")
        return self.planner

    def _sends(self, collective: str) -> bool:
        """Whether NCCL runs the collective here, as sends and receives of its own."""
        return collective in BY_MESSAGES and self.planner.nccl is not None

    def _schedule(self, plan: Plan) -> Schedule:
        """The plan's schedule; the last few are kept, with what engines derived from them."""
        shape = plan.shape
        if shape not in self._schedules:
            if len(self._schedules) >= MOST_SCHEDULES:
                self._schedules.clear()
            self._schedules[shape] = shape.schedule()
        return self._schedules[shape]

    def choose_engine(self, schedule: Schedule) -> str:
        """The engine for a schedule: with `auto` event while there are few transfers, steady beyond."""
        if self.engine in ENGINES:
            return self.engine
        return "event" if schedule.num_messages <= MOST_ROWS_FOR_EVENT else "steady"

    def network_for(self, plan: Plan) -> Network:
        """The network that a plan runs on: where NCCL takes a machine for several nodes, these speak over NICs."""
        by_nccl = plan.planner == NCCL or self._sends(plan.collective)
        return self._networks.under(plan.protocol, plan.helpers, self.planner.nccl if by_nccl else None)

    def _plan_of_kernels(self, workload: Workload, algorithm: str) -> Plan | None:
        """What NCCL launches, None where it has no kernel for that; BY_MESSAGES are its sends and receives."""
        if PLANNERS[NCCL].plans(algorithm, workload.collective):
            return self.planner.plan(workload, algorithm, runnable=False)
        if workload.collective in BY_MESSAGES and algorithm in (AUTO, DIRECT):
            return self._by_messages.plan(workload, DIRECT)
        return None

    def _shares(self, clock: MachineClock, plan: Plan, network: Network) -> npt.NDArray[np.float64]:
        """What each link carries of every byte under a plan; the last few answers are kept."""
        key = plan.algorithm, plan.collective, plan.rings, plan.trees
        if key not in self._link_shares:
            if len(self._link_shares) >= MOST_SCHEDULES:
                self._link_shares.clear()
            row = ALGORITHMS.get(plan.algorithm)
            way = self._networks.switched if row and row.reduces_in == "nodes" else network
            shares = link_shares(plan, way, clock.nccl.wiring.node_ranks)
            self._link_shares[key] = np.pad(shares, (0, len(network.bandwidth_bytes_per_s) - len(shares)))
        return self._link_shares[key]

    def _run_kernels(self, clock: MachineClock, plan: Plan, workload: Workload) -> Prediction:
        """What NCCL's kernels need for a plan, and never less than the busiest link does for its bytes."""
        network = self._networks.counted
        carried = self._shares(clock, plan, network) * workload.num_bytes
        busy_s = carried / network.bandwidth_bytes_per_s
        timed = clock.time(plan, workload)
        bare_s = max(timed.duration_s, float(busy_s.max(initial=0.0)))
        stated = self._networks.stated
        wait_s = stated_wait_s(plan, stated, clock.nccl.wiring.node_ranks) if stated else 0.0
        run = Run(bare_s + wait_s, carried, busy_s, {})
        bare = prediction_of(plan, workload, network, run, engine=KERNELS, profile=self.profile.name)
        low, high = timed.band or (None, None)
        return replace(
            bare,
            low_s=None if low is None else bare_s * low + wait_s,
            high_s=None if high is None else bare_s * high + wait_s,
            extrapolated=timed.extrapolated,
        )

    def run_plan(self, plan: Plan, workload: Workload, *, spans: bool = False) -> Prediction:
        """The prediction for one plan, by running its schedule."""
        network, schedule = self.network_for(plan), self._schedule(plan)
        engine = self.choose_engine(schedule)
        run = find_engine(engine)(schedule, network, workload, spans=spans)
        return prediction_of(plan, workload, network, run, engine=engine, profile=self.profile.name)


def _checked_starts(starts_s: Sequence[float], num_ranks: int) -> npt.NDArray[np.float64] | None:
    """The start of each rank, None where all start together; TopologyError for what is no start for each."""
    starts = np.asarray(starts_s, dtype=np.float64)
    if len(starts) and (len(starts) != num_ranks or not np.isfinite(starts).all() or starts.min() < 0):
        raise TopologyError(
            f"{counted(len(starts), 'start')} for {counted(num_ranks, 'rank')}: one of 0 s or more is needed for each"
        )
    return starts if starts.any() else None


def _require_shown(machine: Topology | Cluster) -> None:
    """Raise TopologyError where the source does not show how two GPUs that take part are joined."""
    node = machine if isinstance(machine, Topology) else machine.node
    if not node.hidden_pairs:
        return
    names = {node.device(gpu_id).name for gpu_id in node.gpu_ids}
    hidden = [pair for pair in node.hidden_pairs if names.issuperset(pair)]
    if hidden:
        raise TopologyError(
            f"{node.name or 'the capture'} does not show how {hidden[0][0]} and {hidden[0][1]} are joined "
            f"({len(hidden)} such pairs): give the whole matrix, or take GPUs that it shows with --gpus"
        )
