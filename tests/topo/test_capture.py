"""Capturing runs and keeps, reading understands: machines are stood in for by folders and by commands that are told."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from topo import catalog
from topo.capture import COMMANDS, Capture, RawText, capture, read_sysfs, run_command, save
from topo.captures import LOG_FILE
from topo.errors import CaptureError
from topo.load import load_topology
from topo.readers import sysfs
from topo.reading import read_capture
from topo.topology import Topology

MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n"


def machine(root: Path, files: dict[str, str], links: dict[str, str]) -> Path:
    """A folder that looks like /sys and /proc of a machine."""
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content + "\n")
    for path, target in links.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, root / path)
    return root


TWO_SOCKETS = {
    "sys/devices/system/node/node0/cpulist": "0-1,4-5",
    "sys/devices/system/node/node1/cpulist": "2-3,6-7",
    "sys/devices/system/node/node2/cpulist": "",
    "proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n\nprocessor\t: 1\n",
    "sys/bus/pci/devices/0000:17:00.0/class": "0x020700",
    "sys/bus/pci/devices/0000:17:00.0/vendor": "0x15b3",
    "sys/bus/pci/devices/0000:17:00.0/numa_node": "1",
    "sys/bus/pci/devices/0000:17:00.0/current_link_speed": "32.0 GT/s PCIe",
    "sys/bus/pci/devices/0000:17:00.0/current_link_width": "16",
    "sys/bus/pci/devices/0000:03:00.0/class": "0x020000",
    "sys/bus/pci/devices/0000:03:00.0/numa_node": "0",
    "sys/devices/pci0000:00/0000:03:00.0/net/eth0/speed": "25000",
    "sys/devices/pci0000:00/0000:17:00.0/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)",
    "sys/devices/pci0000:00/0000:17:00.0/net/ib0/speed": "400000",
    "sys/devices/virtual/net/docker0/speed": "10000",
    "sys/devices/virtual/net/lo/type": "772",
}
LINKS = {
    "sys/class/net/eth0": "../../devices/pci0000:00/0000:03:00.0/net/eth0",
    "sys/class/net/ib0": "../../devices/pci0000:00/0000:17:00.0/net/ib0",
    "sys/class/net/docker0": "../../devices/virtual/net/docker0",
    "sys/class/net/lo": "../../devices/virtual/net/lo",
    "sys/class/infiniband/mlx5_0": "../../devices/pci0000:00/0000:17:00.0/infiniband/mlx5_0",
}


def snapshot(root: Path, affinity: Sequence[int]) -> str:
    """What is captured there, with another machine's affinity."""
    document = json.loads(read_sysfs(root))
    document["affinity"] = list(affinity)
    return json.dumps(document)


def read(root: Path, affinity: Sequence[int] = range(8)) -> Topology:
    return sysfs.read(snapshot(root, affinity), "/sys")


def links(topology: Topology, device_id: str) -> dict[tuple[str, str], float]:
    return {(link.kind, link.dst): link.bandwidth_bytes_per_s for link in topology.links if link.src == device_id}


def test_two_sockets_with_their_nics(tmp_path: Path) -> None:
    topology = read(machine(tmp_path, TWO_SOCKETS, LINKS))
    assert [device.id for device in topology.of_kind("cpu")] == ["numa0", "numa1"]
    assert [device.id for device in topology.of_kind("nic")] == ["lo", "mlx5_0", "eth0"]
    assert topology.gpu_ids == tuple(f"P{core}" for core in range(8))
    assert [topology.device(f"P{core}").numa_node for core in range(8)] == [0, 0, 1, 1, 0, 0, 1, 1]
    assert links(topology, "mlx5_0") == {("pcie", "numa1"): catalog.pcie_bytes_per_s(5, 16)}
    assert links(topology, "P2") == {("local", "numa1"): catalog.LOOPBACK_BYTES_PER_S}
    assert topology.device("mlx5_0").nic.bandwidth_bytes_per_s == 50e9  # type: ignore[union-attr]
    assert topology.device("eth0").nic.bandwidth_bytes_per_s == 3.125e9  # type: ignore[union-attr]
    assert topology.complete
    assert any("assumed to exchange 5 GB/s" in finding for finding in topology.remarks)


def test_only_cores_of_the_affinity_mask_are_ranks(tmp_path: Path) -> None:
    topology = read(machine(tmp_path, TWO_SOCKETS, LINKS), affinity=(3, 5))
    assert topology.gpu_ids == ("P0", "P1")
    assert [topology.device(rank).numa_node for rank in topology.gpu_ids] == [1, 0]


def test_a_bare_container_is_one_numa_node(tmp_path: Path) -> None:
    topology = read(tmp_path, affinity=(0, 1))
    assert [device.id for device in topology.devices] == ["numa0", "P0", "P1", "lo"]
    assert any("no NUMA nodes" in finding for finding in topology.remarks)


def test_gpus_without_a_matrix_make_the_topology_incomplete(tmp_path: Path) -> None:
    gpu = {"class": "0x030200", "vendor": "0x10de"}
    vga = {"class": "0x030000", "vendor": "0x1a03"}
    files = {f"sys/bus/pci/devices/0000:9a:00.0/{key}": value for key, value in gpu.items()}
    files |= {f"sys/bus/pci/devices/0000:02:00.0/{key}": value for key, value in vga.items()}
    topology = read(machine(tmp_path, files, {}))
    assert not topology.complete
    assert any("1 GPU (0000:9a:00.0)" in finding for finding in topology.remarks)


def test_a_nic_of_a_virtual_machine_says_what_is_assumed(tmp_path: Path) -> None:
    files = {
        "sys/bus/pci/devices/0000:00:03.0/class": "0x020000",
        "sys/bus/pci/devices/0000:00:03.0/numa_node": "-1",
        "sys/devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/speed": "-1",
    }
    topology = read(
        machine(tmp_path, files, {"sys/class/net/eth0": "../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0"})
    )
    assert topology.device("eth0").nic.bandwidth_bytes_per_s is None  # type: ignore[union-attr]
    assert [finding for finding in topology.remarks if finding.startswith("eth0")] == [
        "eth0 states no PCIe speed, taken as 8 GT/s x16 as NCCL does",
        "eth0 states no speed",
    ]


@pytest.mark.parametrize(("text", "cores"), [("", ()), ("0", (0,)), ("0-2,8", (0, 1, 2, 8))])
def test_cpu_lists(text: str, cores: tuple[int, ...]) -> None:
    assert sysfs.parse_cpu_list(text) == cores


def test_bad_snapshots_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"\$.affinity names no usable CPU"):
        read(tmp_path, affinity=())
    with pytest.raises(CaptureError, match="no list of CPUs"):
        read(machine(tmp_path, {"sys/devices/system/node/node0/cpulist": "all"}, {}))


def told(answers: dict[str, RawText]) -> Capture:
    """A capture whose commands answer as told; the others are not installed."""

    def run(file: str, command: Sequence[str]) -> RawText:
        return answers.get(file, RawText(file, tuple(command), problem="not installed"))

    return capture(Path("/nonexistent"), run)


def test_a_matrix_is_what_a_machine_with_gpus_gives() -> None:
    raw = RawText("nvidia-smi-topo-m.txt", ("nvidia-smi", "topo", "-m"), MATRIX)
    topology, remark = read_capture(told({raw.file: raw}))
    assert topology.gpu_ids == ("GPU0", "GPU1")
    assert remark == ""


@pytest.mark.parametrize(
    ("text", "problem", "words"),
    [
        ("", "not installed", "nvidia-smi: not installed"),
        ("NVIDIA-SMI has failed", "ended with status 9", 'ended with status 9, it says "NVIDIA-SMI has failed"'),
        ("", "gave no answer within 30 s", "gave no answer within 30 s"),
        ("", "", "shows no GPU"),
    ],
)
def test_a_machine_without_gpus_gives_its_processes_and_says_so(text: str, problem: str, words: str) -> None:
    raw = RawText("nvidia-smi-topo-m.txt", ("nvidia-smi", "topo", "-m"), text, problem)
    topology, remark = read_capture(told({raw.file: raw}))
    assert topology.of_kind("process")
    assert topology.num_ranks == len(topology.of_kind("process"))
    assert "no NVIDIA GPU" in remark
    assert words in remark


def test_commands_that_miss_fail_or_hang_are_recorded() -> None:
    python = sys.executable
    assert run_command("a", ["no-such-command-here"]).problem == "not installed"
    assert run_command("a", [python, "-c", "import time; time.sleep(60)"], timeout_s=0.2).problem.startswith("gave no")
    failed = run_command("a", [python, "-c", "import sys; print('half'); sys.exit('bad driver')"])
    assert failed.problem == "ended with status 1"
    assert failed.text.split() == ["half", "bad", "driver"]
    assert run_command("a", [python, "-c", "print('fine')"]) == RawText("a", (python, "-c", "print('fine')"), "fine\n")


def test_a_saved_capture_is_read_like_the_machine(tmp_path: Path) -> None:
    raw = RawText("nvidia-smi-topo-m.txt", ("nvidia-smi", "topo", "-m"), MATRIX)
    captured = told({raw.file: raw})
    save(captured, tmp_path / "new" / "capture")
    names = {path.name for path in (tmp_path / "new/capture").iterdir()}
    assert names == {"nvidia-smi-topo-m.txt", "sysfs.json", LOG_FILE}
    log = (tmp_path / "new/capture" / LOG_FILE).read_text().splitlines()
    assert len(log) == len(COMMANDS)
    assert log[0] == "nvidia-smi-topo-m.txt: nvidia-smi topo -m: ok"
    assert load_topology(str(tmp_path / "new/capture")).num_ranks == 2
    with pytest.raises(CaptureError, match="not empty"):
        save(captured, tmp_path / "new/capture")


def test_this_machine_is_captured_without_its_name() -> None:
    import platform

    text = read_sysfs()
    topology = sysfs.read(text)
    assert topology.num_ranks >= 1
    assert len(platform.node()) < 5 or platform.node() not in text
