"""A published run with all that a prediction needs: its machine, and what NCCL would do there for every size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sim.planners.nccl_2_30.versions import as_chosen_by
from topo.errors import TopoError
from topo.words import counted
from validate.published.checks import SENDRECV, name_of, usable_samples, why_unusable
from validate.published.document import Published, PublishedSample
from validate.published.machines import Machines
from validate.published.runs import SetAside
from validate.published.settings import Settings, nccl_version, settings_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sim.planners.nccl_2_30 import Choice, NcclPlan
    from sim.workload import Workload
    from topo.cluster import Cluster
    from topo.topology import Topology

    Numbers = npt.NDArray[np.float64]

__all__ = ["SENDRECV", "Case", "Cases", "cases_of"]


@dataclass(frozen=True)
class Case:
    """One run on its machine, not slotted so that what follows from it is computed once.

    `samples` are the run's that can be scored. `plan` is what NCCL 2.30 builds there under the run's settings, and
    `choices[i]` what NCCL takes for sample i, by the cost model of the run's version where that is known to differ: of
    the algorithm, protocol and channels that the run forced, if any. A
    choice is None for collectives that NCCL makes of sends and receives, where its tuner chooses nothing.
    """

    run: Published
    machine: Topology | Cluster
    samples: tuple[PublishedSample, ...]
    plan: NcclPlan
    choices: tuple[Choice | None, ...]
    settings: Settings

    @property
    def name(self) -> str:
        """The run's id and name."""
        return name_of(self.run)

    @property
    def collective(self) -> str:
        """The collective in our names, or `sendrecv`: each rank sends to the next one."""
        from sim.collective import collective

        return SENDRECV if self.run.collective == SENDRECV else collective(self.run.collective).name

    @property
    def machine_class(self) -> str:
        """What the curator calls machines like this one."""
        return self.run.machine.machine_class

    @property
    def num_ranks(self) -> int:
        """How many ranks took part."""
        return self.run.num_ranks

    @property
    def num_nodes(self) -> int:
        """How many nodes took part."""
        return self.run.machine.nodes

    @property
    def gpus_per_process(self) -> int | None:
        """How many GPUs one process drove; None where that was not published."""
        return self.run.software.gpus_per_process

    @property
    def nccl_version(self) -> tuple[int, ...] | None:
        """The version's numbers, None where the source has none."""
        return nccl_version(self.run.software.nccl)

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """Each sample's workload; for `sendrecv`, which has none of its own, that of one rank's send (broadcast)."""
        from validate.measurement_set import workload_of

        name = "broadcast" if self.collective == SENDRECV else self.collective
        return tuple(workload_of(name, row.num_bytes, self.run.dtype, self.run.reduction) for row in self.samples)

    @cached_property
    def num_bytes(self) -> Numbers:
        """Bytes of each sample as nccl-tests counts them."""
        import numpy as np

        return np.array([row.num_bytes for row in self.samples], dtype=np.float64)

    @cached_property
    def measured_s(self) -> Numbers:
        """Measured seconds of each sample."""
        import numpy as np

        return np.array([row.time_s for row in self.samples], dtype=np.float64)

    def only(self, rows: Iterable[int]) -> Case:
        """The same run with these samples alone, in the order given."""
        chosen = tuple(rows)
        return replace(
            self,
            samples=tuple(self.samples[row] for row in chosen),
            choices=tuple(self.choices[row] for row in chosen),
        )


@dataclass(frozen=True, slots=True)
class Cases:
    """Runs that can be predicted, rows that were set aside with the reason, and what was assumed, in sentences."""

    cases: tuple[Case, ...]
    set_aside: tuple[SetAside, ...] = field(default=())
    remarks: tuple[str, ...] = field(default=())


def cases_of(runs: Iterable[Published], machines: Path | None = None) -> Cases:
    """Each run with its machine: a file below `machines`, or the preset of the same name where that is None.

    A run that contradicts itself, whose machine is not there or cannot be planned is set aside as a whole, single
    samples without a usable time alone; nothing is raised for them.
    """
    planner = Machines(machines)
    cases, set_aside, remarks = [], [], []
    for run in runs:
        samples, dropped = usable_samples(run)
        set_aside += dropped
        reason = why_unusable(run, samples)
        if not reason:
            try:
                case = _case(run, samples, planner)
            except TopoError as error:
                reason = str(error)
            else:
                cases.append(case)
                remarks += [f"{case.name}: {sentence}" for sentence in case.settings.remarks]
                continue
        set_aside.append(SetAside(name_of(run), len(samples), reason))
    return Cases(tuple(cases), tuple(set_aside), tuple(remarks))


def _case(run: Published, samples: tuple[PublishedSample, ...], machines: Machines) -> Case:
    machine = machines.machine_of(run)
    settings = settings_of(run)
    plan = machines.plan(run, machine, settings)
    case = Case(run, machine, samples, plan, (None,) * len(samples), settings)
    if case.collective not in machines.tuned:
        return case
    try:
        return replace(case, choices=_choices(case, settings.algorithms))
    except TopoError as error:
        ignored = f"NCCL 2.30 cannot do what was forced ({error}), so that its own choice stands for it"
        free = settings.unforced(ignored)
        plan = machines.plan(run, machine, free)
        case = replace(case, plan=plan, settings=free)
        return replace(case, choices=_choices(case, None))


def _choices(case: Case, algorithms: tuple[str, ...] | None) -> tuple[Choice, ...]:
    plan = as_chosen_by(case.plan, case.nccl_version)
    return tuple(
        plan.choose(case.collective, work.num_bytes, dtype=work.dtype, reduction=work.reduction, algorithms=algorithms)
        for work in case.workloads
    )


def summary_of(cases: Cases) -> str:
    """How much there is, in one sentence."""
    rows = sum(len(case.samples) for case in cases.cases)
    machines = {case.run.machine.topology for case in cases.cases}
    return f"{counted(len(cases.cases), 'run')}, {counted(rows, 'row')}, {counted(len(machines), 'machine')}"
