"""The `topo` command: a group whose commands are the entry points of group `toposcope.commands`, loaded when needed."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import click

from topo.cli_summary import source_of, summary_of
from topo.errors import TopoError
from topo.installed import EntryPoint, installed
from topo.words import printable

ENTRY_POINT_GROUP = "toposcope.commands"
EXIT_BAD_USAGE = 2
EXIT_INTERRUPTED = 130


class CommandGroup(click.Group):
    """A click group over entry points; every error becomes one sentence on stderr and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands whose module is there."""
        return sorted(name for name, entry_point in _entry_points().items() if source_of(entry_point) is not None)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now; None where there is none, or its module is not there."""
        entry_point = _entry_points().get(cmd_name)
        if entry_point is None or source_of(entry_point) is None:
            return None
        command = entry_point.load()
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands with their summaries, none of them imported."""
        rows = [(name, summary_of(_entry_points()[name])) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name; an unknown one is a usage error with the nearest that is known."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.list_commands(ctx):
            import difflib

            known = self.list_commands(ctx)
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise click.UsageError(f"no command {name!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs the command line and exits; without `standalone_mode` it returns or raises, as in click."""
        extra |= {"complete_var": complete_var, "windows_expand_args": windows_expand_args}
        if not standalone_mode:
            return super().main(args, prog_name, standalone_mode=False, **extra)
        sys.exit(self._run(args, prog_name, extra))

    def _run(self, args: Sequence[str] | None, prog_name: str | None, extra: Mapping[str, Any]) -> int:
        """The exit status of one run."""
        _prepare_streams()
        try:
            with _interruptible():
                status = super().main(args, prog_name, standalone_mode=False, **extra)
                sys.stdout.flush()
        except click.ClickException as error:
            if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
                error.show()
                return error.exit_code
            return _complain(_usage_sentence(error), error.exit_code)
        except TopoError as error:
            return _complain(str(error), error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            return _complain("interrupted", EXIT_INTERRUPTED)
        except UnicodeError as error:
            return _complain(f"a name holds what is no text ({error.reason if hasattr(error, 'reason') else error})")
        except MemoryError:
            return _complain("this needs more memory than there is: ask for fewer nodes, channels, chunks or ranks")
        except OSError as error:
            _abandon_stdout()
            return _complain(
                f"cannot read or write ({error.strerror}){f': {error.filename}' if error.filename else ''}"
            )
        return status if isinstance(status, int) else 0


@cache
def _entry_points() -> Mapping[str, EntryPoint]:
    """The installed commands by name; looked up once, since it reads the metadata of all that is installed."""
    return {entry_point.name: entry_point for entry_point in installed(ENTRY_POINT_GROUP)}


@contextmanager
def _interruptible() -> Iterator[None]:
    """Within it Ctrl-C raises KeyboardInterrupt, where `topo.start` had left it to end the process."""
    if (
        signal.getsignal(signal.SIGINT) is not signal.SIG_DFL
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _prepare_streams() -> None:
    """Closed streams lead nowhere, and what a stream's encoding lacks is written as an escape."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")


def _abandon_stdout() -> None:
    """Drop what could not be written, so that the interpreter does not try once more as it ends."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _complain(sentence: str, status: int = EXIT_BAD_USAGE) -> int:
    try:
        _say(sentence)
        sys.stderr.flush()
    except OSError:
        # What could not be written must not be tried once more as the interpreter ends: that would change the status.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    return status


def _say(sentence: str) -> None:
    click.echo(f"topo: error: {printable(' '.join(sentence.split()))}", err=True)


def _usage_sentence(error: click.ClickException) -> str:
    """click's message as one sentence, with where to find help."""
    message = error.format_message().rstrip(".")
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message} (see {error.ctx.command_path} --help)"
    return message


@click.group(
    cls=CommandGroup,
    subcommand_metavar="COMMAND [ARGUMENTS]",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="toposcope")
def main() -> None:
    """Discover a machine's topology, predict what collectives cost on it and why, measure, and ask what if.

    TOPOLOGY is a file or folder of captures in any format that is read, a preset (`topo presets`), `-` for standard
    input, or a description such as switch:8,bandwidth=200GB/s,latency=1us (also ring: and fully-connected:).

    Exit status: 0 fine, 1 a finding, 2 bad usage or input, 3 something is missing in the environment.
    """
