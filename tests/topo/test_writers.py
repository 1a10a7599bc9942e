"""What is drawn fits and is whole; what is written for NCCL reads back as the same machine."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import NO_CORPUS, corpus_files
from topo.cluster import Cluster
from topo.diff import diff
from topo.errors import TopoError, TopologyError
from topo.fabric import parse_fabric
from topo.load import load_topology
from topo.merge import from_matrix
from topo.presets import PRESETS, preset
from topo.readers import nccl_xml, nvidia_smi_topo, topology_json
from topo.synthetic import synthetic
from topo.topology import Link, Topology
from topo.writers import dot, text, write
from topo.writers import nccl_xml as writer
from topo.writers.hosts import alike_hosts

UNREADABLE = re.compile("cut|NOT-NCCL|silink")
CAPTURES = [
    path for path in corpus_files("machines/*.xml") + corpus_files("nccl-xml/*.xml") if not UNREADABLE.search(path.name)
]
of_captures = pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)


def read(path: Path) -> Topology:
    return nccl_xml.read(path.read_text(encoding="utf-8"), path.name)


@pytest.mark.skipif(not CAPTURES, reason=NO_CORPUS)
@of_captures
def test_nccl_xml_reads_back_the_same(path: Path) -> None:
    topology = read(path)
    again = nccl_xml.read(writer.render(topology), path.name)
    assert again.devices == topology.devices
    assert again.links == topology.links
    assert again.gpu_ids == topology.gpu_ids
    assert again.complete == topology.complete


@pytest.mark.skipif(not CAPTURES, reason=NO_CORPUS)
@of_captures
def test_drawings_fit_80_columns_and_leave_nothing_out(path: Path) -> None:
    topology = read(path)
    drawn = text.render(topology)
    assert max(map(len, drawn.splitlines())) <= text.WIDTH
    many = {device.name for device in topology.of_kind("nic")} if " x  " in drawn else set()
    many |= {device.name for device in topology.devices if device.host in alike_hosts(topology)}
    assert not [device.name for device in topology.devices if device.name not in drawn and device.name not in many]


def test_hosts_built_alike_are_drawn_once() -> None:
    lines = text.render(preset("gb200-nvl72")).splitlines()
    assert lines[1:4] == [
        "host0",
        "(and 17 like it: host1..host17, with GPU4..GPU71)",
        "host0/numa0  NUMA node 0 Arm",
    ]
    assert "  NVS0 - GPU0..GPU71: 900 (18 links) each" in lines
    assert lines[-2:] == ["  host0/numa0 - host0/numa1 6", "  (likewise on host1..host17)"]
    assert len(lines) < 30


def test_a_host_that_differs_is_drawn() -> None:
    rack = preset("gb200-nvl8")
    assert alike_hosts(rack) == {"host1": "host0"}
    slow = tuple(replace(link, lanes=8) if link.src == "host1/mlx5_0" else link for link in rack.links)
    assert alike_hosts(replace(rack, links=slow)) == {}
    assert "host1/mlx5_0" in text.render(replace(rack, links=slow))


def test_nodes_of_a_cluster_are_drawn_once() -> None:
    lines = text.render(Cluster(preset("dgx-h100"), 5, parse_fabric("fat-tree:2")).explicit()).splitlines()
    assert lines[1:3] == ["node0", "(and 4 like it: node1..node4)"]
    assert lines[-5:] == [
        "  leaf0 - node0/mlx5_0..node0/mlx5_7, node1/mlx5_0..node1/mlx5_7: 50 each",
        "  leaf1 - node2/mlx5_0..node2/mlx5_7, node3/mlx5_0..node3/mlx5_7: 50 each",
        "  leaf2 - node4/mlx5_0..node4/mlx5_7: 50 each",
        "  spine - leaf0, leaf1: 400 each",
        "  spine - leaf2: 200 each",
    ]
    assert "None" not in lines
    assert max(map(len, lines)) <= text.WIDTH


@pytest.mark.parametrize("name", PRESETS)
def test_presets_for_nccl_are_the_presets(name: str) -> None:
    topology = preset(name)
    again = nccl_xml.read(writer.render(topology))
    named = [replace(device, model=None) for device in topology.devices if device.kind != "host_memory"]
    assert list(again.devices) == named
    assert set(again.links) == {link for link in topology.links if "memory" not in link.id}


def test_bus_ids_that_are_not_known_are_made_up_and_said_to_be() -> None:
    known = preset("pcie-4gpu")
    topology = replace(known, devices=tuple(replace(device, pci=None) for device in known.devices))
    xml = writer.render(topology)
    assert xml.startswith("<!-- bus ids are placeholders")
    assert "16.0 GT/s PCIe" in xml
    again = nccl_xml.read(xml)
    assert len({device.pci.bus_id for device in again.of_kind("gpu") if device.pci}) == 4


def test_a_machine_without_a_processor_cannot_be_written_for_nccl() -> None:
    with pytest.raises(TopologyError, match="no NUMA node"):
        writer.render(synthetic("ring:3,bandwidth=1GB/s"))


@pytest.mark.parametrize(("name", "num_hosts"), [("dgx-h100", 2), ("gb200-nvl8", 4)])
@pytest.mark.parametrize("fabric", ["flat", "rail"])
def test_nodes_on_a_network_cannot_be_written_for_nccl(name: str, num_hosts: int, fabric: str) -> None:
    cluster = Cluster(preset(name), 2, parse_fabric(fabric)).explicit()
    with pytest.raises(TopologyError, match=f"is {num_hosts} nodes on a network.*write the node, without --nodes"):
        writer.render(cluster)


@pytest.mark.parametrize("ranks", [(0, 1, 4), (7,), (4, 0), tuple(range(8))])
@pytest.mark.parametrize("name", ["dgx-h100", "pcie-8gpu"])
def test_gpus_that_take_part_are_those_of_the_nccl_xml(name: str, ranks: tuple[int, ...]) -> None:
    some = preset(name).take_ranks(ranks)
    assert nccl_xml.read(writer.render(some)).gpu_ids == some.gpu_ids


def test_a_dead_link_is_seen() -> None:
    topology = synthetic("fully-connected:3,bandwidth=1GB/s")
    links = tuple(replace(link, state="inactive") if link.id == "GPU0->GPU1" else link for link in topology.links)
    broken = replace(topology, links=links)
    assert sorted(text.render(broken).splitlines()[-4:]) == [
        "  GPU0 - GPU2 1",
        "  GPU0 -> GPU1 1 DOWN",
        "  GPU1 - GPU2 1",
        "  GPU1 -> GPU0 1",
    ]
    assert '"GPU0" -- "GPU1" [label="network 1", penwidth=1.0, color=red, style=dashed, dir=forward]' in dot.render(
        broken
    )


def test_both_directions_of_a_link_are_one_edge_where_they_are_equal() -> None:
    topology = synthetic("ring:2,bandwidth=100GB/s")
    assert dot.render(topology).count(" -- ") == 1
    uneven = (Link("GPU0", "GPU1", "network", 1e9), Link("GPU1", "GPU0", "network", 2e9))
    assert dot.render(replace(topology, links=uneven)).count("dir=forward") == 2


@pytest.mark.parametrize("name", ["a40-x8-pairs", "dgx1-v100", "gb200-nvl8", "oci-a100-16x100", "pcie-8gpu"])
def test_each_pair_is_listed_once(name: str) -> None:
    machine = preset(name)
    drawn = text.render(machine)
    assert "->" not in drawn
    listed = re.findall(r"^  (GPU\d) - (.*)$", drawn, re.MULTILINE)
    pairs = [(one, int(other)) for one, others in listed for other in re.findall(r"GPU(\d)", others)]
    assert len(pairs) == len(set(pairs))
    assert all(int(one[3:]) < other for one, other in pairs)
    assert (
        "GPU0 - GPU1" in drawn
        or machine.of_kind("nvswitch")
        or not any(link.kind == "nvlink" for link in machine.links)
    )


def test_directions_that_differ_are_two_with_arrows() -> None:
    mesh = preset("dgx1-v100")
    slow = tuple(replace(link, bandwidth_bytes_per_s=1e9) if link.id == "GPU0->GPU3" else link for link in mesh.links)
    lines = text.render(replace(mesh, links=slow)).splitlines()
    assert "  GPU0 - GPU1, GPU2 25 (1 link); GPU4 50 (2 links)" in lines
    assert {"  GPU0 -> GPU3 1 (2 links)", "  GPU3 -> GPU0 50 (2 links)"} <= set(lines)
    one_way = tuple(link for link in mesh.links if link.id != "GPU0->GPU3")
    lines = text.render(replace(mesh, links=one_way)).splitlines()
    assert [line for line in lines if "->" in line] == ["  GPU3 -> GPU0 50 (2 links)"]


def test_directions_of_a_switch_that_differ_are_two_with_arrows() -> None:
    box = preset("dgx-h100")
    slow = tuple(replace(link, bandwidth_bytes_per_s=9e9) if link.id == "NVS0->GPU3" else link for link in box.links)
    lines = text.render(replace(box, links=slow)).splitlines()
    assert "  NVS0 - GPU0..GPU2, GPU4..GPU7: 450 (18 links) each" in lines
    assert {"  NVS0 -> GPU3: 9 (18 links) each", "  NVS0 <- GPU3: 450 (18 links) each"} <= set(lines)


def test_gpus_that_take_no_part_are_marked() -> None:
    some = preset("dgx-h100").take_ranks((4, 0, 1))
    lines = text.render(some).splitlines()
    assert lines[0].startswith("dgx-h100: 8 GPUs (3 take part), ")
    assert lines[1] == "ranks in order: GPU4, GPU0, GPU1"
    marked = [re.findall(r"GPU\d", line)[0] for line in lines if "(not taking part)" in line]
    assert marked == ["GPU2", "GPU3", "GPU5", "GPU6", "GPU7"]
    assert dot.render(some).count("not taking part") == 5
    assert max(map(len, lines)) <= text.WIDTH
    whole = text.render(preset("dgx-h100"))
    assert "take" not in whole
    assert "taking" not in whole + dot.render(preset("dgx-h100"))


def test_what_does_not_fit_a_line_takes_two() -> None:
    known = preset("dgx-h100")
    long = tuple(
        replace(device, host="a-node-of-some-length", label=f"a-node-of-some-length/{device.name}")
        for device in known.devices
    )
    lines = text.render(replace(known, devices=long).take_ranks((0,))).splitlines()
    place = next(number for number, line in enumerate(lines) if "GPU1  (not taking part)  H100 SXM5" in line)
    assert lines[place].endswith(" 0000:05:00.0")
    assert lines[place + 1].split() == ["pcie", "x16", "63.02", "GB/s"]
    assert max(map(len, lines)) <= text.WIDTH


def test_gpus_without_a_tree_are_named_too() -> None:
    lines = text.render(synthetic("switch:64,bandwidth=1GB/s").take_ranks(range(1, 64, 2))).splitlines()
    assert lines[0].endswith(": 64 GPUs (32 take part)")
    assert lines[1].startswith("ranks in order: GPU1, GPU3, ")
    assert "ranks in order: GPU1..GPU3" in text.render(synthetic("ring:4,bandwidth=1GB/s").take_ranks((1, 2, 3)))


def test_hosts_of_which_others_take_part_are_not_alike() -> None:
    lines = text.render(preset("gb200-nvl72").take_ranks((0, 1))).splitlines()
    assert {"host0", "host1"} <= set(lines)
    assert "(and 16 like it: host2..host17, with GPU8..GPU71)" in lines


CONTRADICTION = "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNODE\tPHB\nGPU1\tNODE\t X \tPHB\nGPU2\tPHB\tPHB\t X \n"


def test_letters_that_contradict_each_other_are_said_in_the_headline() -> None:
    odd = from_matrix(nvidia_smi_topo.read(CONTRADICTION))
    assert text.headline(odd).endswith("3 GPUs, 1 NUMA node, INCONSISTENT")
    assert text.headline(topology_json.read(write(odd, "json"))) == text.headline(odd)
    assert "INCONSISTENT" not in text.headline(from_matrix(nvidia_smi_topo.read(CONTRADICTION.replace("NODE", "PHB"))))


def test_many_alike_are_one_line() -> None:
    lines = text.render(synthetic("switch:1024,bandwidth=200GB/s")).splitlines()
    assert "  SW0 - GPU0..GPU1023: 200 each" in lines
    assert len(lines) < 8


MATRICES = [
    path for path in corpus_files("nvidia-smi/*.txt") if nvidia_smi_topo.sniff(path.read_text(errors="replace"))
]


@pytest.mark.skipif(not MATRICES, reason=NO_CORPUS)
@pytest.mark.parametrize("path", MATRICES, ids=lambda path: path.stem)
def test_no_drawing_shows_a_port_wider_than_there_are(path: Path) -> None:
    try:
        topology = load_topology(str(path))
    except TopoError:
        return
    assert isinstance(topology, Topology)
    slower = [
        replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / 2) if link.kind == "pcie" else link
        for link in topology.links
    ]
    changes = [change.before or "" for change in diff(topology, replace(topology, links=tuple(slower))).changes]
    for drawn in (write(topology, "text"), write(topology, "svg"), "\n".join(changes)):
        assert not re.search(r"(?i)pcie x(1[7-9]|[2-9]\d|\d{3})\b", drawn)
    joined = {link.lanes for link in topology.links if link.kind == "pcie" and link.lanes > 16}
    for lanes in joined:
        assert f"pcie {lanes} lanes" in write(topology, "text")
