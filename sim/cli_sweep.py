"""`topo sweep`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from topo.cli_common import note
from topo.errors import TopoError
from topo.words import counted

if TYPE_CHECKING:
    from sim.sweep import Progress
    from sim.sweep_spec import Spec
    from sim.sweep_workers import Workers

EXIT_FAILED = 1
"""What the command exits with where every point has its line, and some say that they failed."""

MOST_UNASKED = 200_000
"""Points beyond which a sweep wants --yes."""


@click.command(short_help="Price every point of a grid of machines, changes and sizes.")
@click.argument("spec", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where results go, .jsonl or .parquet (default: SPEC's name with .jsonl, here).",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Processes on this machine (default: one per core).")
@click.option("--scheduler", metavar="ADDRESS", help="Use the workers of this Dask scheduler, such as tcp://host:8786.")
@click.option("--yes", is_flag=True, help=f"Go on without asking with more than {MOST_UNASKED:,} points.")
def sweep(spec: Path, output: Path | None, jobs: int | None, scheduler: str | None, yes: bool) -> int:
    """Price every point of the grid that SPEC, a TOML file, spans: axes such as topology, nodes, changes and size.

    Results are written as they come, one JSON line per point. A sweep that was stopped goes on where it was when it is
    started again; a point that fails says why in its line. Times are simulated, never measured.
    """
    from sim.sweep import run_sweep
    from sim.sweep_file import SweepFile
    from sim.sweep_spec import read_spec

    if jobs is not None and scheduler is not None:
        raise click.UsageError("--jobs counts processes of this machine, --scheduler uses others': use one of them")
    grid = read_spec(spec)
    path = output or Path(f"{spec.stem}.jsonl")
    workers = _workers(jobs, scheduler)
    _require_consent(grid, spec, workers, yes)
    file = SweepFile(path, grid.id)
    if file.done:
        note(f"{path} holds {len(file.done):,} of {counted(grid.num_points, 'point')}: going on with the others")
    try:
        done = run_sweep(grid, file, workers, _progress(grid.num_points))
    except (KeyboardInterrupt, TopoError) as error:
        again = shlex.join(_command(spec, output, jobs, scheduler, yes))
        kept = f"{path} keeps {len(file.done):,} of {counted(grid.num_points, 'point')}, to go on: {again}"
        if isinstance(error, TopoError):
            raise type(error)(f"{error}; {kept}") from None
        note(kept)
        raise
    rate = f", {done.num_now / done.elapsed_s:,.0f}/s" if done.num_now and done.elapsed_s else ""
    note(f"{path}: {counted(done.num_points, 'point')}, {done.num_now:,} of them now{rate}")
    if file.failure is None:
        return 0
    number, problem = file.failure
    note(f"{file.num_failed:,} of {counted(done.num_points, 'point')} failed, such as point {number:,}: {problem}")
    return EXIT_FAILED


def _workers(jobs: int | None, scheduler: str | None) -> Workers:
    from sim.sweep_workers import dask_workers, local_workers
    from topo.cores import num_cores

    return dask_workers(scheduler) if scheduler is not None else local_workers(jobs or num_cores())


def _require_consent(grid: Spec, spec: Path, workers: Workers, yes: bool) -> None:
    """UsageError with an estimate for a grid that will take its time, unless the user said yes."""
    from sim.sweep import estimate_s
    from topo.units import format_duration

    if grid.num_points <= MOST_UNASKED or yes:
        return
    took_s = estimate_s(grid, workers.count)
    text = f"{took_s / 86400:,.0f} days" if took_s > 2 * 86400 else format_duration(took_s)
    on_workers = counted(workers.count, "worker")
    raise click.UsageError(
        f"{spec} asks for {counted(grid.num_points, 'point')}, about {text} on {on_workers} as far as three of them "
        "tell: shorten an axis, or add --yes"
    )


def _command(spec: Path, output: Path | None, jobs: int | None, scheduler: str | None, yes: bool) -> list[str]:
    """The command that goes on with this sweep."""
    words = ["topo", "sweep", str(spec)]
    words += ["-o", str(output)] if output is not None else []
    words += ["--jobs", str(jobs)] if jobs is not None else []
    words += ["--scheduler", scheduler] if scheduler is not None else []
    return words + (["--yes"] if yes else [])


def _progress(num_points: int) -> Progress:
    """Keeps one line on a terminal's stderr: points done, how many a second, and the time left."""
    import sys

    def shown(done: int, now: int, elapsed_s: float) -> None:
        if not sys.stderr.isatty() or elapsed_s <= 0:
            return
        rate = now / elapsed_s
        left_s = (num_points - done) / rate if rate else 0.0
        end = "" if done < num_points else "\r\033[K"
        words = f"{done:,} of {counted(num_points, 'point')}, {rate:,.0f}/s, {_clock(left_s)} left"
        click.echo(f"\r\033[K{words}{end}", nl=False, err=True)

    return shown


def _clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
