"""`topo simulate`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sim.algorithms import ALGORITHMS
from tests.support import ROOT
from topo.cli import main

STAR = "switch:8,bandwidth=200GB/s,latency=1us"
ROW_KEYS = {
    "num_bytes",
    "algorithm",
    "protocol",
    "planner",
    "instead_of",
    "num_channels",
    "engine",
    "time_s",
    "low_s",
    "high_s",
    "extrapolated",
    "algbw_bytes_per_s",
    "busbw_bytes_per_s",
    "wire_bytes_per_s",
    "limiting_link",
}


def topo(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments])


def rows(*arguments: str) -> list[dict[str, float]]:
    result = topo(*arguments, "--format", "json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["schema"] == "simulate/1"
    found: list[dict[str, float]] = document["rows"]
    return found


def test_a_ring_on_a_star_takes_its_closed_form() -> None:
    (row,) = rows(STAR, "--algorithm", "ring", "--size", "1M", "--profile", "ideal")
    assert set(row) == ROW_KEYS
    assert row["time_s"] * 1e6 == pytest.approx(23.175, abs=1e-3)
    assert row["busbw_bytes_per_s"] == pytest.approx(row["wire_bytes_per_s"])


def test_1024_ranks_take_their_closed_form() -> None:
    star = STAR.replace("8", "1024", 1)
    (row,) = rows(star, "--algorithm", "ring", "--size", "1G", "--profile", "ideal")
    assert row["time_s"] * 1e6 == pytest.approx(12_772.93248, rel=1e-9)


def test_the_server_pays_seven_shares_both_ways() -> None:
    (row,) = rows(STAR, "--algorithm", "parameter-server", "--size", "1G")
    assert row["time_s"] * 1e6 == pytest.approx(75_163.92768, rel=1e-9)


def test_all_names_every_algorithm_and_each_says_its_planner() -> None:
    every = rows("dgx-h100", "--algorithm", "all", "--size", "1G")
    scheduled = {name for name, row in ALGORITHMS.items() if "all_reduce" in row.collectives}
    assert {row["algorithm"] for row in every} == scheduled - {"nvls-tree", "collnet-direct"}, (
        "which join several nodes"
    )
    assert [row["planner"] for row in every[:3]] == ["nccl-2.30", "nccl-2.30", "topology"]


def test_auto_is_the_choice_of_nccl() -> None:
    result = topo("dgx-h100", "--nodes", "2", "--size", "64K,256K", "--format", "json")
    found = json.loads(result.stdout)["rows"]
    assert [(row["algorithm"], row["protocol"], row["instead_of"]) for row in found] == [
        ("tree", "ll", None),
        ("tree", "ll128", None),
    ]
    assert result.stderr == ""


def test_what_cannot_be_simulated_yet_is_said_and_stood_in_for() -> None:
    reducing = (
        "dgx-h100-sharp",
        "--nodes",
        "8",
        "--fabric",
        "fat-tree:1",
        "--env",
        "NCCL_COLLNET_ENABLE=1",
        "--size",
        "64M",
        "--engine",
        "event",
    )
    result = topo(*reducing, "--format", "json")
    [row] = json.loads(result.stdout)["rows"]
    assert row["algorithm"] in ("ring", "tree", "nvls-tree")
    assert row["instead_of"] == "nvls"
    assert result.stderr.count("NCCL takes nvls for 64 MiB, which cannot be simulated yet") == 1
    assert "instead of" in topo(*reducing).stdout


def test_what_has_a_schedule_now_stands_for_itself() -> None:
    one_each = ("dgx-h100", "--nodes", "8", "--gpus", "0", "--collective", "all_gather", "--size", "1K,64K")
    small, large = json.loads(topo(*one_each, "--engine", "event", "--format", "json").stdout)["rows"]
    assert (small["algorithm"], small["instead_of"]) == ("ring", None)
    assert (large["algorithm"], large["instead_of"]) == ("pat", None)


def test_kernels_need_no_schedule_and_give_a_range() -> None:
    small, large = rows("dgx-h100", "--size", "64K,1G")
    assert (small["algorithm"], small["engine"]) == ("ring", "kernels")
    assert (large["algorithm"], large["instead_of"]) == ("nvls", None)
    assert large["low_s"] < large["time_s"] < large["high_s"]
    assert not large["extrapolated"]
    assert "expected" in topo("dgx-h100", "--size", "1G").stdout
    assert "nvls" in topo("dgx-h100", "--size", "1G", "--algorithm", "all").stdout


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (STAR, "faster simulated of ring and tree, since NCCL's choice is not known here"),
        ("examples/dgx-h100-topo-m.txt", "those of small sizes may be off by several times: the model of GPU0 is"),
    ],
)
def test_what_nccl_cannot_plan_is_the_faster_of_ring_and_tree(machine: str, said: str) -> None:
    place = machine if machine == STAR else str(ROOT / machine)
    result = topo(place, "--size", "1G", "--format", "json")
    (row,) = json.loads(result.stdout)["rows"]
    assert (row["algorithm"], row["planner"]) == ("ring", "topology")
    assert "faster simulated of ring and tree" in result.stderr
    assert said in result.stderr


def test_a_planner_by_name() -> None:
    tree = ("--algorithm", "tree", "--size", "1G", "--engine", "event")
    (by_topology,) = rows("dgx-h100", *tree, "--planner", "topology")
    (by_nccl,) = rows("dgx-h100", *tree, "--planner", "nccl-2.30")
    assert by_topology["time_s"] < by_nccl["time_s"], "NCCL's tree is a chain inside a node"
    assert (by_topology["num_channels"], by_nccl["num_channels"]) == (1, 24)


def test_environment_and_protocol_reach_the_planner() -> None:
    where = ("dgx-h100", "--size", "1M")
    (row,) = rows(*where, "--env", "NCCL_ALGO=tree", "--env", "NCCL_MAX_NCHANNELS=4", "--protocol", "simple")
    assert (row["algorithm"], row["protocol"], row["num_channels"]) == ("tree", "simple", 4)
    assert "NCCL_IB_HCA: this planner does not follow it" in topo(*where, "--env", "NCCL_IB_HCA=mlx5_0").stderr


@pytest.mark.parametrize("collective", ["reduce_scatter", "all_gather", "broadcast", "reduce"])
@pytest.mark.parametrize("machine", [("dgx-h100",), ("dgx-h100", "--nodes", "2"), (STAR,)])
def test_auto_runs_every_collective(machine: tuple[str, ...], collective: str) -> None:
    small, large = rows(*machine, "--collective", collective, "--size", "64K,1G")
    assert small["time_s"] < large["time_s"]
    assert large["algorithm"] == "ring"
    assert large["busbw_bytes_per_s"] > 0.8 * large["wire_bytes_per_s"]


def test_sizes_sweep_as_in_nccl_tests() -> None:
    swept = rows("dgx-h100", "--algorithm", "tree", "-b", "1K", "-e", "1M", "-f", "32")
    assert [row["num_bytes"] for row in swept] == [1 << 10, 1 << 15, 1 << 20]


@pytest.mark.parametrize("num_gpus", [1, 2, 3, 5])
def test_a_subset_of_gpus(num_gpus: int) -> None:
    result = topo("dgx-h100", "--gpus", f"0-{num_gpus - 1}", "--size", "8", "--algorithm", "all", "--format", "json")
    document = json.loads(result.stdout)
    assert document["num_ranks"] == num_gpus
    assert all((row["busbw_bytes_per_s"] is None) == (row["time_s"] == 0) for row in document["rows"])


def test_several_nodes_use_all_their_nics() -> None:
    (row,) = rows("dgx-h100", "--nodes", "2", "--algorithm", "ring", "--size", "1G")
    assert row["num_channels"] == 16
    assert 300e9 < row["busbw_bytes_per_s"] < 400e9


@pytest.mark.parametrize("form", ["table", "csv", "md"])
def test_tables_carry_units(form: str, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert topo("dgx-h100", "--algorithm", "ring", "--size", "1M", "--format", form, "-o", str(target)).exit_code == 0
    text = target.read_text()
    (row,) = rows("dgx-h100", "--algorithm", "ring", "--size", "1M")
    assert ("time_us" if form == "csv" else "time us") in text
    assert f"{row['busbw_bytes_per_s'] / 1e9:.6f}"[:4] in text
    assert ("1048576" if form == "csv" else "1 MiB") in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["dgx-h100", "--size", "0"], "positive size"),
        (["dgx-h100", "--size", "10"], "use 8 or 12"),
        (["dgx-h100", "--size", "-5"], "-5"),
        (["dgx-h100", "--size", "1X"], "1X"),
        (["dgx-h100", "--size", "1M", "-b", "8"], "use one or the other"),
        (["dgx-h100", "--gpus", "9"], "no GPU 9"),
        (["dgx-h200", "--size", "1M"], "dgx-h100"),
        (["dgx-h100", "--algorithm", "rng", "--size", "1M"], "'ring'"),
        (["dgx-h100", "--collective", "all_gather", "--algorithm", "tree", "--size", "1M"], "runs all_reduce"),
        (["dgx-h100", "--collective", "allreduc", "--size", "1M"], "all_reduce"),
        (["dgx-h100", "--profile", "idael", "--size", "1M"], "'ideal'"),
        (["dgx-h100", "--engine", "evnt", "--size", "1M"], "'event'"),
        (["dgx-h100", "--dtype", "float33", "--size", "1M"], "'float32'"),
        (["dgx-h100", "--channels", "0", "--size", "1M"], "from 1 to 65536"),
        (["dgx-h100", "--planner", "nccl", "--size", "1M"], "'nccl-2.30'"),
        (["dgx-h100", "--planner", "nccl-2.30", "--algorithm", "parameter-server"], "use --planner topology"),
        (["dgx-h100", "--planner", "topology", "--protocol", "ll"], "--protocol steers what NCCL plans"),
        (["dgx-h100", "--env", "NCCL_ALGO"], "expected NAME=VALUE"),
        (["dgx-h100", "--env", "PATH=/"], "only NCCL's own variables"),
        (["dgx-h100", "--env", "NCCL_ALGO=ring", "--env", "NCCL_ALGO=tree"], "set twice"),
        (["dgx-h100", "--env", "NCCL_ALGO=rng"], "did you mean 'ring'"),
        (["dgx-h100", "--env", "NCCL_AGLO=ring"], "did you mean 'NCCL_ALGO'"),
        (["dgx-h100", "--env", "NCCL_PROTO=ll", "--protocol", "ll"], "twice"),
        (["dgx-h100", "--protocol", "lll"], "did you mean 'll'"),
        ([STAR, "--env", "NCCL_ALGO=ring"], "NCCL_ALGO is for NCCL's planner, which cannot plan this machine"),
        (["pcie-8gpu", "--env", "NCCL_ALGO=nvls"], "NVLS needs an NVSwitch"),
        (["pcie-8gpu", "--algorithm", "nvls"], "NVLS needs an NVSwitch"),
        (["dgx-h100", "--algorithm", "nvls-tree"], "nvls-tree joins several nodes"),
        (["dgx-h100", "--server", "host", "--algorithm", "ring", "--size", "1M"], "only parameter-server"),
        (["dgx-h100", "--server", "", "--algorithm", "parameter-server", "--size", "1M"], "--server names no server"),
        (["dgx-h100", "--chunks", "5", "--algorithm", "ring", "--size", "1M"], "ring takes no number of chunks"),
        (["dgx-h100", "--fabric", "flat", "--size", "1M"], "--fabric flat joins nodes, and there is one"),
        (["dgx-h100", "--nodes", "100000000", "--size", "1M"], "800,000,000 ranks need about 18,626.5 GiB"),
        (["switch:1000000,bandwidth=1GB/s", "--size", "1M"], "2,000,000 links, more than 262,144"),
        (["dgx-h100", "--server", "GPU9", "--algorithm", "parameter-server", "--size", "1M"], "GPU9"),
        (["switch:8,bandwidth=-1GB/s", "--size", "1M"], "-1GB/s"),
        (["switch:8,bandwidth=0GB/s", "--size", "1M"], "0GB/s"),
        (["switch:8,bandwith=1GB/s", "--size", "1M"], "bandwidth"),
        (["switch:0,bandwidth=1GB/s", "--size", "1M"], "switch:0"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(arguments: list[str], complaint: str) -> None:
    result = topo(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert complaint in result.stderr
    assert result.stderr.strip().count("\n") <= 1
    assert "Traceback" not in result.stderr


def test_a_link_that_is_mostly_idle_is_said_not_to_limit() -> None:
    asked = ("dgx-h100", "--size", "1K,1G", "--algorithm", "ring")
    assert "ring of 1 GiB: GPU0->NVS0 is the busiest link, but idle for" in topo(*asked, "--channels", "1").stderr
    assert "idle" not in topo(*asked).stderr


@pytest.mark.parametrize("engine", ["auto", "event"])
def test_a_latency_that_is_stated_counts(engine: str) -> None:
    """Two nodes exchange over one hop there and one back, by whichever tree or ring."""
    asked = ("dgx-h100", "--nodes", "2", "--size", "8", "--engine", engine, "--format", "json")
    runs = (topo(*asked, *fabric) for fabric in ((), ("--fabric", "flat,latency=200us")))
    fast_s, slow_s = (json.loads(run.stdout)["rows"][0]["time_s"] for run in runs)
    assert slow_s == pytest.approx(fast_s + 2 * 200e-6)
