"""What is installed is found as `importlib.metadata` finds it, which is too slow to import at every start."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from topo.installed import EntryPoint, installed

GROUPS = sorted(importlib.metadata.entry_points().groups)


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_of_this_environment_is_read_as_the_standard_library_reads_it(group: str) -> None:
    known: dict[str, set[str]] = {}
    for row in importlib.metadata.entry_points(group=group):
        known.setdefault(row.name, set()).add(row.value)
    found = installed(group)
    assert [row.name for row in found] == sorted(known)
    assert all(row.value in known[row.name] for row in found)


def write(folder: Path, distribution: str, text: str) -> None:
    (folder / distribution).mkdir(parents=True)
    (folder / distribution / "entry_points.txt").write_text(text, encoding="utf-8")


def test_what_comes_first_on_the_path_counts(tmp_path: Path) -> None:
    write(tmp_path / "one", "a-1.0.dist-info", "[console_scripts]\nb = no:no\n\n[mine]\nb = one.mod:func\n")
    write(
        tmp_path / "two",
        "b-1.0.egg-info",
        "# ours\n[mine]\nb=two:x\na = two.m:C.make [extra]\n\n[mine.too]\nc = no:no\n",
    )
    found = installed("mine", [str(tmp_path / "absent"), str(tmp_path / "one"), str(tmp_path / "two"), "", __file__])
    assert found == (EntryPoint("a", "two.m:C.make [extra]"), EntryPoint("b", "one.mod:func"))
    assert (found[0].module, found[0].attr) == ("two.m", "C.make")


def test_what_it_names_is_loaded() -> None:
    assert EntryPoint("path", "pathlib:Path.home").load() == Path.home
    assert EntryPoint("module", "pathlib").load().Path is Path
    with pytest.raises(ImportError):
        EntryPoint("gone", "no_such_module_here:x").load()
    with pytest.raises(AttributeError):
        EntryPoint("gone", "pathlib:NoSuchName").load()
