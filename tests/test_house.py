"""The rules of the house that a machine can check: sizes, names, docstrings, and what a file may say."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

from tests.source import Module, functions, modules, public
from tests.support import ROOT

MODULES = modules()
PYTHON = [*MODULES, *(Module(path) for path in sorted((ROOT / "tests").rglob("*.py")))]
MAX_MODULE_LINES = 350
MAX_FUNCTION_LINES = 60
UNITLESS = {"bw", "size", "time", "n"}
# A machine's own folders and the registries' hosts, put together so that this file does not name them.
PRIVATE = ["/" + "work/", "/" + "root/", "/tmp/" + "venv", "pypi" + ".org", "pythonhosted" + ".org", "npmjs" + ".org"]
IGNORE_WITHOUT_CODE = re.compile(r"#\s*(type:\s*ignore(?!\[[\w, -]+\])|noqa(?!: [A-Z]+\d+))")


def test_modules_are_short() -> None:
    lengths = {str(module): module.text.count("\n") for module in MODULES}
    assert not {name: lines for name, lines in lengths.items() if lines > MAX_MODULE_LINES}


def test_functions_are_short() -> None:
    lengths = {
        f"{module}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for module in MODULES
        for node in functions(module)
    }
    assert not {name: lines for name, lines in lengths.items() if lines > MAX_FUNCTION_LINES}


def test_public_things_have_a_docstring() -> None:
    assert not [str(module) for module in MODULES if not ast.get_docstring(module.tree)]
    assert not [
        f"{module} {name}" for module in MODULES for name, node in public(module) if not ast.get_docstring(node)
    ]


def names_given(node: ast.AST) -> list[str]:
    """The parameters of a function, or the fields that a class declares."""
    if isinstance(node, ast.ClassDef):
        return [
            row.target.id for row in node.body if isinstance(row, ast.AnnAssign) and isinstance(row.target, ast.Name)
        ]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return [row.arg for row in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]


def test_public_names_carry_their_unit() -> None:
    given = [(module, name, names_given(node)) for module in MODULES for name, node in public(module)]
    assert not [f"{module} {name}: {UNITLESS & set(names)}" for module, name, names in given if UNITLESS & set(names)]


def test_only_commands_print() -> None:
    calls = [(module, node) for module in MODULES if not module.is_cli for node in ast.walk(module.tree)]
    names = [(module, node.func) for module, node in calls if isinstance(node, ast.Call)]
    assert not [f"{module}:{row.lineno}" for module, row in names if isinstance(row, ast.Name) and row.id == "print"]


def test_annotations_are_deferred() -> None:
    assert not [str(module) for module in PYTHON if module.tree.body[1:] and not defers_annotations(module.tree)]


def defers_annotations(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)


def test_an_ignored_check_is_named() -> None:
    tokens = [
        (module, token) for module in PYTHON for token in tokenize.generate_tokens(io.StringIO(module.text).readline)
    ]
    comments = [(module, token) for module, token in tokens if token.type == tokenize.COMMENT]
    assert not [f"{module}:{row.start[0]}" for module, row in comments if IGNORE_WITHOUT_CODE.search(row.string)]


@pytest.mark.parametrize(
    ("comment", "named"),
    [
        ("# type: ignore", False),
        ("# type: ignore[arg-type]", True),
        ("# noqa", False),
        ("# noqa: F401", True),
        ("# a comment on types", True),
    ],
)
def test_what_an_ignored_check_looks_like(comment: str, named: bool) -> None:
    assert (IGNORE_WITHOUT_CODE.search(comment) is None) is named


def tracked_files() -> list[Path]:
    """The files of the checkout that git tracks, or would on the next add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout: which files belong to the project is unknown")
    return [path for name in sorted(set(done.stdout.split("\0")) - {""}) if (path := ROOT / name).is_file()]


def test_no_file_names_a_private_path_or_a_registry() -> None:
    found = []
    for path in tracked_files():
        text = path.read_bytes().decode(errors="replace")
        found += [f"{path.relative_to(ROOT)}: {pattern}" for pattern in PRIVATE if pattern in text]
    assert not found


def test_no_tracked_file_is_large() -> None:
    assert not [str(path) for path in tracked_files() if path.stat().st_size > 1_000_000]
