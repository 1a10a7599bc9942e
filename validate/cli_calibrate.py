"""`topo calibrate`."""

from __future__ import annotations

from pathlib import Path

import click

from topo.cli_common import Output, TopologyArgument, note, write_atomically


@click.command(short_help="Fit the profile to this machine's own measurements.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--topology", required=True, metavar="TOPOLOGY", help="The machine they were measured on.")
@click.option("--nodes", type=click.IntRange(min=1), default=1, help="How often the node stands.")
@click.option("--gpus", metavar="LIST", help="GPUs that took part, such as 0-3,6 (default: all).")
@click.option("--fabric", metavar="TEXT", help="What joins the nodes, as in topo simulate.")
@click.option("--name", help="What the profile is called (default: what the output file is called).")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the rows left out against the fit (.png, .svg).")
@click.option(
    "--format",
    "form",
    type=click.Choice(("table", "json", "csv", "md")),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Where the profile is written.")
def calibrate(
    files: tuple[Path, ...],
    topology: str,
    nodes: int,
    gpus: str | None,
    fabric: str | None,
    name: str | None,
    plot: Path | None,
    form: str,
    output: Path,
) -> None:
    """Fit the terms of the shipped profile to measurements of one machine, and write them as a profile.

    FILES are what nccl-tests prints (text, or JSON by -J), NCCL Inspector's lines, or what topo validate run writes.
    Three sizes are enough: a small one, one near 1 MiB, a large one. What they do not tell stays as shipped.
    """
    from topo.jsonio import encode
    from validate.calibrate import calibrate as fit_profile
    from validate.calibrate_report import charts_of, document_of, table_of
    from validate.documents import Hints, read_measurements

    machine = TopologyArgument(topology, nodes, gpus, fabric).load()
    sets = [read_measurements(path, Hints(machine_ranks=machine.num_ranks)) for path in files]
    found = fit_profile(sets, machine, name or output.stem, [line for one in sets for line in one.remarks])
    for sentence in (*found.remarks, *(line for one in sets for line in one.findings)):
        note(sentence)
    write_atomically(output, encode(found.profile, "profile/1"))
    if plot is not None:
        from sim.cli_drawings import write_plot

        write_plot(plot, charts_of(found), f"{found.profile.name}: measured over predicted")
    Output(form).emit(table_of(found), lambda: document_of(found))
