"""The document topology/1: what is written reads back equal, and what is wrong is refused with its place."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import NO_CORPUS, corpus_files
from topo import jsonio
from topo.errors import CaptureError
from topo.presets import PRESETS, preset
from topo.readers import nccl_xml, topology_json
from topo.synthetic import synthetic
from topo.writers.json import dumps

MACHINES = corpus_files("machines/*.xml") + corpus_files("nccl-xml/modal-*.xml") + corpus_files("nccl-xml/aws-*.xml")


@pytest.mark.parametrize("name", PRESETS)
def test_presets_read_back_equal(name: str) -> None:
    topology = preset(name)
    assert topology_json.read(dumps(topology)) == topology


@pytest.mark.skipif(not MACHINES, reason=NO_CORPUS)
@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_real_machines_read_back_equal(path: Path) -> None:
    topology = nccl_xml.read(path.read_text(encoding="utf-8"), path.name)
    assert topology_json.read(jsonio.encode(topology, topology_json.SCHEMA)) == topology


def test_the_document_holds_what_others_need() -> None:
    document = json.loads(dumps(preset("dgx-h100")))
    assert next(iter(document)) == "schema"
    assert document["schema"] == "topology/1"
    assert document["complete"] is True
    assert document["findings"] == []
    assert document["gpu_ids"] == [f"GPU{rank}" for rank in range(8)]
    assert document["num_ranks"] == 8
    assert document["matrix"]["GPU0"]["GPU1"] == document["matrix"]["GPU1"]["GPU0"] == "NV18"
    assert document["matrix"]["GPU0"]["mlx5_0"] == "PIX"
    assert all(value is not None for device in document["devices"] for value in device.values())


def document() -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(dumps(synthetic("ring:3,bandwidth=1GB/s")))
    return parsed


BAD: dict[str, tuple[list[str | int], Any, str]] = {
    "another schema": (["schema"], "topology/9", "$.schema is 'topology/9', expected 'topology/1'"),
    "unknown key": (["devcies"], [], "$.devcies is no key here: did you mean 'devices'?"),
    "unknown key inside": (["devices", 1, "knid"], "gpu", "$.devices[1].knid is no key here: did you mean 'kind'?"),
    "unknown kind": (["devices", 1, "kind"], "gup", "$.devices[1].kind is 'gup': did you mean 'gpu'?"),
    "number as text": (
        ["links", 0, "bandwidth_bytes_per_s"],
        "1GB/s",
        "$.links[0].bandwidth_bytes_per_s: expected `float`",
    ),
    "unit in the key": (["links", 0, "bandwidth_gb_per_s"], 1, "did you mean 'bandwidth_bytes_per_s'?"),
    "negative bandwidth": (["links", 0, "bandwidth_bytes_per_s"], -1, "must be positive and finite"),
    "zero bandwidth": (["links", 0, "bandwidth_bytes_per_s"], 0, "must be positive and finite"),
    "negative latency": (["links", 0, "latency_s"], -1e-6, "must be finite and not negative"),
    "no lanes": (["links", 0, "lanes"], 0, "at least 1"),
    "twice the same id": (["devices", 1, "id"], "GPU0", "two devices are called 'GPU0'"),
    "nowhere": (["links", 0, "dst"], "GPU7", "leads to 'GPU7', which is no device"),
    "disconnected": (["links"], [], "no path from GPU0 to GPU1, GPU2"),
    "rank that is none": (["gpu_ids"], ["GPU9"], "rank 0 is 'GPU9', which is no device"),
    "negative latency of a NIC": (["devices", 1, "nic"], {"latency_s": -1e-6}, "NIC GPU1 has latency -1e-06 s"),
    "rate that is no machine's": (["links", 0, "bandwidth_bytes_per_s"], 1e-320, "expected 1 to 1e+18, check its unit"),
    "rate beyond all": (["links", 0, "bandwidth_bytes_per_s"], 1e300, "expected 1 to 1e+18, check its unit"),
    "latency of weeks": (["links", 0, "latency_s"], 1e9, "at most 1e+06, check its unit"),
    "hidden pair of nobody": (["hidden_pairs"], [["GPU0", "GPU9"]], "names 'GPU9', which is no device"),
    "null": (["links"], None, "$.links: expected `array`, got `null`"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_named_with_its_place(name: str) -> None:
    place, value, words = BAD[name]
    changed = document()
    target: Any = changed
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    with pytest.raises(CaptureError) as caught:
        topology_json.read(json.dumps(changed), "machine.json")
    assert str(caught.value).startswith("machine.json: ")
    assert words in str(caught.value)


def test_a_missing_key_is_named() -> None:
    changed = document()
    del changed["links"][0]["kind"]
    with pytest.raises(CaptureError, match=r"\$.links\[0\]: object missing required field `kind`"):
        topology_json.read(json.dumps(changed))


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [('"gpu_ids"', '"name": "x", "gpu_ids"', "name"), ('"kind": "gpu"', '"kind": "gpu", "kind": "nic"', "kind")],
)
def test_a_key_that_stands_twice_is_refused(old: str, new: str, key: str) -> None:
    text = json.dumps(document()).replace(old, new, 1)
    with pytest.raises(CaptureError, match=f"machine.json: the key '{key}' stands twice in one JSON object"):
        topology_json.read(text, "machine.json")


@pytest.mark.parametrize("text", ['{"schema": "topology/1",', "[1]", '{"a":' * 50_000, '{"schema": NaN}', "", "nul"])
def test_no_json_is_refused(text: str) -> None:
    with pytest.raises(CaptureError):
        topology_json.read(text)


def test_malformed_json_names_its_line() -> None:
    with pytest.raises(CaptureError, match=r"^a\.json, line 2: malformed"):
        topology_json.read('{"schema": "topology/1",\n"devices": [x]}', "a.json")


@given(data=st.data())
def test_no_cut_document_reads(data: st.DataObject) -> None:
    text = dumps(synthetic("ring:3,bandwidth=1GB/s")).rstrip()
    with pytest.raises(CaptureError):
        topology_json.read(text[: data.draw(st.integers(min_value=0, max_value=len(text) - 1))])


@given(data=st.data())
def test_no_change_of_a_value_makes_another_error(data: st.DataObject) -> None:
    """Whatever stands in one place, reading ends in a topology or in a CaptureError."""
    changed = copy.deepcopy(document())
    section = data.draw(st.sampled_from(["devices", "links", "gpu_ids", "provenance", "findings"]))
    value = data.draw(st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(), st.lists))
    if changed[section] and isinstance(changed[section][0], dict) and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(changed[section][0])))
        changed[section][0][key] = value
    else:
        changed[section] = value
    try:
        topology_json.read(json.dumps(changed))
    except CaptureError:
        return


@dataclass(frozen=True, slots=True)
class Inner:
    color: Literal["red", "green"] = "red"
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Outer:
    values_s: tuple[float, ...]
    inner: Inner | None = None
    table: dict[str, tuple[Inner, ...]] | None = None


@given(
    st.builds(
        Outer,
        values_s=st.lists(st.floats(allow_nan=False, allow_infinity=False)).map(tuple),
        inner=st.none() | st.builds(Inner, note=st.none() | st.text()),
        table=st.none() | st.dictionaries(st.text(), st.lists(st.builds(Inner)).map(tuple)),
    )
)
def test_any_dataclass_reads_back_equal(value: Outer) -> None:
    assert jsonio.decode(jsonio.encode(value, "outer/1"), Outer, "outer/1") == value


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_has_no_word_for_is_never_written(number: float) -> None:
    with pytest.raises(ValueError, match=r"\$.values_s\[1\]"):
        jsonio.encode(Outer((0.0, number)), "outer/1")


def test_unknown_keys_are_found_in_optional_and_nested_values() -> None:
    text = '{"schema": "outer/1", "values_s": [], "table": {"a": [{"colour": "red"}]}}'
    with pytest.raises(CaptureError, match=r"\$.table.a\[0\].colour is no key here: did you mean 'color'"):
        jsonio.decode(text, Outer, "outer/1")
    with pytest.raises(CaptureError, match=r"\$.inner.color is 'gren': did you mean 'green'"):
        jsonio.decode('{"schema": "outer/1", "values_s": [], "inner": {"color": "gren"}}', Outer, "outer/1")
