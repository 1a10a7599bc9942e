"""hwloc's XML and lstopo's text of the same machines: NUMA nodes, switches, GPUs and NICs alike from each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo import catalog, paths
from topo.errors import CaptureError
from topo.readers import hwloc_xml, lstopo_text
from topo.readers.hwloc_topology import to_topology
from topo.topology import Topology

CPUS = ('cpuset="0x0000000f"', 'cpuset="0x000000f0"')


def tag(kind: str, attributes: str, *children: str) -> str:
    return f'<object type="{kind}" {attributes}>\n' + "".join(children) + "</object>\n"


def info(name: str, value: str) -> str:
    return f'<info name="{name}" value="{value}"/>\n'


def bridge(address: str, *children: str, rate: str = "31.507692") -> str:
    said = f'pci_busid="{address}" pci_type="0604 [1000:c010] [0000:0000] b0" pci_link_speed="{rate}"'
    return tag("Bridge", f'bridge_type="1-1" depth="1" bridge_pci="0000:[01-0f]" {said}', *children)


def gpu(number: int, bus: str, rate: str = "31.507692", software: str = "nvml") -> str:
    model = info("GPUModel", "NVIDIA A100-SXM4-80GB")
    said = f'pci_busid="0000:{bus}:00.0" pci_type="0302 [10de:20b2] [10de:1463] a1" pci_link_speed="{rate}"'
    return tag("PCIDev", said, tag("OSDev", f'name="{software}{number}" osdev_type="1"', model))


def nic(name: str, address: str, rate: str = "31.507692") -> str:
    said = f'pci_busid="{address}" pci_type="0207 [15b3:101b] [15b3:0007] 00" pci_link_speed="{rate}"'
    software = tag("OSDev", f'name="ib{name}" osdev_type="2"') + tag("OSDev", f'name="mlx5_{name}" osdev_type="3"')
    return tag("PCIDev", said, software)


def package(number: int, *io: str) -> str:
    cpu = info("CPUVendor", "AuthenticAMD") + info("CPUFamilyNumber", "25") + info("CPUModelNumber", "1")
    node = tag("NUMANode", f'os_index="{number}" {CPUS[number]} local_memory="1024"')
    host = tag("Bridge", f'bridge_type="0-1" depth="0" bridge_pci="0000:[{number}0-{number}f]"', *io)
    return tag("Package", f'os_index="{number}" {CPUS[number]}', cpu, node, host)


def document(*packages: str, version: str = "2.0") -> str:
    machine = tag("Machine", 'os_index="0" cpuset="0x000000ff"', info("Architecture", "x86_64"), *packages)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'
    return f'{head}<topology version="{version}">\n{machine}</topology>\n'


SWITCH = bridge(
    "0000:00:01.0",
    bridge(
        "0000:01:00.0",
        bridge("0000:02:00.0", gpu(0, "03")),
        bridge("0000:02:01.0", gpu(1, "04")),
        bridge("0000:02:02.0", nic("0", "0000:05:00.0")),
    ),
)
DIRECT = bridge("0000:10:01.0", gpu(2, "11")) + bridge("0000:10:02.0", nic("1", "0000:12:00.0"))
XML = document(package(0, SWITCH), package(1, DIRECT))

VERBOSE = """\
Machine (P#0 total=2KiB Architecture=x86_64)
  Package L#0 (P#0 CPUVendor=AuthenticAMD CPUFamilyNumber=25 CPUModelNumber=1)
    NUMANode L#0 (P#0 local=1KiB total=1KiB)
    HostBridge L#0 (buses=0000:[00-0f])
      PCIBridge L#1 (busid=0000:00:01.0 id=1000:c010 class=0604(PCIBridge) link=31.51GB/s buses=0000:[01-0f])
        PCIBridge L#2 (busid=0000:01:00.0 id=1000:c010 class=0604(PCIBridge) link=31.51GB/s buses=0000:[01-0f])
          PCIBridge L#3 (busid=0000:02:00.0 id=1000:c010 class=0604(PCIBridge) link=31.51GB/s buses=0000:[01-0f])
            PCI L#0 (busid=0000:03:00.0 id=10de:20b2 class=0302(3D) link=31.51GB/s)
              GPU(NVML) L#0 (GPUModel="NVIDIA A100-SXM4-80GB") "nvml0"
          PCIBridge L#4 (busid=0000:02:01.0 id=1000:c010 class=0604(PCIBridge) link=31.51GB/s buses=0000:[01-0f])
            PCI L#1 (busid=0000:04:00.0 id=10de:20b2 class=0302(3D) link=31.51GB/s)
              GPU(NVML) L#1 (GPUModel="NVIDIA A100-SXM4-80GB") "nvml1"
          PCIBridge L#5 (busid=0000:02:02.0 id=1000:c010 class=0604(PCIBridge) link=31.51GB/s buses=0000:[01-0f])
            PCI L#2 (busid=0000:05:00.0 id=15b3:101b class=0207(InfiniBand) link=31.51GB/s)
              Network L#2 "ib0"
              OpenFabrics L#3 "mlx5_0"
  Package L#1 (P#1 CPUVendor=AuthenticAMD CPUFamilyNumber=25 CPUModelNumber=1)
    NUMANode L#1 (P#1 local=1KiB total=1KiB)
    HostBridge L#6 (buses=0000:[10-1f])
      PCIBridge L#7 (busid=0000:10:01.0 id=1000:c010 class=0604(PCIBridge) link=31.51GB/s buses=0000:[01-0f])
        PCI L#3 (busid=0000:11:00.0 id=10de:20b2 class=0302(3D) link=31.51GB/s)
          GPU(NVML) L#4 (GPUModel="NVIDIA A100-SXM4-80GB") "nvml2"
      PCIBridge L#8 (busid=0000:10:02.0 id=1000:c010 class=0604(PCIBridge) link=31.51GB/s buses=0000:[01-0f])
        PCI L#4 (busid=0000:12:00.0 id=15b3:101b class=0207(InfiniBand) link=31.51GB/s)
          Network L#5 "ib1"
          OpenFabrics L#6 "mlx5_1"
depth 0:           1 Machine (type #0)
 depth 1:          2 Package (type #1)
Special depth -3:  2 NUMANode (type #13)
"""
SHORT = """\
Machine (2KB total)
  Package L#0
    NUMANode L#0 (P#0 1024B)
    HostBridge
      PCIBridge
        PCIBridge
          PCIBridge
            PCI 03:00.0 (3D)
              GPU(NVML) "nvml0"
          PCIBridge
            PCI 04:00.0 (3D)
              GPU(NVML) "nvml1"
          PCIBridge
            PCI 05:00.0 (InfiniBand)
              Net "ib0"
              OpenFabrics "mlx5_0"
  Package L#1
    NUMANode L#1 (P#1 1024B)
    HostBridge
      PCIBridge
        PCI 11:00.0 (3D)
          GPU(NVML) "nvml2"
      PCIBridge
        PCI 12:00.0 (InfiniBand)
          Net "ib1"
          OpenFabrics "mlx5_1"
"""


def from_xml(text: str) -> Topology:
    assert hwloc_xml.sniff(text)
    assert not lstopo_text.sniff(text)
    return to_topology(hwloc_xml.read(text, "machine.xml"))


def from_text(text: str) -> Topology:
    assert lstopo_text.sniff(text)
    assert not hwloc_xml.sniff(text)
    return to_topology(lstopo_text.read(text, "machine.txt"))


def check_machine(topology: Topology) -> None:
    """The machine that XML, VERBOSE and SHORT describe."""
    assert topology.gpu_ids == ("GPU0", "GPU1", "GPU2")
    assert [device.id for device in topology.of_kind("nic")] == ["mlx5_0", "mlx5_1"]
    assert [(device.id, device.numa_node) for device in topology.of_kind("cpu")] == [("numa0", 0), ("numa1", 1)]
    assert len(topology.of_kind("pcie_switch")) == 1
    letters = {
        ("GPU0", "GPU1"): "PIX",
        ("GPU0", "mlx5_0"): "PIX",
        ("GPU2", "mlx5_1"): "PHB",
        ("GPU0", "GPU2"): "SYS",
        ("GPU1", "mlx5_1"): "SYS",
    }
    assert {pair: paths.letters(topology, *pair) for pair in letters} == letters
    assert topology.device("GPU2").pci is not None
    assert [device.numa_node for device in topology.of_kind("gpu")] == [0, 0, 1]
    assert not topology.complete


@pytest.mark.parametrize(("read", "text"), [(from_xml, XML), (from_text, VERBOSE), (from_text, SHORT)])
def test_one_machine_in_three_forms(read: Callable[[str], Topology], text: str) -> None:
    check_machine(read(text))


@pytest.mark.parametrize(("read", "text"), [(from_xml, XML), (from_text, VERBOSE)])
def test_what_the_longer_forms_tell_as_well(read: Callable[[str], Topology], text: str) -> None:
    topology = read(text)
    assert paths.path_bandwidth(topology, "GPU0", "GPU1") == pytest.approx(31.508e9, rel=1e-3)
    device = topology.device("GPU0")
    assert (device.model, device.vendor) == ("NVIDIA A100-SXM4-80GB", "nvidia")
    assert device.gpu is not None
    assert device.gpu.compute_capability == 80
    assert device.pci is not None
    assert (device.pci.bus_id, device.pci.device_class) == ("0000:03:00.0", "0x030200")
    assert (device.pci.vendor_id, device.pci.link_speed, device.pci.link_width) == ("0x10de", "16.0 GT/s PCIe", "16")
    cpu = topology.device("numa0")
    assert (cpu.vendor, cpu.cpu.arch if cpu.cpu else None) == ("AuthenticAMD", "x86_64")
    between = next(link for link in topology.links if link.kind == "cpu")
    assert between.bandwidth_bytes_per_s == catalog.cpu_link_bytes_per_s("AuthenticAMD", 25, 1)
    port = next(link for link in topology.links if link.src == "numa1/bridge0" and link.dst == "numa1")
    assert port.lanes == 32


@pytest.mark.corpus
@pytest.mark.parametrize("number", ["077", "078"])
def test_captures(corpus: Path, number: str) -> None:
    (path,) = corpus.glob(f"nvidia-smi/{number}-*.txt")
    want = json.loads(path.with_suffix(".expected.json").read_text())
    topology = from_text(path.read_text(encoding="utf-8"))
    assert topology.num_ranks == want["gpus"]
    assert [device.numa_node for device in topology.of_kind("cpu")] == [0, 8]
    assert {device.vendor for device in topology.of_kind("cpu")} == {"IBM"}
    assert "0004:05:00.0, 0004:06:00.0, 0006:00:00.0" in " ".join(topology.remarks)
    assert ("253 (GPUMemory)" in " ".join(topology.remarks)) == (number == "078")
    assert not topology.complete


@pytest.mark.parametrize(
    ("words", "affinity"),
    [
        ("0x0000000f", "0000000f"),
        ("0x000000ff,0xffffffff", "000000ff,ffffffff"),
        ("0xff,,0x0", "000000ff,00000000,00000000"),
        ("0xf...f", None),
    ],
)
def test_cpu_sets_are_written_as_linux_does(words: str, affinity: str | None) -> None:
    cpu = from_xml(XML.replace(CPUS[0], f'cpuset="{words}"')).device("numa0").cpu
    assert cpu is not None
    assert cpu.affinity == affinity


def test_gpus_are_ordered_by_nvml_else_by_address() -> None:
    swapped = document(package(0, bridge("0000:00:01.0", gpu(1, "03")), bridge("0000:00:02.0", gpu(0, "04"))))
    first = from_xml(swapped).device("GPU0").pci
    assert first is not None
    assert first.bus_id == "0000:04:00.0"
    first = from_xml(swapped.replace("nvml", "cuda")).device("GPU0").pci
    assert first is not None
    assert first.bus_id == "0000:03:00.0"


def test_a_console_is_no_gpu() -> None:
    said = 'pci_busid="0000:08:00.0" pci_type="0300 [1a03:2000] [1a03:2000] 41" pci_link_speed="0.000000"'
    topology = from_xml(document(package(0, bridge("0000:00:01.0", tag("PCIDev", said)))))
    assert (topology.gpu_ids, topology.complete) == ((), True)
    assert [device.id for device in topology.devices] == ["numa0"]


def test_an_unknown_display_leaves_the_machine_incomplete() -> None:
    topology = from_text(SHORT.replace('(3D)\n          GPU(NVML) "nvml2"', "(VGA)"))
    assert topology.gpu_ids == ("GPU0", "GPU1")
    assert any("0000:11:00.0 name no vendor of GPUs" in words for words in topology.remarks)


def test_functions_of_one_port_share_it() -> None:
    ports = nic("0", "0000:05:00.0") + nic("1", "0000:05:00.1")
    topology = from_xml(document(package(0, bridge("0000:00:01.0", ports, rate="15.753846"))))
    assert paths.letters(topology, "mlx5_0", "mlx5_1") == "PIX"
    up = next(link for link in topology.links if link.src == "0000:00:01.0")
    assert (up.dst, up.lanes) == ("numa0/bridge0", 16)
    assert up.bandwidth_bytes_per_s == pytest.approx(15.753846e9)


def test_rates_that_are_not_shown_are_assumed_as_nccl_does() -> None:
    topology = from_xml(XML.replace("31.507692", "0,000000"))
    check_machine(topology)
    assert paths.path_bandwidth(topology, "GPU0", "GPU1") == catalog.pcie_bytes_per_s(3, 16)
    assert any("8 GT/s x16 is assumed" in words for words in topology.remarks)


def test_numa_nodes_that_contain_their_bridges_as_hwloc_1_wrote_them() -> None:
    old = XML.replace(' version="2.0"', "").replace('"hwloc2.dtd"', '"hwloc.dtd"').replace('"Package"', '"NUMANode"')
    old = "".join(line for line in old.splitlines(keepends=True) if "local_memory" not in line)
    old = old.replace("<info name", "<info  name").replace(
        '</object>\n<object type="Bridge" bridge_type="0-1"', '<object type="Bridge" bridge_type="0-1"'
    )
    check_machine(from_xml(old))


def test_kinds_of_software_devices_as_hwloc_3_numbers_them() -> None:
    new = XML.replace('version="2.0"', 'version="3.0"').replace('osdev_type="2"', 'osdev_type="16"')
    new = (
        new.replace('osdev_type="3"', 'osdev_type="32"')
        .replace("mlx5_", "rocep")
        .replace('osdev_type="1"', 'osdev_type="4"')
    )
    assert [device.id for device in from_xml(new).of_kind("nic")] == ["rocep0", "rocep1"]


def test_memory_beside_a_processor_is_no_node_of_its_own() -> None:
    memory = tag("NUMANode", 'os_index="2" subtype="GPUMemory" local_memory="1024"')
    topology = from_xml(
        XML.replace('<object type="Bridge" bridge_type="0-1"', memory + '<object type="Bridge" bridge_type="0-1"', 1)
    )
    check_machine(topology)
    assert any("NUMA nodes 2 (GPUMemory)" in words for words in topology.remarks)


def test_a_bridge_beside_all_nodes_goes_to_the_first_and_says_so() -> None:
    host = tag("Bridge", 'bridge_type="0-1" depth="0" bridge_pci="0000:[20-2f]"', bridge("0000:20:01.0", gpu(0, "21")))
    topology = from_xml(document(package(0), package(1), host))
    assert topology.device("GPU0").numa_node == 0
    assert any(
        "which NUMA node a host bridge belongs is not shown, taken for numa0: GPU0" in w for w in topology.remarks
    )


def test_functions_without_any_bridge_are_kept() -> None:
    topology = from_xml(document(package(0), gpu(0, "03"), gpu(1, "04")))
    assert paths.letters(topology, "GPU0", "GPU1") == "PHB"


def test_a_machine_without_numa_nodes_has_one() -> None:
    text = "".join(line for line in SHORT.splitlines(keepends=True) if "NUMANode" not in line)
    topology = from_text(text)
    assert [device.id for device in topology.of_kind("cpu")] == ["numa0"]
    assert any("no NUMA nodes: one is assumed" in words for words in topology.remarks)


def test_what_older_lstopo_prints() -> None:
    text = (
        "Machine (24GB)\n  NUMANode L#0 (P#0 24GB) + Socket L#0 + L3 L#0 (8192KB)\n    Core L#0\n"
        "    Bridge Host->PCI L#0 (P#0 buses=0000:[00-08])\n"
        "      Bridge PCI->PCI (P#48 busid=0000:00:03.0 id=8086:340a class=0604(PCI_B) buses=0000:[02-02])\n"
        '        PCI 10de:06c0 (P#8192 busid=0000:02:00.0 class=0300(VGA) link=4.00GB/s PCIDevice="x [y]") "NVIDIA x"\n'
        '          Co-Processor L#1 (CoProcType=CUDA GPUModel="Tesla V100-SXM2-16GB") "cuda0"\n'
    )
    device = from_text(text).device("GPU0")
    assert device.gpu is not None
    assert (device.gpu.compute_capability, device.numa_node) == (70, 0)


STYLES: list[Callable[[str], str]] = [
    lambda text: text.replace("\n", "\r\n"),
    lambda text: "\ufeff" + text,
    lambda text: text.replace("  ", "\t"),
    lambda text: text.replace("  ", "    "),
    lambda text: "".join("# " + line for line in text.splitlines(keepends=True)),
    lambda text: "".join("2026-01-02T03:04:05Z node: " + line for line in text.splitlines(keepends=True)),
    lambda text: "user@box:~$ lstopo\n" + text + "user@box:~$\n",
    lambda text: text.replace("HostBridge", "\x1b[1mHostBridge\x1b[0m"),
    lambda text: text.replace("HostBridge\n", 'Block L#0 "sda"\n    ...\n    HostBridge\n'),
]


@given(style=st.sampled_from(STYLES), text=st.sampled_from([VERBOSE, SHORT]))
def test_every_way_of_keeping_a_tree_gives_the_same(style: Callable[[str], str], text: str) -> None:
    check_machine(from_text(style(text)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (XML[:-20], "machine.xml, line .*not well-formed"),
        (XML.replace("31.507692", "fast"), 'pci_link_speed="fast": expected GB/s'),
        ("<topology>\n</topology>", "line 1: the root is <topology> with 0 objects"),
        (XML.replace('"hwloc2.dtd"', '"hwloc2.dtd" [<!ENTITY a "b">]'), "declares a DTD"),
    ],
)
def test_xml_that_is_refused(text: str, words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        hwloc_xml.read(text, "machine.xml")


@pytest.mark.parametrize("text", ["", "hello\n", "Machine learning\n", "Package L#0\n"])
def test_text_that_is_no_tree(text: str) -> None:
    assert not lstopo_text.sniff(text)
    with pytest.raises(CaptureError, match="line 1: no tree of lstopo"):
        lstopo_text.read(text, "machine.txt")


@pytest.mark.parametrize("text", ["<topology/>", '<system version="1"/>', "<topology><device/></topology>", "{}"])
def test_other_xml_is_not_claimed(text: str) -> None:
    assert not hwloc_xml.sniff(text)
