"""`topo simulate`."""

from __future__ import annotations

import click

from sim.cli_drawings import Drawings, drawing_options
from sim.cli_options import algorithm_option, planner_options, profile_option, size_options, with_progress
from topo.cli_common import Output, TopologyArgument, note, output_options, topology_argument


@click.command(short_help="Predict what a collective costs, and what limits it.")
@topology_argument
@click.option("--collective", default="all_reduce", show_default=True, help="Which collective.")
@algorithm_option
@planner_options
@click.option("--channels", type=int, help="How many channels (default: as the planner says).")
@click.option(
    "--chunks", type=int, help="Pipeline chunks per tree or server (default: as the planner says, 1 for servers)."
)
@click.option("--server", metavar="LIST", help="Servers of parameter-server: host, or GPUs such as 0,1 (default 0).")
@click.option(
    "--engine",
    default="auto",
    show_default=True,
    help="event (every transfer), steady (for scale), kernels (what NCCL launches), or auto.",
)
@profile_option
@click.option("--dtype", default="float32", show_default=True, help="Type of the elements.")
@size_options("1K", "1G", 4)
@drawing_options
@output_options("table", "json", "csv", "md")
def simulate(
    topology: TopologyArgument,
    collective: str,
    algorithm: str,
    planner: str,
    protocol: str | None,
    environment: tuple[tuple[str, str], ...],
    channels: int | None,
    chunks: int | None,
    server: str | None,
    engine: str,
    profile: str,
    dtype: str,
    sizes: tuple[int, ...],
    drawings: Drawings,
    output: Output,
) -> None:
    """Predict what a collective costs on TOPOLOGY, per size and algorithm, and name the link that limits it.

    Times are simulated, never measured. busbw is nccl-tests' bus bandwidth; wire is what the limiting link carried.
    """
    from sim.collective import collective as find_collective
    from sim.planners.options import Options
    from sim.predict import Simulator
    from sim.profile import load_profile
    from sim.report import notes_before, notes_on, refuse_chunks_without_effect, report_json, report_table
    from sim.workload import Workload

    machine = topology.load()
    collective = find_collective(collective).name
    workloads = [Workload(collective, num_bytes, dtype) for num_bytes in sizes]
    options = Options(channels, chunks, server, protocol, environment)
    simulator = Simulator(machine, load_profile(profile, machine), options, engine, planner)
    names = simulator.names(algorithm, workloads[0])
    refuse_chunks_without_effect(chunks, names, collective)
    todo = [(workload, name) for workload in workloads for name in names]
    for sentence in notes_before(simulator, names, collective):
        note(sentence)
    predictions = [simulator.run(*what) for what in with_progress(todo, "simulated")]
    for sentence in notes_on(simulator, predictions):
        note(sentence)
    drawings.write(simulator, predictions, [name for _, name in todo])
    output.emit(report_table(simulator, predictions), lambda: report_json(simulator, predictions))
