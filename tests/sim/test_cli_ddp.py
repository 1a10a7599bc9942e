"""`topo ddp`: what it prints, what it says beside it, and one sentence for whatever is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from topo.cli import main

STAR = "switch:8,bandwidth=200GB/s,latency=1us"
KNOWN = [
    ("resnet18", "25", [2052000, 28852224, 15853824]),
    ("resnet18", "35", [2052000, 38297600, 6408448]),
    ("resnet50", "25", [8196000, 31502336, 26255360, 26550272, 9724160]),
    ("resnet50", "35", [8196000, 44105728, 37046272, 12880128]),
]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["ddp", *arguments], prog_name="topo")


def document(*arguments: str) -> Any:
    done = run(*arguments, "--format", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize(("model", "cap", "sizes"), KNOWN)
def test_buckets_in_launch_order(model: str, cap: str, sizes: list[int]) -> None:
    found = document(STAR, "--model", model, "--bucket-cap-mb", cap)
    assert found["schema"] == "ddp/1"
    assert [bucket["num_bytes"] for bucket in found["buckets"]] == sizes
    assert 0 < found["exposed_s"] < found["step_s"]
    assert found["exposed_s"] + found["overlapped_s"] == pytest.approx(found["communication_s"])


@pytest.mark.parametrize("model", ["bert-large", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "llama-7b"])
def test_every_promised_model_runs(model: str) -> None:
    found = document("dgx-h100", "--model", model)
    assert sum(bucket["num_bytes"] for bucket in found["buckets"]) == found["model"]["num_bytes"]
    assert found["compute"]["gpu"] == "H100 SXM5"


def test_a_sweep_names_the_best_and_the_flat_range() -> None:
    found = document("pcie-8gpu", "--model", "resnet50", "--bucket-cap-mb", "sweep")
    (best,) = found["best"]
    assert best["step_s"] == min(row["step_s"] for row in found["rows"])
    low, high = best["flat_range_mb"]
    assert low <= best["bucket_cap_mb"] <= high
    assert [row["bucket_cap_mb"] for row in found["rows"]] == [1, 2, 5, 10, 25, 50, 100, 200, 400]
    assert found["step_s"] == found["rows"][0]["step_s"]


def test_ways_and_algorithms_stand_beside_each_other() -> None:
    found = document(STAR, "--model", "resnet18", "--schedule", "all", "--algorithm", "ring,parameter-server")
    rows = [(row["algorithm"], row["schedule"]) for row in found["rows"]]
    assert rows == [
        (algorithm, way) for algorithm in ("ring", "parameter-server") for way in ("ddp", "zero-1", "zero-2", "fsdp")
    ]
    seconds = {row: at["step_s"] for row, at in zip(rows, found["rows"], strict=True)}
    assert seconds["parameter-server", "ddp"] > seconds["ring", "ddp"]


def test_a_machine_without_nvlink_has_break_even_points() -> None:
    found = document("dgx-a100", "--model", "resnet50", "--without-nvlink")
    with_it, without = found["rows"]
    assert without["efficiency"] < with_it["efficiency"]
    assert without["break_even"]["hidden_bytes"] < with_it["break_even"]["hidden_bytes"]
    assert without["break_even"]["compute_factor"] > with_it["break_even"]["compute_factor"]


def test_totals_that_are_given_are_taken() -> None:
    found = document(STAR, "--model", "resnet18", "--forward", "40ms", "--backward", "80ms")
    assert found["forward_s"] == pytest.approx(0.04)
    assert found["backward_s"] == pytest.approx(0.08)
    assert found["compute"]["modelled"] is False


def test_compression_accumulation_and_views_are_taken() -> None:
    options = ("--model", "resnet18", "--compress", "fp16", "--accumulate", "2", "--gradient-as-bucket-view")
    plain, other = document("dgx-h100", "--model", "resnet18"), document("dgx-h100", *options)
    assert [bucket["sent_bytes"] for bucket in other["buckets"]] == [row["num_bytes"] // 2 for row in plain["buckets"]]
    assert other["forward_s"] == pytest.approx(2 * plain["forward_s"])
    assert other["copy_s"] == pytest.approx(plain["copy_s"] / 2)


def test_a_table_of_buckets_stands_below_a_single_step() -> None:
    done = run(STAR, "--model", "resnet18", "--gpu-flops", "312T")
    assert "buckets in launch order" in done.stdout
    assert "28,852,224" in done.stdout
    assert "20% (--mfu)" in done.stderr
    assert "not slowed down" in done.stderr


@pytest.mark.parametrize("form", ["csv", "md"])
def test_other_formats(form: str) -> None:
    done = run(STAR, "--model", "resnet18", "--format", form)
    assert done.exit_code == 0
    assert done.stdout.count("\n") == (2 if form == "csv" else 3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--bucket-cap-mb", "0"), "a bucket cap of 0 MB"),
        (("--bucket-cap-mb", "1000000000"), "a bucket cap of 1e+09 MB"),
        (("--bucket-cap-mb", "25,x"), "'x' is no number"),
        (("--bucket-cap-mb", ""), "is no number"),
        (("--first-bucket-cap-mb", "0"), "cap of the first bucket"),
        (("--schedule", "zero"), "did you mean 'zero-1'"),
        (("--algorithm", "rng"), "did you mean 'ring'"),
        (("--precision", "fp8"), "unknown precision"),
        (("--gpu-flops", "fast"), "operations per second"),
        (("--accumulate", "0"), "--accumulate 0"),
        (("--forward", "3"), "it has no unit"),
        (("--dtype", "float31"), "unknown dtype"),
        (("--layer-times", "nowhere.json"), "nowhere.json: cannot be read"),
        (("--without-nvlink",), "no NVLink to take out"),
    ],
)
def test_bad_input_is_one_sentence(options: tuple[str, ...], says: str) -> None:
    done = run(STAR, "--model", "resnet18", *options)
    assert done.exit_code == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert says in line
