"""`topo simulate`."""

from __future__ import annotations

import click

from sim.cli_options import size_options, with_progress
from topo.cli_common import Output, TopologyArgument, note, output_options, topology_argument


@click.command(short_help="Predict what a collective costs, and what limits it.")
@topology_argument
@click.option("--collective", default="all_reduce", show_default=True, help="Which collective.")
@click.option(
    "--algorithm",
    default="auto",
    show_default=True,
    metavar="LIST",
    help="auto (the faster of ring and tree), all, or names such as ring,tree,parameter-server.",
)
@click.option("--channels", type=int, help="How many channels (default: as the topology has room).")
@click.option(
    "--chunks", type=int, help="Pipeline chunks per tree or server (default: balanced for trees, 1 for servers)."
)
@click.option("--server", metavar="LIST", help="Servers of parameter-server: host, or GPUs such as 0,1 (default 0).")
@click.option(
    "--engine",
    default="auto",
    show_default=True,
    help="event (every transfer), steady (for scale), or auto: event while there are few transfers.",
)
@click.option("--profile", default="auto", show_default=True, help="auto, ideal, nccl-constants, or a JSON file.")
@click.option("--dtype", default="float32", show_default=True, help="Type of the elements.")
@size_options("1K", "1G", 8)
@output_options("table", "json", "csv", "md")
def simulate(
    topology: TopologyArgument,
    collective: str,
    algorithm: str,
    channels: int | None,
    chunks: int | None,
    server: str | None,
    engine: str,
    profile: str,
    dtype: str,
    sizes: tuple[int, ...],
    output: Output,
) -> None:
    """Predict what a collective costs on TOPOLOGY, per size and algorithm, and name the link that limits it.

    Times are simulated, never measured. busbw is nccl-tests' bus bandwidth; wire is what the limiting link carried.
    """
    from sim.planners.topology import Options
    from sim.predict import Simulator
    from sim.profile import load_profile
    from sim.report import names_to_run, report_json, report_table
    from sim.workload import Workload

    machine = topology.load()
    workloads = [Workload(collective, num_bytes, dtype) for num_bytes in sizes]
    simulator = Simulator(machine, load_profile(profile, machine), Options(channels, chunks, server), engine)
    todo = [(workload, name) for workload in workloads for name in names_to_run(algorithm, collective)]
    if algorithm == "auto":
        note("auto takes the faster simulated of ring and tree; what a library would choose is not asked")
    predictions = [simulator.run(*what) for what in with_progress(todo, "simulated")]
    output.emit(report_table(simulator, predictions), lambda: report_json(simulator, predictions))
