"""docs/cli.md's reference, made from the commands themselves: `python -m tests.reference docs/cli.md` writes it.

What stands between the marks is generated; the rest of the page is written by hand.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from tests.support import ROOT

PAGE = ROOT / "docs" / "cli.md"
BEGIN, END = "<!-- reference: begin -->", "<!-- reference: end -->"


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The command and all below it, each with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name="topo")
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, f"{name} is listed but cannot be loaded"
            yield from commands(below, (*path, name))


def reference() -> str:
    """All commands as Markdown, in the order in which `topo --help` lists them."""
    from topo.cli import main

    return "\n".join(section(path, command) for path, command in commands(main))


def section(path: tuple[str, ...], command: click.Command) -> str:
    """One command: how it is called, what it does, and a table of its options."""
    name = " ".join(("topo", *path))
    context = click.Context(command, info_name=name)
    usage = " ".join((name, *command.collect_usage_pieces(context)))
    parts = [f"### {name}", f"```text\n{usage}\n```", *_paragraphs(command.help)]
    if isinstance(command, click.Group):
        listed = [(below, command.get_command(context, below)) for below in command.list_commands(context)]
        rows = [(f"[{name} {below}](#{_anchor(f'{name} {below}')})", _summary(found)) for below, found in listed]
        parts.append(_table(("command", "what it does"), rows))
    options = [row for row in command.params if isinstance(row, click.Option) and not row.hidden]
    records = [record for option in options if (record := option.get_help_record(context))]
    if records:
        parts.append(_table(("option", "what it does"), [(f"`{option}`", text) for option, text in records]))
    return "\n\n".join([*parts, *_paragraphs(command.epilog)]) + "\n"


def page(text: str) -> str:
    """The page with its reference made anew."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"docs/cli.md lacks the mark {BEGIN}"
    assert end, f"docs/cli.md lacks the mark {END}"
    return f"{before}{BEGIN}\n\n{reference()}\n{END}{after}"


def _summary(command: click.Command | None) -> str:
    assert command is not None
    return _cell(command.get_short_help_str(limit=200))


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9-]", "", title.lower().replace(" ", "-"))


def _paragraphs(text: str | None) -> list[str]:
    """Help text as paragraphs; one that click is told not to wrap is a block as it stands."""
    found = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text or "").partition("\f")[0]):
        if paragraph.startswith("\b"):
            found.append(f"```text\n{paragraph[1:].strip(chr(10))}\n```")
        elif paragraph.strip():
            found.append(_plain(" ".join(paragraph.split())))
    return found


def _plain(text: str) -> str:
    """Text in which Markdown marks nothing but what stands in backquotes."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<>\[\]])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def _table(head: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows)])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\|", "|").replace("|", "\\|")


def main() -> None:
    """Write the reference into the page."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
