"""Options of `topo simulate` that draw its predictions: a page, a trace and plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from topo.cli_common import note, write_atomically
from topo.outputs import require_apart
from topo.words import counted

if TYPE_CHECKING:
    from sim.predict import Simulator
    from sim.prediction import Prediction
    from sim.series import Chart

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Drawings:
    """The files to draw, and the measurements to draw beside; None for what was not asked for."""

    page: Path | None = None
    trace: Path | None = None
    plot: Path | None = None
    measured: Path | None = None

    def check(self, output: Path | None) -> None:
        """Refuse what cannot be written, or would replace another file of this run, before anything is simulated."""
        written = (("--page", self.page), ("--trace", self.trace), ("--plot", self.plot))
        require_apart((*written, ("-o", output), ("--measured", self.measured)))
        for option, path in written:
            if path is not None and not path.parent.is_dir():
                raise click.UsageError(f"{option} {path}: there is no folder {path.parent}")
        if self.plot is not None:
            from sim.plot import plot_format

            plot_format(self.plot)
        if self.measured is not None and self.page is None and self.plot is None:
            raise click.UsageError(f"--measured {self.measured} is drawn on a page or a plot: add --page or --plot")

    def write(self, simulator: Simulator, predictions: Sequence[Prediction], names: Sequence[str]) -> None:
        """Draw the predictions, which were asked for by these names of algorithms, into all files or into none."""
        if self.page is None and self.trace is None and self.plot is None:
            return
        from sim.measured import read_measured
        from sim.series import size_charts

        workload, num_ranks = predictions[0].workload, simulator.machine.num_ranks
        measured = () if self.measured is None else read_measured(self.measured, workload, num_ranks)
        drawn: list[tuple[Path, str | bytes, str]] = []
        if self.page is not None:
            from sim.page.document import page

            drawn.append((self.page, page(simulator, predictions, names, measured), "--page"))
        if self.trace is not None:
            from sim.trace import trace

            text, notes = trace(simulator, predictions, names)
            drawn.append((self.trace, text, "--trace"))
            for sentence in notes:
                note(sentence)
        if self.plot is not None:
            title = f"{workload.collective} on {simulator.machine.name}, {counted(num_ranks, 'rank')}, simulated"
            drawn.append((self.plot, _plotted(self.plot, size_charts(predictions, measured, names), title), "--plot"))
        for path, content, option in drawn:
            write_atomically(path, content, option)


def write_plot(path: Path, charts: Sequence[Chart], title: str) -> None:
    """Plot charts into a file whose suffix says how."""
    write_atomically(path, _plotted(path, charts, title), "--plot")


def _plotted(path: Path, charts: Sequence[Chart], title: str) -> bytes:
    from sim.plot import plot, plot_format

    return plot(charts, title, plot_format(path))


def plot_option(over: str) -> Callable[[Command], Command]:
    """Gives a command --plot as `plot: Path | None`, checked; `over` says of what times are drawn."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def wrapped(*args: Any, plot: Path | None, **rest: Any) -> Any:
            Drawings(plot=plot).check(rest.get("output"))
            return command(*args, plot=plot, **rest)

        return _plot_option(f"Plot {over} (.png or .svg).")(wrapped)  # type: ignore[no-any-return]

    return decorate


def _plot_option(text: str) -> Callable[[Any], Any]:
    return click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help=text)


def drawing_options(command: Command) -> Command:
    """Gives a command --page, --trace, --plot and --measured, as one parameter `drawings: Drawings`, checked."""

    @wraps(command)
    def wrapped(
        *args: Any, page: Path | None, trace: Path | None, plot: Path | None, measured: Path | None, **rest: Any
    ) -> Any:
        drawings = Drawings(page, trace, plot, measured)
        drawings.check(rest.get("output"))
        return command(*args, drawings=drawings, **rest)

    to_file = click.Path(dir_okay=False, path_type=Path)
    for option in (
        click.option(
            "--measured",
            type=click.Path(dir_okay=False, exists=True, path_type=Path),
            metavar="FILE",
            help="Measurements to draw beside the simulated lines: nccl-tests, or what topo validate run writes.",
        ),
        _plot_option("Plot busbw and time over size (.png or .svg)."),
        click.option("--trace", type=to_file, metavar="FILE", help="Write the largest size as a trace for Perfetto."),
        click.option("--page", type=to_file, metavar="FILE", help="Write an HTML page that plays the largest size."),
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]
