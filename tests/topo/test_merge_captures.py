"""Several captures of one machine are one topology: filled in, held against each other, or refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import NO_CORPUS, corpus_files
from tests.topo import machine_texts as say
from topo import catalog
from topo.captures import Text, read_texts
from topo.errors import CaptureError
from topo.finding import Finding
from topo.load import load_topology
from topo.merging import merge
from topo.presets import PRESETS, preset
from topo.readers import READERS, sniff_all
from topo.topology import Topology
from topo.writers import write
from topo.writers.matrix import matrix

HOPPER = {"m.txt": say.matrix(say.all_to_all(8, "NV18"), [0] * 4 + [1] * 4)}


def merged(**texts: str) -> Topology:
    return merge(read_texts(Text(text, f"/x/{name}", name) for name, text in texts.items()), "these")


def ports(topology: Topology, kind: str = "nvlink") -> dict[str, tuple[int, str]]:
    return {
        link.src: (link.lanes, link.state)
        for link in topology.links
        if link.kind == kind and link.src.startswith("GPU")
    }


def found(topology: Topology, rule: str) -> list[Finding]:
    return [finding for finding in topology.findings if finding.rule == rule]


def hopper(**more: str) -> Topology:
    return merged(m=HOPPER["m.txt"], **more)


def test_names_and_rates_of_other_outputs_replace_what_was_assumed() -> None:
    topology = hopper(list=say.listing(8, "NVIDIA B200"), query=say.query(8, "NVIDIA B200"))
    gpu = topology.device("GPU3")
    assert (gpu.model, gpu.gpu.compute_capability) == ("NVIDIA B200", 100)  # type: ignore[union-attr]
    assert (gpu.pci.bus_id, gpu.pci.link_speed) == ("0000:5d:00.0", "32.0 GT/s PCIe")  # type: ignore[union-attr]
    assert {link.bandwidth_bytes_per_s for link in topology.links if link.kind == "nvlink"} == {18 * 50e9}
    assert not any("is assumed at every link" in words or "Hopper is assumed" in words for words in topology.remarks)


def test_the_rate_of_a_link_tells_blackwell_from_hopper() -> None:
    rates = {
        rate: {link.bandwidth_bytes_per_s for link in topology.links if link.kind == "nvlink"}
        for rate in ("26.562", "53.125")
        for topology in [hopper(links=say.nvlinks([18] * 8, name="", rate=rate))]
    }
    assert rates == {"26.562": {450e9}, "53.125": {900e9}}


def test_fewer_active_links_than_the_matrix_shows_are_a_finding_with_both_sources() -> None:
    topology = hopper(links=say.nvlinks([18, 18, 18, 17, 18, 18, 18, 18]))
    assert ports(topology) == {f"GPU{i}": (17 if i == 3 else 18, "active") for i in range(8)}
    [finding] = found(topology, "nvlink-inactive")
    assert finding.severity == "finding"
    assert finding.subjects == ("GPU3",)
    assert finding.sentence.startswith("GPU3: nvidia-smi topo -m (m) shows 18 NVLinks, nvidia-smi nvlink -s (links)")
    assert [(quote.source, quote.line) for quote in finding.evidence] == [("m", 5), ("links", 76)]
    assert "inactive" in finding.evidence[1].text


def test_a_gpu_without_any_active_link_has_inactive_ones() -> None:
    dead = say.nvlinks([18] * 8).splitlines()
    dead[20:38] = ["NVML: Unable to retrieve NVLink information as all links are inActive"]
    topology = hopper(links="\n".join(dead))
    assert ports(topology)["GPU1"] == (1, "inactive")
    assert matrix(topology)["GPU0"]["GPU1"] == "PHB"
    assert matrix(topology)["GPU0"]["GPU2"] == "NV18"
    assert len(found(topology, "nvlink-inactive")) == 1


MESH = say.matrix(say.all_to_all(4, "NV4"))
MESH_QUERY = say.query(4, "NVIDIA A100-SXM4-40GB", "4, 4, 16, 16")


def test_which_peer_lost_its_links_is_told_by_the_far_ends() -> None:
    status = say.nvlinks([11, 12, 11, 12], 12, "NVIDIA A100-SXM4-40GB", "25")
    unclear = merged(m=MESH, s=status, q=MESH_QUERY)
    assert {link.lanes for link in unclear.links if link.kind == "nvlink"} == {4}
    assert [f.subjects for f in found(unclear, "nvlink-inactive")] == [("GPU0",), ("GPU2",)]
    assert "add nvidia-smi nvlink -R" in found(unclear, "nvlink-inactive")[0].sentence
    ends = [[f"00000000:{bus}:00.0" for bus in say.BUSES[:4] if bus != own for _ in range(4)] for own in say.BUSES[:4]]
    ends[0].remove("00000000:3a:00.0")
    ends[2].remove("00000000:18:00.0")
    clear = merged(m=MESH, s=status, q=MESH_QUERY, r=say.remotes(ends, "NVIDIA A100-SXM4-40GB"))
    lanes = {(link.src, link.dst): link.lanes for link in clear.links if link.kind == "nvlink"}
    assert [pair for pair, count in lanes.items() if count == 3] == [("GPU0", "GPU2"), ("GPU2", "GPU0")]
    assert [f.subjects for f in found(clear, "nvlink-inactive")] == [("GPU0",)]


def test_unconnected_links_of_a_bridged_card_are_no_contradiction() -> None:
    status = say.nvlinks([12, 12], 18, "NVIDIA H100 NVL")
    topology = merged(m=say.matrix(say.all_to_all(2, "NV12")), s=status)
    assert not found(topology, "nvlink-inactive")


def test_xml_is_the_skeleton_and_the_matrix_is_held_against_it() -> None:
    topology = hopper(x=say.xml(8))
    assert topology.provenance[0].kind == "NCCL topology XML"
    assert [source.kind for source in topology.provenance] == ["NCCL topology XML", "nvidia-smi topo -m"]
    assert not [finding for finding in topology.findings if finding.severity == "finding"]
    fewer = merged(
        m=say.matrix(say.all_to_all(8, "NV18", but={(2, i): "NV16" for i in range(8) if i != 2})), x=say.xml(8)
    )
    assert ports(fewer)["GPU2"] == (16, "active")
    assert ports(fewer)["GPU1"] == (18, "active")
    assert [f.subjects for f in found(fewer, "nvlink-count")] == [("GPU2",)]
    assert "shows 18 NVLinks" in found(fewer, "nvlink-count")[0].sentence
    assert found(fewer, "nvlink-count")[0].evidence[0].text.startswith("<nvlink")


def test_an_xml_without_gpus_gives_way_to_a_matrix() -> None:
    bare = '<system version="1"><cpu numaid="0"><pci busid="0000:18:00.0" class="0x030200"/></cpu></system>'
    assert hopper(x=bare).provenance[0].kind == "nvidia-smi topo -m"
    assert merged(x=bare).num_ranks == 1


def test_a_gpu_that_idled_runs_at_what_it_can() -> None:
    topology = hopper(x=say.xml(8, speed="2.5 GT/s PCIe"), q=say.query(8, now="1, 5, 16, 16"))
    assert {link.bandwidth_bytes_per_s for link in topology.links if link.kind == "pcie"} == {
        catalog.pcie_bytes_per_s(5, 16)
    }
    notes = found(topology, "pcie-idle")
    assert len(notes) == 8
    assert notes[0].severity == "note"
    assert "ran at generation 1 and can do 5" in notes[0].sentence
    assert "read again under load" in notes[0].sentence


def test_lanes_that_are_missing_are_not_used() -> None:
    topology = hopper(q=say.query(8, more={4: "5, 5, 8, 16"}), p=say.lspci(8))
    rates = {link.src: link.lanes for link in topology.links if link.kind == "pcie" and link.src.startswith("GPU")}
    assert rates == {f"GPU{i}": 8 if i == 4 else 16 for i in range(8)}


@pytest.mark.parametrize("num_gpus", [1, 2, 4])
@pytest.mark.parametrize(("seen", "generation", "width"), [("5, 5, 16, 16", 5, 16), ("3, 3, 8, 16", 3, 8)])
def test_root_ports_that_are_joined_carry_what_is_plugged_into_them(
    num_gpus: int, seen: str, generation: int, width: int
) -> None:
    paths = say.matrix(say.all_to_all(num_gpus, "PHB"), [0] * num_gpus)
    topology = merged(m=paths, q=say.query(num_gpus, now=seen))
    (up,) = [link for link in topology.links if (link.src, link.dst) == ("numa0/bridge0", "numa0")]
    assert up.lanes == num_gpus * width
    assert up.bandwidth_bytes_per_s == pytest.approx(num_gpus * catalog.pcie_bytes_per_s(generation, width))


def test_paths_behind_nvlinks_come_from_mp() -> None:
    paths = say.matrix(say.all_to_all(4, "SYS", but={(0, 1): "PIX", (2, 3): "PXB"}), [0, 0, 1, 1])
    topology = merged(m=say.matrix(say.all_to_all(4, "NV4"), [0, 0, 1, 1]), mp=paths)
    parents = {link.src: link.dst for link in topology.links if link.kind == "pcie" and link.src.startswith("GPU")}
    assert parents["GPU0"] == parents["GPU1"] == "numa0/switch0"
    assert parents["GPU2"] != parents["GPU3"]
    assert matrix(topology)["GPU0"]["GPU1"] == "NV4"
    assert not any("-mp the paths" in words for words in topology.remarks)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"m": MESH, "l": say.listing(8)}, "m.* shows 4 GPUs, yet nvidia-smi -L .* shows 8"),
        ({"m": MESH, "p": say.p2p(2)}, "shows 4 GPUs, yet .* shows 2"),
        ({"m": MESH, "s": say.nvlinks([12] * 5, 12)}, "shows 4 GPUs, yet .* has a GPU 4"),
        ({"m": MESH, "x": say.xml(8)}, r"shows 4 GPUs, yet NCCL topology XML \(x\) 8"),
        ({"q": say.query(4), "x": say.xml(4, buses=say.BUSES[::-1])}, "0000:db:00.0"),
        ({"m": MESH, "q": say.query(4), "l": say.listing(4, "Tesla T4")}, "Tesla T4.*H100 80GB HBM3"),
        ({"q": say.query(4), "x": say.xml(4, sm=80)}, "are of different machines"),
        ({"m": MESH, "q": say.query(4), "p": say.lspci(4, buses=say.BUSES[4:])}, "shows no GPU there"),
        ({"m": MESH, "mp": say.matrix(say.all_to_all(8, "PIX"))}, "two different matrices"),
    ],
)
def test_captures_of_two_machines_are_refused_with_the_evidence(texts: dict[str, str], words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        merged(**texts)


def test_fewer_ranks_than_gpus_are_one_machine() -> None:
    assert hopper(x=say.xml(4), q=say.query(8)).num_ranks == 4


def test_what_cannot_be_read_is_left_out_and_said() -> None:
    cut = "\n".join(say.xml(8).splitlines()[:20])
    topology = hopper(x=cut, e="NVIDIA-SMI has failed because it could not communicate with the driver\n")
    assert topology.provenance[0].kind == "nvidia-smi topo -m"
    left_out = found(topology, "unread")
    assert [quote.source for finding in left_out for quote in finding.evidence] == ["x", "e"]
    with pytest.raises(CaptureError, match="not well-formed"):
        merged(x=cut)


def test_several_outputs_in_one_file_are_told_apart(tmp_path: Path) -> None:
    text = "\n".join([HOPPER["m.txt"], say.nvlinks([18] * 7 + [16]), say.p2p(8), say.query(8)])
    topology = load_topology(say.write_all(tmp_path, {"all.txt": text}))
    assert isinstance(topology, Topology)
    assert ports(topology)["GPU7"] == (16, "active")
    assert topology.device("GPU7").model == say.H100


def test_files_and_a_folder_give_the_same(tmp_path: Path) -> None:
    from topo.reading import read_paths

    texts = {**HOPPER, "s.txt": say.nvlinks([18] * 7 + [16]), "q.csv": say.query(8)}
    folder = say.write_all(tmp_path / "machine", texts)
    one = load_topology(folder)
    assert isinstance(one, Topology)
    many = read_paths([f"{folder}/{name}" for name in sorted(texts)])
    assert one.name == "machine"
    assert (one.devices, one.links, one.gpu_ids) == (many.devices, many.links, many.gpu_ids)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_agrees_with_its_own_matrix(name: str) -> None:
    machine = preset(name)
    if len({device.host for device in machine.of_kind("gpu")}) > 1 or machine.num_ranks < 2:
        return  # a matrix shows one host
    both = merged(x=write(machine, "nccl-xml"), m=write(machine, "matrix"))
    alone = merged(x=write(machine, "nccl-xml"))
    assert replace(both, provenance=(), name="") == replace(alone, provenance=(), name="")


@settings(max_examples=25)
@given(st.lists(st.integers(0, 18), min_size=8, max_size=8))
def test_no_gpu_has_more_links_than_are_active(active: list[int]) -> None:
    topology = hopper(links=say.nvlinks(active))
    for gpu, count in enumerate(active):
        lanes, state = ports(topology)[f"GPU{gpu}"]
        assert (lanes if state == "active" else 0) == count
    assert len(found(topology, "nvlink-inactive")) == sum(count < 18 for count in active)


CAPTURES = [path for path in corpus_files("*/*") if path.suffix in (".txt", ".xml")]


@pytest.mark.skipif(not CAPTURES, reason=NO_CORPUS)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_no_mark_hides_a_text_from_its_reader(path: Path) -> None:
    """A reader's mark is what every text of its format has: what its module takes is never passed by."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    by_module = [name for name, reader in READERS.items() if import_module(reader.module).sniff(text)]
    assert [reader.name for reader in sniff_all(text)] == by_module


def test_reading_captures_loads_nothing_heavy(tmp_path: Path) -> None:
    """A whole process stays below 0.4 s only without these: they take longer to load than all captures to read."""
    texts = {**HOPPER, "s.txt": say.nvlinks([18] * 8), "q.csv": say.query(8), "x.xml": say.xml(8), "p.txt": say.p2p(8)}
    folder = say.write_all(tmp_path, texts)
    script = (
        "import sys; from topo.reading import read_paths; read_paths([sys.argv[1]]); "
        "print(sorted({'numpy', 'networkx', 'urllib.request', 'http.client', 'rich', 'sim'} & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\n==============NVSMI LOG==============\n\nTimestamp : x\nAttached GPUs : 2\n", "nvidia-smi -q is not read"),
        ("<nvidia_smi_log>\n</nvidia_smi_log>\n", "nvidia-smi -q is not read"),
        ("ACCESS TABLE:\n             0000:0c:00.0\n0000:0c:00.0 ENABLED\n", "amd-smi topology is not read"),
        ("| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15 |\n", "nvidia-smi is not read"),
    ],
)
def test_outputs_that_are_known_and_not_read_are_named(text: str, words: str, tmp_path: Path) -> None:
    alone = tmp_path / "alone.txt"
    alone.write_text(text)
    with pytest.raises(CaptureError, match=f"alone.txt: the output of {words}, "):
        load_topology(str(alone))
    folder = say.write_all(tmp_path / "all", {"m.txt": say.matrix(say.all_to_all(2, "PIX")), "q.txt": text})
    topology = load_topology(folder)
    assert isinstance(topology, Topology)
    assert [remark for remark in topology.remarks if f"q.txt is left out: the output of {words}" in remark]
