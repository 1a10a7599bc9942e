"""`topo validate`: measure, and hold predictions or other measurements against it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sim.cli_options import size_options
from topo.cli_common import Output, TopologyArgument, finite, note, output_options

if TYPE_CHECKING:
    from sim.profile import Profile
    from topo.cluster import Cluster
    from topo.topology import Topology
    from validate.jobs import BackendName

GLOO_RANKS_BY_DEFAULT = 4


@click.group()
def validate() -> None:
    """Measure collectives for real and compare with what is predicted."""


@validate.command("run", short_help="Measure here; predicted beside measured.")
@click.argument("topology", required=False)
@click.option(
    "--backend",
    type=click.Choice(("auto", "nccl", "gloo")),
    default="auto",
    show_default=True,
    help="nccl on GPUs, gloo on processors; auto is nccl where there are at least 2 GPUs.",
)
@click.option("--ranks", type=click.IntRange(2, 1024), help="How many ranks (default: TOPOLOGY's, all GPUs, or 4).")
@click.option("--gpus", metavar="LIST", help="GPUs of TOPOLOGY that take part, such as 0-3,6.")
@click.option("--collective", default="all_reduce", show_default=True, help="Which collective.")
@click.option(
    "--algorithm",
    "algorithms",
    multiple=True,
    metavar="LIST",
    help="builtin (the library's own) and names such as ring,tree; default: all that run the collective.",
)
@click.option("--chunks", type=click.IntRange(min=1), help="Pipeline chunks per tree or server.")
@click.option("-n", "--iterations", type=click.IntRange(min=1), default=20, show_default=True, help="Timed runs.")
@click.option("-w", "--warmups", type=click.IntRange(min=0), default=5, show_default=True, help="Runs before them.")
@click.option("--dtype", default="float32", show_default=True, help="Type of the elements.")
@click.option("--reduction", default="sum", show_default=True, help="sum, avg, min or max.")
@click.option(
    "--timeout",
    type=click.FloatRange(1, 1e6),
    callback=finite,
    default=300,
    show_default=True,
    help="Seconds for all of it.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 1e6),
    callback=finite,
    default=0.25,
    show_default=True,
    help="Until LOW or HIGH.",
)
@click.option("--profile", default="auto", show_default=True, help="For TOPOLOGY: auto, ideal, or a JSON file.")
@size_options("1K", "4M", 16)
@output_options("table", "json", "csv", "md")
@click.pass_context
def run(
    context: click.Context,
    topology: str | None,
    backend: str,
    ranks: int | None,
    gpus: str | None,
    collective: str,
    algorithms: tuple[str, ...],
    chunks: int | None,
    iterations: int,
    warmups: int,
    dtype: str,
    reduction: str,
    timeout: float,
    tolerance: float,
    profile: str,
    sizes: tuple[int, ...],
    output: Output,
) -> None:
    """Run collectives on processes of this machine and print predicted beside measured.

    Without TOPOLOGY, gloo is predicted from point-to-point messages measured first, nccl from what discover finds.
    Exit status 1: a rank died or hung, a result is wrong, or TOPOLOGY was given and a row is LOW.
    """
    from sim.collective import collective as collective_of
    from topo.units import format_size
    from validate.cli_output import print_session
    from validate.session import Request, algorithms_for, run_session, workloads_of
    from validate.status_line import status_line
    from validate.words import listed

    chosen, machine = _place(topology, gpus, backend)
    name = collective_of(collective).name
    num_ranks = ranks or (machine.num_ranks if machine else GLOO_RANKS_BY_DEFAULT)
    workloads = workloads_of(name, sizes, dtype, reduction, num_ranks)
    whole = tuple(workload.num_bytes for workload in workloads)
    if whole != sizes:
        runs = listed([format_size(num_bytes) for num_bytes in whole])
        note(f"{name} gives every rank an equal part, so that sizes are rounded as by nccl-tests: {runs}")
    request = Request(
        backend=chosen,
        num_ranks=num_ranks,
        workloads=workloads,
        algorithms=algorithms_for(name) if algorithms in ((), ("all",)) else _names(algorithms),
        num_chunks=chunks,
        num_iterations=iterations,
        num_warmups=warmups,
        timeout_s=timeout,
        tolerance=tolerance,
    )
    machine = _first_ranks(machine, request.num_ranks)
    with status_line() as line:
        session = run_session(request, machine, _profile(profile, machine), tell=line.tell)
    context.exit(print_session(session, request, output, gates=topology is not None))


@validate.command("compare", short_help="Measured against predicted, or before and after.")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path), required=False)
@click.option("--topology", metavar="TOPOLOGY", help="Compare FILE with what is predicted on this machine.")
@click.option("--nodes", type=click.IntRange(min=1), default=1, help="How often the node stands.")
@click.option("--gpus", metavar="LIST", help="GPUs that took part, such as 0-3,6 (default: all).")
@click.option("--fabric", metavar="TEXT", help="What joins the nodes, as in topo simulate.")
@click.option("--profile", default="auto", show_default=True, help="auto, ideal, nccl-constants, or a JSON file.")
@click.option("--algorithm", help="Predict this algorithm (default: as measured; auto where the library chose).")
@click.option("--collective", help="Where FILE does not name its collective.")
@click.option(
    "--ranks", type=click.IntRange(min=1), help="Where FILE does not say how many ranks ran, or lists too few."
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 1e6),
    callback=finite,
    help="Until LOW (default 0.25) or a change (default 0.05).",
)
@output_options("table", "json", "csv", "md")
@click.pass_context
def compare_files(
    context: click.Context,
    file: Path,
    after: Path | None,
    topology: str | None,
    nodes: int,
    gpus: str | None,
    fabric: str | None,
    profile: str,
    algorithm: str | None,
    collective: str | None,
    ranks: int | None,
    tolerance: float | None,
    output: Output,
) -> None:
    """Compare a measurement with a prediction, or with a later measurement.

    FILE is what nccl-tests printed (or wrote with -J), a measurement/1 document, or what topo validate run wrote.
    With --topology it is held against the prediction, with AFTER against that. Exit status 1: a row is LOW or SLOWER.
    """
    from validate.cli_output import print_changes, print_comparison
    from validate.documents import Hints

    if (after is None) == (topology is None):
        raise click.UsageError("give FILE with --topology TOPOLOGY, or two files BEFORE AFTER")
    if after is not None:
        context.exit(print_changes(file, after, Hints(collective, ranks), tolerance, output))
    machine = TopologyArgument(topology or "", nodes, gpus, fabric).load()
    hints = Hints(collective, ranks, machine.num_ranks)
    context.exit(print_comparison(file, hints, machine, _profile(profile, machine), algorithm, tolerance, output))


def _place(topology: str | None, gpus: str | None, backend: str) -> tuple[BackendName, Topology | Cluster | None]:
    """The backend, and the machine to predict on: TOPOLOGY, this one for nccl, none for gloo."""
    from validate.backends.gpus import num_gpus
    from validate.launch import require_torch

    require_torch()
    machine = TopologyArgument(topology, gpus=gpus).load() if topology is not None else None
    if gpus is not None and topology is None:
        raise click.UsageError("--gpus picks GPUs of TOPOLOGY: give one, or use --ranks and CUDA_VISIBLE_DEVICES")
    if backend == "gloo":
        return "gloo", machine
    found = num_gpus()
    if backend == "auto" and found < 2:
        return "gloo", machine
    return "nccl", machine or _this_machine(found)


def _this_machine(num_gpus: int) -> Topology:
    from topo.capture import capture
    from topo.errors import EnvironmentMissing
    from topo.load import read_capture

    if num_gpus < 1:
        raise EnvironmentMissing("torch finds no GPU, which --backend nccl needs: use --backend gloo")
    found, remark = read_capture(capture())
    if remark:
        note(remark)
    return found


def _first_ranks(machine: Topology | Cluster | None, num_ranks: int) -> Topology | Cluster | None:
    """The machine's first ranks, where fewer are to run than it has."""
    from topo.topology import Topology

    if isinstance(machine, Topology) and num_ranks < machine.num_ranks:
        return machine.take_ranks(range(num_ranks))
    return machine


def _names(given: tuple[str, ...]) -> tuple[str, ...]:
    """The algorithms of a list with commas, of repeated options, or of both; each once."""
    return tuple(dict.fromkeys(name.strip() for text in given for name in text.split(",")))


def _profile(text: str, machine: Topology | Cluster | None) -> Profile | None:
    from sim.profile import load_profile

    return None if machine is None else load_profile(text, machine)
