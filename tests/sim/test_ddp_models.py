"""Models: known sums, what a description or a file may say, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sim.ddp.model import Layer, Model, Parameter, model_of
from sim.ddp.models import MODELS, load_model
from sim.ddp.times import Compute as Rate
from sim.ddp.times import by_rate, parse_flops, read_times, scaled
from topo.errors import CaptureError, NameChoiceError, TopoError, UnitError

NUM_PARAMETERS = {
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
}
RATE = Rate(1e14, 0.5, "a GPU", "bf16")


@pytest.mark.parametrize("name", MODELS)
def test_sums_are_those_of_the_published_models(name: str) -> None:
    assert load_model(name).num_elements == NUM_PARAMETERS[name]


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_declared_once_and_gets_its_gradient_once(name: str) -> None:
    model = load_model(name)
    everything = sorted(row.name for row in model.parameters)
    assert sorted(row.name for row in model.named_parameters) == everything
    assert sorted(row.name for row in model.ready) == everything


@pytest.mark.parametrize(("name", "macs"), [("resnet18", 1.814e9), ("resnet50", 4.089e9)])
def test_operations_of_resnets_are_the_published_ones(name: str, macs: float) -> None:
    """torchvision states 1.81 and 4.09 GFLOPS, which count a multiplication with its addition as one."""
    model = load_model(name)
    assert sum(map(model.forward_flops, model.layers)) == pytest.approx(2 * macs, rel=1e-3)


@pytest.mark.parametrize("name", ["gpt2-xl", "llama-7b", "bert-large"])
def test_operations_of_transformers_are_about_two_per_weight_and_token(name: str) -> None:
    model = load_model(name)
    share = sum(map(model.forward_flops, model.layers)) / (2 * model.num_elements * model.tokens)
    assert 0.9 < share < 1.25


def test_a_description_changes_what_it_names() -> None:
    assert load_model("llama:layers=32").num_elements == load_model("llama-7b").num_elements
    small = load_model("llama:layers=2,hidden=64,heads=4,kv_heads=2,ffn=128,vocab=100,context=16")
    assert {row.shape for row in small.parameters if "k_proj" in row.name} == {(32, 64)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("resnet19", "did you mean 'resnet18'"),
        ("resnet:depth=19", "unknown depth"),
        ("llama:layer=3", "did you mean 'layers'"),
        ("llama:layers=0", "layers=0"),
        ("llama:layers=99999", "layers=99999"),
        ("llama:layers=x", "OPTION=NUMBER"),
        ("llama:layers=2,layers=3", "given twice"),
        ("llama:heads=3", "each must divide"),
        ("nowhere.json", "cannot be read"),
    ],
)
def test_what_is_no_model_is_refused(text: str, says: str) -> None:
    with pytest.raises(TopoError, match=says):
        load_model(text)


def write(path: Path, **content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def a_model(path: Path, *rows: dict[str, Any], **more: Any) -> Path:
    return write(path / "model.json", schema="ddp-model/1", name="mine", parameters=list(rows), **more)


def test_a_file_of_parameters_is_a_model(tmp_path: Path) -> None:
    rows = [{"name": "a.weight", "shape": [3, 4]}, {"name": "a.bias", "shape": [3]}, {"name": "b.weight", "shape": [4]}]
    model = load_model(str(a_model(tmp_path, *rows, dtype="bfloat16")))
    assert model.num_bytes == 2 * (12 + 3 + 4)
    assert [layer.name for layer in model.layers] == ["a", "b"]
    assert [row.name for row in model.ready] == ["b.weight", "a.bias", "a.weight"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"name": "a", "shape": [3, -4]}, "length of -4"),
        ({"name": "a", "shape": [3, 0]}, "length of 0"),
        ({"name": "a", "shape": [10**7, 10**7]}, "elements"),
        ({"name": "a", "shape": [3, 1.5]}, r"expected `int`"),
        ({"name": "a", "shape": "3"}, r"shape"),
        ({"name": "", "shape": [3]}, "no name"),
        ({"name": "a", "shape": [3], "dtype": "float31"}, "unknown dtype of parameter a"),
        ({"name": "a", "shap": [3]}, "did you mean 'shape'"),
        ({"name": "a"}, "shape"),
    ],
)
def test_a_wrong_parameter_is_refused_with_its_file(tmp_path: Path, row: dict[str, Any], says: str) -> None:
    with pytest.raises(CaptureError, match=says) as caught:
        load_model(str(a_model(tmp_path, row)))
    assert "model.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_parameters_of_one_name_are_refused(tmp_path: Path) -> None:
    row = {"name": "a.weight", "shape": [3]}
    with pytest.raises(CaptureError, match=r"two parameters are called 'a\.weight'"):
        load_model(str(a_model(tmp_path, row, row)))


def test_a_model_without_parameters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no parameter"):
        load_model(str(a_model(tmp_path)))


def test_layers_and_bare_parameters_exclude_each_other(tmp_path: Path) -> None:
    layer = {"name": "l", "parameters": [{"name": "b", "shape": [3]}]}
    path = a_model(tmp_path, {"name": "a", "shape": [3]}, layers=[layer])
    with pytest.raises(CaptureError, match="both layers and parameters"):
        load_model(str(path))


def test_declared_names_are_those_of_the_layers() -> None:
    layers = (Layer("l", (Parameter("a", (2,)), Parameter("b", (3,)))),)
    assert [row.name for row in Model("m", layers, ("b", "a")).named_parameters] == ["b", "a"]
    with pytest.raises(UnitError, match="parameter b is declared or in a layer"):
        Model("m", layers, ("a", "c"))


def test_named_parameters_of_anything_are_a_model() -> None:
    class Tensor:
        shape, dtype = (2, 3), "torch.float16"

    model = model_of("mine", [("a.weight", Tensor())])
    assert (model.num_elements, model.num_bytes, model.dtype) == (6, 12, "float16")


def a_times_file(path: Path, *rows: tuple[str, float, float]) -> Path:
    layers = [{"name": name, "forward_s": forward, "backward_s": back} for name, forward, back in rows]
    return write(path / "times.json", schema="layer-times/1", layers=layers)


TWO = Model("two", (Layer("a", (Parameter("a.w", (4, 4)),)), Layer("b", (Parameter("b.w", (4, 4)),))))


def test_measured_times_stand_in_the_order_of_the_model(tmp_path: Path) -> None:
    times = read_times(a_times_file(tmp_path, ("b", 0.25, 0.5), ("a", 1.0, 2.0)), TWO)
    assert [(row.name, row.forward_s, row.backward_s) for row in times] == [("a", 1.0, 2.0), ("b", 0.25, 0.5)]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("a", 1, 1)], "the first is b"),
        ([("a", 1, 1), ("b", 1, 1), ("c", 1, 1)], "unknown layer of two 'c'"),
        ([("a", 1, 1), ("b", 1, 1), ("b", 1, 1)], "named twice"),
        ([("a", 1, 1), ("b", 1, -1)], "backward_s -1"),
    ],
)
def test_times_that_do_not_fit_are_refused(tmp_path: Path, rows: list[tuple[str, float, float]], says: str) -> None:
    with pytest.raises(CaptureError, match=says):
        read_times(a_times_file(tmp_path, *rows), TWO)


def test_backward_takes_twice_what_forward_does() -> None:
    model = load_model("gpt2")
    times = by_rate(model, RATE, 4)
    forward_s, backward_s = sum(row.forward_s for row in times), sum(row.backward_s for row in times)
    assert backward_s == pytest.approx(2 * forward_s)
    assert forward_s == pytest.approx(4 * sum(map(model.forward_flops, model.layers)) / 5e13)


def test_totals_are_kept_where_they_are_given() -> None:
    times = by_rate(TWO, RATE, 1)
    fitted = scaled(times, None, 0.5)
    assert sum(row.backward_s for row in fitted) == pytest.approx(0.5)
    assert [row.forward_s for row in fitted] == [row.forward_s for row in times]


@pytest.mark.parametrize(
    ("text", "flops_per_s"), [("312T", 3.12e14), ("989TFLOPS", 9.89e14), ("1.5P", 1.5e15), ("3.12e14", 3.12e14)]
)
def test_rates_of_operations(text: str, flops_per_s: float) -> None:
    assert parse_flops(text) == pytest.approx(flops_per_s)


@pytest.mark.parametrize("text", ["", "0", "-3T", "12X", "T", "nan", "1e999", "312 TB"])
def test_what_is_no_rate_of_operations(text: str) -> None:
    with pytest.raises(UnitError, match="operations per second"):
        parse_flops(text)


def test_a_model_that_is_not_known_names_the_nearest() -> None:
    with pytest.raises(NameChoiceError, match="gpt2-medium"):
        load_model("gpt2-medum")
