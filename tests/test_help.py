"""Every command has a help text that fits a terminal."""

from __future__ import annotations

from importlib.metadata import entry_points

import click
import pytest
from click.testing import CliRunner

from sim.engines import ENGINES, KERNELS
from tests.reference import commands
from topo.cli import main

WIDTH = 80
LOADED = {point.name: point.value for point in entry_points(group="toposcope.commands")}


COMMANDS = dict(commands(main))
by_path = pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(("topo", *path)))


def help_of(path: tuple[str, ...]) -> str:
    result = CliRunner().invoke(main, [*path, "--help"], prog_name="topo", catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_every_entry_point_is_a_command() -> None:
    assert set(LOADED) <= {path[0] for path in COMMANDS if path}


@by_path
def test_help_fits_a_terminal(path: tuple[str, ...]) -> None:
    assert not [line for line in help_of(path).splitlines() if len(line) > WIDTH]


WITH_ENGINE = [
    path for path, command in COMMANDS.items() if any("--engine" in option.opts for option in command.params)
]


@pytest.mark.parametrize("path", WITH_ENGINE, ids=" ".join)
def test_help_names_every_engine_that_is_taken(path: tuple[str, ...]) -> None:
    (words,) = [option.help or "" for option in COMMANDS[path].params if "--engine" in option.opts]  # type: ignore[attr-defined]
    assert {"auto", KERNELS, *ENGINES} <= set(words.replace(",", " ").replace(".", " ").split())


@by_path
def test_a_command_says_in_one_line_what_it_does(path: tuple[str, ...]) -> None:
    summary = (COMMANDS[path].help or "").strip().partition("\n")[0]
    assert summary
    assert summary.endswith("."), f"{summary!r} is no whole sentence"


@by_path
def test_a_listed_summary_is_not_cut(path: tuple[str, ...]) -> None:
    if isinstance(COMMANDS[path], click.Group):
        listed = help_of(path).partition("\nCommands:\n")[2]
        assert listed
        assert not [line for line in listed.splitlines() if line.endswith("...")]


@by_path
def test_every_option_is_explained(path: tuple[str, ...]) -> None:
    options = [row for row in COMMANDS[path].params if isinstance(row, click.Option) and not row.hidden]
    assert not [row.opts for row in options if not row.help]


@by_path
def test_an_unknown_option_is_bad_usage(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*path, "--no-such-option"], prog_name="topo")
    assert result.exit_code == 2
    assert "no-such-option" in result.output
