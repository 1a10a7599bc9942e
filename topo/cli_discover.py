"""`topo discover`: this machine, or what was captured on one, as a topology."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from topo.cli_common import Output, note, output_options

if TYPE_CHECKING:
    from topo.topology import Topology


@click.command()
@click.option(
    "--from", "sources", multiple=True, metavar="PATH", help="Read captures instead (repeatable; - is stdin)."
)
@click.option(
    "--save-capture",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the raw texts of this machine in a new folder, to be read later with --from.",
)
@output_options("table", "json")
def discover(sources: tuple[str, ...], save_capture: Path | None, output: Output) -> None:
    """Find out the topology of this machine, or of captures.

    All that nvidia-smi, NVML, lspci, rocm-smi and /sys tell is put together; what contradicts itself is said, with both
    sources, and captures of different machines are refused. A machine without GPUs gives its processors and NICs, with
    one CPU process per core as ranks. --format json prints what `topo show --as json` prints.
    """
    from topo.writers import write

    if sources and save_capture:
        raise click.UsageError("--save-capture keeps this machine's texts, --from reads others: give one of them")
    topology = _from_captures(sources) if sources else _this_machine(save_capture)
    output.write(write(topology, "json" if output.format == "json" else "text"))


def _from_captures(sources: tuple[str, ...]) -> Topology:
    from topo.reading import read_paths

    return read_paths(sources)


def _this_machine(save_capture: Path | None) -> Topology:
    """Captured, kept if asked to, and only then read."""
    from topo.capture import capture, save
    from topo.reading import read_capture

    captured = capture()
    if save_capture is not None:
        save(captured, save_capture)
        note(f"raw texts kept in {save_capture}")
    topology, remark = read_capture(captured)
    if remark:
        note(remark)
    return topology
