"""Options that commands share: of all that measure, and of those that read published runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from topo.cli_common import Share, finite

Command = TypeVar("Command", bound=Callable[..., Any])

LONGEST_S = 1e6


def rank_options(least: int, most: int) -> Callable[[Command], Command]:
    """Gives a command --backend, --ranks (from `least` to `most`) and --gpus: on what it runs, and by how many."""
    options = (
        click.option(
            "--backend",
            type=click.Choice(("auto", "nccl", "gloo")),
            default="auto",
            show_default=True,
            help="nccl on GPUs, gloo on processors; auto is nccl where there are at least 2 GPUs.",
        ),
        click.option(
            "--ranks",
            type=click.IntRange(least, most),
            help="How many ranks (default: TOPOLOGY's, all GPUs, or 4).",
        ),
        click.option("--gpus", metavar="LIST", help="GPUs of TOPOLOGY that take part, such as 0-3,6."),
    )
    return _decorator(options)


def measuring_options(
    *,
    iterations: int | None,
    warmups: int,
    timeout_s: float,
    tolerance: float | None,
    most_tolerance: float = 1e6,
    called: str = "runs",
    iterations_help: str = "",
    tolerance_help: str = "Until LOW or HIGH.",
) -> Callable[[Command], Command]:
    """Gives a command -n, -w, --timeout and --tolerance with these defaults; `called` is what it repeats."""
    options = (
        click.option(
            "-n",
            "--iterations",
            type=click.IntRange(min=1),
            default=iterations,
            show_default=iterations is not None,
            help=iterations_help or f"Timed {called}.",
        ),
        click.option(
            "-w",
            "--warmups",
            type=click.IntRange(min=0),
            default=warmups,
            show_default=True,
            help=f"{called.capitalize()} before them.",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(1, LONGEST_S),
            callback=finite,
            default=timeout_s,
            show_default=True,
            help="Seconds for all of it.",
        ),
        click.option(
            "--tolerance",
            type=Share(0, most_tolerance),
            callback=finite,
            default=tolerance,
            show_default=tolerance is not None,
            help=tolerance_help,
        ),
    )

    return _decorator(options)


def _decorator(options: Sequence[Callable[[Command], Command]]) -> Callable[[Command], Command]:
    """Gives a command these options, in this order in its help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def published_options(command: Command) -> Command:
    """Gives a command --data and --machines: whose published runs, and where their machines are."""
    options = (
        click.option(
            "--data",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Folder of measurement/1 documents (default: those that come with this program).",
        ),
        click.option(
            "--machines",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Where the paths of machine.topology start (default: presets of the same name).",
        ),
    )
    return _decorator(options)(command)


def is_given(context: click.Context, name: str) -> bool:
    """Whether the user gave that parameter, and it is not its default."""
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
