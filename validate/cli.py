"""`topo validate`: measure, and hold predictions or other measurements against it."""

from __future__ import annotations

from pathlib import Path

import click

from topo.cli_common import Output, Share, TopologyArgument, finite, output_options
from validate.cli_bisect import bisect
from validate.cli_ddp import ddp
from validate.cli_lab import lab
from validate.cli_published import published
from validate.cli_run import refuse_unused, run
from validate.cli_verdicts import verdicts


@click.group()
def validate() -> None:
    """Measure collectives for real and compare with what is predicted."""


validate.add_command(run)
validate.add_command(published)
validate.add_command(lab)
validate.add_command(bisect)
validate.add_command(ddp)
validate.add_command(verdicts)


@validate.command("compare", short_help="Measured against predicted, or before and after.")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path), required=False)
@click.option("--topology", metavar="TOPOLOGY", help="Compare FILE with what is predicted on this machine.")
@click.option("--nodes", type=click.IntRange(min=1), default=1, help="Number of such nodes.")
@click.option("--gpus", metavar="LIST", help="GPUs that took part, such as 0-3,6 (default: all).")
@click.option("--fabric", metavar="TEXT", help="What joins the nodes, as in topo simulate.")
@click.option("--profile", default="auto", show_default=True, help="As in topo simulate.")
@click.option("--algorithm", help="Predict this algorithm (default: as measured; auto where the library chose).")
@click.option("--collective", help="Where FILE does not name its collective.")
@click.option(
    "--ranks", type=click.IntRange(min=1), help="Where FILE does not say how many ranks ran, or lists too few."
)
@click.option(
    "--tolerance",
    type=Share(0, 1e6),
    callback=finite,
    help="Until LOW (default 0.25; 0.15 beyond 16 MiB where a range is predicted) or a change (default 0.05).",
)
@click.option(
    "--min-ratio",
    type=Share(0, 1, min_open=True),
    callback=finite,
    help="LOW below this share of the predicted speed, in place of --tolerance.",
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
    min_ratio: float | None,
    output: Output,
) -> None:
    """Compare a measurement with a prediction, or with a later measurement.

    FILE is what nccl-tests printed (or wrote with -J), records of NCCL's Inspector, a measurement/1 document, or what
    topo validate run wrote. With --topology it is held against the prediction, with AFTER against that. Exit status 1:
    a row is LOW or SLOWER.
    """
    from sim.profile import load_profile
    from validate.cli_output import Against, print_changes, print_comparison
    from validate.documents import Hints

    if (after is None) == (topology is None):
        raise click.UsageError("give FILE with --topology TOPOLOGY, or two files BEFORE AFTER")
    if after is not None:
        refuse_unused(
            context, ("nodes", "gpus", "fabric", "profile", "algorithm", "min_ratio"), "AFTER predicts nothing"
        )
        context.exit(print_changes(file, after, Hints(collective, ranks), tolerance, output))
    machine = TopologyArgument(topology or "", nodes, gpus, fabric).load()
    hints = Hints(collective, ranks, machine.num_ranks)
    against = Against(machine, load_profile(profile, machine), algorithm, tolerance, min_ratio)
    context.exit(print_comparison(file, hints, against, output))
