"""The JSON Schema of topology/1 in docs/: it is what the code makes, and what is written keeps to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import NO_CORPUS, ROOT, corpus_files
from topo import schema
from topo.load import load_topology
from topo.presets import preset
from topo.readers import topology_json
from topo.synthetic import synthetic
from topo.topology import Topology
from topo.writers.json import dumps

FILE = ROOT / "docs" / "schemas" / "topology-1.json"
CAPTURES = (
    corpus_files("nvidia-smi/00[13-9]*.txt")
    + corpus_files("nccl-xml/*modal*.xml")
    + corpus_files("machines/gb200-n*.xml")
)
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def offences(value: Any, rule: dict[str, Any], whole: dict[str, Any], path: str = "$") -> Iterator[str]:
    """Where a value breaks a schema, for the words that ours uses; other words are an offence, too."""
    if "$ref" in rule:
        yield from offences(value, whole["$defs"][rule["$ref"].removeprefix("#/$defs/")], whole, path)
        return
    if "anyOf" in rule:
        if all(any(offences(value, choice, whole, path)) for choice in rule["anyOf"]):
            yield f"{path} is none of {len(rule['anyOf'])} choices"
        return
    if "const" in rule and value != rule["const"]:
        yield f"{path} is not {rule['const']}"
    if "enum" in rule and value not in rule["enum"]:
        yield f"{path} is {value!r}"
    names = rule.get("type", [])
    if names and not any(_is(value, name) for name in ([names] if isinstance(names, str) else names)):
        yield f"{path} is no {names}"
    elif isinstance(value, dict):
        yield from _in_object(value, rule, whole, path)
    elif isinstance(value, list):
        items = rule.get("prefixItems", [rule["items"]] * len(value) if rule.get("items") else [])
        if len(items) != len(value):
            yield f"{path} has {len(value)} items"
        for place, (item, own) in enumerate(zip(value, items, strict=False)):
            yield from offences(item, own, whole, f"{path}[{place}]")


def _in_object(value: dict[str, Any], rule: dict[str, Any], whole: dict[str, Any], path: str) -> Iterator[str]:
    yield from (f"{path}.{key} is missing" for key in rule.get("required", []) if key not in value)
    for key, item in value.items():
        own = rule.get("properties", {}).get(key, rule.get("additionalProperties", False))
        if own is False:
            yield f"{path}.{key} is no key"
        else:
            yield from offences(item, own, whole, f"{path}.{key}")


def _is(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def check(text: str) -> list[str]:
    whole = json.loads(FILE.read_text())
    return list(offences(json.loads(text), whole, whole))


def test_the_file_is_what_the_code_makes() -> None:
    assert FILE.read_text() == schema.render(), "write it again: python -m topo.schema > docs/schemas/topology-1.json"


@pytest.mark.parametrize("name", ["dgx-h100", "gb200-nvl72", "pcie-8gpu"])
def test_presets_keep_to_it(name: str) -> None:
    assert check(dumps(preset(name))) == []


@pytest.mark.skipif(not CAPTURES, reason=NO_CORPUS)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_documents_of_real_captures_keep_to_it(path: Path) -> None:
    if path.with_suffix(".expected.json").is_file() and not json.loads(
        path.with_suffix(".expected.json").read_text()
    ).get("valid", True):
        pytest.skip("refused, as its expectation says")
    topology = load_topology(str(path))
    assert isinstance(topology, Topology)
    text = dumps(topology)
    assert check(text) == []
    assert topology_json.read(text) == topology


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"devices": [{"id": "GPU0", "kind": "gup"}]}, "$.devices[0].kind is 'gup'"),
        ({"devices": [{"id": "GPU0"}]}, "$.devices[0].kind is missing"),
        ({"schema": "topology/2"}, "$.schema is not topology/1"),
        ({"gpu_ids": "GPU0"}, "$.gpu_ids is no array"),
        ({"hidden_pairs": [["GPU0"]]}, "$.hidden_pairs[0] has 1 items"),
        ({"nodes": 2}, "$.nodes is no key"),
    ],
)
def test_it_refuses_what_is_none(changes: dict[str, object], words: str) -> None:
    document = {**json.loads(dumps(synthetic("ring:3,bandwidth=1GB/s"))), **changes}
    assert words in check(json.dumps(document))
