"""`topo calibrate`."""

from __future__ import annotations

from pathlib import Path

import click

from topo.cli_common import Output, TopologyArgument, note, write_atomically


@click.command(short_help="Fit the profile to this machine's own measurements.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--topology", required=True, metavar="TOPOLOGY", help="The machine they were measured on.")
@click.option("--nodes", type=click.IntRange(min=1), default=1, help="Number of such nodes.")
@click.option("--gpus", metavar="LIST", help="GPUs that took part, such as 0-3,6 (default: all).")
@click.option("--fabric", metavar="TEXT", help="What joins the nodes, as in topo simulate.")
@click.option("--collective", help="Where a file does not name its collective.")
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
    collective: str | None,
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

    called = _checked_name(name, output)
    _check_files(files, topology, plot, output)
    machine = TopologyArgument(topology, nodes, gpus, fabric).load()
    hints = Hints(collective, machine_ranks=machine.num_ranks)
    sets = [read_measurements(path, hints) for path in files]
    found = fit_profile(sets, machine, called, [line for one in sets for line in one.remarks])
    for sentence in (*found.remarks, *(line for one in sets for line in one.findings)):
        note(sentence)
    if plot is not None:
        from sim.cli_drawings import write_plot

        write_plot(plot, charts_of(found), f"{found.profile.name}: measured over predicted")
    write_atomically(output, encode(found.profile, "profile/1"))
    Output(form).emit(table_of(found), lambda: document_of(found))


def _checked_name(name: str | None, output: Path) -> str:
    """What the profile is called; a name of a built-in profile would be read for that one."""
    from sim.profile import PROFILES

    called = name or output.stem
    if called in PROFILES:
        told = "" if name else f" (from -o {output})"
        raise click.UsageError(f"--name {called}{told}: a built-in profile is called so, give another --name")
    return called


def _check_files(files: tuple[Path, ...], topology: str, plot: Path | None, output: Path) -> None:
    """Refuse what would count a file twice or write over what is read, before anything is read or written."""
    from sim.cli_drawings import Drawings

    read = [path.resolve() for path in files]
    for place, path in enumerate(files):
        if read[place] in read[:place]:
            raise click.UsageError(f"{path} is given twice: its rows would count twice, name each file once")
    for option, target in (("-o", output), ("--plot", plot)):
        if target is not None and target.resolve() in (*read, Path(topology).resolve()):
            raise click.UsageError(f"{option} {target}: is one of the files that are read, choose another")
    if plot is not None and plot.resolve() == output.resolve():
        raise click.UsageError(f"--plot {plot}: the profile is written there, choose another")
    if not output.parent.is_dir():
        raise click.UsageError(f"-o {output}: there is no folder {output.parent}")
    Drawings(plot=plot).check(output)
