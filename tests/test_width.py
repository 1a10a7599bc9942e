"""What commands print into a pipe: no line is wider than 80 columns whatever the machine, and no cell is cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support import corpus_files, examples
from topo.cli import main

WIDEST = 80
SIZES = ("-b", "1K", "-e", "8G", "-f", "2048")
PRESETS = ("dgx1-v100", "dgx-a100", "dgx-h100-sharp", "hgx-h200-1gpu", "gb200-nvl72", "pcie-4gpu")
CHANGES = ("--change", "scale nic x0.5; scale pcie x0.5", "--change", "late GPU0 by 20us")
TABLES = {
    "simulate": ("simulate", "{}", "--algorithm", "all", *SIZES),
    "simulate nodes": ("simulate", "{}", "--nodes", "2", *SIZES),
    "ddp": ("ddp", "{}", "--model", "resnet50", "--bucket-cap-mb", "1,25"),
    "ddp without": ("ddp", "{}", "--model", "gpt2", "--algorithm", "ring,parameter-server", "--without-nvlink"),
    "what-if": ("what-if", "{}", *CHANGES, *SIZES),
    "diff": ("diff", "{}", "a100x4-4x200"),
}
"""Commands whose table is all that they print, so that its cells can be looked for."""

TEXTS = {
    "plan": ("plan", "{}", "--explain", "1M"),
    "plan nodes": ("plan", "{}", "--nodes", "4"),
    "doctor": ("doctor", "{}"),
    "rates": ("rates", "{}"),
    "presets": ("presets",),
}


def machines() -> list[str]:
    """Presets, and machines of the corpus: a few at a desk."""
    found = list(map(str, corpus_files("machines/*.xml")))
    return [*PRESETS, *found[:: max(1, len(found) // examples(5))]]


def run(command: tuple[str, ...], machine: str, *options: str) -> Result:
    """What a command does whose standard output is a pipe; a machine that it refuses has nothing there."""
    arguments = [word.format(machine) for word in (*command, *options)]
    result = CliRunner(env={"COLUMNS": None}).invoke(main, arguments, prog_name="topo")
    assert bool(result.stdout) == (result.exit_code in (0, 1)), result.stderr
    return result


def too_wide(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) > WIDEST]


def cells(markdown: str) -> set[str]:
    """What stands in the cells of a table in Markdown, in the parts into which a cell may be folded."""
    rows = [line for line in markdown.splitlines() if line.startswith("|")][2:]
    words = {word for row in rows for cell in row.strip("| ").split(" | ") for word in cell.split()}
    return {part for word in words for part in re.split(r"(?<=->)|(?<=/)|(?<=[A-Za-z]-)(?!>)", word)} - {"-"}


by_machine = pytest.mark.parametrize("machine", machines(), ids=lambda machine: Path(machine).stem)


@by_machine
@pytest.mark.parametrize("name", TABLES)
def test_a_table_in_a_pipe_fits_80_columns_and_lacks_nothing(name: str, machine: str) -> None:
    text = run(TABLES[name], machine).stdout
    assert not too_wide(text)
    missing = [part for part in cells(run(TABLES[name], machine, "--format", "md").stdout) if part not in text]
    assert not missing


@by_machine
@pytest.mark.parametrize("name", TEXTS)
def test_a_text_in_a_pipe_fits_80_columns(name: str, machine: str) -> None:
    assert not too_wide(run(TEXTS[name], machine).stdout)


@pytest.mark.parametrize(
    "path", corpus_files("nccl-tests/*.txt")[:: max(1, 60 // examples(5))], ids=lambda path: path.stem
)
def test_a_comparison_in_a_pipe_fits_80_columns_but_for_the_name_of_its_file(path: Path) -> None:
    result = CliRunner(env={"COLUMNS": None}).invoke(
        main, ["validate", "compare", str(path), "--topology", "dgx-a100"], prog_name="topo"
    )
    assert not [line for line in too_wide(result.stdout) if path.name not in line]
