"""Imports run one way, and what is heavy is loaded only by what needs it."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.source import PACKAGES, Import, Module, imports, modules
from tests.support import ROOT

NEVER_AT_IMPORT = {"scipy", "matplotlib"}
HEAVY = {"networkx", "numpy", "rich", "simpy", "torch", "scipy", "matplotlib"}
MEASURING = {"torch", "scipy", "matplotlib"}
EXAMPLE = "examples/dgx-h100-topo-m.txt"


def may_import_torch(module: Module) -> bool:
    """Only what runs a schedule on real processes, or asks the NCCL that is linked into torch."""
    return module.name.startswith("validate.backends") or module.name in {"validate.worker", "validate.nccl_dump"}


def is_start_up(module: Module) -> bool:
    """Whether a command that only reads or draws a topology loads it."""
    return module.package == "topo" or module.is_cli or module.path.name == "__init__.py"


def offences(wrong: Callable[[Module, Import], bool]) -> list[str]:
    """Where a module imports what it must not."""
    return [
        f"{module}:{row.line} imports {row.name}"
        for module in modules()
        for row in imports(module)
        if wrong(module, row)
    ]


def test_imports_run_one_way() -> None:
    above = {package: {"tests", *PACKAGES[level + 1 :]} for level, package in enumerate(PACKAGES)}
    assert not offences(lambda module, row: row.package in above[module.package])


def test_simpy_and_torch_stay_behind_their_border() -> None:
    assert not offences(lambda module, row: row.package == "simpy" and module.name != "sim.engines.event")
    assert not offences(lambda module, row: row.package == "torch" and not may_import_torch(module))


def test_heavy_modules_are_imported_where_they_are_needed() -> None:
    assert not offences(lambda _, row: row.at_import and row.package in NEVER_AT_IMPORT)
    assert not offences(lambda module, row: row.at_import and row.package in HEAVY and is_start_up(module))


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_resolve(package: str) -> None:
    module = importlib.import_module(package)
    assert set(module.__all__) == set(module._PUBLIC), "__all__ and the lazy table name the same things"
    below = PACKAGES[: PACKAGES.index(package) + 1]
    assert {target.partition(".")[0] for target in module._PUBLIC.values()} <= set(below)
    assert all(getattr(module, name) is not None for name in module.__all__)
    # Importing a module sets its name in the package: an export of that name would be one or the other by turns.
    assert not [name for name in module.__all__ if importlib.util.find_spec(f"{package}.{name}")]


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_sorted(package: str) -> None:
    names = importlib.import_module(package).__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_there_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = importlib.import_module(package).no_such_name


RUN_AND_REPORT = """
import json, sys
from topo.cli import main
try:
    main(prog_name="topo")
except SystemExit as stop:
    status = stop.code or 0
print(json.dumps({"status": status, "modules": sorted(sys.modules)}), file=sys.stderr)
"""


def loaded_by(*arguments: str) -> set[str]:
    """The modules that `topo` with these arguments has loaded when it ends well."""
    done = subprocess.run(
        [sys.executable, "-c", RUN_AND_REPORT, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stderr.splitlines()[-1])
    assert report["status"] == 0, done.stderr
    return set(report["modules"])


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--help"], HEAVY),
        (["--version"], HEAVY | {"sim", "validate"}),
        (["discover", "--help"], HEAVY | {"sim", "validate"}),
        (["simulate", "--help"], HEAVY | {"validate"}),
        (["validate", "--help"], HEAVY),
        (["presets"], MEASURING | {"simpy", "sim", "validate"}),
        (["discover", "--from", EXAMPLE], MEASURING | {"simpy", "sim", "validate"}),
        (["show", "dgx-h100", "--as", "json"], MEASURING | {"simpy", "sim", "validate"}),
        (["simulate", "dgx-h100", "--size", "1M"], MEASURING | {"validate"}),
        (
            ["simulate", "switch:256,bandwidth=200GB/s,latency=1us", "--algorithm", "ring", "--size", "1M"],
            (HEAVY - {"numpy"}) | {"topo.captures", "topo.cluster", "topo.presets", "topo.catalog", "validate"},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_loads_only_what_it_needs(arguments: list[str], unwanted: set[str]) -> None:
    assert not loaded_by(*arguments) & unwanted


def test_help_loads_few_modules() -> None:
    """Start-up time, counted in modules so that a busy machine does not change the answer."""
    bare = subprocess.run(
        [sys.executable, "-c", "import sys, click; print(len(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(loaded_by("--help")) <= int(bare.stdout) + 60
