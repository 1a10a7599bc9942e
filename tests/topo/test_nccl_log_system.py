"""The system tree, paths, searches and tables of NCCL's logs, as each generation prints them."""

from __future__ import annotations

import pytest

from tests.support import NO_CORPUS, corpus_files
from topo.readers import nccl_log
from topo.readers.nccl_log.facts import NcclLog
from topo.readers.nccl_log.machine_facts import SystemTree

LOGS = {path.name[:3]: path for path in corpus_files("nccl-log/*.txt")}
needs_logs = pytest.mark.skipif(not LOGS, reason=NO_CORPUS)

NEW_TREE = """\
=== System : maxBw 48.0 totalBw 370.8 ===
CPU/0-0 (1/2/-1)
+ SYS[16.0] - CPU/0-1
+ PCI[48.0] - PCI/0-65000 (104c823200000000)
              + PCI[48.0] - NIC/0-67000
                            + NET[50.0] - NET/0-c (0/a00f/1/50.000000)
              + PCI[48.0] - GPU/0-68000 (1)
                            + NVL[370.8] - NVS/0-0
CPU/0-1 (1/2/-1)
+ SYS[16.0] - CPU/0-0
+ PCI[24.0] - GPU/0-98000 (0)
              + NVL[370.8] - NVS/0-0
==========================================
"""

OLD_TREE = """\
=== System : maxWidth 21 maxSpeed 21 ===
CPU/FFFFFFFFFFFFFFFF
+ PCI[12] - PCI/16000
            + PCI[12] - GPU/1A000 (0)
                        + NVL[42] - GPU/1B000
            + PCI[12] - GPU/1B000 (1)
                        + NVL[42] - GPU/1A000
+ PCI[12] - NIC/5E000
            + NET[10] - NET/0 (A0/1/10)
==========================================
"""

DEVICE_TREE = """\
=== System : maxBw 164.8 totalBw 164.8 ===
CPU/0-0 (1/1/3)
+ PCI[48.0] - PCI/0-c000 (1000c0301000100b)
              + PCI[48.0] - DEV/0-f000 (10de232410de17a6)
                            + LOC[5000.0] - GPU/0-f000
                            + NVL[164.8] - NVS/0-0
              + PCI[48.0] - DEV/0-10000 (10de232410de17a6)
                            + LOC[5000.0] - GPU/0-10000
                            + NVL[164.8] - NVS/0-0
==========================================
"""


def log_of(text: str, *, prefix: str = "h0:1:2 [0] NCCL INFO ") -> NcclLog:
    return nccl_log.read("".join(f"{prefix}{line}\n" for line in text.splitlines()))


def tree_of(text: str) -> SystemTree:
    (tree,) = log_of(text).systems
    return tree


def shown(tree: SystemTree) -> set[tuple[str, str, str, float]]:
    return {(link.src, link.dst, link.kind, link.bandwidth_bytes_per_s) for link in tree.links}


def test_what_hangs_below_what_follows_from_columns() -> None:
    tree = tree_of(NEW_TREE)
    assert tree.complete
    assert (tree.max_bandwidth_bytes_per_s, tree.total_bandwidth_bytes_per_s) == (48e9, 370.8e9)
    assert shown(tree) == {
        ("CPU/0-0", "CPU/0-1", "SYS", 16e9),
        ("CPU/0-0", "PCI/0-65000", "PCI", 48e9),
        ("PCI/0-65000", "NIC/0-67000", "PCI", 48e9),
        ("NIC/0-67000", "NET/0-c", "NET", 50e9),
        ("PCI/0-65000", "GPU/0-68000", "PCI", 48e9),
        ("GPU/0-68000", "NVS/0-0", "NVL", 370.8e9),
        ("CPU/0-1", "CPU/0-0", "SYS", 16e9),
        ("CPU/0-1", "GPU/0-98000", "PCI", 24e9),
        ("GPU/0-98000", "NVS/0-0", "NVL", 370.8e9),
    }


def test_the_tree_of_nccl_2_5() -> None:
    tree = tree_of(OLD_TREE)
    assert tree.complete
    assert ("GPU/1a000", "GPU/1b000", "NVL", 42e9) in shown(tree)
    assert ("NIC/5e000", "NET/0", "NET", 10e9) in shown(tree)
    assert {node.kind for node in tree.nodes} == {"CPU", "PCI", "GPU", "NIC", "NET"}


def test_the_tree_of_nccl_2_30_has_a_device_above_each_gpu() -> None:
    tree = tree_of(DEVICE_TREE)
    assert tree.complete
    assert ("DEV/0-f000", "GPU/0-f000", "LOC", 5000e9) in shown(tree)
    assert sum(node.kind == "GPU" for node in tree.nodes) == 2


@pytest.mark.parametrize("prefix", ["NCCL INFO ", "", "    ", "[5] NCCL INFO "])
def test_a_tree_in_an_excerpt(prefix: str) -> None:
    (tree,) = log_of(NEW_TREE, prefix=prefix).systems
    assert tree.complete
    assert len(tree.links) == 9


def test_each_host_is_kept_once_whatever_other_ranks_write_between() -> None:
    one = [f"h0:1:2 [0] NCCL INFO {line}" for line in NEW_TREE.splitlines()]
    other = [f"h0:1:3 [1] NCCL INFO {line}" for line in NEW_TREE.splitlines()]
    third = [f"h1:9:9 [0] NCCL INFO {line}" for line in OLD_TREE.splitlines()]
    rows = [row for rows in zip(one, other, third, strict=False) for row in rows]
    rows += one[len(third) :] + other[len(third) :] + third[min(len(one), len(other)) :]
    log = nccl_log.read("\n".join(rows))
    assert [tree.host for tree in sorted(log.systems, key=lambda tree: str(tree.host))] == ["h0", "h1"]
    assert all(tree.complete for tree in log.systems)
    assert not log.unread


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        (NEW_TREE.rpartition("=====")[0].rpartition("\n=")[0], 0),
        (NEW_TREE.replace("CPU/0-1 (1/2/-1)\n", ""), 0),
        (NEW_TREE.replace("+ PCI[48.0] - PCI/0-65000 (104c823200000000)\n", ""), 4),
        (NEW_TREE.replace("NIC/0-67000", "NIC/0-6"), 0),
        ("\n".join(line.strip() for line in NEW_TREE.splitlines()), 1),
    ],
    ids=["no end", "a CPU lost", "a switch lost", "whole after all", "blanks lost"],
)
def test_a_tree_with_lines_lost_is_not_complete(text: str, unread: int) -> None:
    log = log_of(text)
    (tree,) = log.systems
    assert tree.complete == (text == NEW_TREE.replace("NIC/0-67000", "NIC/0-6"))
    assert bool(log.unread) == bool(unread)


def test_a_tree_without_its_blanks_has_no_links_that_can_be_trusted() -> None:
    assert tree_of("\n".join(line.strip() for line in NEW_TREE.splitlines())).links == ()


@pytest.mark.parametrize(
    "line",
    [
        "GPU/F000 :GPU/F000 (0/5000.000000/LOC) GPU/10000 (4/24.000000/PHB) NET/0 (6/7.000000/SYS) ",
        "GPU/0-f000 :GPU/0-f000 (0/5000.0/LOC) GPU/0-10000 (4/24.0/PHB) NET/0-0 (6/7.0/SYS)",
    ],
)
def test_paths_of_old_and_new_versions(line: str) -> None:
    log = log_of(f"=== System : maxBw 7.0 totalBw 24.0 ===\nCPU/0 (1/1/2)\n=====\n{line}\n{line}")
    assert [(path.num_hops, path.bandwidth_bytes_per_s, path.kind) for path in log.paths] == [
        (0, 5000e9, "LOC"),
        (4, 24e9, "PHB"),
        (6, 7e9, "SYS"),
    ]


@pytest.mark.parametrize(
    ("line", "types"),
    [
        ("Pattern 4, crossNic 0, nChannels 2, speed 12/6, nvlink 1, type 2, sameChannels 1", (None, None)),
        ("Pattern 4, crossNic 0, nChannels 2, speed 12.000000/6.000000, type NVL/PIX, sameChannels 1", ("NVL", "PIX")),
        ("Pattern 4, crossNic 0, nChannels 2, bw 12.000000/6.000000, type NVL/PIX, sameChannels 1", ("NVL", "PIX")),
    ],
)
def test_a_search_of_any_version_with_its_channels(line: str, types: tuple[str | None, str | None]) -> None:
    (search,) = log_of(f"{line}\n 0 : NET/0 GPU/0 GPU/1 NET/1\n 1 : NET/1-c GPU/0-1a000 GPU/0-1b000 NET/0-d").searches
    assert (search.pattern, search.bandwidth_intra_bytes_per_s, search.bandwidth_inter_bytes_per_s) == (4, 12e9, 6e9)
    assert (search.type_intra, search.type_inter) == types
    assert search.channels[0] == ("NET/0", "GPU/0", "GPU/1", "NET/1")
    assert search.channels[1][1] == "GPU/0-1a000"


OLD_TABLE = """\
Latency/AlgBw |    Tree/    LL |    Tree/ LL128 |    Tree/Simple |    Ring/    LL |    Ring/ LL128 |    Ring/Simple |
 Max NThreads |            512 |            640 |            512 |            512 |            640 |            512 |
    Broadcast |    4.4/    0.0 |    9.4/    0.0 |   34.4/    0.0 |    5.0/   21.0 |   14.0/   40.0 |    8.4/   42.0 |
    AllReduce |    4.4/    5.0 |    9.4/   14.4 |   34.4/   18.9 |    5.4/   10.5 |   15.0/   20.0 |   10.8/   21.0 |
"""

NEW_TABLE = """\
  Algorithm   |                            Tree                  |                            NVLS                  |
  Protocol    |             LL |          LL128 |         Simple |             LL |          LL128 |         Simple |
 Max NThreads |            512 |            640 |            512 |              0 |              0 |            640 |
    AllReduce |     8.0/  37.9 |    16.5/ 112.0 |    16.4/ 144.0 |     0.0/   0.0 |     0.0/   0.0 |    25.0/ 398.0 |
  Algorithm   |                             PAT                  |
  Protocol    |             LL |          LL128 |         Simple |             LL |          LL128 |         Simple |
    AllGather |     0.0/   0.0 |     0.0/   0.0 |     9.0/  40.0 |
"""


def test_tuning_tables_of_old_and_new_versions() -> None:
    log = log_of(OLD_TABLE + "Channel 00/01 :    0")
    assert len(log.tuning) == 12
    found = {(cell.function, cell.algorithm, cell.protocol): cell for cell in log.tuning}
    cell = found["all_reduce", "ring", "ll128"]
    assert cell.latency_s == pytest.approx(15e-6)
    assert cell.bandwidth_bytes_per_s == 20e9
    found = {(c.function, c.algorithm, c.protocol): c for c in log_of(NEW_TABLE + "Channel 00/01 :    0").tuning}
    assert found["all_reduce", "nvls", "simple"].bandwidth_bytes_per_s == 398e9
    assert found["all_gather", "pat", "simple"].latency_s == pytest.approx(9e-6)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_row_of_the_table_without_its_titles_is_unread(lost: int) -> None:
    rows = NEW_TABLE.splitlines()
    del rows[lost]
    log = log_of(
        "\n".join([rows[-1], "Channel 00/01 :    0"]) if lost else "\n".join([*rows[1:3], "Channel 00/01 : 0"])
    )
    assert len(log.unread) == 1
    assert not log.tuning


def test_what_is_enabled() -> None:
    text = (
        "h:1:1 [0] NCCL INFO Enabled NCCL Func/Proto/Algo Matrix:\n"
        "     Function |       LL     LL128    Simple   |          Tree           Ring  CollNetDirect\n"
        "    Broadcast |        0         2         1   |             0              1              0\n"
        "h:1:1 [0] NCCL INFO Channel 00/01 :    0\n"
        "    AllReduce |        1         0         0   |             1              0              1\n"
    )
    assert [(row.function, row.protocols, row.algorithms) for row in nccl_log.read(text).enabled] == [
        ("broadcast", ("ll128", "simple"), ("ring",)),
        ("all_reduce", ("ll",), ("tree", "collnet-direct")),
    ]


@pytest.mark.parametrize(
    ("version", "line", "expected", "estimate_us"),
    [
        ("2.7.8", "8388608 Bytes -> Algo 2 proto 2 time 12.5", (None, 8388608, "collnet", "simple", None), 12.5),
        ("2.18.1", "64 Bytes -> Algo 4 proto 0 time 3.25", (None, 64, "nvls", "ll", None), 3.25),
        ("2.23.4", "AllGather: 64 Bytes -> Algo 1 proto 1 time 3", ("all_gather", 64, "ring", "ll128", None), 3),
        (
            "2.27.7",
            "AllReduce: 64 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..15}",
            ("all_reduce", 64, "nvls-tree", "simple", (0, 15)),
            None,
        ),
        (
            "2.27.7",
            "AllReduce: 4 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0} comm 0x55",
            ("all_reduce", 4, "tree", "ll", (0, 0)),
            None,
        ),
        (
            "2.28.3",
            "AllGather [Symmetric]: 64 Bytes -> Kernel AllGather_LL nchannels 4 nthreads 512 nWorks 1",
            ("all_gather", 64, "symmetric", "AllGather_LL", None),
            None,
        ),
    ],
)
def test_a_choice_of_any_version(
    version: str, line: str, expected: tuple[object, ...], estimate_us: float | None
) -> None:
    log = nccl_log.read(
        f"NCCL version {version}+cuda12.2\nh:1:1 [0] NCCL INFO {line}\nh:1:1 [0] NCCL INFO Channel 00/01 : 0"
    )
    (choice,) = log.choices
    channels = None if choice.first_channel is None else (choice.first_channel, choice.last_channel)
    assert (choice.function, choice.num_bytes, choice.algorithm, choice.protocol, channels) == expected
    known = choice.nccl_estimate_s
    assert known is None if estimate_us is None else known == pytest.approx(estimate_us * 1e-6)


def test_settings_networks_gdr_and_warnings() -> None:
    text = (
        "NCCL version 2.20.5+cuda12.4\n"
        "h:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n"
        "h:1:1 [1] NCCL INFO NCCL_ALGO set by environment to Ring\n"
        "h:1:1 [0] NCCL INFO NCCL_BUFFSIZE set by environment to 4194304.\n"
        "h:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME set to eth0\n"
        "h:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_1:2/RoCE [RO]; OOB ib0:192.0.2.1<0>\n"
        "h:1:1 [0] NCCL INFO Using network IB\n"
        "h:1:1 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
        "h:1:1 [0] NCCL INFO GPU Direct RDMA Enabled for GPU/0-8413184 (rank 0) - NET/0-0 (distance 3 <= 5)\n"
        "\nh:1:1 [0] graph/search.cc:1127 NCCL WARN Could not find a path for pattern 4\n"
        "[2025-10-23 10:26:31] h:1:1 [0] init.cc:12 (ncclInit) NCCL WARN Cuda failure\n"
        "h:1:1 [0] NCCL INFO Channel 00/01 : 0\n"
    )
    log = nccl_log.read(text)
    assert log.versions == ("2.20.5+cuda12.4",)
    assert [(row.name, row.value) for row in log.settings] == [
        ("NCCL_ALGO", "Ring"),
        ("NCCL_BUFFSIZE", "4194304"),
        ("NCCL_SOCKET_IFNAME", "eth0"),
    ]
    assert [(row.index, row.name, row.port, row.kind) for row in log.networks] == [
        (0, "mlx5_0", 1, "IB"),
        (1, "mlx5_1", 2, "RoCE"),
    ]
    assert log.plugins == ("IB",)
    assert [row.enabled for row in log.gdr] == [False, True]
    assert [(row.code, row.line) for row in log.warnings] == [("graph/search.cc:1127", 11), ("init.cc:12", 12)]


@needs_logs
def test_a_whole_log_with_every_kind_of_line() -> None:
    log = nccl_log.read(LOGS["016"].read_text(encoding="utf-8"))
    (tree,) = log.systems
    assert tree.complete
    assert {path.kind for path in log.paths} == {"LOC", "NVL", "PHB"}
    assert len(log.tuning) == 5 * 21
    assert {choice.algorithm for choice in log.choices} == {"ring"}
    assert [row.model for row in log.announced] == ["NVIDIA A100 80GB PCIe"] * 2
    assert not log.unread
