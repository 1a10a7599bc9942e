"""`topo plan`, as a user runs it: against the reference runs, in every format, and with its errors."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sim.plan_decisions import decide, switches
from sim.planners.nccl_2_30.front_door import plan_machine
from tests.sim.nccl_support import ALGORITHMS, COLLECTIVES, PROTOCOLS, REFERENCES, Reference
from topo.cli import main
from topo.load import load_topology
from topo.presets import PRESETS
from topo.readers import nccl_graph

SWEEP = "8", "8589934592"


def topo(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments])


def document(*arguments: str) -> Any:
    result = topo(*arguments, "--format", "json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["schema"] == "plan/1"
    return found


def settings(reference: Reference) -> list[str]:
    pairs = reference.environment
    return [word for name, value in pairs for word in ("--env", f"{name}={value}")]


SHOWN = [
    reference
    for reference in REFERENCES
    if reference.machine in PRESETS and reference.name not in ("dgx-h100-n2-tree",) and reference.hosts <= 4
]


@pytest.mark.corpus
@pytest.mark.parametrize("reference", SHOWN[::5], ids=str)
def test_the_document_is_the_reference_run(reference: Reference) -> None:
    found = document(
        reference.machine, "--nodes", str(reference.hosts), *settings(reference), "-b", SWEEP[0], "-e", SWEEP[1]
    )
    expected = reference.result
    assert found["num_channels"] == expected["nChannels"]
    assert found["rings"] == expected["rings"]
    assert found["trees"] == expected["trees"]
    rows = {row["bytes"]: row for row in expected["ops"]["AllReduce"]}
    assert found["choices"]
    for choice in found["choices"]:
        row = rows[choice["num_bytes"]]
        assert choice["algorithm"] == ALGORITHMS[row["algo"]]
        assert choice["protocol"] == PROTOCOLS[row["proto"]]
        assert choice["max_channels"] == row["nMaxChannels"]
        assert choice["nccl_estimate_s"] * 1e6 == pytest.approx(row["time_us"], rel=1e-3)
        if "channels" in row:
            assert choice["num_channels"] == row["channels"][1] - row["channels"][0] + 1


@pytest.mark.parametrize("collective", COLLECTIVES.values())
def test_every_collective_of_the_tuner(collective: str) -> None:
    found = document("dgx-h100", "--nodes", "2", "--collective", collective, "-f", "16")
    assert {row["collective"] for row in found["choices"]} == {collective}
    assert all(row["num_channels"] <= row["max_channels"] for row in found["choices"])


def test_the_text_fits_80_columns() -> None:
    for arguments in (["dgx-h100"], ["dgx-h100", "--nodes", "32"], ["gb200-nvl8", "--nodes", "3"], ["dgx1-v100"]):
        lines = topo(*arguments).stdout.splitlines()
        assert not [line for line in lines if len(line) > 80]
        assert lines[0].startswith("NCCL 2.30.7 on ")
        assert any(line.startswith("switches: ") for line in lines)
        assert sum("*" in line for line in lines) >= 31, "the choice is marked for every size"


def test_the_text_of_one_machine() -> None:
    text = topo("dgx-h100", "--size", "1M,2M").stdout
    assert "8 ranks, 1 node, 24 channels" in text
    assert "  0-23    0 1 2 3 4 5 6 7\n" in text
    assert "  0-23    0>1>2>3>4>5>6>7\n" in text
    assert "nvls       simple    16" in text
    assert "switches: ring ll from 1 MiB, nvls simple from 1.092 MiB\n" in text


def test_trees_over_nodes_are_drawn_as_chains() -> None:
    assert "0>1>2>3>4>5>6>7 0>8>9>10>11>12>13>14>15" in topo("dgx-h100", "--nodes", "2", "--size", "1M").stdout


def test_switch_points_are_exact_to_the_element() -> None:
    plan = plan_machine(load_topology("dgx-h100", nodes=2), {})
    sizes = tuple(8 << power for power in range(31))
    found = switches(plan, "all_reduce", sizes, "float32")
    ways = [(row.algorithm, row.protocol) for row in found]
    assert [way for way in ways if way[0] != "ring"] == [("tree", "ll"), ("tree", "ll128"), ("nvls-tree", "simple")]
    assert ("ring", "ll") in ways, "between two powers of two, where no table of doubled sizes shows it"
    for row in found[1:]:
        before = plan.choose("all_reduce", row.num_bytes - 4)
        assert (before.algorithm, before.protocol) != (row.algorithm, row.protocol)
        after = plan.choose("all_reduce", row.num_bytes)
        assert (after.algorithm, after.protocol) == (row.algorithm, row.protocol)


def test_the_runner_up_is_the_next_best() -> None:
    plan = plan_machine(load_topology("dgx-h100"), {})
    (row,) = decide(plan, "all_reduce", (1 << 20,), "float32")
    assert row.runner_up == ("nvls", "simple")
    assert row.gap == pytest.approx(0.03, abs=0.005)
    (alone,) = decide(plan_machine(load_topology("hgx-h200-1gpu"), {}), "all_reduce", (1 << 20,), "float32")
    assert (alone.runner_up, alone.gap) == (None, None)


def test_csv_and_markdown_are_the_choices() -> None:
    table = topo("dgx-h100", "--size", "1M,2M", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [(row["num_bytes"], row["algorithm"]) for row in rows] == [("1048576", "ring"), ("2097152", "nvls")]
    assert "| 1 MiB | ring | ll | 24 |" in topo("dgx-h100", "--size", "1M", "--format", "md").stdout


def test_explain_says_what_limits_and_which_rule_excludes() -> None:
    text = topo("dgx-h100", "--explain", "1M").stdout
    words = " ".join(text.split())
    assert "all_reduce of 1 MiB: NCCL takes ring ll on 24 channels, in chunks of 32 KiB; it expects 28.0 us" in words
    assert "* ring ll: 28.0 us = 15.0 us latency + 13.0 us for the bytes" in words
    assert "6.6 us to start, then 14 steps over NVLink" in words
    assert "NCCL's cap for ll on one node of Hopper, however many channels there are" in words
    assert "12 channels of 30 GB/s inside a node, as the search found" in words
    assert "* nvls-tree: nvls-tree joins several nodes, here is one" in words
    assert "* pat: pat runs all_gather and reduce_scatter alone" in words
    assert not [line for line in text.splitlines() if len(line) > 80]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pcie-8gpu"], "nvls, nvls-tree: NVLS needs an NVSwitch, the GPUs here have none"),
        (["pcie-8gpu"], "tree ll128, ring ll128: ll128 is not safe over SYS paths between GPUs (NVB at most)"),
        (["dgx-a100"], "nvls, nvls-tree: NVLS needs compute capability 9.0, here is 8.0"),
        (["dgx-h100", "--env", "NCCL_NVLS_ENABLE=0"], "nvls, nvls-tree: NCCL_NVLS_ENABLE=0"),
        (["dgx-h100", "--env", "NCCL_ALGO=^tree"], "tree: NCCL_ALGO leaves it out"),
        (["dgx-h100", "--protocol", "simple"], "tree ll/ll128, ring ll/ll128"),
        (["dgx-h100", "--collective", "broadcast"], "broadcast runs by ring alone"),
        (["dgx-h100", "--collective", "all_gather"], "pat needs one rank on each node, here are 8"),
        (["dgx-h100", "--nodes", "2"], "nvls: nvls alone joins no nodes"),
        (["hgx-h200-1gpu"], "one rank copies by itself"),
    ],
)
def test_rules_in_words(arguments: list[str], words: str) -> None:
    assert words in " ".join(topo(*arguments, "--explain", "1M").stdout.split())


@pytest.mark.parametrize("name", ["dgx-h100", "dgx1-v100", "pcie-8xl40s-amd", "gb200-1tray", "alps-gh200x4"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_parts_of_an_estimate_make_the_whole(name: str, count: int) -> None:
    found = document(name, "--nodes", str(count), "--explain", "1K,1M,1G", "--size", "1K,1M,1G")
    for explanation, choice in zip(found["explanations"], found["choices"], strict=True):
        times = {(row["algorithm"], row["protocol"]): row["nccl_estimate_s"] for row in choice["estimates"]}
        weighed = {(row["algorithm"], row["protocol"]): row for row in explanation["candidates"]}
        assert set(weighed) == set(times)
        for way, row in weighed.items():
            assert row["latency_s"] + row["transfer_s"] == pytest.approx(times[way])
            assert row["limit"]
            assert row["latency_words"]
        excluded = {row["algorithm"]: row["rule"] for row in explanation["excluded"]}
        assert {"tree", "ring", "nvls", "nvls-tree", "pat", "collnet-direct", "collnet-chain"} == (
            set(excluded) | {algorithm for algorithm, _ in weighed}
        )


def test_graphs_are_written_for_nccl(tmp_path: Path) -> None:
    target = tmp_path / "graphs.xml"
    assert topo("dgx-h100", "--nodes", "2", "--size", "1M", "--graph-xml", str(target)).exit_code == 0
    file = nccl_graph.read(target.read_text(), str(target))
    assert [graph.num_channels for graph in file.graphs] == [8, 8, 0, 0, 8]
    split = topo("pcie-8xl40s-amd", "--nodes", "2", "--size", "1M", "--graph-xml", str(target))
    assert "the first of 2 parts into which NCCL splits this machine" in split.stderr


def test_settings_change_the_plan() -> None:
    assert document("dgx-h100", "--size", "1M", "--env", "NCCL_MAX_NCHANNELS=8")["num_channels"] == 8
    found = document("dgx-h100", "--size", "1M", "--env", "NCCL_IB_HCA=mlx5_0")
    assert found["notes"] == ["NCCL_IB_HCA: this planner does not follow it"]
    assert found["environment"] == {"NCCL_IB_HCA": "mlx5_0"}


def test_gpus_that_are_newer_than_the_tables_are_marked(tmp_path: Path) -> None:
    text = topo_xml().replace('sm="90"', 'sm="107"')
    target = tmp_path / "rubin.xml"
    target.write_text(text)
    result = topo(str(target), "--size", "1M", "--format", "json")
    assert json.loads(result.stdout)["extrapolated"] is True
    assert "NCCL 2.30 has no row for compute capability 10.7" in result.stderr
    shown = topo(str(target), "--size", "1M").stdout
    assert "(planned, extrapolated)" in shown
    assert "by NCCL's own estimate, extrapolated (not measured)" in shown


def topo_xml() -> str:
    result = CliRunner().invoke(main, ["show", "dgx-h100", "--as", "nccl-xml"])
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["switch:8,bandwidth=1GB/s"], "a description without PCIe"),
        (["examples/dgx-h100-topo-m.txt"], "the model of GPU0 is unknown"),
        (["dgx-h100", "--planner", "topology"], "stands for no library"),
        (["dgx-h100", "--planner", "nccl"], "did you mean 'nccl-2.30'"),
        (["dgx-h100", "--collective", "all_to_all"], "NCCL's tuner chooses nothing for all_to_all"),
        (["dgx-h100", "--collective", "allreduc"], "did you mean 'all_reduce'"),
        (["dgx-h100", "--dtype", "float31"], "float32"),
        (["dgx-h100", "--env", "NCCL_ALGO=tre"], "did you mean 'tree'"),
        (["dgx-h100", "--env", "NCCL_ALGO=tree", "--collective", "broadcast"], "tree: broadcast runs by ring alone"),
        (["pcie-8gpu", "--env", "NCCL_ALGO=nvls"], "NVLS needs an NVSwitch"),
        (["dgx-h100", "--explain", "1M", "--format", "csv"], "use table or json"),
        (["dgx-h100", "--check", "no-such-file.log"], "no-such-file.log"),
        (["dgx-h100", "--check", "examples/dgx-h100-topo-m.txt"], "no log of NCCL"),
        (["dgx-h100", "--size", "0"], "positive size"),
        (["dgx-h100", "--explain", "10"], "use 8 or 12"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(arguments: list[str], complaint: str) -> None:
    result = topo(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert complaint in result.stderr
    assert result.stderr.strip().count("\n") == 0
