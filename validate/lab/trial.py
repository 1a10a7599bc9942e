"""A trial of the model in the lab: build a fabric, discover it, calibrate on messages, predict, run, compare.

Everything runs in one launch per fabric: the messages first, then the collectives, which are predicted from the
messages alone, whatever order of time they are looked at in.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sim.algorithms import ALGORITHMS
from sim.plan import Plan, in_order
from sim.workload import Workload
from topo.errors import MeasurementError, NameChoiceError
from validate.arrivals import Arrivals, read_arrivals
from validate.compare import Comparison
from validate.jobs import Job, Run
from validate.lab import calibrate, discover
from validate.lab.commands import PORT, address, namespace
from validate.lab.fabric import Fabric
from validate.lab.namespaces import Runner, built, run
from validate.launch import launch, untold
from validate.session import BUILTIN
from validate.stage import Place, Stage

if TYPE_CHECKING:
    from topo.topology import Topology
    from validate.measurement import Measurement

TOLERANCE = 0.1
"""How far a prediction may be off before it is called wrong: of the link's rate alone, nothing else is free here."""

CHECKED_BYTES = 2**20
"""Results are checked up to this size: a pass of its own costs as much as an iteration."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to run on each fabric: every algorithm with every size."""

    sizes: tuple[int, ...]
    algorithms: tuple[str, ...]
    num_iterations: int = 3
    num_warmups: int = 1
    num_chunks: int = 1
    timeout_s: float = 300.0
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        known = (BUILTIN, *(name for name, row in ALGORITHMS.items() if "all_reduce" in row.collectives))
        for name in self.algorithms:
            if name not in known:
                raise NameChoiceError("algorithm", name, known)
        if not self.algorithms or not self.sizes:
            raise MeasurementError("nothing is to be run: name an algorithm with --algorithm and a size with --size")

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """The sizes as all-reduces."""
        return tuple(Workload("all_reduce", num_bytes) for num_bytes in self.sizes)


@dataclass(frozen=True, slots=True)
class Trial:
    """One fabric: how it was discovered, what messages get of it, and predicted beside measured.

    `facts` is None, and nothing is compared, where the run ended before the messages were measured. `failure` is one
    sentence where it ended early.
    """

    fabric: str
    topology: Topology
    facts: calibrate.PointToPoint | None
    comparisons: tuple[Comparison, ...]
    arrivals: Arrivals
    failure: str | None = None


def run_trial(
    fabric: Fabric, request: Request, prefix: str, *, tell: Callable[[str], None] = untold, runner: Runner = run
) -> Trial:
    """The trial of one fabric in namespaces of that prefix; nothing of it is left behind."""
    messages = calibrate.jobs(len(fabric.hosts))
    plans = _plans(request, len(fabric.hosts))
    jobs = (*messages, *(_job(request, plan, *key) for key, plan in plans.items()))
    found: dict[int, Measurement] = {}
    arrived, failure = Arrivals(), None
    with built(fabric, prefix, runner):
        topology = discover.read(fabric.name, discover.look(fabric.hosts, prefix, runner))
        with staged(fabric, prefix) as (environment, arrivals):
            try:
                failure = launch(
                    Run("gloo", len(fabric.hosts), jobs),
                    timeout_s=request.timeout_s,
                    environment=environment,
                    tell=lambda words: tell(f"{fabric.name}: {words}"),
                    arrived=found.__setitem__,
                ).failure
            except (KeyboardInterrupt, SystemExit) as ending:
                failure = interrupted(ending)
            arrived = read_arrivals(arrivals)
    try:
        facts = _facts(found, messages, topology)
    except MeasurementError as error:
        facts, failure = None, failure or str(error)
    compared = () if facts is None else _compared(request, found, plans, topology, facts)
    return Trial(fabric.name, topology, facts, compared, arrived, failure)


def interrupted(ending: BaseException) -> str:
    """The sentence about a signal to end."""
    return "interrupted" if isinstance(ending, KeyboardInterrupt) else "told to end by a signal"


@contextmanager
def staged(fabric: Fabric, prefix: str, delays_s: tuple[float, ...] = ()) -> Iterator[tuple[dict[str, str], Path]]:
    """The variables that send each process of a launch to its host, and the file where arrivals are written."""
    places = tuple(Place(namespace(prefix, host), PORT, address(number)) for number, host in enumerate(fabric.hosts))
    with tempfile.TemporaryDirectory(prefix=prefix) as name:
        arrivals = Path(name) / "arrivals.jsonl"
        yield Stage(places, delays_s, str(arrivals)).environment(Path(name)), arrivals


def _plans(request: Request, num_ranks: int) -> dict[tuple[Workload, str], Plan]:
    """What is executed and, unchanged, predicted: hosts in their order, as the library takes them."""
    return {
        (workload, name): builtin_plan(num_ranks)
        if name == BUILTIN
        else in_order(name, num_ranks, num_chunks=request.num_chunks)
        for workload in request.workloads
        for name in request.algorithms
    }


def builtin_plan(num_ranks: int) -> Plan:
    """What gloo does for its own all-reduce: a ring in which each rank sends to the one before (gloo/allreduce.cc).

    It cuts each chunk into segments, of which the next is sent while the last is reduced, which moves the same bytes.
    """
    return replace(in_order("ring", num_ranks), rings=(tuple(reversed(range(num_ranks))),))


def _job(request: Request, plan: Plan, workload: Workload, name: str) -> Job:
    schedule = None if name == BUILTIN else plan.schedule()
    checks = workload.num_bytes <= max(CHECKED_BYTES, min(request.sizes))
    return Job(workload, name, schedule, request.num_iterations, request.num_warmups, check=checks)


def _facts(
    found: Mapping[int, Measurement], messages: tuple[Job, ...], topology: Topology
) -> calibrate.PointToPoint | None:
    measured = {
        (job.algorithm, job.workload.num_bytes): found[index] for index, job in enumerate(messages) if index in found
    }
    return calibrate.fit(measured, topology) if len(measured) == len(messages) else None


def _compared(
    request: Request,
    found: Mapping[int, Measurement],
    plans: Mapping[tuple[Workload, str], Plan],
    topology: Topology,
    facts: calibrate.PointToPoint,
) -> tuple[Comparison, ...]:
    from sim.predict import Simulator

    simulator = Simulator(topology, calibrate.profile(facts))
    first = len(calibrate.jobs(topology.num_ranks))
    compared = []
    for number, ((workload, _), plan) in enumerate(plans.items(), start=first):
        if number in found:
            measured = replace(found[number], provenance="topo validate lab")
            compared.append(Comparison(simulator.run_plan(plan, workload), measured, request.tolerance))
    return tuple(compared)


def load_average() -> float | None:
    """How many processes wanted a processor in the last minute; None where the system does not say."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None
