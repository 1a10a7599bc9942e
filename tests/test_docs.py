"""What README.md and docs/ show is run: commands, make targets, links and Python examples.

A fenced block that begins with ```console is run line by line in a scratch folder that sees examples/ and docs/:
`$ topo ...` must exit with 0, or with what a comment states (`$ topo diff a b  # exit 1`), and print what stands
below it (a line `...` stands for any lines). Words after `console` say more: `measured` - times differ from run to
run, so only the exit status counts; `gpu` - run only where there is an NVIDIA GPU; `root` - run only by root.
"""

from __future__ import annotations

import doctest
import importlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.source import modules
from tests.support import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
MODULES = [module.name for module in modules()]
by_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
FENCE = re.compile(r"^```console([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)\s]*)?\)")
WORDS = {"measured", "gpu", "root"}


@dataclass
class Example:
    """One command of a document: where it stands, what it must exit with and print."""

    line: int
    command: str
    words: set[str]
    output: list[str] = field(default_factory=list)

    @property
    def status(self) -> int:
        """The exit status that the command's comment states."""
        stated = re.search(r"# exit (\d+)$", self.command)
        return int(stated[1]) if stated else 0


def examples(text: str) -> list[Example]:
    """The commands of all console blocks, in order."""
    found = []
    for block in FENCE.finditer(text):
        words = set(block[1].split())
        assert words <= WORDS, f"unknown words after console: {words - WORDS}"
        first = text.count("\n", 0, block.start()) + 2
        for number, line in enumerate(block[2].splitlines(), start=first):
            if found and found[-1].command.endswith("\\"):
                found[-1].command = found[-1].command[:-1] + line.strip()
            elif line.startswith("$ "):
                found.append(Example(number, line[2:].strip(), words))
            elif found:
                found[-1].output.append(line.rstrip())
    return found


def can_run(example: Example) -> bool:
    """Whether this machine has what the example needs; only `topo` is ever run."""
    if not example.command.startswith("topo "):
        return False
    return not ("gpu" in example.words and not shutil.which("nvidia-smi")) and not (
        "root" in example.words and os.geteuid() != 0
    )


def matches(expected: list[str], printed: str) -> bool:
    """Whether the output is what the document shows; a line `...` stands for any number of lines."""
    pattern = "".join("(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + " *\n" for line in expected)
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None


@by_document
def test_commands_do_what_the_document_shows(document: Path, tmp_path: Path) -> None:
    for name in ("examples", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for example in examples(document.read_text()):
        if not can_run(example):
            continue
        done = subprocess.run(
            ["bash", "-c", example.command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        where = f"{document.name}:{example.line}: {example.command}"
        assert done.returncode == example.status, f"{where}\n{done.stdout}{done.stderr}"
        if example.output and "measured" not in example.words:
            assert matches(example.output, done.stdout + done.stderr), f"{where}\n{done.stdout}{done.stderr}"


@by_document
def test_make_targets_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^\$ |`|&& )make ([a-z]+)", document.read_text(), re.MULTILINE))
    assert named <= targets


@by_document
def test_links_lead_somewhere(document: Path) -> None:
    paths = [match[1] for match in LINK.finditer(document.read_text()) if "://" not in match[1]]
    assert not [path for path in paths if not (document.parent / path).exists()]


@by_document
def test_python_examples_of_documents(document: Path) -> None:
    assert doctest.testfile(str(document), module_relative=False, optionflags=doctest.ELLIPSIS).failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_python_examples_of_modules(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


def test_readme_starts_with_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text


def test_a_document_is_read_as_its_reader_would() -> None:
    text = "a\n```console measured\n$ topo diff a \\\n    b  # exit 1\none\n\n$ make demo\n```\n"
    assert [(row.line, row.command, row.status, row.output) for row in examples(text)] == [
        (3, "topo diff a b  # exit 1", 1, ["one", ""]),
        (7, "make demo", 0, []),
    ]


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        (["one", "two"], "one\ntwo\n", True),
        (["one", "...", "three"], "one\ntwo\n2\nthree\n", True),
        (["one", "..."], "one\n", True),
        (["one"], "one\ntwo\n", False),
        (["1.0"], "1x0\n", False),
    ],
)
def test_output_is_compared_line_by_line(expected: list[str], printed: str, same: bool) -> None:
    assert matches(expected, printed) is same
