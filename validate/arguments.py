"""What the command line of a run says, made into a request, the machine to predict on, and a way to start processes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from topo.cli_common import TopologyArgument
from topo.errors import EnvironmentMissing, MeasurementError
from topo.words import counted
from validate.request import Executor, Request, algorithms_for, workloads_of
from validate.words import listed

if TYPE_CHECKING:
    from sim.profile import Profile
    from topo.cluster import Cluster
    from topo.topology import Topology
    from validate.jobs import BackendName
    from validate.place import Place
    from validate.session import Launch

GLOO_RANKS_BY_DEFAULT = 4
MULTI_RANK = "NCCL_MULTI_RANK_GPU_ENABLE"
MULTI_RANK_SINCE = (2, 30)

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunArguments:
    """Arguments and options of `topo validate run`, as they were given."""

    topology: str | None
    backend: str
    ranks: int | None
    gpus: str | None
    nodes: int
    fabric: str | None
    collective: str
    algorithms: tuple[str, ...]
    executor: Executor
    protocols: tuple[str, ...]
    cuda_graph: bool
    chunks: int | None
    iterations: int
    warmups: int
    dtype: str
    reduction: str
    timeout: float
    tolerance: float | None
    min_ratio: float | None
    retries: int
    profile: str
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that is ready to start. `place` is this process' among those of somebody else's launcher, None without one.

    `gates` where verdicts decide the exit status.
    """

    request: Request
    machine: Topology | Cluster | None
    profile: Profile | None
    environment: dict[str, str]
    place: Place | None
    gates: bool

    @property
    def is_member(self) -> bool:
        """Whether this process only takes part, and another one prints."""
        return self.place is not None and self.place.rank > 0

    @property
    def launcher(self) -> Launch:
        """What starts the processes."""
        from validate.launch import launch

        if self.place is None:
            return partial(launch, environment=self.environment)
        from validate.members import lead

        return partial(lead, self.place, environment=self.environment)

    def serve(self) -> int:
        """Take part in the run that rank 0 leads; the exit status."""
        from validate.members import follow

        assert self.place is not None, "only a member serves"
        return follow(self.place, self.request.timeout_s, self.environment)

    @property
    def line(self) -> str:
        """The line that would start the processes; for several nodes one for each launcher."""
        from validate.launch import command_of
        from validate.many_nodes import lines
        from validate.members import worker_command

        variables = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        num_nodes = getattr(self.machine, "count", 1)
        if self.place is None and self.request.backend == "nccl" and num_nodes > 1:
            return lines(sys.argv[1:], num_nodes, self.request.num_ranks // num_nodes)
        if self.place is not None:
            where = f"# rank {self.place.rank} of {self.place.num_ranks} by {self.place.launcher}, meeting at "
            return f"{where}{self.place.meeting}\n{' '.join((*variables, *worker_command(Path('FOLDER'))))}\n"
        command = command_of(self.request.num_ranks, Path("FOLDER"))
        return f"{' '.join((*variables, *map(shlex.quote, command)))}\n"


def prepare(arguments: RunArguments, sizes: tuple[int, ...], note: Note) -> Prepared:
    """Everything checked, before anything starts; what the user must know is noted."""
    from sim.collective import collective as collective_of
    from sim.profile import load_profile
    from validate.launch import require_torch
    from validate.place import place_here

    require_torch()
    place = place_here()
    chosen, machine, num_gpus = _place(arguments, place, note)
    name = collective_of(arguments.collective).name
    num_ranks = _num_ranks(arguments, place, machine, num_gpus if chosen == "nccl" else None, note)
    if chosen == "nccl" and place is None and arguments.nodes > 1 and not arguments.dry_run:
        raise EnvironmentMissing(
            f"--nodes {arguments.nodes} is measured by processes on all of them: start this command once per GPU by "
            "srun, mpirun or torchrun (see docs/validate.md)"
        )
    request = _request(arguments, chosen, name, num_ranks, sizes)
    if place is not None and request.retries:
        raise MeasurementError(
            f"--retries starts processes again, which {place.launcher} has started here: run the whole command again"
        )
    _note_rounding(request, sizes, note)
    machine = _first_ranks(machine, num_ranks, note, given=arguments.topology is not None)
    return Prepared(
        request,
        machine,
        None if machine is None else load_profile(arguments.profile, machine),
        _multi_rank(num_ranks, num_gpus) if chosen == "nccl" and place is None and num_gpus else {},
        place,
        gates=arguments.topology is not None or arguments.min_ratio is not None,
    )


def _request(
    arguments: RunArguments, backend: BackendName, name: str, num_ranks: int, sizes: tuple[int, ...]
) -> Request:
    if arguments.retries and arguments.min_ratio is None:
        raise MeasurementError("--retries measures rows again that fail the gate: give --min-ratio, such as 0.9")
    algorithms = _names(arguments.algorithms)
    if algorithms in ((), ("all",)):
        algorithms = ("builtin",) if num_ranks < 2 else algorithms_for(name)
    return Request(
        backend=backend,
        num_ranks=num_ranks,
        workloads=workloads_of(name, sizes, arguments.dtype, arguments.reduction, num_ranks),
        algorithms=algorithms,
        num_chunks=arguments.chunks,
        num_iterations=arguments.iterations,
        num_warmups=arguments.warmups,
        timeout_s=arguments.timeout,
        tolerance=arguments.tolerance,
        executor=arguments.executor,
        protocols=_names(arguments.protocols),
        graph=arguments.cuda_graph,
        min_ratio=arguments.min_ratio,
        retries=arguments.retries,
    )


def _note_rounding(request: Request, sizes: tuple[int, ...], note: Note) -> None:
    from topo.units import format_size

    whole = tuple(workload.num_bytes for workload in request.workloads)
    if whole != sizes:
        name = request.workloads[0].collective
        runs = listed([format_size(num_bytes) for num_bytes in whole])
        note(f"{name} gives every rank an equal part, so that sizes are rounded as by nccl-tests: {runs}")


def _place(
    arguments: RunArguments, place: Place | None, note: Note
) -> tuple[BackendName, Topology | Cluster | None, int]:
    """The backend, the machine to predict on (TOPOLOGY, this one for nccl, none for gloo), and the GPUs found here."""
    from validate.backends.gpus import num_gpus

    machine = None
    if arguments.topology is not None:
        where = TopologyArgument(arguments.topology, arguments.nodes, arguments.gpus, arguments.fabric)
        machine = where.load()
    if machine is None:
        _refuse_without_topology(arguments)
    if arguments.backend == "gloo":
        return "gloo", machine, 0
    found = num_gpus()
    if arguments.backend == "auto" and found < (1 if place else 2):
        return "gloo", machine, found
    if found < 1 and not (arguments.dry_run and machine is not None):
        raise EnvironmentMissing("torch finds no GPU, which --backend nccl needs: use --backend gloo")
    if machine is None and place is None:
        machine = _this_machine(note)
    return "nccl", machine, found


def _refuse_without_topology(arguments: RunArguments) -> None:
    """UsageError for options that say something of TOPOLOGY, where there is none."""
    import click

    if arguments.gpus is not None:
        raise click.UsageError("--gpus picks GPUs of TOPOLOGY: give one, or use --ranks and CUDA_VISIBLE_DEVICES")
    if arguments.fabric is not None or arguments.nodes > 1:
        raise click.UsageError("--nodes and --fabric repeat TOPOLOGY for the prediction: give one")


def _this_machine(note: Note) -> Topology | None:
    """This machine as it is discovered; None, with the reason noted, where its capture gives no topology."""
    from topo.capture import capture
    from topo.errors import TopoError
    from topo.reading import read_capture

    try:
        found, remark = read_capture(capture())
    except TopoError as error:
        note(f"nothing is predicted, since this machine is not understood: {error}")
        return None
    if remark:
        note(remark)
    return found


def _num_ranks(
    arguments: RunArguments, place: Place | None, machine: Topology | Cluster | None, num_gpus: int | None, note: Note
) -> int:
    """How many ranks run: as many as the launcher started, else the user's number, TOPOLOGY's, or one per GPU."""
    if place is not None:
        if arguments.ranks not in (None, place.num_ranks):
            started = counted(place.num_ranks, "process")
            raise MeasurementError(
                f"--ranks {arguments.ranks}, but {place.launcher} started {started}: leave --ranks out"
            )
        return place.num_ranks
    if arguments.ranks is not None:
        return arguments.ranks
    if arguments.topology is not None and machine is not None:
        return machine.num_ranks
    if num_gpus is None:
        return GLOO_RANKS_BY_DEFAULT
    if num_gpus > 1:
        return num_gpus
    why = _why_not_shared()
    if why:
        note(f"one GPU, one rank: {why}")
        return 1
    note("one GPU: two ranks share it (NCCL_MULTI_RANK_GPU_ENABLE=1); --ranks 1 measures one alone")
    return 2


def _why_not_shared() -> str:
    """Why NCCL cannot run several ranks on one GPU here; "" where it can."""
    from validate.backends.gpus import nccl_version

    version = nccl_version()
    if version >= MULTI_RANK_SINCE:
        return ""
    found = ".".join(map(str, version))
    return f"several ranks on one GPU need NCCL 2.30 or later ({MULTI_RANK}=1), torch has {found}"


def _multi_rank(num_ranks: int, num_gpus: int) -> dict[str, str]:
    """The variables that let several ranks share a GPU; EnvironmentMissing where NCCL is too old for that."""
    if num_ranks <= num_gpus:
        return {}
    why = _why_not_shared()
    if why:
        gpus = counted(num_gpus, "GPU")
        raise EnvironmentMissing(f"{counted(num_ranks, 'rank')} on {gpus}: {why}; use --ranks {num_gpus}")
    per_gpu = -(-num_ranks // num_gpus)
    return {MULTI_RANK: "1", **({"NCCL_MAX_CTAS": str(64 // per_gpu)} if per_gpu > 2 else {})}


def _first_ranks(
    machine: Topology | Cluster | None, num_ranks: int, note: Note, *, given: bool
) -> Topology | Cluster | None:
    """The machine's first ranks, where fewer are to run than it has; none where it was found here and has too few."""
    from topo.topology import Topology

    if not isinstance(machine, Topology):
        return machine
    if num_ranks < machine.num_ranks:
        return machine.take_ranks(range(num_ranks))
    if num_ranks > machine.num_ranks and not given:
        note(f"nothing is predicted: {counted(num_ranks, 'rank')} share {counted(machine.num_ranks, 'GPU')}")
        return None
    return machine


def _names(given: tuple[str, ...]) -> tuple[str, ...]:
    """The names of a list with commas, of repeated options, or of both; each once."""
    return tuple(dict.fromkeys(name.strip().lower() for text in given for name in text.split(",")))
