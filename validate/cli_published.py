"""`topo validate published`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from topo.cli_common import Output, note, output_options, write_atomically
from topo.outputs import require_apart
from validate.cli_options import published_options

if TYPE_CHECKING:
    from validate.published.cases import Cases
    from validate.scoring.score import Scores

FINDING = 1


def _svg_file(_context: click.Context, _option: click.Parameter, plot: Path | None) -> Path | None:
    """The file to draw to; UsageError, before anything is predicted, where its name or folder is none for a picture."""
    if plot is None:
        return None
    if plot.suffix.lower() != ".svg":
        raise click.UsageError(f"--plot {plot}: the picture is written as SVG, use a name that ends in .svg")
    if not plot.parent.is_dir():
        raise click.UsageError(f"--plot {plot}: there is no folder {plot.parent}")
    return plot


@click.command(short_help="Predicted against hundreds of published runs.")
@published_options
@click.option(
    "--fit",
    type=click.Choice(("none", "overhead", "three")),
    default="none",
    show_default=True,
    help="What each model may see of a run: nothing, its smallest size, or its smallest, 1 MiB and largest.",
)
@click.option(
    "--quality",
    type=click.Choice(("healthy", "degraded", "unknown", "all")),
    default="healthy",
    show_default=True,
    help="Which runs count, by their curator's judgement.",
)
@click.option("--model", default=None, metavar="NAME", help="What is scored, such as nccl (default: the calibrated).")
@click.option(
    "--cross-validate", is_flag=True, help="Predict each class of machines with what the other classes teach alone."
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    callback=_svg_file,
    help="Draw predicted against measured, as SVG.",
)
@output_options("table", "json", "csv", "md")
@click.pass_context
def published(
    context: click.Context,
    data: Path | None,
    machines: Path | None,
    fit: str,
    quality: str,
    model: str | None,
    cross_validate: bool,
    plot: Path | None,
    output: Output,
) -> None:
    """Predict published runs of real machines and say how far off each size, collective and class of machine is.

    NCCL's own estimate and the textbook's formula stand beside. Rows that a fit used are never scored. A run that
    cannot be trusted is set aside with the reason. Exit status 1: something was set aside.
    """
    from sim.cli_options import with_progress
    from validate.scoring.front import load, num_known, score_all

    require_apart((("--plot", plot), ("-o", output.path)))
    found = load(data, machines, quality)
    for remark in found.remarks:
        note(remark)
    scores = score_all(found, model, fit, cross_validate, lambda cases: with_progress(cases, "predicting runs"))
    if plot is not None:
        from validate.scoring.plot import render

        write_atomically(plot, render(scores), "--plot")
    _print(scores, found, quality, output)
    if not cross_validate and (known := num_known(found, model)):
        note(
            f"{scores.ours} was fitted to {known} of these {len(scores.runs)} runs: "
            "--cross-validate says how far off it is on machines that it never saw"
        )
    for row in found.set_aside:
        note(f"set aside: {row.run}: {row.reason}")
    if found.set_aside:
        context.exit(FINDING)


def _print(scores: Scores, found: Cases, quality: str, output: Output) -> None:
    from validate.scoring import report

    if output.format == "json":
        output.write(report.document(scores, found.set_aside, found.remarks, quality))
    elif output.format == "csv":
        output.write(report.rows_table(scores).csv())
    elif output.format == "md":
        output.write(report.markdown(scores))
    else:
        output.write(report.text(scores, terminal=output.path is None))
