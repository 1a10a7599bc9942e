"""`topo validate run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from sim.cli_options import size_options
from topo.cli_common import FABRIC_HELP, Output, Share, finite, note, output_options
from validate.cli_options import measuring_options, rank_options


@click.command("run", short_help="Measure here; predicted beside measured.")
@click.argument("topology", required=False)
@rank_options(1, 1024)
@click.option("--nodes", type=click.IntRange(min=1), default=1, help="How often TOPOLOGY stands, for the prediction.")
@click.option("--fabric", metavar="TEXT", help=FABRIC_HELP)
@click.option("--collective", default="all_reduce", show_default=True, help="Which collective.")
@click.option(
    "--algorithm",
    "algorithms",
    multiple=True,
    metavar="LIST",
    help="builtin (the library's own choice) and names such as ring,tree,nvls; default: all that run the collective.",
)
@click.option(
    "--executor",
    type=click.Choice(("auto", "builtin", "point-to-point")),
    default="auto",
    show_default=True,
    help="Who runs a named algorithm: NCCL, or torch's point-to-point messages; auto is NCCL where it has it.",
)
@click.option("--protocol", "protocols", multiple=True, metavar="LIST", help="Force NCCL's: ll, ll128, simple.")
@click.option("--cuda-graph", is_flag=True, help="Measure replays of a CUDA graph, without launches of kernels.")
@click.option("--chunks", type=click.IntRange(min=1), help="Pipeline chunks per tree or server.")
@measuring_options(
    iterations=20,
    warmups=5,
    timeout_s=300,
    tolerance=None,
    tolerance_help="Until LOW or HIGH (default 0.25; 0.15 beyond 16 MiB where a range is predicted).",
)
@click.option("--dtype", "-d", default="float32", show_default=True, help="Type of the elements.")
@click.option("--reduction", default="sum", show_default=True, help="sum, avg, min or max.")
@click.option(
    "--min-ratio",
    type=Share(0, 1, min_open=True),
    callback=finite,
    help="Health gate: LOW below this share of the predicted speed, such as 0.9; exit status 1.",
)
@click.option(
    "--retries", type=click.IntRange(0, 100), default=0, help="Measure LOW rows so often again (--min-ratio)."
)
@click.option("--profile", default="auto", show_default=True, help="For TOPOLOGY: auto, ideal, or a JSON file.")
@click.option("--dry-run", is_flag=True, help="Print the line that would start the processes, and start none.")
@size_options("1K", "4M", 16)
@output_options("table", "json", "csv", "md")
@click.pass_context
def run(context: click.Context, /, sizes: tuple[int, ...], output: Output, **given: Any) -> None:
    """Run collectives on real processes and print predicted beside measured.

    Without TOPOLOGY, gloo is predicted from point-to-point messages measured first, nccl from what discover finds.
    One process runs per GPU: started here, or by torchrun, srun or mpirun on many nodes, of which each starts this
    command. Exit status 1: a rank died or hung, a result is wrong, or TOPOLOGY or --min-ratio was given and a row is
    LOW. With -o the file is written anew after every size.
    """
    from validate.arguments import RunArguments, prepare
    from validate.cli_output import print_session, saver
    from validate.session import run_session
    from validate.status_line import status_line

    arguments = RunArguments(**given)
    prepared = prepare(arguments, sizes, note)
    if prepared.machine is None:
        refuse_unused(context, ("profile",), "without TOPOLOGY loopback is predicted from what is measured on it")
    if arguments.dry_run:
        output.write(prepared.line)
        return
    if prepared.is_member:
        context.exit(prepared.serve())
    with status_line() as line:
        session = run_session(
            prepared.request,
            prepared.machine,
            prepared.profile,
            tell=line.tell,
            save=saver(prepared.request, output),
            launcher=prepared.launcher,
        )
    context.exit(print_session(session, prepared.request, output, gates=prepared.gates))


def refuse_unused(context: click.Context, names: Sequence[str], why: str) -> None:
    """UsageError where the user gave one of these options (by their parameters' names), which then changes nothing."""
    given = [name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{options} would change nothing here: {why}", context)
