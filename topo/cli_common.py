"""What all commands share: the TOPOLOGY argument with its options, output options, tables, and notes on stderr."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    from topo.cluster import Cluster
    from topo.topology import Topology

Command = TypeVar("Command", bound=Callable[..., Any])
Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class TopologyArgument:
    """What the user said of a machine: the argument and its options, not loaded yet."""

    text: str
    nodes: int = 1
    gpus: str | None = None
    fabric: str | None = None

    def load(self) -> Topology | Cluster:
        """The machine, or the cluster that --nodes asks for."""
        from topo.load import load_topology

        return load_topology(self.text, nodes=self.nodes, gpus=self.gpus, fabric=self.fabric)


def topology_argument(command: Command) -> Command:
    """Gives a command TOPOLOGY, --nodes, --gpus and --fabric, as one parameter `topology: TopologyArgument`."""

    @wraps(command)
    def wrapped(*args: Any, topology: str, nodes: int, gpus: str | None, fabric: str | None, **rest: Any) -> Any:
        return command(*args, topology=TopologyArgument(topology, nodes, gpus, fabric), **rest)

    options = (
        click.argument("topology"),
        click.option("--nodes", type=click.IntRange(min=1), default=1, help="How often the node stands."),
        click.option("--gpus", metavar="LIST", help="GPUs that take part, such as 0-3,6 (default: all)."),
        click.option(
            "--fabric", metavar="TEXT", help="What joins the nodes, such as flat,latency=2us, rail or fat-tree:2."
        ),
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


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column: `title` with its unit for people, `key` for CSV, `spec` how a number is written for people."""

    title: str
    key: str
    spec: str = ".4g"

    def show(self, cell: Cell) -> str:
        """The cell as people read it."""
        if cell is None:
            return "-"
        return format(cell, self.spec) if isinstance(cell, float) else str(cell)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of plain cells with their columns; how it looks is decided when it is written."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""

    def csv(self) -> str:
        """RFC 4180 with the columns' keys as header and numbers in full."""
        import csv
        import io

        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([column.key for column in self.columns])
        writer.writerows([["" if cell is None else cell for cell in row] for row in self.rows])
        return text.getvalue()

    def markdown(self) -> str:
        """A table of GitHub's Markdown."""
        rows = [[cell.replace("|", "\\|") for cell in row] for row in self._shown()]
        titles = [column.title.replace("|", "\\|") for column in self.columns]
        rules = ["---:" if right else "---" for right in self._is_right()]
        return "".join(f"| {' | '.join(row)} |\n" for row in (titles, rules, *rows))

    def text(self, *, terminal: bool) -> str:
        """The table for people, in columns; bold and fitted to the width only where stdout is a terminal."""
        import io
        import sys

        from rich.console import Console
        from rich.table import Table as RichTable

        is_terminal = terminal and sys.stdout.isatty()
        table = RichTable(
            title=self.title or None, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0)
        )
        for column, right in zip(self.columns, self._is_right(), strict=True):
            table.add_column(column.title, justify="right" if right else "left", no_wrap=not is_terminal)
        for row in self._shown():
            table.add_row(*row)
        console = Console(
            file=io.StringIO(),
            force_terminal=is_terminal,
            no_color=not is_terminal,
            width=None if is_terminal else 10_000,
            highlight=False,
            markup=False,
            emoji=False,
        )
        with console.capture() as captured:
            console.print(table)
        return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())

    def _shown(self) -> list[list[str]]:
        return [[column.show(cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]

    def _is_right(self) -> list[bool]:
        """Columns that hold numbers and nothing else are set to the right."""
        return [all(not isinstance(cell, str) for cell in cells) for cells in zip(*self.rows, strict=True)] or [
            False for _ in self.columns
        ]


def note(sentence: str) -> None:
    """Says something to the user on stderr, apart from the data."""
    click.echo(f"topo: {sentence}", err=True)


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


def write_atomically(path: Path, text: str) -> None:
    """Writes a file whole or not at all: to a temporary one beside it, which then takes its name."""
    import os
    import tempfile

    temporary = None
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as stream:
            temporary = stream.name
            stream.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise click.UsageError(f"-o {path}: cannot be written ({error.strerror})") from None


def _apply(options: Sequence[Callable[[Any], Any]], command: Any, _like: Command) -> Command:
    """The command with all options, typed like `_like`, since click fills the parameters in."""
    for option in reversed(options):
        command = option(command)
    return cast("Command", command)
