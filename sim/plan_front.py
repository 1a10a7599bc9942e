"""From what `topo plan` is asked to its report: the machine (as a log shows it, if one is given), plan and choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sim.collective import collective as find_collective
from sim.plan_decisions import decide, switches
from sim.plan_report import PlanReport
from sim.plan_sockets import sockets_of
from sim.planners import AUTO, NCCL, planner
from sim.planners.nccl_2_30.choice_lists import COLLECTIVES
from sim.planners.nccl_2_30.explain import explain
from sim.planners.nccl_2_30.front_door import environment_of, plan_machine
from sim.planners.options import Options
from sim.workload import Workload
from topo.errors import ScheduleError

if TYPE_CHECKING:
    from sim.plan_check import Check
    from sim.planners.nccl_2_30 import NcclPlan
    from topo.cli_common import TopologyArgument
    from topo.cluster import Cluster
    from topo.readers.nccl_log.facts import NcclLog
    from topo.topology import Topology

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of `topo plan`, as given; `explained` are sizes, `log` a file."""

    collective: str
    dtype: str
    planner: str
    protocol: str | None
    environment: tuple[tuple[str, str], ...]
    sizes: tuple[int, ...]
    explained: str | None = None
    log: str | None = None


def make_plan(topology: TopologyArgument, asked: Asked, note: Note) -> PlanReport:
    """The report; what was assumed goes to `note`, sentence by sentence."""
    from topo.units import parse_sizes

    _check_planner(asked.planner)
    collective = find_collective(asked.collective).name
    if collective not in COLLECTIVES:
        raise ScheduleError(
            f"NCCL's tuner chooses nothing for {collective}, which it does by sends and receives: "
            f"choose one of {', '.join(COLLECTIVES)}"
        )
    explained = parse_sizes(asked.explained) if asked.explained else ()
    for num_bytes in (*asked.sizes, *explained):
        Workload(collective, num_bytes, asked.dtype)
    environment = environment_of(Options(protocol=asked.protocol, environment=asked.environment))
    machine = topology.load()
    found, log = None, None
    if asked.log is not None:
        log = _read_log(asked.log)
        machine, environment = _as_logged(machine, log, topology, environment, note)
    plan = plan_machine(machine, environment)
    for sentence in plan.notes:
        note(sentence)
    if log is not None:
        found = _check(plan, machine, log, environment)
    chosen = decide(plan, collective, asked.sizes, asked.dtype)
    largest = max((row.choice for row in chosen), key=lambda choice: choice.num_bytes)
    return PlanReport(
        machine=machine,
        plan=plan,
        collective=collective,
        dtype=asked.dtype,
        decisions=chosen,
        switches=switches(plan, collective, asked.sizes, asked.dtype),
        environment=environment,
        explanations=tuple(
            explain(plan, row.choice, dtype=asked.dtype) for row in decide(plan, collective, explained, asked.dtype)
        ),
        check=found,
        sockets=sockets_of(machine, plan, largest, environment),
    )


def _check_planner(name: str) -> None:
    if name not in (AUTO, NCCL):
        planner(name)
        raise ScheduleError(f"--planner {name} stands for no library, so it has no choices to show: use topo simulate")


def _read_log(path: str) -> NcclLog:
    from topo import textfile
    from topo.readers import nccl_log

    text = textfile.read_stdin() if path == "-" else textfile.read_file(Path(path))
    return nccl_log.read(text, "standard input" if path == "-" else path)


def _as_logged(
    machine: Topology | Cluster, log: NcclLog, topology: TopologyArgument, environment: dict[str, str], note: Note
) -> tuple[Topology | Cluster, dict[str, str]]:
    """The machine and settings of the log's run, where the user did not say otherwise."""
    from sim.plan_log import machine_as_logged, settings_of

    if topology.nodes == 1 and topology.gpus is None:
        machine, said = machine_as_logged(machine, log)
        for sentence in said:
            note(sentence)
    logged, ignored = settings_of(log)
    added = {name: value for name, value in logged.items() if name not in environment}
    if added:
        note(f"planned under the log's settings: {', '.join(f'{name}={value}' for name, value in added.items())}")
    for sentence in ignored:
        note(sentence)
    return machine, {**added, **environment}


def _check(plan: NcclPlan, machine: Topology | Cluster, log: NcclLog, environment: Mapping[str, str]) -> Check:
    from sim.plan_check import check

    return replace(check(plan, log), machine=machine.name, environment=tuple(environment.items()))
