"""A log of NCCL as a topology: its system tree as devices and links, its ranks where it prints none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support import NO_CORPUS, corpus_files
from tests.topo.test_nccl_log_system import DEVICE_TREE, NEW_TREE, OLD_TREE
from topo.cli import main
from topo.errors import CaptureError
from topo.log_nvlinks import nvlinks_in
from topo.merge_log import from_log
from topo.readers import nccl_log, topology_json
from topo.topology import Topology
from topo.writers import WRITERS, write
from topo.writers.matrix import matrix

LOGS = corpus_files("nccl-log/*.txt")
needs_logs = pytest.mark.skipif(not LOGS, reason=NO_CORPUS)
every_log = pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)


def rank_lines(rank: int, num_ranks: int, bus: str, *, host: str = "h0", dev: int | None = None, nodes: int = 1) -> str:
    dev = rank if dev is None else dev
    prefix = f"{host}:{rank + 1}:{rank + 1} [{dev}] NCCL INFO"
    name = f"comm 0x{rank + 1:x} rank {rank}"
    start = f"nranks {num_ranks} cudaDev {dev} nvmlDev {dev} busId {bus} commId 0x9 - Init START"
    shape = f"nRanks {num_ranks} nNodes {nodes} localRanks 1 localRank 0 MNNVL 0"
    return f"{prefix} ncclCommInitRank {name} {start}\n{prefix} {name} {shape}\n"


def tree_lines(tree: str, rank: int = 0, *, host: str = "h0", dev: int | None = None) -> str:
    dev = rank if dev is None else dev
    return "".join(f"{host}:{rank + 1}:{rank + 1} [{dev}] NCCL INFO {line}\n" for line in tree.splitlines())


def topology_of(text: str) -> Topology:
    return from_log(nccl_log.read(text, "a.log"))


def links_of(topology: Topology) -> dict[tuple[str, str, str], tuple[float, int]]:
    return {(link.src, link.dst, link.kind): (link.bandwidth_bytes_per_s, link.lanes) for link in topology.links}


def test_a_tree_becomes_devices_and_links_at_nccls_rates() -> None:
    topology = topology_of(rank_lines(0, 2, "98000") + rank_lines(1, 2, "68000") + tree_lines(NEW_TREE))
    assert {(device.id, device.kind) for device in topology.devices} == {
        ("GPU0", "gpu"),
        ("GPU1", "gpu"),
        ("numa0", "cpu"),
        ("numa1", "cpu"),
        ("numa0/switch0", "pcie_switch"),
        ("NET12", "nic"),
        ("NVS0", "nvswitch"),
    }
    links = links_of(topology)
    assert links["GPU1", "NVS0", "nvlink"] == links["NVS0", "GPU1", "nvlink"] == (370.8e9, 18)
    assert links["GPU0", "numa1", "pcie"] == links["numa1", "GPU0", "pcie"] == (24e9, 1)
    assert links["numa0", "numa1", "cpu"] == (16e9, 1)
    assert links["NET12", "numa0/switch0", "pcie"] == (48e9, 1)
    assert topology.complete
    assert topology.gpu_ids == ("GPU0", "GPU1")
    nic = topology.device("NET12").nic
    assert nic is not None
    assert (nic.index, nic.bandwidth_bytes_per_s, nic.port, nic.guid) == (12, 50e9, 1, "a00f")
    assert matrix(topology)["GPU1"] == {"GPU0": "NV18", "NET12": "PIX"}


def test_the_interfaces_that_nccl_uses_name_the_ports_of_the_tree() -> None:
    using = "h0:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_9:1/IB [12]mlx5_3:1/RoCE [RO]; OOB eth0:192.0.2.1<0>\n"
    topology = topology_of(rank_lines(0, 2, "98000") + rank_lines(1, 2, "68000") + using + tree_lines(NEW_TREE))
    assert [device.id for device in topology.of_kind("nic")] == ["mlx5_3"]


def test_gpus_of_the_tree_of_nccl_2_30_are_ranks_by_their_bus_id() -> None:
    text = rank_lines(0, 2, "10000") + rank_lines(1, 2, "f000") + tree_lines(DEVICE_TREE)
    topology = topology_of(text)
    buses = {device.id: device.pci.bus_id for device in topology.of_kind("gpu") if device.pci}
    assert buses == {"GPU0": "0000:10:00.0", "GPU1": "0000:0f:00.0"}
    assert links_of(topology)["GPU1", "NVS0", "nvlink"] == (164.8e9, 8)
    assert links_of(topology)["GPU1", "numa0/switch0", "pcie"] == (48e9, 1)
    assert topology.complete
    cpu = topology.device("numa0")
    assert cpu.cpu is not None
    assert (cpu.vendor, cpu.cpu.family, cpu.cpu.model) == ("GenuineIntel", 6, 0x8F)


def test_the_tree_of_nccl_2_5() -> None:
    topology = topology_of(rank_lines(0, 2, "1a000") + rank_lines(1, 2, "1b000") + tree_lines(OLD_TREE))
    assert links_of(topology)["GPU0", "GPU1", "nvlink"] == (42e9, 2)
    assert matrix(topology)["GPU0"]["GPU1"] == "NV2"
    assert topology.complete


def test_two_hosts_are_joined_by_an_assumed_fabric() -> None:
    other = NEW_TREE.replace("(1)\n", "(3)\n").replace("(0)\n", "(2)\n")
    text = (
        rank_lines(0, 4, "98000", nodes=2)
        + rank_lines(1, 4, "68000", nodes=2)
        + rank_lines(2, 4, "98000", host="h1", dev=0, nodes=2)
        + rank_lines(3, 4, "68000", host="h1", dev=1, nodes=2)
        + tree_lines(NEW_TREE)
        + tree_lines(other, rank=2, host="h1")
    )
    topology = topology_of(text)
    assert topology.gpu_ids == ("GPU0", "GPU1", "GPU2", "GPU3")
    assert [topology.device(gpu).host for gpu in topology.gpu_ids] == ["h0", "h0", "h1", "h1"]
    assert {device.id for device in topology.of_kind("nic")} == {"h0/NET12", "h1/NET12"}
    assert matrix(topology)["GPU0"]["GPU2"] == "NET"
    assert matrix(topology)["GPU2"]["GPU3"] == "NV18"
    assert not topology.complete
    assert any("what joins the hosts is not shown" in finding for finding in topology.remarks)


def test_hosts_of_one_nvlink_domain_print_one_tree() -> None:
    def domain(printed_by: int) -> str:
        rows = ["=== System : maxBw 721.8 totalBw 721.8 ==="]
        for system in range(2):
            rows += [
                f"CPU/{system}-0 (3/0/-1)",
                f"+ C2C[223.6] - GPU/{system}-801000",
                f"+ PCI[24.0] - GPU/{system}-801000 ({system})",
                f"              + C2C[223.6] - CPU/{system}-0",
                "              + NVL[721.8] - NVS/0-0",
            ]
        return tree_lines("\n".join([*rows, "====="]), printed_by, host=f"h{printed_by}", dev=0)

    text = "".join(rank_lines(r, 2, "801000", host=f"h{r}", dev=0) + domain(r) for r in range(2))
    topology = topology_of(text)
    assert [(device.id, device.host) for device in topology.of_kind("gpu")] == [("GPU0", "h0"), ("GPU1", "h1")]
    assert [device.id for device in topology.of_kind("nvswitch")] == ["NVS0"]
    links = links_of(topology)
    assert links["GPU1", "NVS0", "nvlink"] == (721.8e9, 18)
    assert links["GPU0", "h0/numa0", "c2c"] == links["h0/numa0", "GPU0", "c2c"] == (223.6e9, 1)
    assert matrix(topology)["GPU0"]["GPU1"] == "NV18"


def test_ranks_without_a_tree_have_hosts_but_no_links() -> None:
    topology = topology_of(rank_lines(0, 3, "7000") + rank_lines(2, 3, "8000", host="h1", dev=0))
    assert topology.gpu_ids == ("GPU0", "GPU1", "GPU2")
    assert [device.host for device in topology.devices] == ["h0", None, "h1"]
    assert (topology.links, topology.complete) == ((), False)
    assert matrix(topology)["GPU0"]["GPU2"] is None


def test_a_rate_of_zero_is_said_and_left_out() -> None:
    text = rank_lines(0, 2, "98000") + rank_lines(1, 2, "68000")
    topology = topology_of(text + tree_lines(NEW_TREE.replace("PCI[24.0]", "PCI[0.0]")))
    assert ("GPU0", "numa1", "pcie") not in links_of(topology)
    assert any("printed with a rate of 0" in finding for finding in topology.remarks)


def test_a_log_that_names_no_rank_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"a\.log: the log shows no rank: run with NCCL_DEBUG=INFO"):
        topology_of("h:1:1 [0] NCCL INFO AllReduce: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}\n")


@pytest.mark.parametrize(
    ("gb_per_s", "capability", "count"),
    [
        (240, None, 12),
        (370.8, None, 18),
        (721.8, None, 18),
        (164.8, None, 8),
        (123.6, None, 6),
        (80, None, 4),
        (48, None, 4),
        (21, None, 1),
        (132, None, 6),
        (36, None, None),
        (36, 60, 2),
        (36, 86, 3),
        (684, None, None),
        (0.04, None, None),
    ],
)
def test_how_many_nvlinks_a_rate_is(gb_per_s: float, capability: int | None, count: int | None) -> None:
    assert nvlinks_in(gb_per_s * 1e9, capability) == count


@needs_logs
@every_log
def test_a_capture_becomes_a_topology_that_can_be_written_and_read_back(path: Path) -> None:
    log = nccl_log.read(path.read_text(encoding="utf-8"), path.name)
    topology = from_log(log)
    assert topology_json.read(write(topology, "json")) == topology
    assert hash(topology) == hash(from_log(log))
    for form in set(WRITERS) - {"affinity", "nccl-xml", "nccl-xml-vm"}:
        assert write(topology, form)
    assert len(topology.gpu_ids) == (log.main.num_ranks if log.main and log.main.num_ranks else len(topology.gpu_ids))
    assert bool(topology.links) == bool(log.systems)


@needs_logs
def test_discover_prints_the_run_of_a_log() -> None:
    path = next(path for path in LOGS if path.name.startswith("016"))
    done = CliRunner().invoke(main, ["discover", "--from", str(path), "--format", "json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    run = document["nccl"]
    assert (run["num_ranks"], run["num_nodes"], run["num_channels"]) == (2, 1, 24)
    assert run["rings"] == [[0, 1]] * 24
    assert run["trees"][0] == {"up": [-1, 0], "down": [[1, -1, -1], [-1, -1, -1]]}
    assert run["transports"] == {"P2P/direct pointer/read": 48}
    assert document["matrix"]["GPU0"]["GPU1"] == "NV12"
    assert document["complete"] is True
    shown = CliRunner().invoke(main, ["show", str(path), "--as", "json"])
    assert json.loads(shown.stdout) == document | {"provenance": json.loads(shown.stdout)["provenance"]}


def test_a_few_lines_of_a_large_run_make_few_devices() -> None:
    text = rank_lines(5, 30000, "7000", nodes=3750) + tree_lines("Trees [0] 6/-1/-1->5->4 [1] 6/9000/-1->5->4", rank=5)
    text += tree_lines("Channel 00/0 : 5[5] -> 29999[0] [send] via NET/IB/0", rank=5)
    topology = topology_of(text)
    assert [device.gpu.rank for device in topology.devices if device.gpu] == [5, 29999]
    assert topology.nccl is not None
    assert (topology.nccl.num_ranks, topology.nccl.num_nodes, topology.nccl.trees) == (30000, 3750, ())
    assert "of 30000 ranks only the 2 that the log names are shown" in topology.remarks
    assert "trees are left out: lines of less than half of the ranks show them" in topology.remarks


def test_a_damaged_number_makes_no_thousands_of_devices() -> None:
    lines = "".join(tree_lines(f"Channel 00 : {r}[1] -> {r + 1}[2] via P2P/IPC", rank=r) for r in range(3))
    topology = topology_of(lines + tree_lines("Channel 00 : 31234[1] -> 0[2] via P2P/IPC", rank=9))
    assert len(topology.devices) == 5


def test_a_folder_with_a_log_for_each_process_is_one_run(tmp_path: Path) -> None:
    parts = [rank_lines(0, 2, "98000") + tree_lines("Ring 00 : 1 -> 0 -> 1") + tree_lines(NEW_TREE)]
    parts += [rank_lines(1, 2, "68000") + tree_lines("Ring 00 : 0 -> 1 -> 0", rank=1) + tree_lines(NEW_TREE, rank=1)]
    for number, part in enumerate(parts):
        (tmp_path / f"nccl.h0.{number}").write_text(part)
    done = CliRunner().invoke(main, ["discover", "--from", str(tmp_path), "--format", "json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["nccl"]["rings"] == [[0, 1]]
    assert document["complete"] is True


def test_a_log_beside_a_topology_adds_its_run(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n")
    (tmp_path / "run.log").write_text(rank_lines(0, 2, "98000") + tree_lines("Channel 00/01 : 0 1"))
    done = CliRunner().invoke(main, ["discover", "--from", str(tmp_path), "--format", "json"])
    document = json.loads(done.stdout)
    assert document["matrix"]["GPU0"]["GPU1"] == "PHB"
    assert document["nccl"]["rings"] == [[0, 1]]
