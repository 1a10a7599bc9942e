"""The project's own source, read once and parsed: what the tests of the house's rules look at."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.support import ROOT

PACKAGES = ("topo", "sim", "validate")


@dataclass(frozen=True)
class Module:
    """One module of the three packages."""

    path: Path

    @property
    def name(self) -> str:
        """Its dotted name."""
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def package(self) -> str:
        """topo, sim or validate."""
        return self.name.partition(".")[0]

    @property
    def is_cli(self) -> bool:
        """Whether it defines commands."""
        return self.path.name.startswith("cli")

    @cached_property
    def text(self) -> str:
        """Its source."""
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text, str(self.path))

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))


@dataclass(frozen=True)
class Import:
    """One imported module, and whether importing the importer loads it."""

    name: str
    line: int
    at_import: bool

    @property
    def package(self) -> str:
        """The first part of its dotted name."""
        return self.name.partition(".")[0]


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the three packages, by path."""
    return tuple(Module(path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))


@cache
def imports(module: Module) -> tuple[Import, ...]:
    """Everything the module imports, at import time, in a function or for type checking only."""
    return tuple(_imports(module.tree, at_import=True))


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of the module, nested ones and methods included."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def public(module: Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    """Public functions, classes and methods of the module, by dotted name within it; none of a private module."""
    if not any(part.startswith("_") for part in module.name.split(".")):
        yield from _public(module.tree, "")


def _public(
    owner: ast.Module | ast.ClassDef, prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    for node in owner.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from _public(node, f"{prefix}{node.name}.")


def _imports(node: ast.AST, *, at_import: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, at_import) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"line {child.lineno}: imports are absolute here"
            yield Import(child.module or "", child.lineno, at_import)
        else:
            lazy = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _is_type_checking(child)
            yield from _imports(child, at_import=at_import and not lazy)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
