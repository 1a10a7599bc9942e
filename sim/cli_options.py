"""Options that commands which run collectives share: sizes, dtype, and progress on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, TypeVar

import click

from topo.errors import UnitError
from topo.units import parse_size, parse_sizes, size_sweep

Command = TypeVar("Command", bound=Callable[..., Any])
Item = TypeVar("Item")

NCCL_VARIABLES = "NCCL_"
SECONDS_BEFORE_PROGRESS = 2.0


def size_options(begin: str, end: str, factor: int) -> Callable[[Command], Command]:
    """Gives a command --size and nccl-tests' -b, -e, -f with these defaults, as one parameter `sizes` in bytes."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def wrapped(
            *args: Any, size: str | None, first: str | None, last: str | None, step: int | None, **rest: Any
        ) -> Any:
            return command(*args, sizes=_sizes(size, first, last, step), **rest)

        def _sizes(size: str | None, first: str | None, last: str | None, step: int | None) -> tuple[int, ...]:
            if size is not None:
                if first is not None or last is not None or step is not None:
                    raise UnitError("--size lists the sizes, -b, -e and -f sweep them: use one or the other")
                return parse_sizes(size)
            begin_bytes, end_bytes = parse_size(first or begin), parse_size(last or max_text(first, end))
            return size_sweep(begin_bytes, end_bytes, step or factor)

        def max_text(first: str | None, default_end: str) -> str:
            return first if first is not None and parse_size(first) > parse_size(default_end) else default_end

        for option in (
            click.option(
                "-f", "step", metavar="FACTOR", type=click.IntRange(min=2), help=f"Factor (default {factor})."
            ),
            click.option("-e", "last", metavar="SIZE", help=f"Largest size of a sweep (default {end})."),
            click.option("-b", "first", metavar="SIZE", help=f"Smallest size of a sweep (default {begin})."),
            click.option(
                "--size", metavar="SIZES", help="Sizes instead of a sweep, such as 1M,1G (1G = GiB, 1GB = 10^9)."
            ),
        ):
            wrapped = option(wrapped)
        return wrapped  # type: ignore[return-value]

    return decorate


def planner_options(command: Command) -> Command:
    """Gives a command --planner, --protocol and --env, as `planner`, `protocol` and `environment` (pairs)."""

    @wraps(command)
    def wrapped(*args: Any, settings: tuple[str, ...], **rest: Any) -> Any:
        return command(*args, environment=_environment(settings), **rest)

    for option in (
        click.option(
            "--env",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="What NCCL would read, such as NCCL_ALGO=ring; may be repeated.",
        ),
        click.option("--protocol", metavar="NAME", help="NCCL's protocol: ll, ll128 or simple (default: its choice)."),
        click.option(
            "--planner",
            default="auto",
            show_default=True,
            metavar="NAME",
            help="nccl-2.30, topology, or auto: NCCL's where it can plan the machine.",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


algorithm_option = click.option(
    "--algorithm",
    default="auto",
    show_default=True,
    metavar="LIST",
    help="auto (the planner's choice), all, or names such as ring,tree,parameter-server.",
)

profile_option = click.option(
    "--profile",
    default="auto",
    show_default=True,
    metavar="NAME|FILE",
    help="auto, ideal, nccl-constants, nccl-fitted, or a JSON file.",
)


def _environment(settings: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The variables of all --env, in order; UsageError where one is malformed, not NCCL's or set twice."""
    found: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--env {setting}: expected NAME=VALUE, such as NCCL_ALGO=ring")
        if not name.startswith(NCCL_VARIABLES):
            raise click.UsageError(f"--env {name}: only NCCL's own variables are read, whose names begin with NCCL_")
        if name in found:
            raise click.UsageError(f"--env {name} is set twice: give each variable once")
        found[name] = value
    return tuple(found.items())


def with_progress(items: Sequence[Item], label: str) -> Iterator[Item]:
    """The items one by one; once two seconds have passed, how many are done stands on a terminal's stderr."""
    import sys
    import time

    begin = time.monotonic()
    shown = False
    for done, item in enumerate(items):
        if sys.stderr.isatty() and time.monotonic() - begin > SECONDS_BEFORE_PROGRESS:
            click.echo(f"\r{label}: {done} of {len(items)}", nl=False, err=True)
            shown = True
        yield item
    if shown:
        click.echo("\r\033[K", nl=False, err=True)
