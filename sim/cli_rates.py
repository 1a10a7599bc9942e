"""`topo rates`."""

from __future__ import annotations

import click

from sim.cli_options import profile_option
from topo.cli_common import Output, TopologyArgument, output_options, topology_argument


@click.command(short_help="Show what links carry: nominal, as NCCL counts, calibrated.")
@topology_argument
@profile_option
@output_options("table", "json", "csv", "md")
def rates(topology: TopologyArgument, profile: str, output: Output) -> None:
    """Show what each kind of link of TOPOLOGY carries, in one direction, three times.

    Nominal is the rate of the hardware, "NCCL counts" what NCCL's planner reckons with, calibrated what data gets under
    the profile: by default fitted to published runs, or to your own (topo calibrate). None of the three is measured
    here.
    """
    from sim.profile import load_profile
    from sim.rates import rates as rates_of
    from sim.rates import rates_table
    from topo.jsonio import encode_document

    machine = topology.load()
    found = load_profile(profile, machine)
    rows = rates_of(machine, found)
    output.emit(
        rates_table(rows, machine, found),
        lambda: encode_document("rates/1", {"topology": machine.name, "profile": found.name, "rows": rows}),
    )
