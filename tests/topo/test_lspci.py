"""`lspci -vv`: link states, ACS and the bridges above a GPU, from whole listings and from picked lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.errors import CaptureError
from topo.readers.lspci import read, sniff
from topo.readers.lspci_facts import LspciFacts, PciFunction

ROOT_PORT = """\
40:01.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] Starship/Matisse GPP Bridge (prog-if 00 [Normal decode])
\tControl: I/O+ Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR+ FastB2B- DisINTx+
\tBus: primary=40, secondary=41, subordinate=44, sec-latency=0
\tCapabilities: [58] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1, Exit Latency L1 <64us
\t\tLnkSta:\tSpeed 16GT/s, Width x16
\t\tLnkCap2: Supported Link Speeds: 2.5-16GT/s, Crosslink- Retimer+ 2Retimers+ DRS-
\t\tLnkSta2: Current De-emphasis Level: -3.5dB, EqualizationComplete+
\tCapabilities: [2a0 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
\tKernel driver in use: pcieport

"""
GPU = """\
41:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)
\tSubsystem: NVIDIA Corporation Device 145f
\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- FastB2B- DisINTx-
\tInterrupt: pin A routed to IRQ 255
\tNUMA node: 1
\tIOMMU group: 33
\tCapabilities: [68] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)
\t\t\tTrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-
\tKernel driver in use: nvidia
\tKernel modules: nvidia

"""
LISTING = ROOT_PORT + GPU


def function(facts: LspciFacts, address: str) -> PciFunction:
    found = facts.function(address)
    assert found is not None
    return found


@pytest.mark.corpus
def test_a_capture_of_narrowed_links(corpus: Path) -> None:
    (path,) = corpus.glob("nvidia-smi/079-*.txt")
    facts = read(path.read_text(encoding="utf-8"), path.name)
    assert [gpu.address for gpu in facts.functions] == ["0000:31:00.0", "0000:34:00.0"]
    assert facts.excerpt
    for gpu in facts.functions:
        assert gpu.is_narrowed
        assert not gpu.is_slowed
        assert gpu.current is not None
        assert (gpu.current.generation, gpu.current.width) == (4, 8)


def test_a_whole_listing() -> None:
    facts = read(LISTING, "lspci.txt")
    assert not facts.excerpt
    gpu = function(facts, "0000:41:00.0")
    assert (gpu.kind, gpu.name) == ("3D controller", "NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)")
    assert (gpu.numa_node, gpu.iommu_group, gpu.driver, gpu.denied, gpu.acs) == (1, 33, "nvidia", False, None)
    assert (gpu.is_narrowed, gpu.is_slowed, gpu.is_bridge, gpu.line) == (True, True, False, 14)
    assert gpu.capable is not None
    assert gpu.current is not None
    assert gpu.capable.bytes_per_s == pytest.approx(31.508e9, rel=1e-4)
    assert gpu.capable.line == 21
    assert (gpu.current.speed, gpu.current.generation, gpu.current.line) == ("2.5GT/s", 1, 22)


def test_acs_of_the_bridges_above_a_gpu() -> None:
    facts = read(LISTING)
    (bridge,) = facts.bridges_above("0000:41:00.0")
    assert (bridge.address, bridge.is_bridge, bridge.buses) == ("0000:40:01.1", True, (0x41, 0x44))
    assert bridge.acs is not None
    assert (bridge.acs.redirects, bridge.acs.line) == (True, 11)
    assert bridge.acs.on == ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")
    assert facts.redirecting == (bridge,)
    assert not read(
        LISTING.replace("ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-", "ReqRedir- CmpltRedir-")
    ).redirecting
    assert facts.bridges_above("0001:41:00.0") == ()
    assert facts.function("0000:99:00.0") is None


def test_bridges_stand_nearest_first() -> None:
    bridge = (
        "{} PCI bridge: Broadcom / LSI PEX880xx PCIe Gen 4 Switch\n\tBus: primary={}, secondary={}, subordinate={}, x\n"
    )
    switch, port = bridge.format("41:00.0", 41, 42, 44), bridge.format("42:01.0", 42, 43, 43)
    above = read(ROOT_PORT + switch + port).bridges_above("0000:43:00.0")
    assert [bridge.address for bridge in above] == ["0000:42:01.0", "0000:41:00.0", "0000:40:01.1"]


VGA, NVME, MI300 = "VGA compatible controller", "Non-Volatile memory controller", "Processing accelerators"


@pytest.mark.parametrize(
    ("head", "kind", "class_code", "ids"),
    [
        ("0000:18:00.0 3D controller [0302]: NVIDIA [10de:2330] (rev a1)", "3D controller", "0302", ("10de", "2330")),
        ("18:00.0 0302: 10de:2330 (rev a1)", "", "0302", ("10de", "2330")),
        ("18:00.0 Class 0302: Device 10de:2330 (rev a1)", "", "0302", ("10de", "2330")),
        ("18:00.0 Class [0302]: Device [10de:2330] (rev a1)", "Class", "0302", ("10de", "2330")),
        ("00000000:18:00.0 Bridge: NVIDIA Corporation Device 22a3 (rev a1)", "Bridge", None, (None, None)),
        (f"18:00.0 {VGA}: NVIDIA AD102 [GeForce RTX 4090] (rev a1)", VGA, None, (None, None)),
        (f"18:00.0 {NVME}: Samsung Electronics Co Ltd NVMe SSD", NVME, None, (None, None)),
        (f"18:00.0 {MI300}: [AMD/ATI] Aqua Vanjaram [Instinct MI300X]", MI300, None, (None, None)),
        ("18:00.0 Infiniband controller: MT2910 [ConnectX-7]", "Infiniband controller", None, (None, None)),
    ],
)
def test_heads(head: str, kind: str, class_code: str | None, ids: tuple[str | None, str | None]) -> None:
    for line in (head, f"root@box:~# {head}", f"2026-01-02T03:04:05 node: {head}"):
        (found,) = read(line).functions
        assert (found.address, found.kind, found.class_code) == ("0000:18:00.0", kind, class_code)
        assert (found.vendor_id, found.device_id) == ids
        assert sniff(line)


def test_picked_lines_keep_their_function() -> None:
    picked = "\n".join(
        line for line in LISTING.splitlines() if line[:1].isdigit() or "ACSCtl" in line or "LnkSta:" in line
    )
    facts = read(picked)
    assert facts.excerpt
    assert [(row.address, bool(row.acs), row.current is not None) for row in facts.functions] == [
        ("0000:40:01.1", True, True),
        ("0000:41:00.0", False, True),
    ]


def test_flags_without_addresses_are_kept_one_by_one() -> None:
    line = "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n"
    facts = read(line + line.replace("+", "-") + line)
    assert [(row.address, row.acs.redirects if row.acs else None) for row in facts.functions] == [
        (None, True),
        (None, False),
        (None, True),
    ]
    assert [row.line for row in facts.redirecting] == [1, 3]


def test_what_may_not_be_read_is_told() -> None:
    (found,) = read(
        "18:00.0 3D controller: NVIDIA Corporation Device 2330\n\tCapabilities: <access denied>\n"
    ).functions
    assert found.denied
    assert (found.acs, found.current) == (None, None)


def test_a_link_that_is_down() -> None:
    (port,) = read(
        "40:01.1 PCI bridge: X\n\tLnkCap: Port #1, Speed 16GT/s, Width x16\n\tLnkSta: Speed unknown, Width x0\n"
    ).functions
    assert port.current is not None
    assert (port.current.generation, port.current.width, port.current.bytes_per_s) == (None, None, None)
    assert (port.is_slowed, port.is_narrowed) == (False, False)


def test_a_short_listing_beside_the_verbose_one() -> None:
    short = "".join(line + "\n" for line in LISTING.splitlines() if line and line[0].isdigit())
    assert len(read(LISTING + short).functions) == 2
    assert len(read(short + LISTING).functions) == 2
    with pytest.raises(CaptureError, match=r"l\.txt, line 27: 0000:41:00\.0 is 'NVIDIA .*' in line 14 and 'Other"):
        read(LISTING + GPU.replace("NVIDIA Corporation GA100", "Other GA100"), "l.txt")


STYLES: list[Callable[[str], str]] = [
    lambda text: text.replace("\n", "\r\n"),
    lambda text: "\ufeff" + text,
    lambda text: text.replace("\t", "        "),
    lambda text: text.replace("\t", ""),
    lambda text: "".join("# " + line for line in text.splitlines(keepends=True)),
    lambda text: "".join("    " + line for line in text.splitlines(keepends=True)),
    lambda text: text.replace("ACSCtl", "\x1b[01;31m\x1b[KACSCtl\x1b[m\x1b[K"),
    lambda text: "root@box:~# lspci -vvv\n" + text,
    lambda text: "".join("Jan 02 03:04:05 box sh[7]: " + line for line in text.splitlines(keepends=True)),
    lambda text: text.replace("\n40:", "\n0000:40:").replace("\n41:", "\n0000:41:"),
]


@given(style=st.sampled_from(STYLES), order=st.permutations([ROOT_PORT, GPU]))
def test_every_way_of_keeping_a_listing_gives_the_same(style: Callable[[str], str], order: list[str]) -> None:
    facts = read(style("".join(order)))
    assert {row.address for row in facts.functions} == {"0000:40:01.1", "0000:41:00.0"}
    assert [row.address for row in facts.redirecting] == ["0000:40:01.1"]
    gpu = function(facts, "0000:41:00.0")
    assert gpu.is_narrowed
    assert (gpu.numa_node, gpu.driver) == (1, "nvidia")
    assert [bridge.address for bridge in facts.bridges_above("0000:41:00.0")] == ["0000:40:01.1"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "18:00.0\n",
        "12:30:45.6 INFO a device: x\n",
        "LnkCap2: Supported Link Speeds: 2.5-16GT/s\n",
        "ACSCtl: none\n",
    ],
)
def test_what_is_no_listing(text: str) -> None:
    assert not sniff(text)


def test_no_line_of_lspci_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"l\.txt, line 1: no PCI functions"):
        read("hello\n", "l.txt")


@pytest.mark.parametrize("piece", ["a ", "a/-", "a [", "a:", "[1234] "])
def test_long_lines_come_to_an_end(piece: str) -> None:
    """A pattern that tries each place of the line from each other one would not, for hours."""
    assert not sniff("18:00.0 " + piece * 200_000)
