"""`nvidia-smi -L` and `--query-gpu`: names, addresses and PCIe links, with any columns, however the text was kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.capture import GPU_QUERY, NEWER_GPU_QUERY
from topo.errors import CaptureError
from topo.readers import nvidia_smi_list, query_columns
from topo.readers.nvidia_smi_query import QueriedGpu, read, sniff

UUID = "GPU-00000000-0000-0000-0000-00000000000{}"
LIST = "".join(f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: {UUID.format(index)})\n" for index in range(2))
HEADER = "index, name, pci.bus_id, pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, mig.mode.current"
ROWS = (
    "0, NVIDIA H100 80GB HBM3, 00000000:18:00.0, 1, 5, 16, Disabled\n"
    "1, NVIDIA H100 80GB HBM3, 00000000:2A:00.0, 5, 5, 8, Enabled\n"
)


def only(text: str) -> QueriedGpu:
    (gpu,) = read(text, "gpus.csv").gpus
    return gpu


@pytest.mark.corpus
def test_a_captured_query(corpus: Path) -> None:
    (path,) = corpus.glob("nvidia-smi/097-*.txt")
    want = json.loads(path.with_suffix(".expected.json").read_text())
    text = path.read_text(encoding="utf-8")
    gpus = read(text, path.name).gpus
    assert sniff(text)
    assert len(gpus) == want["gpus"]
    assert {(gpu.name, gpu.memory_bytes) for gpu in gpus} == {("NVIDIA H200", 143771 * 2**20)}
    assert [(gpu.index, gpu.line) for gpu in gpus] == [(index, index + 2) for index in range(8)]
    assert ("driver_version", "570.211.01") in gpus[0].others


@pytest.mark.corpus
def test_a_captured_list_of_slices(corpus: Path) -> None:
    (path,) = corpus.glob("nvidia-smi/137-*.txt")
    want = json.loads(path.with_suffix(".expected.json").read_text())
    text = path.read_text(encoding="utf-8")
    gpus = nvidia_smi_list.read(text, path.name).gpus
    assert nvidia_smi_list.sniff(text)
    assert len(gpus) == want["gpus"]
    assert [device.profile for device in gpus[0].mig_devices] == ["3g.20gb", "2g.10gb", "1g.5gb"]


def test_a_list() -> None:
    gpus = nvidia_smi_list.read(f"$ nvidia-smi -L\n{LIST}").gpus
    assert [(gpu.gpu, gpu.name, gpu.line, gpu.mig_devices) for gpu in gpus] == [
        (0, "NVIDIA H100 80GB HBM3", 2, ()),
        (1, "NVIDIA H100 80GB HBM3", 3, ()),
    ]
    assert len(nvidia_smi_list.read(LIST * 2).gpus) == 2


def test_the_older_and_newer_ways_to_list_slices() -> None:
    text = LIST + "  MIG 1g.10gb+me Device 0: (UUID: MIG-x)\n  MIG 1c.3g.40gb     Device  1: (UUID: MIG-GPU-x/7/0)\n"
    gpu = nvidia_smi_list.read(text).gpus[1]
    assert [(device.profile, device.number, device.line) for device in gpu.mig_devices] == [
        ("1g.10gb+me", 0, 3),
        ("1c.3g.40gb", 1, 4),
    ]


def test_lists_of_two_machines_are_refused() -> None:
    with pytest.raises(CaptureError, match=r"l\.txt, line 3: GPU 0 stands for two GPUs \(the other in line 1\)"):
        nvidia_smi_list.read(LIST + LIST.replace("000000", "100000"), "l.txt")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "UUID: 1\n",
        "GPU 0: A (UUID: x)\n Link 0: 25 GB/s\n",
        "GPU 0: A (UUID: x)\n Link 0: 25 GB/s\nGPU 1: A (UUID: y)\nGPU 2: A (UUID: z)\n Link 0: 25 GB/s\n",
        "GPU 0: A (UUID: x)\nNVML: Unable to retrieve NVLink information as all links are inActive\n",
        "Unable to determine the device handle for GPU 0: x (UUID: y)\n",
    ],
)
def test_headings_of_other_outputs_are_no_list(text: str) -> None:
    assert not nvidia_smi_list.sniff(text)
    with pytest.raises(CaptureError, match="line 1: no list of GPUs"):
        nvidia_smi_list.read(text, "l.txt")


def test_a_list_before_the_links() -> None:
    text = f"$ nvidia-smi -L\n{LIST}$ nvidia-smi nvlink -s\n{LIST.splitlines()[0]}\n\t Link 0: 25 GB/s\n"
    assert nvidia_smi_list.sniff(text)
    assert [gpu.line for gpu in nvidia_smi_list.read(text).gpus] == [2, 3]


def test_a_query() -> None:
    first, second = read(f"{HEADER}\n{ROWS}").gpus
    assert (first.address, second.address) == ("0000:18:00.0", "0000:2a:00.0")
    assert (first.pcie_generation_current, first.pcie_generation_max, first.pcie_width_current) == (1, 5, 16)
    assert (second.pcie_width_current, first.mig_enabled, second.mig_enabled) == (8, False, True)
    assert (first.line, first.others, first.pcie_width_max) == (2, (), None)


def test_the_query_of_our_own_capture_is_understood_whole() -> None:
    cells = ["0", "NVIDIA L4", "00000000:3B:00.0", "1", "4", "16", "16", "3 %"]
    gpu = only(", ".join(GPU_QUERY.split(",")) + "\n" + ", ".join(cells) + "\n")
    assert (gpu.pcie_generation_max, gpu.pcie_width_max, gpu.others) == (4, 16, (("utilization.gpu", "3 %"),))
    newer = ["0", "NVIDIA L4", "00000000:3B:00.0", "8.9", "[N/A]"]
    gpu = only(", ".join(NEWER_GPU_QUERY.split(",")) + "\n" + ", ".join(newer) + "\n")
    assert (gpu.compute_capability, gpu.mig_enabled, gpu.others) == (89, None, ())


@pytest.mark.parametrize("cell", ["N/A", "[N/A]", "[Not Supported]", "[Unknown Error]", "[GPU is lost]", ""])
def test_what_the_driver_does_not_know(cell: str) -> None:
    gpu = only(f"index, pcie.link.gen.current, memory.total [MiB]\n0, {cell}, {cell}\n")
    assert (gpu.index, gpu.pcie_generation_current, gpu.memory_bytes) == (0, None, None)


def test_what_identifies_a_machine_is_dropped_and_the_rest_kept() -> None:
    header = "timestamp, gpu_name, gpu_uuid, serial, gpu_bus_id, clocks.sm [MHz]"
    gpu = only(f"{header}\n2026/01/02 03:04:05.678, NVIDIA L4, GPU-1, 123, 01:00.0, 9 MHz\n")
    assert (gpu.name, gpu.address, gpu.others) == ("NVIDIA L4", "0000:01:00.0", (("clocks.sm", "9 MHz"),))


@pytest.mark.parametrize(("title", "cell"), [("memory.total [MiB]", "81559 MiB"), ("memory.total", "81559")])
def test_sizes_with_and_without_their_unit(title: str, cell: str) -> None:
    assert only(f"name, {title}\nNVIDIA L4, {cell}\n").memory_bytes == 81559 * 2**20


def test_the_command_names_columns_that_no_header_does() -> None:
    command = "nvidia-smi --query-gpu=index,name,pcie.link.width.current --format=csv,noheader"
    facts = read(f"root@box:~# {command}\n0, NVIDIA L4, 8\n1, NVIDIA L4, 16\nroot@box:~#\n")
    assert [gpu.pcie_width_current for gpu in facts.gpus] == [8, 16]
    assert facts.columns == ("index", "name", "pcie.link.width.current")


def test_without_header_and_command_only_what_is_unmistakable_is_named() -> None:
    text = "0, NVIDIA H100 PCIe, 00000000:CA:00.0, GPU-1, 5, 16\n1, NVIDIA H100 PCIe, 00000000:CB:00.0, GPU-2, 5, 8\n"
    assert sniff(text)
    facts = read(text)
    assert facts.columns == ("index", "name", "pci.bus_id", "uuid", "", "")
    assert facts.gpus[1].others == (("", "5"), ("", "8"))
    assert facts.gpus[1].address == "0000:cb:00.0"


def test_the_last_of_repeated_rows_counts() -> None:
    first, second = read(f"{HEADER}\n{ROWS}{ROWS.replace(' 1, 5', ' 5, 5')}").gpus
    assert (first.pcie_generation_current, first.line, second.line) == (5, 4, 5)
    with pytest.raises(CaptureError, match=r"GPU 0000:18:00\.0 is NVIDIA H100 80GB HBM3 in line 2 and NVIDIA L4 here"):
        read(f"{HEADER}\n{ROWS}{ROWS.replace('H100 80GB HBM3', 'L4')}")


def test_a_query_beside_other_outputs() -> None:
    text = f"{HEADER}\n{ROWS}GPU 0: A (UUID: x)\n Link 0, P2P is supported: true\n"
    assert len(read(text).gpus) == 2


STYLES: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: "\ufeff" + text,
    lambda text: text.replace(", ", ","),
    lambda text: text.replace(", ", " , "),
    lambda text: "".join("  " + line for line in text.splitlines(keepends=True)),
    lambda text: "".join("# " + line for line in text.splitlines(keepends=True)),
    lambda text: f"$ nvidia-smi --query-gpu={HEADER.replace(' ', '')} --format=csv\n{text}$ \n",
    lambda text: "".join("2026-01-02T03:04:05Z node: " + line for line in text.splitlines(keepends=True)),
    lambda text: "\x1b[32m" + text.replace("\n", "\x1b[0m\n"),
    lambda text: "Driver says hello\n" + text + "\nbye, all\n",
]


@given(
    links=st.lists(st.tuples(st.integers(1, 6), st.sampled_from([1, 4, 8, 16]), st.booleans()), min_size=1, max_size=8),
    style=st.sampled_from(STYLES),
)
def test_every_way_of_keeping_a_query_gives_the_same(
    links: list[tuple[int, int, bool]], style: Callable[[str], str]
) -> None:
    rows = "".join(
        f"{index}, NVIDIA L4, 00000000:{index + 1:02X}:00.0, {generation}, 6, {width}, {'En' if mig else 'Dis'}abled\n"
        for index, (generation, width, mig) in enumerate(links)
    )
    text = style(f"{HEADER}\n{rows}")
    assert sniff(text)
    gpus = read(text).gpus
    assert [(gpu.pcie_generation_current, gpu.pcie_width_current, gpu.mig_enabled) for gpu in gpus] == links
    assert [(gpu.index, gpu.address) for gpu in gpus] == [(i, f"0000:{i + 1:02x}:00.0") for i in range(len(links))]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: no rows of GPUs"),
        (f"{HEADER}\n", "line 1: no rows of GPUs"),
        (f"{HEADER}\nNo devices were found\n", "line 1: no rows of GPUs"),
        (
            f"{HEADER}\n0, NVIDIA L4, 00000000:18:00.0\n",
            r"line 2: a row of 3 cells, but there are 7 columns \(line 1\)",
        ),
        (f"{HEADER}\n{ROWS.replace(' 5, 8', ' x, 8')}", "line 3: column pcie.link.gen.max says 'x', which is no whole"),
        (
            f"{HEADER}\n{ROWS.replace('Enabled', 'on')}",
            "line 3: column mig.mode.current says 'on', which is no Enabled",
        ),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        read(text, "gpus.csv")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a, b, c\n1, 2, 3\n",
        "name, value\n",
        "NVIDIA announced, today\n",
        "pid, process_name, name\n1, x, y\n",
        "0, 1, 2\n1, 0, 3\n",
        "count, size, time, algbw\n1, 2, 3, 4\n",
    ],
)
def test_other_tables_are_not_claimed(text: str) -> None:
    assert not sniff(text)


def test_every_column_that_is_understood_says_what_its_cells_are() -> None:
    assert {parse for _, parse in query_columns.FIELDS.values()} == set(query_columns.WHAT)
