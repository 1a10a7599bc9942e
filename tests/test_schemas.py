"""docs/schemas.md names every document and every key: held to the code, and to documents that are made here."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from click.testing import CliRunner

from tests.source import modules
from tests.support import ROOT
from topo.cli import main

NAME = re.compile(r"[a-z][a-z-]*/1")
SECTION = re.compile(r"^### (\S+/1)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
MACHINE = "switch:2,bandwidth=200GB/s,latency=1us"
MADE_BY = {
    "presets/1": ["presets", "--format", "json"],
    "topology/1": ["show", MACHINE, "--as", "json"],
    "diff/1": ["diff", "hgx-h100-4gpu", "dgx-h100", "--format", "json"],
    "doctor/1": ["doctor", str(ROOT / "examples" / "two-gpus-without-p2p"), "--format", "json"],
    "simulate/1": ["simulate", MACHINE, "--algorithm", "ring", "--size", "1M", "--format", "json"],
    "rates/1": ["rates", MACHINE, "--format", "json"],
    "plan/1": ["plan", "hgx-h100-4gpu", "--size", "1M", "--explain", "1M", "--format", "json"],
    "what-if/1": ["what-if", MACHINE, "--size", "1M", "--change", "scale GPU0-SW0 bandwidth x0.5", "--format", "json"],
    "ddp/1": [
        "ddp",
        MACHINE,
        "--model",
        "resnet18",
        "--gpu-flops",
        "312T",
        "--bucket-cap-mb",
        "5,25",
        "--format",
        "json",
    ],
    "validate-compare/1": ["validate", "compare", "FILE", "--topology", MACHINE, "--format", "json"],
    "validate-changes/1": ["validate", "compare", "FILE", "FILE", "--format", "json"],
}
"""Commands that write a document; FILE is a document of measurements."""

TYPES = {
    "kernels/1": "sim.clock.profile:KernelProfile",
    "profile/1": "sim.profile:Profile",
    "ddp-model/1": "sim.ddp.model:ModelFile",
    "layer-times/1": "sim.ddp.times:TimesFile",
    "left-out/1": "validate.scoring.left_out:LeftOutTerms",
    "measurements/1": "validate.measurement_set:MeasurementSet",
    "sysfs/1": "topo.readers.sysfs:Snapshot",
    "nvml/1": "topo.readers.nvml:_Document",
}
"""Documents that are one dataclass."""

DERIVED = {"measurements/1": {"rows", "backend", "collective", "num_ranks", "held_out"}}


@dataclass(frozen=True)
class Described:
    """One section of the page: the paths that it names, and its example."""

    paths: frozenset[str]
    example: dict[str, Any]

    def knows(self, path: str) -> bool:
        """Whether the page names the path, or says that all below a part of it is described elsewhere."""
        above = [path[:at] for at in range(len(path)) if path[at] == "."]
        return path in self.paths or f"{path}.*" in self.paths or any(f"{part}.*" in self.paths for part in above)


@cache
def page() -> dict[str, Described]:
    text = (ROOT / "docs" / "schemas.md").read_text(encoding="utf-8")
    found = {}
    for name, body in SECTION.findall(text):
        cells = [row.split(" | ")[0] for row in re.findall(r"^\| (`.*)$", body, re.MULTILINE)]
        example = re.search(r"```json\n(.*?)\n```", body, re.DOTALL)
        assert example, f"{name} has no example"
        found[name] = Described(frozenset(path for cell in cells for path in paths_of(cell)), json.loads(example[1]))
    return found


def paths_of(cell: str) -> Iterator[str]:
    """The paths of a cell; a word that ends in a dot stands before those behind it."""
    prefix = ""
    for word in re.findall(r"`([^`]+)`", cell):
        if word.endswith("."):
            prefix = word
        else:
            yield prefix + word


def paths_in(value: object, at: str = "") -> Iterator[str]:
    """The paths of all keys in a JSON value."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{at}{key}"
            yield from paths_in(item, f"{at}{key}.")
    elif isinstance(value, list):
        for item in value:
            yield from paths_in(item, f"{at.removesuffix('.')}[].")


def paths_of_type(type_: Any, at: str = "") -> Iterator[str]:
    """The paths of all keys that documents of a dataclass may have."""
    if is_dataclass(type_):
        hints = get_type_hints(type_)
        for field in fields(type_):
            if field.init:
                yield f"{at}{field.name}"
                yield from paths_of_type(hints[field.name], f"{at}{field.name}.")
    inside = f"{at.removesuffix('.')}[]." if get_origin(type_) is tuple else at
    for inner in get_args(type_):
        yield from paths_of_type(inner, inside)


def named_in_code() -> set[str]:
    """The names of schemas that stand in the code as strings."""
    return {
        node.value
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value)
    }


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from sim import Workload
    from topo.jsonio import encode
    from validate import Measurement
    from validate.measurement_set import MeasurementSet

    row = Measurement(Workload("all_reduce", 2**20), 2, "gloo", "point-to-point", "ring", (1e-5, 1.1e-5, 1.2e-5))
    path = tmp_path_factory.mktemp("schemas") / "measured.json"
    path.write_text(encode(MeasurementSet("pair", (row,)), "measurements/1"))
    return path


def test_every_document_is_described() -> None:
    assert named_in_code() == set(page())


@pytest.mark.parametrize("name", page())
def test_an_example_has_only_keys_that_are_described(name: str) -> None:
    described = page()[name]
    assert described.example.pop("schema", name) == name
    assert [path for path in paths_in(described.example) if not described.knows(path)] == []


@pytest.mark.parametrize("name", MADE_BY)
def test_a_document_has_the_keys_that_are_described(name: str, measured: Path) -> None:
    words = [str(measured) if word == "FILE" else word for word in MADE_BY[name]]
    document = json.loads(CliRunner().invoke(main, words, catch_exceptions=False).stdout)
    assert document.pop("schema") == name
    found, described = set(paths_in(document)), page()[name]
    assert sorted(path for path in found if not described.knows(path)) == []
    top = {re.split(r"[.\[]", path)[0] for path in described.paths}
    assert sorted(top - set(document) - {"nccl"}) == []


def test_a_line_of_a_sweep_has_the_keys_that_are_described() -> None:
    from sim.sweep_points import RESULTS
    from sim.sweep_spec import AXES

    asked = {"num_bytes" if name == "size" else name for name in AXES}
    assert page()["sweep/1"].paths == {"sweep", "point", *asked, *RESULTS}


@pytest.mark.parametrize("name", TYPES)
def test_every_field_of_a_dataclass_is_described(name: str) -> None:
    module, _, type_name = TYPES[name].partition(":")
    found = set(paths_of_type(getattr(import_module(module), type_name)))
    described = page()[name]
    assert sorted(path for path in found if not described.knows(path)) == []
    top = {re.split(r"[.\[]", path)[0] for path in described.paths}
    assert top - DERIVED.get(name, set()) == {path for path in found if not re.search(r"[.\[]", path)}


def test_every_key_that_is_described_stands_in_the_code() -> None:
    words = set()
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.add(node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                words.add(node.target.id)
    last = {
        (name, re.split(r"[.\[\]]+", path.removesuffix(".*"))[-1]) for name, row in page().items() for path in row.paths
    }
    assert sorted((name, key) for name, key in last if key and key not in words) == []
