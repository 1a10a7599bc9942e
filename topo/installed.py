"""What installed distributions offer in a group of entry points, found without `importlib.metadata`.

To import that module (with `email`, `zipfile` and `csv`) takes 30 ms of every start of `topo`, a fifth of what
`topo --help` may take. The file it reads is a published format:
https://packaging.python.org/specifications/entry-points/ .
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

_FOLDERS = (".dist-info", ".egg-info")
_FILE = "entry_points.txt"


class EntryPoint(NamedTuple):
    """One name that a distribution offers: `value` is `module:attribute`, and may end in ` [extras]`."""

    name: str
    value: str

    @property
    def module(self) -> str:
        """The module that holds it."""
        return self.value.partition("[")[0].partition(":")[0].strip()

    @property
    def attr(self) -> str:
        """Its name there; empty where the module itself is meant."""
        return self.value.partition("[")[0].partition(":")[2].strip()

    def load(self) -> Any:
        """The object itself, its module imported now; ImportError or AttributeError where it is not there."""
        found: Any = import_module(self.module)
        for name in filter(None, self.attr.split(".")):
            found = getattr(found, name)
        return found


def installed(group: str, search: Iterable[str] | None = None) -> tuple[EntryPoint, ...]:
    """The entry points of a group, by name; of two of one name that counts which comes first on `search` (sys.path)."""
    found: dict[str, EntryPoint] = {}
    for text in _texts(sys.path if search is None else search):
        if f"[{group}]" in text:
            for point in _section(text, group):
                found.setdefault(point.name, point)
    return tuple(found[name] for name in sorted(found))


def _texts(search: Iterable[str]) -> Iterator[str]:
    """The entry-point files of the distributions in these folders."""
    for folder in dict.fromkeys(search):
        for name in _names(folder or os.curdir):
            yield _text(os.path.join(folder, name, _FILE))


def _names(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(_FOLDERS))
    except OSError:
        return []


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _section(text: str, group: str) -> Iterator[EntryPoint]:
    """The rows under the header `[group]`."""
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line == f"[{group}]"
        elif inside and line and not line.startswith(("#", ";")):
            name, equals, value = line.partition("=")
            if equals:
                yield EntryPoint(name.strip(), value.strip())
