"""One line on each command for `topo --help`, read from its source: importing every command would cost a second."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from topo.installed import EntryPoint

if TYPE_CHECKING:
    import ast


def source_of(entry_point: EntryPoint) -> Path | None:
    """The file that an entry point's module lies in, found without importing anything; None where there is none."""
    package, *below = entry_point.module.split(".")
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        stem = Path(folder, *below)
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.is_file():
                return path
    return None


def summary_of(entry_point: EntryPoint) -> str:
    """The `short_help` of a command, or the first line of its docstring; empty where its source shows neither."""
    import ast

    path = source_of(entry_point)
    if path is None:
        return ""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == entry_point.attr:
            return _short_help(node) or (ast.get_docstring(node) or "").partition("\n")[0]
    return ""


def _short_help(function: ast.FunctionDef) -> str:
    import ast

    keywords = [word for call in function.decorator_list if isinstance(call, ast.Call) for word in call.keywords]
    texts = [word.value for word in keywords if word.arg == "short_help"]
    return next((str(text.value) for text in texts if isinstance(text, ast.Constant)), "")
