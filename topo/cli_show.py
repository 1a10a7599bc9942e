"""`topo show` and `topo presets`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from topo.cli_common import (
    Column,
    Output,
    Table,
    TopologyArgument,
    note,
    output_file_option,
    output_options,
    topology_argument,
)
from topo.writers import SUFFIXES, WRITERS

if TYPE_CHECKING:
    from topo.topology import Topology


@click.command()
@topology_argument
@click.option("--as", "form", type=click.Choice(tuple(WRITERS)), help="Form (default: by the suffix of -o, else text).")
@output_file_option
def show(topology: TopologyArgument, form: str | None, output: Path | None) -> None:
    """Draw a topology, or write it in another form.

    matrix is what nvidia-smi topo -m prints, affinity how far each GPU is from its NICs, json our own document,
    nccl-xml the file that NCCL_TOPO_FILE names, nccl-xml-vm the same without GPUs and NICs (a virtual machine has its
    own), dot a Graphviz graph, svg a picture. A form follows from the suffix of -o, too: -o machine.svg.
    """
    from topo.writers import write

    chosen = form or _form_of(output)
    Output(chosen, output).write(write(_as_one(topology), chosen))


@click.command(short_help="List the machines that are known by name.")
@output_options("table", "json", "csv", "md")
def presets(output: Output) -> None:
    """List the machines that are known by name, to be given instead of a capture.

    In the descriptions 8x400 Gb/s are 8 NICs of 400 Gb/s each, and NV4 are 4 NVLinks.
    """
    from topo import jsonio
    from topo.presets import PRESETS

    rows = tuple((name, known.num_ranks, known.description) for name, known in PRESETS.items())
    columns = (Column("preset", "preset"), Column("GPUs", "num_gpus"), Column("description", "description"))
    table = Table(columns, rows)
    output.emit(table, lambda: jsonio.encode_rows("presets/1", [column.key for column in columns], rows))


def _form_of(output: Path | None) -> str:
    """The form that a file's suffix asks for: text where there is none, UsageError where no form has it."""
    if output is None or not output.suffix:
        return "text"
    form = SUFFIXES.get(output.suffix.lower())
    if form is None:
        known = ", ".join(f"{suffix} ({known})" for suffix, known in SUFFIXES.items())
        raise click.UsageError(f"-o {output}: no form has the suffix {output.suffix}: give --as, or one of {known}")
    return form


def _as_one(argument: TopologyArgument) -> Topology:
    """The machine; a cluster is written out, device by device."""
    from topo.topology import Topology

    loaded = argument.load_any()
    if isinstance(loaded, Topology):
        return loaded
    explicit = loaded.explicit()
    note(f"{loaded.name} written out as {len(explicit.devices)} devices")
    return explicit
