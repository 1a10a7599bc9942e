"""A whole live capture against commands that a folder on PATH stands in for: kept, redacted, and read alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topo import machine_texts as say
from topo.capture import capture, save
from topo.capture_nvml import capture_nvml
from topo.captures import Text, read_texts
from topo.commands import RawText, run_command
from topo.installed import EntryPoint
from topo.load import load_topology
from topo.merging import merge
from topo.readers import nvml
from topo.reading import THIS_MACHINE, read_capture
from topo.redact import Redactor
from topo.sources import installed_sources
from topo.topology import Topology

SECRETS = {
    "GPU-deadbeef-1111-2222-3333-444455556666",
    "b8:59:9f:aa:bb:cc",
    "10.11.12.13",
    "fe80::ba59:9fff:feaa:bbcc",
    "0x98039b0300aabbcc",
    "9803:9b03:00aa:bbcc",
    "48-b0-2d-ff-ff-ec-ca-01",
    "1324021017666",
    "secretname",
}

FAKE = """#!{python}
import sys, time
answers = {answers!r}
asked = " ".join(sys.argv[1:])
for words, text in answers.items():
    if asked.startswith(words):
        if text == "HANG":
            time.sleep(600)
        if text == "FLOOD":
            while True:
                sys.stdout.write("x" * 65536)
        sys.stdout.write(text)
        break
else:
    sys.exit("unknown: " + asked)
"""


def fake(folder: Path, command: str, answers: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / command).write_text(FAKE.format(python=sys.executable, answers=answers))
    (folder / command).chmod(0o755)


def eight_hoppers(folder: Path) -> Path:
    """A folder with an nvidia-smi and an lspci that answer for eight GPUs, two of which are ill."""
    listing = say.listing(8).replace(
        "GPU-00000000-0000-0000-0000-000000000003", "GPU-deadbeef-1111-2222-3333-444455556666"
    )
    fake(
        folder,
        "nvidia-smi",
        {
            "topo -mp": say.matrix(say.all_to_all(8, "NODE"), [0] * 4 + [1] * 4),
            "topo -m": say.matrix(say.all_to_all(8, "NV18"), [0] * 4 + [1] * 4),
            "topo -p2p r": say.p2p(8),
            "-L": listing,
            "--query-gpu=index,name,pci.bus_id,pcie": "".join(
                line.replace(", 9.0,", ",").replace("compute_cap, ", "") + "\n" for line in say.query(8).splitlines()
            ),
            "nvlink -s": say.nvlinks([18] * 5 + [17, 18, 18]),
            "nvlink -e": "HANG",
        },
    )
    leaking = "\n".join(
        [
            "\tCapabilities: [100 v1] Device Serial Number 48-b0-2d-ff-ff-ec-ca-01",
            "\t\t[SN] Serial number: 1324021017666",
            "\tMAC b8:59:9f:aa:bb:cc on secretname at 10.11.12.13 and fe80::ba59:9fff:feaa:bbcc",
            "\tGUID 0x98039b0300aabbcc, 9803:9b03:00aa:bbcc",
        ]
    )
    fake(folder, "lspci", {"": say.lspci(8) + leaking + "\n"})
    fake(folder, "rocm-smi", {"": "FLOOD"})
    return folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process on that machine, with short patience."""
    folder = eight_hoppers(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr("platform.node", lambda: "secretname.example.org")
    monkeypatch.setattr("topo.capture.run_command", lambda file, command: run_command(file, command, 2.0, 2**20))
    monkeypatch.setattr("topo.capture.installed_sources", tuple)
    return folder


def test_a_saved_capture_is_the_live_topology_and_names_nobody(machine: Path, tmp_path: Path) -> None:
    begin = time.monotonic()
    captured = capture(tmp_path / "no-such-root")
    assert time.monotonic() - begin < 30
    save(captured, tmp_path / "saved")
    live, remark = read_capture(captured)
    saved = load_topology(str(tmp_path / "saved"))
    assert isinstance(saved, Topology)
    assert remark == ""
    assert live == replace(saved, name=THIS_MACHINE)
    assert live.num_ranks == 8
    assert [f.subjects for f in live.findings if f.rule == "nvlink-inactive"] == [("GPU5",)]
    assert live.device("GPU3").model == say.H100
    kept = "".join(path.read_text() for path in (tmp_path / "saved").iterdir())
    assert not [secret for secret in SECRETS if secret in kept]


def test_a_command_that_hangs_or_floods_is_recorded_and_the_rest_goes_on(machine: Path, tmp_path: Path) -> None:
    log = dict(line.split(": ", 1) for line in capture(tmp_path / "none").log.splitlines())
    assert log["nvidia-smi-nvlink-e.txt"].endswith("gave no answer within 2 s")
    assert log["rocm-smi-showtopo.txt"].endswith("printed more than 1 MiB")
    assert log["nvidia-smi-nvlink-R.txt"].endswith("ended with status 1")
    assert log["nvidia-smi-topo-m.txt"].endswith("ok")


def test_what_a_command_started_ends_with_it(tmp_path: Path) -> None:
    marker = tmp_path / "alive"
    script = f"(while true; do date > '{marker}'; sleep 0.1; done) & sleep 600"
    assert run_command("a", ["/bin/sh", "-c", script], 0.5).problem.startswith("gave no answer")
    marker.unlink(missing_ok=True)
    time.sleep(0.4)
    assert not marker.exists()


def test_a_command_that_leaves_its_output_open_is_not_waited_for(tmp_path: Path) -> None:
    begin = time.monotonic()
    found = run_command("a", ["/bin/sh", "-c", "echo out; sleep 600 & exit 0"], 0.5)
    assert found.problem.startswith("gave no answer")
    assert time.monotonic() - begin < 5


def test_the_command_line_saves_and_reads_again(tmp_path: Path) -> None:
    folder = eight_hoppers(tmp_path / "bin")
    fake(folder, "nvidia-smi", {"topo -m": say.matrix(say.all_to_all(2, "PIX"))})
    fake(folder, "rocm-smi", {})
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    topo = [sys.executable, "-m", "topo.cli", "discover", "--format", "json"]
    topo[1:3] = ["-c", "from topo.cli import main; main()"]
    runs = [
        subprocess.run([*topo, *more], env=environment, capture_output=True, text=True, check=True, timeout=120)
        for more in (["--save-capture", str(tmp_path / "kept")], ["--from", str(tmp_path / "kept")])
    ]
    live, saved = (json.loads(run.stdout) for run in runs)
    assert {**live, "name": ""} == {**saved, "name": ""}
    assert live["matrix"]["GPU0"]["GPU1"] == "PIX"


# --- redaction ---


def test_equal_values_stay_equal_and_others_differ() -> None:
    redact = Redactor(["frontend7.example.org"])
    one = redact("GPU 0: H100 (UUID: GPU-deadbeef-1111-2222-3333-444455556666) on frontend7, frontend7.example.org")
    other = redact("GPU-DEADBEEF-1111-2222-3333-444455556666 and GPU-deadbeef-1111-2222-3333-444455556667")
    assert one == "GPU 0: H100 (UUID: GPU-00000000-0000-0000-0000-000000000001) on host0, host0"
    assert other == "GPU-00000000-0000-0000-0000-000000000001 and GPU-00000000-0000-0000-0000-000000000002"


@pytest.mark.parametrize(
    "text",
    [
        "00000000:18:00.0",
        "0000:18:00.0 3D controller: NVIDIA Corporation GH100 [10de:2330] (rev a1)",
        "0002:00:01.0: Link 2",
        "driver 550.54.15, firmware 28.39.1002, CUDA 12.4",
        "Link 0: 26.562 GB/s",
        "Serial controller: Intel",
        "0-63,128-191",
        "02:00.0 Region 0: Memory at 20000000000 (64-bit, prefetchable)",
        "ffffffff,00000000,ffffffff",
        "node0: GPU0 NODE SYS",
    ],
)
def test_what_names_nobody_stays(text: str) -> None:
    assert Redactor(["node", "gpu", "ib0"])(text) == text


@pytest.mark.parametrize("secret", sorted(SECRETS - {"secretname", "1324021017666"}))
@given(before=st.sampled_from([" ", "(", "=", '"']), after=st.sampled_from([" ", ")", ",", '"', ""]))
def test_no_identifier_survives(secret: str, before: str, after: str) -> None:
    redacted = Redactor()(f"x{before}{secret}{after}")
    assert secret not in redacted
    assert redacted.startswith(f"x{before}")
    assert redacted.endswith(after)


def test_texts_read_as_before() -> None:
    texts = {
        "m": say.matrix(say.all_to_all(8, "NV18")),
        "l": say.listing(8),
        "s": say.nvlinks([18] * 8),
        "x": say.xml(8),
    }
    redact = Redactor(["secretname"])

    def merged(change: bool) -> Topology:
        return merge(
            read_texts(Text(redact(text) if change else text, name, name) for name, text in texts.items()), "here"
        )

    assert merged(True) == merged(False)


# --- NVML ---


class FakeError(Exception):
    pass


def fake_nvml(count: int, lanes: int, level: int) -> SimpleNamespace:
    """A pynvml of that many GPUs with NVLinks to switches; what old releases lack is missing."""

    def refuse(*_: object) -> None:
        raise FakeError("Not Supported")

    def remote(_: int, link: int) -> SimpleNamespace:
        return SimpleNamespace(busId=f"00000005:{link:02x}:00.0".encode())

    def state(gpu: int, link: int) -> int:
        if link >= 18:
            raise FakeError("Invalid Argument")
        return int(link < (lanes - 1 if gpu == 1 else lanes))

    return SimpleNamespace(
        NVMLError=FakeError,
        NVML_P2P_CAPS_INDEX_READ=0,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda handle: b"NVIDIA H100 80GB HBM3",
        nvmlDeviceGetPciInfo=lambda handle: SimpleNamespace(busId=f"00000000:{say.BUSES[handle]}:00.0"),
        nvmlDeviceGetCudaComputeCapability=lambda handle: (9, 0),
        nvmlDeviceGetMigMode=refuse,
        nvmlDeviceGetCurrPcieLinkGeneration=lambda handle: 1,
        nvmlDeviceGetMaxPcieLinkGeneration=lambda handle: 5,
        nvmlDeviceGetCurrPcieLinkWidth=lambda handle: 16,
        nvmlDeviceGetMaxPcieLinkWidth=lambda handle: 16,
        nvmlDeviceGetNvLinkState=state if lanes else refuse,
        nvmlDeviceGetNvLinkRemotePciInfo=remote,
        nvmlDeviceGetTopologyCommonAncestor=lambda one, other: level,
        nvmlDeviceGetP2PStatus=lambda one, other, kind: 0,
    )


def test_nvml_stands_in_for_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(4, 18, 40))  # type: ignore[arg-type]
    raw = capture_nvml()
    assert raw.problem == ""
    topology = merge(read_texts([Text(raw.text, raw.file, raw.file)]), "here")
    assert topology.num_ranks == 4
    assert {
        link.src: link.lanes for link in topology.links if link.kind == "nvlink" and link.src.startswith("GPU")
    } == {
        "GPU0": 18,
        "GPU1": 17,
        "GPU2": 18,
        "GPU3": 18,
    }
    assert topology.device("GPU2").pci.bus_id == "0000:3a:00.0"  # type: ignore[union-attr]
    assert [f.rule for f in topology.findings].count("pcie-idle") == 4


def test_nvml_without_nvlinks_gives_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(2, 0, 30))  # type: ignore[arg-type]
    facts = nvml.read(capture_nvml().text)
    assert facts.matrix is not None
    assert facts.matrix.letters("GPU0", "GPU1") == "PHB"
    assert facts.p2p is not None
    assert facts.p2p.tables[0].refused == ()


def test_nvml_that_is_missing_or_broken_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = fake_nvml(1, 0, 0)

    def fail() -> None:
        raise FakeError("Driver Not Loaded")

    broken.nvmlInit = fail
    monkeypatch.setitem(sys.modules, "pynvml", broken)  # type: ignore[arg-type]
    assert capture_nvml().problem == "NVML says: Driver Not Loaded"
    monkeypatch.setitem(sys.modules, "pynvml", None)  # type: ignore[arg-type]
    assert capture_nvml().problem.startswith("not installed")


# --- sources of packages above ---


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value)


def a_dump() -> RawText:
    """What a source may give: a dump of the machine that `eight_hoppers` is."""
    return RawText("nccl-topo.xml", ("nccl",), say.xml(8).replace("<cpu ", '<cpu host_hash="0xdeadbeef00aabbcc" '))


def broken() -> RawText:
    raise KeyError("no such\nlibrary")


def a_word() -> str:
    return "word"


def test_a_source_s_text_is_kept_redacted_and_read_like_the_others(machine: Path, tmp_path: Path) -> None:
    captured = capture(tmp_path / "none", sources=installed_sources([entry("dump", f"{__name__}:a_dump")]))
    save(captured, tmp_path / "saved")
    live, remark = read_capture(captured)
    assert remark == ""
    assert live.provenance[0].kind == "NCCL topology XML"
    assert live.device("GPU3").model == say.H100
    assert [f.subjects for f in live.findings if f.rule == "nvlink-inactive"] == [("GPU5",)]
    assert live == replace(load_topology(str(tmp_path / "saved")), name=THIS_MACHINE)  # type: ignore[type-var]
    assert "deadbeef" not in (tmp_path / "saved" / "nccl-topo.xml").read_text()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (f"{__name__}:broken", "raised KeyError: 'no such\\nlibrary'"),
        ("no_such_module:ask", "raised ModuleNotFoundError: No module named 'no_such_module'"),
        (f"{__name__}:a_word", "gave a str, not a RawText"),
    ],
)
def test_a_source_that_fails_is_recorded_and_the_rest_goes_on(
    value: str, problem: str, machine: Path, tmp_path: Path
) -> None:
    captured = capture(tmp_path / "none", sources=installed_sources([entry("other", value)]))
    assert f"other.txt: {value}: {problem}\n" in captured.log
    assert "nvidia-smi-topo-m.txt: nvidia-smi topo -m: ok\n" in captured.log


# --- /sys ---


def test_the_pcie_tree_of_sysfs_sets_the_rate_of_a_switch_s_uplink(tmp_path: Path) -> None:
    up, down = "0000:16:00.0", ("0000:17:00.0", "0000:17:01.0")
    files: dict[str, str] = {}
    for address, device_class, speed, width in (
        ("0000:15:01.0", "0x060400", "16.0 GT/s PCIe", "8"),
        (up, "0x060400", "16.0 GT/s PCIe", "8"),
        (down[0], "0x060400", "32.0 GT/s PCIe", "16"),
        (down[1], "0x060400", "32.0 GT/s PCIe", "16"),
        ("0000:18:00.0", "0x030200", "32.0 GT/s PCIe", "16"),
        ("0000:2a:00.0", "0x030200", "32.0 GT/s PCIe", "16"),
    ):
        vendor = "0x10de" if device_class == "0x030200" else "0x1000"
        rows = {"class": device_class, "vendor": vendor, "numa_node": "0"}
        for which in ("current", "max"):
            rows |= {f"{which}_link_speed": speed, f"{which}_link_width": width}
        files |= {f"sys/bus/pci/devices/{address}/{name}": value for name, value in rows.items()}
    above = f"../../../devices/pci0000:15/0000:15:01.0/{up}"
    links = {
        "sys/bus/pci/devices/0000:18:00.0": f"{above}/{down[0]}/0000:18:00.0",
        "sys/bus/pci/devices/0000:2a:00.0": f"{above}/{down[1]}/0000:2a:00.0",
        "sys/bus/pci/devices/0000:18:00.0/iommu_group": "../../../kernel/iommu_groups/7",
    }
    files["sys/kernel/iommu_groups/7/type"] = "DMA-FQ"
    files["sys/devices/system/node/node0/cpulist"] = "0-7"
    from topo.readers.sysfs import render

    snapshot = render(files, links, [0], "x86_64")
    texts = {"m": say.matrix(say.all_to_all(2, "PIX")), "q": say.query(2, "NVIDIA L40S"), "sysfs": snapshot}
    captures = read_texts(Text(text, name, name) for name, text in texts.items())
    topology = merge(captures, "here")
    uplink = next(link for link in topology.links if link.src == "numa0/switch0" and link.dst == "numa0/bridge0")
    assert uplink.lanes == 8
    assert not any("PCIe rates are not shown" in words for words in topology.remarks)
    from topo.case import Case
    from topo.findings import examine

    [finding] = [found for found in examine(Case(topology, captures)) if found.severity == "finding"]
    assert finding.rule == "iommu"
