"""NCCL's topology XML: every real capture reads or is refused as its index says, and what is read is exact."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import NO_CORPUS, corpus_dir, corpus_files
from topo import catalog
from topo.errors import CaptureError
from topo.readers import nccl_xml
from topo.topology import Topology


def index_rows() -> list[dict[str, str]]:
    root = corpus_dir()
    if root is None:
        return []
    with (root / "nccl-xml" / "index.tsv").open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


READABLE = [row for row in index_rows() if row["expect"].startswith("read")]
REFUSED = [row for row in index_rows() if row["expect"].startswith("refuse")]
MACHINES = corpus_files("machines/*.xml")


def read(path: Path) -> Topology:
    return nccl_xml.read(path.read_text(encoding="utf-8"), path.name)


def bandwidth(topology: Topology, src: str, dst: str) -> tuple[str, int, float]:
    (link,) = [link for link in topology.links if (link.src, link.dst) == (src, dst)]
    return link.kind, link.lanes, link.bandwidth_bytes_per_s


@pytest.mark.skipif(not READABLE, reason=NO_CORPUS)
@pytest.mark.parametrize("row", READABLE, ids=lambda row: row["file"])
def test_real_captures_read_with_the_counts_of_their_index(row: dict[str, str], corpus: Path) -> None:
    text = (corpus / "nccl-xml" / row["file"]).read_text(encoding="utf-8")
    assert nccl_xml.sniff(text)
    topology = nccl_xml.read(text, row["file"])
    ranked, by_class = map(int, re.findall(r"(\d+) (?:<gpu>|pci class)", row["GPU count"]))
    nets, nic_class = map(int, re.findall(r"(\d+) (?:<net>|pci class)", row["NIC count"]))
    skeleton = "skeleton" in row["expect"]
    assert topology.num_ranks == len(topology.of_kind("gpu")) == (by_class if skeleton else ranked)
    assert len(topology.of_kind("nic")) == (nets or nic_class)
    assert topology.complete is not skeleton
    assert bool(topology.findings) or not skeleton


@pytest.mark.skipif(not REFUSED, reason=NO_CORPUS)
@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row["file"])
def test_cut_and_foreign_files_are_refused_with_file_and_line(row: dict[str, str], corpus: Path) -> None:
    with pytest.raises(CaptureError, match=rf"^{re.escape(row['file'])}, line \d+: "):
        read(corpus / "nccl-xml" / row["file"])


@pytest.mark.skipif(not MACHINES, reason=NO_CORPUS)
@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_machines_read_completely(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    topology = nccl_xml.read(text, path.name)
    assert topology.complete
    assert topology.num_ranks == len(re.findall(r"<gpu ", text))
    assert len(topology.of_kind("nic")) == len(re.findall(r"<net ", text))
    assert not topology.of_kind("host_bridge", "host_memory")
    assert [topology.device(gpu_id).gpu.rank for gpu_id in topology.gpu_ids] == list(range(topology.num_ranks))  # type: ignore[union-attr]


def test_hybrid_cube_mesh(corpus: Path) -> None:
    topology = read(corpus / "machines/dgx1-v100.xml")
    assert Counter(d.kind for d in topology.devices) == {"cpu": 2, "pcie_switch": 4, "gpu": 8, "nic": 4}
    assert bandwidth(topology, "GPU0", "GPU3") == ("nvlink", 2, 50e9)
    assert bandwidth(topology, "GPU3", "GPU7") == ("nvlink", 1, 25e9)
    assert bandwidth(topology, "GPU0", "numa0/switch0") == ("pcie", 16, catalog.pcie_bytes_per_s(3, 16))
    assert bandwidth(topology, "numa1", "numa0") == ("cpu", 1, catalog.cpu_link_bytes_per_s("GenuineIntel", 6, 79))
    nic = topology.device("mlx5_0")
    assert nic.nic is not None
    assert nic.nic.bandwidth_bytes_per_s == 12.5e9
    assert nic.pci is not None
    assert (nic.pci.bus_id, nic.pci.link_speed, nic.pci.link_width) == ("0000:04:00.0", "8.0 GT/s PCIe", "16")


def test_all_nvswitches_are_one_device_with_the_sum_of_links(corpus: Path) -> None:
    topology = read(corpus / "nccl-xml/oci-a100-v2.xml")
    for gpu_id in topology.gpu_ids:
        assert bandwidth(topology, gpu_id, "NVS0") == bandwidth(topology, "NVS0", gpu_id) == ("nvlink", 12, 300e9)


def test_many_hosts_in_one_nvlink_domain(corpus: Path) -> None:
    topology = read(corpus / "machines/gb200-nvl72.xml")
    assert topology.gpu_ids == tuple(f"GPU{rank}" for rank in range(72))
    assert {device.host for device in topology.of_kind("gpu")} == {f"host{host}" for host in range(18)}
    assert topology.device("host17/mlx5_3").host == "host17"
    (c2c,) = [link for link in topology.links if (link.src, link.dst, link.kind) == ("GPU71", "host17/numa1", "c2c")]
    assert c2c.lanes == 5
    assert c2c.bandwidth_bytes_per_s == pytest.approx(223.56e9)


def test_devices_stand_in_document_order_and_the_link_upwards_comes_first(corpus: Path) -> None:
    topology = read(corpus / "machines/dgx1-v100.xml")
    assert [device.id for device in topology.devices[:6]] == [
        "numa0",
        "numa0/switch0",
        "GPU0",
        "GPU1",
        "mlx5_0",
        "numa0/switch1",
    ]
    assert " ".join(link.id for link in topology.links[:4]) == (
        "numa0/switch0->numa0 numa0->numa0/switch0 GPU0->numa0/switch0 numa0/switch0->GPU0"
    )


def test_two_ranks_on_one_gpu_share_its_links(corpus: Path) -> None:
    topology = read(corpus / "machines/h200-1gpu-2ranks.xml")
    assert topology.gpu_ids == ("GPU0", "GPU1")
    assert {(link.src, link.dst, link.kind) for link in topology.links if "GPU1" in (link.src, link.dst)} == {
        ("GPU1", "GPU0", "local"),
        ("GPU0", "GPU1", "local"),
    }
    assert topology.device("GPU0").pci == topology.device("GPU1").pci


def test_amd_gpus_have_an_architecture_and_xgmi(corpus: Path) -> None:
    topology = read(corpus / "nccl-xml/amd-8p-90a.xml")
    gpu = topology.device("GPU0")
    assert (gpu.vendor, gpu.model) == ("amd", "gfx90a")
    assert gpu.gpu is not None
    assert gpu.gpu.compute_capability is None
    assert {link.kind for link in topology.links} == {"pcie", "xgmi"}


def machine(inside: str, version: str = "1", cpu: str = 'numaid="0"') -> str:
    return f'<system version="{version}">\n<cpu {cpu}>\n{inside}\n</cpu>\n</system>\n'


def gpu(bus: str, attributes: str, inside: str = "") -> str:
    pci = f'<pci busid="{bus}" class="0x030200" link_speed="16 GT/s" link_width="16">'
    return f"{pci}<gpu {attributes}>{inside}</gpu></pci>"


def test_a_link_declared_by_one_side_only_is_a_finding() -> None:
    link = '<nvlink target="0000:02:00.0" count="2" tclass="0x030200"/>'
    text = machine(gpu("0000:01:00.0", 'dev="0" sm="80"', link) + gpu("0000:02:00.0", 'dev="1" sm="80"'))
    topology = nccl_xml.read(text)
    assert topology.remarks == ("GPU0 declares 2 nvlink links to GPU1, which declares 0 back: taken as they stand",)


def test_a_link_to_a_gpu_that_is_not_there_is_a_finding() -> None:
    link = '<nvlink target="0000:99:00.0" count="2" tclass="0x030200"/>'
    topology = nccl_xml.read(machine(gpu("0000:01:00.0", 'dev="0" sm="80"', link)))
    assert "0000:99:00.0" in topology.remarks[0]
    assert all(link.kind == "pcie" for link in topology.links)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ([('dev="1" rank="0"'), ('dev="0" rank="1"')], ("GPU1", "GPU0")),
        ([('dev="1"'), ('dev="0"')], ("GPU0", "GPU1")),
        ([(""), ("")], ("GPU0", "GPU1")),
        ([('dev="3" rank="8"'), ('dev="5"')], ("GPU3",)),
    ],
)
def test_rank_order(attributes: list[str], expected: tuple[str, ...]) -> None:
    inside = "".join(gpu(f"0000:0{place}:00.0", text) for place, text in enumerate(attributes))
    topology = nccl_xml.read(machine(inside))
    assert topology.gpu_ids == expected
    assert len(topology.of_kind("gpu")) == 2


def test_a_net_without_dev_is_ignored_and_negative_numa_is_unknown() -> None:
    nets = '<nic><net name="a" speed="100000"/><net name="b" dev="3" speed="0"/></nic>'
    topology = nccl_xml.read(machine(nets + gpu("0000:01:00.0", 'dev="0"'), cpu='numaid="-1"'))
    assert [device.id for device in topology.devices] == ["numa0", "b", "GPU0"]
    assert topology.device("b").numa_node is None
    assert topology.device("b").nic.bandwidth_bytes_per_s == 1.25e9  # type: ignore[union-attr]


BAD = {
    "another root": ("<graphs/>", "expected <system>"),
    "another version": (machine("", version="7"), "known are versions 1 and 2"),
    "nothing inside": ('<system version="1"/>', "no <cpu>"),
    "unknown element": (machine("<slot/>"), "<slot> inside <cpu>"),
    "bad number": (machine(gpu("0000:01:00.0", 'dev="one"')), 'dev="one"'),
    "bad bus id": (machine(gpu("eth", "")), 'busid="eth"'),
    "same bus id": (machine(gpu("0000:01:00.0", "") + gpu("0000:01:00.0", "")), "taken by GPU0"),
    "same rank": (machine(gpu("0000:01:00.0", 'rank="1"') + gpu("0000:02:00.0", 'rank="1"')), "rank 1"),
    "negative count": (
        machine(gpu("0000:01:00.0", "", '<nvlink target="1" count="-1" tclass="0x068000"/>')),
        "expected 0 or more",
    ),
    "bomb": (
        '<!DOCTYPE s [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><system version="1"><cpu numaid="&b;"/></system>',
        "DTD or entities",
    ),
    "external": ('<!DOCTYPE s SYSTEM "file:///etc/passwd"><system version="1"/>', "DTD or entities"),
    "too deep": ('<system version="1">' + "<cpu>" * 100, "levels of elements"),
    "long attribute": (machine(f'<pci busid="{"0" * 5000}"/>'), "characters in one attribute"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_with_a_sentence(name: str) -> None:
    text, words = BAD[name]
    with pytest.raises(CaptureError, match=re.escape(words)) as caught:
        nccl_xml.read(text, "machine.xml")
    assert str(caught.value).startswith("machine.xml")


@pytest.mark.skipif(not MACHINES, reason=NO_CORPUS)
@given(data=st.data())
def test_no_cut_reads(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(MACHINES[:12])).read_text(encoding="utf-8").rstrip()
    cut = text[: data.draw(st.integers(min_value=0, max_value=len(text) - 1))]
    with pytest.raises(CaptureError, match="well-formed"):
        nccl_xml.read(cut)


@given(st.text())
def test_any_text_is_refused_in_words(text: str) -> None:
    with pytest.raises(CaptureError):
        nccl_xml.read(text)
