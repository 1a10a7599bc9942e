"""What README.md and docs/ show is run: commands, make targets, links and Python examples.

How a document shows a command is said in `tests/documents.py`; `make docs` writes outputs and the reference anew.
"""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

from tests import reference
from tests.documents import DOCUMENTS, examples, matches, refresh, renewed, run_all
from tests.source import PACKAGES, modules
from tests.support import ROOT

MODULES = [module.name for module in modules()]
by_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)\s]*)?\)")


@by_document
def test_commands_do_what_the_document_shows(document: Path, tmp_path: Path) -> None:
    for example, done in run_all(document.read_text(), tmp_path):
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


def test_the_reference_is_what_the_commands_say() -> None:
    text = reference.PAGE.read_text()
    assert text == reference.page(text), "docs/cli.md is older than the commands: make docs"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_export_is_described_and_used(package: str) -> None:
    text = (ROOT / "docs" / "python.md").read_text()
    names = importlib.import_module(package).__all__
    assert [name for name in names if f"`{name}" not in text] == []
    imported = {
        name.strip()
        for line in re.findall(rf"^>>> from {package} import (.*)$", text, re.M)
        for name in line.split(",")
    }
    assert set(names) == imported


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


@pytest.mark.parametrize(
    ("shown", "now"),
    [
        (["one"], ["1", "2", "3", "4"]),
        (["one", "..."], ["1", "..."]),
        (["...", "four"], ["...", "4"]),
        (["one", "two", "...", "four"], ["1", "2", "...", "4"]),
        (["one", "...", "kept", "...", "four"], ["1", "...", "kept", "...", "4"]),
        (["..."], ["..."]),
    ],
)
def test_what_is_written_anew_has_the_shape_of_what_was_shown(shown: list[str], now: list[str]) -> None:
    assert renewed(shown, "1\n2 \n3\n4\n") == now


def test_outputs_are_written_anew_in_place(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    shown = "a\n\n```console\n$ topo simulate switch:2,bandwidth=1GB/s \\\n    --size 1GB {options}\n{output}\n```\nb\n"
    page.write_text(shown.format(options="--format csv", output="num_bytes,old\n..."))
    assert [row.rpartition(": ")[2] for row in refresh(page)] == ["written anew"]
    first = page.read_text()
    assert "num_bytes,old" not in first
    assert first == shown.format(options="--format csv", output=first.splitlines()[5] + "\n...")
    assert refresh(page) == []
    page.write_text(shown.format(options="--no-such-option", output="..."))
    assert "exit status 2, 0 stated" in refresh(page)[0]
