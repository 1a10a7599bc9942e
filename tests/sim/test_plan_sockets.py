"""What of a plan goes from one processor to another, held against the machine's own boxes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from sim.predict import Simulator
from sim.workload import Workload
from topo.cli import main
from topo.load import load_topology
from topo.presets import preset

GIB = 2**30
SLOW = ("pcie-8gpu", "pcie-4gpu", "dgx1-v100", "dgx-h100")


def document(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["plan", *arguments, "--format", "json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("machine", SLOW)
def test_rings_without_nvlink_cross_as_often_as_their_neighbours_stand_apart(machine: str) -> None:
    """Without NVLinks and P2P, and NICs between, hops from NUMA node to NUMA node go over the link between them."""
    off = ("NCCL_P2P_DISABLE=1", "NCCL_NVLS_ENABLE=0", "NCCL_NET_DISABLE_INTRA=1")
    found = document(machine, "--size", "1G", *(word for setting in off for word in ("--env", setting)))
    node = preset(machine)
    numa = [node.device(gpu_id).numa_node for gpu_id in node.gpu_ids]
    crossing = {tuple(map(tuple, row["hops"])) for row in found["sockets"]["crossings"] if row["graph"] == "ring"}
    expected = set()
    for ring in found["rings"]:
        hops = zip(ring, [*ring[1:], ring[0]], strict=True)
        apart = tuple((src, dst) for src, dst in hops if numa[src] != numa[dst])
        expected |= {apart} if apart else set()
    assert crossing == expected


def test_bytes_are_those_of_the_simulated_run() -> None:
    found = document("pcie-8gpu", "--size", "1G")
    simulator = Simulator(load_topology("pcie-8gpu"))
    for row in found["sockets"]["loads"]:
        run = simulator.run(Workload("all_reduce", GIB), row["algorithm"])
        carried = {load.link: load.num_bytes for load in run.link_loads}
        assert row["bytes_per_byte"] * GIB == pytest.approx(carried[row["link"]])
    ring, tree = found["sockets"]["loads"]
    assert (ring["algorithm"], tree["algorithm"]) == ("ring", "tree")
    assert ring["bytes_per_byte"] == pytest.approx(2 * 7 / 8)
    (choice,) = found["choices"]
    best_s = min(row["nccl_estimate_s"] for row in choice["estimates"] if row["algorithm"] == "ring")
    assert ring["bytes_per_s"] == pytest.approx(2 * 7 / 8 * GIB / best_s)


@pytest.mark.parametrize("machine", ["dgx-h100", "dgx1-v100", "dgx-a100"])
def test_nvlinks_spare_the_processors(machine: str) -> None:
    assert document(machine, "--size", "1G")["sockets"] == {"crossings": [], "loads": []}
    result = CliRunner().invoke(main, ["plan", machine, "--size", "1G"])
    assert "between sockets: no hop of a ring or tree" in result.stdout


def test_one_processor_has_nothing_to_say() -> None:
    one = next(name for name in ("t4-x2", "pcie-4gpu", "hgx-h100-4gpu") if len(preset(name).of_kind("cpu")) < 2)
    assert document(one, "--size", "1G")["sockets"] is None
    assert "between sockets" not in CliRunner().invoke(main, ["plan", one, "--size", "1G"]).stdout


def test_in_a_cluster_every_node_is_counted() -> None:
    found = document("pcie-8gpu", "--nodes", "4", "--size", "1G")
    for row in found["sockets"]["crossings"]:
        assert {src // 8 for src, _ in row["hops"]} == {0, 1, 2, 3}
    assert {row["num_links"] % 4 for row in found["sockets"]["loads"]} == {0}


def test_the_text_fits_and_says_both() -> None:
    lines = CliRunner().invoke(main, ["plan", "pcie-8gpu", "--nodes", "64"]).stdout.splitlines()
    begin = lines.index("between sockets")
    shown = lines[begin : lines.index("", begin)]
    assert all(len(line) <= 80 for line in shown)
    assert "(64 hops)" in shown[1]
    assert "GB/s at 8 GiB; NCCL counts on 16" in " ".join(" ".join(shown).split())
