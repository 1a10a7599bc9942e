"""`topo what-if`."""

from __future__ import annotations

from pathlib import Path

import click

from sim.cli_drawings import plot_option, write_plot
from sim.cli_options import algorithm_option, planner_options, profile_option, size_options, with_progress
from topo.change_verbs import VERBS
from topo.cli_common import Output, TopologyArgument, note, output_options, topology_argument

_VERBS = (f"  {verb.usage}" for verb in VERBS.values())
CHANGES = "\n".join(("\b", "Changes, several in one with `;` between them:", *_VERBS))


@click.command("what-if", short_help="What a change of the machine or the run would cost or gain.", epilog=CHANGES)
@topology_argument
@click.option("--change", "changes", multiple=True, required=True, metavar="TEXT", help="What changes; repeatable.")
@click.option("--cumulative", is_flag=True, help="Each change comes on top of those before it.")
@click.option("--collective", default="all_reduce", show_default=True, help="Which collective.")
@algorithm_option
@planner_options
@click.option("--channels", type=int, help="How many channels (default: as the planner says).")
@click.option("--chunks", type=int, help="Pipeline chunks per tree or server (default: as the planner says).")
@click.option("--engine", default="auto", show_default=True, help="event, steady, kernels or auto.")
@profile_option
@click.option("--dtype", default="float32", show_default=True, help="Type of the elements.")
@size_options("1M", "1G", 1024)
@plot_option("busbw and time over nodes, for a change that counts them")
@output_options("table", "json", "csv", "md")
def what_if(
    topology: TopologyArgument,
    changes: tuple[str, ...],
    cumulative: bool,
    collective: str,
    algorithm: str,
    planner: str,
    protocol: str | None,
    environment: tuple[tuple[str, str], ...],
    channels: int | None,
    chunks: int | None,
    engine: str,
    profile: str,
    dtype: str,
    sizes: tuple[int, ...],
    plot: Path | None,
    output: Output,
) -> None:
    """Set TOPOLOGY beside what becomes of it by each --change: time, busbw, algorithm and limiting link.

    Times are simulated, never measured. Parts are named as `topo show` names them: a link as GPU0-GPU1, a kind as
    nvlink, pcie or nic, a device as mlx5_0; in a cluster a change is one of every node.
    """
    from sim.cases import Case
    from sim.collective import collective as find_collective
    from sim.planners.options import Options
    from sim.report import notes_before
    from sim.what_if import made_ready, outcomes, variants
    from sim.what_if_report import plan_notes, what_if_json, what_if_notes, what_if_table
    from sim.workload import Workload

    collective = find_collective(collective).name
    workloads = [Workload(collective, num_bytes, dtype) for num_bytes in sizes]
    base = Case(topology.load(), Options(channels, chunks, None, protocol, environment), algorithm)
    cases = made_ready(variants(base, changes, cumulative=cumulative), workloads[0], profile, engine, planner)
    for sentence in (*notes_before(cases[0].simulator, cases[0].names, collective), *plan_notes(cases)):
        note(sentence)
    rows = outcomes(cases, with_progress(workloads, "sizes priced"))
    for sentence in what_if_notes(rows):
        note(sentence)
    if plot is not None:
        from sim.what_if_chart import node_charts

        write_plot(plot, node_charts(rows), f"{collective} on {topology.text}, simulated")
    output.emit(what_if_table(rows), lambda: what_if_json(rows))
