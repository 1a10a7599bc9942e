"""NCCL's choice for a workload on a machine as a Plan that can be simulated and executed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from sim.algorithms import ALGORITHMS
from sim.plan import Plan
from sim.planners.nccl_2_30.front_door import environment_of, plan_machine
from sim.planners.nccl_2_30.versions import as_chosen_by
from sim.planners.switches import with_switches
from topo.errors import ScheduleError, TopologyError, UnitError

if TYPE_CHECKING:
    from sim.engines.network import Network
    from sim.planners.nccl_2_30.planner import Choice, NcclPlan
    from sim.planners.options import Options
    from sim.workload import Workload
    from topo.cluster import Cluster
    from topo.topology import Topology

T = TypeVar("T")

_SEE_PLAN = "topo plan says what NCCL chooses and expects"


class NcclPlanner:
    """NCCL's plans for one machine: its channels, the choice of its tuner, its chunks."""

    name = "nccl-2.30"
    chooses = True

    def __init__(
        self, machine: Topology | Cluster, options: Options, network: Callable[[], Network] | None = None
    ) -> None:
        """Plans the machine; `network` is not asked, since NCCL counts with rates of its own."""
        self._options, self._machine = options, machine
        self._nccl = as_chosen_by(plan_machine(machine, environment_of(options)), options.nccl_version)
        self.nccl: NcclPlan | None = self._nccl
        self.notes = self._nccl.notes

    def plan(self, workload: Workload, algorithm: str = "auto", *, runnable: bool = True) -> Plan:
        """NCCL's choice, or the best protocol of the algorithm that is named.

        Where NCCL takes an algorithm that has no schedule here, its best estimate among the others stands in, and
        `instead_of` of the plan says so; ScheduleError where none is left. Unless the plan need not be `runnable`: who
        asks for its time alone gets what NCCL takes.
        """
        if self._options.server is not None:
            raise UnitError(f"--server {self._options.server}: only parameter-server has servers, NCCL has none")
        if self._nccl.wiring.num_ranks == 1:
            name = "ring" if algorithm == "auto" else algorithm
            return Plan(name, 1, ((0,),), workload.collective, planner=self.name)
        if not runnable:
            return self._from_choice(self._choose(workload, None if algorithm == "auto" else (algorithm,)), None, False)
        if algorithm != "auto":
            choice = self._choose(workload, (algorithm,))
            if workload.collective not in getattr(ALGORITHMS.get(algorithm), "collectives", ()):
                raise ScheduleError(f"{workload.collective} by {algorithm} cannot be simulated yet: {_SEE_PLAN}")
            return self._from_choice(choice, None)
        best = self._choose(workload, None)
        known = [name for name in ALGORITHMS if self._has_schedule(name, workload.collective)]
        if best.algorithm in known:
            return self._from_choice(best, None)
        possible = [name for (name, _), _ in best.times_s if name in known]
        if not possible:
            raise ScheduleError(
                f"NCCL takes {best.algorithm} for {workload.collective}, which cannot be simulated yet: {_SEE_PLAN}"
            )
        return self._from_choice(self._choose(workload, possible), best.algorithm)

    def _has_schedule(self, algorithm: str, collective: str) -> bool:
        """Whether the collective has a schedule of that algorithm on this machine."""
        row = ALGORITHMS[algorithm]
        if collective not in row.collectives or not row.in_switch:
            return collective in row.collectives
        try:
            self._with_switches(Plan(algorithm, self._nccl.wiring.num_ranks, (), collective))
        except TopologyError:
            return False
        return True

    def _with_switches(self, plan: Plan) -> Plan:
        reduces = self._nccl.wiring.collnet and plan.collective == "all_reduce"
        return with_switches(plan, self._machine, network_reduces=reduces)

    def _choose(self, workload: Workload, algorithms: Collection[str] | None) -> Choice:
        return self._nccl.choose(
            workload.collective,
            workload.num_bytes,
            dtype=workload.dtype,
            reduction=workload.reduction,
            algorithms=algorithms,
        )

    def _from_choice(self, choice: Choice, instead_of: str | None, runnable: bool = True) -> Plan:
        wiring, options = self._nccl.wiring, self._options
        num_channels = options.num_channels or choice.split.num_channels
        plan = Plan(
            algorithm=choice.algorithm,
            num_ranks=wiring.num_ranks,
            rings=_cycled(wiring.rings, num_channels),
            collective=choice.collective,
            protocol=choice.protocol,
            planner=self.name,
            trees=_cycled(wiring.trees, num_channels),
            chunk_bytes=choice.chunk_bytes,
            instead_of=instead_of,
        )
        row = ALGORITHMS.get(choice.algorithm)
        if row is None or not row.pipelines(choice.collective):
            return plan
        per_channel = -(-choice.num_bytes // num_channels)
        plan = replace(plan, num_chunks=options.num_chunks or -(-per_channel // choice.chunk_bytes))
        if not row.in_switch or not runnable:
            return plan
        plan = self._with_switches(plan)
        heads = len(plan.groups[0]) if row.in_network else max(1, self._nccl.communicator.nvls_num_heads)
        return replace(plan, num_chunks=options.num_chunks or -(-plan.num_chunks // heads))


def _cycled(channels: Sequence[T], count: int) -> tuple[T, ...]:
    return tuple(channels[channel % len(channels)] for channel in range(count))
