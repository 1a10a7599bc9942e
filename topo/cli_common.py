"""What all commands share: the TOPOLOGY argument with its options, output options, tables, and notes on stderr."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from topo.errors import TopologyError
from topo.table import Cell, Column, Table
from topo.words import printable

if TYPE_CHECKING:
    from topo.cluster import Cluster
    from topo.topology import Topology

__all__ = [
    "FABRIC_HELP",
    "Cell",
    "Column",
    "Output",
    "Table",
    "TopologyArgument",
    "note",
    "output_file_option",
    "output_options",
    "print_data",
    "topology_argument",
    "write_atomically",
]

FABRIC_HELP = (
    "What joins the nodes: flat (one switch, the default), rail (a switch per NIC of a node) or fat-tree:RATIO (a "
    "switch per group of nodes, uplinks of its ports over RATIO). Each takes bandwidth and latency, fat-tree also "
    "nodes_per_leaf: flat,bandwidth=400Gb/s,latency=2us or fat-tree:2,nodes_per_leaf=16."
)

BYTES_PER_RANK = 25_000
"""What simulating a tree on 8,000 x 8 GPUs took for each, measured: schedules, routes and rates together."""

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class TopologyArgument:
    """What the user said of a machine: the argument and its options, not loaded yet."""

    text: str
    nodes: int = 1
    gpus: str | None = None
    fabric: str | None = None

    def load(self) -> Topology | Cluster:
        """As `load_any`, for what runs on it: TopologyError where it has no rank, or more than memory holds."""
        machine = self.load_any()
        if machine.num_ranks == 0:
            raise TopologyError(
                f"{self.text}: no GPU takes part (gpu_ids is empty), so no collective runs on it: give a capture that "
                "shows GPUs, or a preset"
            )
        refuse_too_large(f"--nodes {self.nodes}", self.nodes, machine.num_ranks)
        return machine

    def load_any(self) -> Topology | Cluster:
        """The machine, or the cluster that --nodes asks for; UsageError for a fabric that has nothing to join."""
        from topo.load import load_topology

        if self.fabric is not None and self.nodes == 1:
            raise click.UsageError(f"--fabric {self.fabric} joins nodes, and there is one: add --nodes 2 or more")
        return load_topology(self.text, nodes=self.nodes, gpus=self.gpus, fabric=self.fabric)


def topology_argument(command: Command) -> Command:
    """Gives a command TOPOLOGY, --nodes, --gpus and --fabric, as one parameter `topology: TopologyArgument`."""

    @wraps(command)
    def wrapped(*args: Any, topology: str, nodes: int, gpus: str | None, fabric: str | None, **rest: Any) -> Any:
        return command(*args, topology=TopologyArgument(topology, nodes, gpus, fabric), **rest)

    options = (
        click.argument("topology"),
        click.option("--nodes", type=click.IntRange(min=1), default=1, help="Number of such nodes."),
        click.option("--gpus", metavar="LIST", help="GPUs that take part, such as 0-3,6 (default: all)."),
        click.option("--fabric", metavar="TEXT", help=FABRIC_HELP),
    )
    return _apply(options, wrapped, command)


@dataclass(frozen=True, slots=True)
class Output:
    """Where the data goes and in which format."""

    format: str
    path: Path | None = None

    def write(self, text: str) -> None:
        """Writes to the file (whole or not at all), or to stdout."""
        if self.path is None:
            print_data(text)
        else:
            write_atomically(self.path, text)

    def emit(self, table: Table, document: Callable[[], str]) -> None:
        """Writes `document()` (a JSON text) where --format is json, else the table."""
        self.write(document() if self.format == "json" else self._render(table))

    def _render(self, table: Table) -> str:
        if self.format == "csv":
            return table.csv()
        if self.format == "md":
            return table.markdown()
        return table.text(terminal=self.path is None)


def output_options(*formats: str, default: str = "table") -> Callable[[Command], Command]:
    """Gives a command --format (of the given ones) and -o, as one parameter `output: Output`."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def wrapped(*args: Any, format_: str, output: Path | None, **rest: Any) -> Any:
            if output is not None and not output.parent.is_dir():
                raise click.UsageError(f"-o {output}: there is no folder {output.parent}")
            return command(*args, output=Output(format_, output), **rest)

        options = (
            click.option(
                "--format",
                "format_",
                type=click.Choice(formats),
                default=default,
                show_default=True,
                help="Output format.",
            ),
            output_file_option,
        )
        return _apply(options, wrapped, command)

    return decorate


output_file_option = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write there instead of to standard output.",
)


def refuse_too_large(what: str, num_nodes: int, num_ranks: int) -> None:
    """TopologyError, which begins with `what`, where that many ranks need more memory than this computer has."""
    needed, there = num_ranks * BYTES_PER_RANK, _memory_bytes()
    if needed > there:
        fitting = num_nodes * there // needed
        raise TopologyError(
            f"{what}: {num_ranks:,} ranks need about {needed / 2**30:,.1f} GiB, and this computer has "
            f"{there / 2**30:,.1f}: at most {fitting:,} nodes fit"
        )


def _memory_bytes() -> int:
    """The memory of this computer; without end where the system does not say."""
    import os
    import sys

    if not {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= getattr(os, "sysconf_names", {}).keys():
        return sys.maxsize
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def note(sentence: str) -> None:
    """Says something to the user on stderr, apart from the data."""
    click.echo(f"topo: {printable(sentence)}", err=True)


def print_data(text: str) -> None:
    """Writes data to stdout; that its reader (`| head`) has had enough is no error, and ends the command."""
    import os
    import sys

    try:
        click.echo(text, nl=False)
    except BrokenPipeError:
        # What is still buffered has nowhere to go: without this the interpreter would complain when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None


class Share(click.FloatRange):
    """A share of something: 0.05 and 5% are the same."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The share as a float within the range; what is no number is refused as click refuses it."""
        if isinstance(value, str) and value.endswith("%"):
            percents: Any = value[:-1]
            value = click.FLOAT.convert(percents, param, ctx) / 100
        return super().convert(value, param, ctx)


def finite(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """The value of an option; NaN lies in no range, though click lets it through."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is no number", context, option)
    return value


def write_atomically(path: Path, content: str | bytes, option: str = "-o") -> None:
    """Writes a regular file whole or not at all: to a temporary one beside it, which then takes its name and mode.

    `option` is what the user gave the path with. A link is followed. What is no regular file (a device, a pipe,
    `/dev/stdout`) is written into and never replaced.
    """
    import os
    import tempfile

    data = content.encode() if isinstance(content, str) else content
    temporary = None
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        target = path.resolve()
        with tempfile.NamedTemporaryFile("wb", dir=target.parent, delete=False) as stream:
            temporary = stream.name
            stream.write(data)
        os.chmod(temporary, _mode_of(target))
        os.replace(temporary, target)
    except (OSError, RuntimeError) as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        # Before Python 3.13 a circle of links is a RuntimeError.
        reason = error.strerror if isinstance(error, OSError) else "its links go in a circle"
        raise click.UsageError(f"{option} {path}: cannot be written ({reason})") from None


def _mode_of(path: Path) -> int:
    """The permissions of a file, or what a new one gets."""
    import os

    if path.exists():
        return path.stat().st_mode & 0o7777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _apply(options: Sequence[Callable[[Any], Any]], command: Any, _like: Command) -> Command:
    """The command with all options, typed like `_like`, since click fills the parameters in."""
    for option in reversed(options):
        command = option(command)
    return cast("Command", command)
