"""`topo plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sim.cli_options import planner_options, size_options
from topo.cli_common import Output, TopologyArgument, note, output_options, topology_argument
from topo.outputs import require_apart

if TYPE_CHECKING:
    from sim.plan_report import PlanReport

DIFFERENCE = 1


@click.command(short_help="What NCCL builds on a machine, what it chooses, and why.")
@topology_argument
@click.option("--collective", default="all_reduce", show_default=True, help="Which collective.")
@click.option("--dtype", default="float32", show_default=True, help="Type of the elements.")
@planner_options
@size_options("8", "8G", 2)
@click.option("--explain", "explained", metavar="SIZES", help="Say why, for a size such as 1M or several.")
@click.option("--check", "log", metavar="LOG", help="Compare with a log of NCCL_DEBUG=INFO; `-` is standard input.")
@click.option(
    "--graph-xml",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the graphs there, as NCCL_GRAPH_FILE reads them.",
)
@output_options("table", "json", "csv", "md")
@click.pass_context
def plan(
    context: click.Context,
    topology: TopologyArgument,
    collective: str,
    dtype: str,
    planner: str,
    protocol: str | None,
    environment: tuple[tuple[str, str], ...],
    sizes: tuple[int, ...],
    explained: str | None,
    log: str | None,
    graph_xml: Path | None,
    output: Output,
) -> None:
    """Rebuild what NCCL 2.30 does on TOPOLOGY: its graphs, channels, rings and trees, and its choice for every size.

    Estimates are NCCL's own, neither measured nor simulated. Exit status 1: --check found a difference.
    """
    from sim.plan_front import Asked, make_plan

    require_apart((("--graph-xml", graph_xml), ("-o", output.path)))
    asked = Asked(collective, dtype, planner, protocol, environment, sizes, explained, log)
    if output.format in ("csv", "md") and (explained or log):
        raise click.UsageError(f"--format {output.format} is the table of choices: use table or json")
    report = make_plan(topology, asked, note)
    if graph_xml is not None:
        _write_graphs(report, graph_xml)
    _print(report, output)
    if report.check is not None and report.check.differences:
        context.exit(DIFFERENCE)


def _print(report: PlanReport, output: Output) -> None:
    from sim.plan_report import choices_table, explanation_text, plan_json, plan_text

    if output.format != "table":
        output.emit(choices_table(report), lambda: plan_json(report))
        return
    if report.check is None and not report.explanations:
        output.write(plan_text(report))
        return
    parts = [explanation_text(row) for row in report.explanations]
    if report.check is not None:
        parts.append(report.check.text)
    output.write("\n".join(parts))


def _write_graphs(report: PlanReport, path: Path) -> None:
    from sim.planners.nccl_2_30.graph_file import graph_file
    from topo.cli_common import write_atomically
    from topo.writers.nccl_graph import render

    wiring = report.plan.wiring
    if len(wiring.domains) > 1:
        note(
            f"{path} holds the graphs of the first of {len(wiring.domains)} parts into which NCCL splits this machine, "
            "but NCCL reads one file on all of them"
        )
    write_atomically(path, render(graph_file(wiring)), "--graph-xml")
