"""A folded cluster: ranks, NICs and names, held against the same cluster written out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import NO_CORPUS, corpus_files
from topo.cluster import FLAT_ID, Cluster, Fabric, parse_fabric
from topo.errors import NameChoiceError, RouteError, TopoError, TopologyError, UnitError
from topo.presets import PRESETS, preset, synthetic
from topo.readers import nccl_xml
from topo.topology import Device, Link, Topology

WITH_NICS = [name for name in PRESETS if preset(name).of_kind("nic")]


def _nics(cluster: Cluster) -> list[str]:
    return [cluster.nic_of(rank).id for rank in range(cluster.node.num_ranks)]


@pytest.mark.parametrize(
    ("name", "nics"),
    [
        ("dgx1-v100", [0, 0, 1, 1, 2, 2, 3, 3]),
        ("dgx-a100", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("dgx-h100", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("dgx-b200", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("pcie-8gpu", [0, 0, 1, 1, 2, 2, 3, 3]),
    ],
)
def test_each_gpu_speaks_over_the_nearest_nic(name: str, nics: list[int]) -> None:
    assert _nics(Cluster(preset(name), 2)) == [f"mlx5_{number}" for number in nics]


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "nics_per_gpu"),
    [("oci-a100-16x100", 2), ("aws-p5en-h200-16nic", 2), ("aws-p5-h100", 1), ("alps-gh200x4", 1)],
)
def test_nics_of_captured_machines_are_dealt_out_once(name: str, nics_per_gpu: int, corpus: Path) -> None:
    node = nccl_xml.read((corpus / "machines" / f"{name}.xml").read_text(), name)
    cluster = Cluster(node, 4)
    dealt = [nic.id for rank in range(node.num_ranks) for nic in cluster.nics_of(rank)]
    assert len(dealt) == len(set(dealt)) == nics_per_gpu * node.num_ranks
    assert all(cluster.nic_of(rank) == cluster.nics_of(rank)[0] for rank in range(cluster.num_ranks))


MACHINES = corpus_files("machines/*.xml")


@pytest.mark.corpus
@pytest.mark.skipif(not MACHINES, reason=NO_CORPUS)
@pytest.mark.parametrize("file", MACHINES, ids=lambda file: file.stem)
def test_captured_machines_share_their_nics_evenly(file: Path) -> None:
    node = nccl_xml.read(file.read_text(), file.name)
    if not node.of_kind("nic"):
        with pytest.raises(TopologyError, match="has no NIC"):
            Cluster(node, 2)
        return
    cluster = Cluster(node, 2)
    users = Counter(nic.id for rank in range(node.num_ranks) for nic in cluster.nics_of(rank))
    assert set(users) == {nic.id for nic in node.of_kind("nic")}
    assert max(users.values()) - min(users.values()) <= 1
    assert cluster.explicit().num_ranks == 2 * node.num_ranks


@pytest.mark.parametrize("name", WITH_NICS)
def test_folded_and_explicit_name_the_same_devices(name: str) -> None:
    cluster = Cluster(preset(name), 3, Fabric(latency_s=2e-6))
    whole = cluster.explicit()
    assert cluster.num_ranks == whole.num_ranks == 3 * cluster.node.num_ranks
    assert whole.gpu_ids == tuple(cluster.gpu_id(rank) for rank in range(cluster.num_ranks))
    assert cluster.gpu_id(cluster.node.num_ranks) == "node1/GPU0"
    assert (cluster.name, cluster.synthetic) == (whole.name, whole.synthetic)
    assert whole.device(FLAT_ID).kind == "net_switch"
    ports = {(link.src, link.dst): link for link in whole.links if link.kind == "network"}
    assert len(ports) == 2 * 3 * len(cluster.node.of_kind("nic"))
    for rank in range(cluster.num_ranks):
        number, _ = cluster.place_of(rank)
        nic = cluster.nic_of(rank)
        port = ports[cluster.device_id(number, nic.id), FLAT_ID]
        assert port.bandwidth_bytes_per_s == cluster.port_bytes_per_s(nic)
        assert port.latency_s == 1e-6
        assert (whole.device(port.src).host or "").split("/")[0] == f"node{number}"


@given(st.integers(1, 10**6), st.data())
def test_ranks_are_numbered_node_by_node(count: int, data: st.DataObject) -> None:
    cluster = Cluster(preset("dgx-h100"), count)
    rank = data.draw(st.integers(0, cluster.num_ranks - 1))
    number, local_rank = cluster.place_of(rank)
    assert rank == 8 * number + local_rank
    assert 0 <= number < count
    assert cluster.nic_of(rank) == cluster.nic_of(local_rank)


def test_one_node_is_the_node() -> None:
    node = preset("pcie-4gpu")
    cluster = Cluster(node, 1)
    assert cluster.explicit() is node
    assert (cluster.name, cluster.gpu_id(2), cluster.num_ranks) == (node.name, "GPU2", 4)


def test_a_subset_of_the_ranks() -> None:
    cluster = Cluster(preset("dgx-h100").take_ranks([6, 2]), 2)
    assert cluster.num_ranks == 4
    assert [cluster.gpu_id(rank) for rank in range(4)] == ["node0/GPU6", "node0/GPU2", "node1/GPU6", "node1/GPU2"]
    assert _nics(cluster) == ["mlx5_6", "mlx5_2"]


def _without_rates(node: Topology) -> Topology:
    devices = [replace(d, nic=replace(d.nic, bandwidth_bytes_per_s=None)) if d.nic else d for d in node.devices]
    return replace(node, devices=tuple(devices))


def test_rates_of_ports() -> None:
    node = preset("dgx-h100")
    nic = node.of_kind("nic")[0]
    assert Cluster(node, 2).port_bytes_per_s(nic) == 50e9
    assert Cluster(node, 2, Fabric(bandwidth_bytes_per_s=25e9)).port_bytes_per_s(nic) == 25e9
    assert Cluster(node, 2, Fabric(bandwidth_bytes_per_s=100e9)).port_bytes_per_s(nic) == 50e9
    with pytest.raises(TopologyError, match="rate of NIC mlx5_0"):
        Cluster(_without_rates(node), 2)
    assert Cluster(_without_rates(node), 2, Fabric(bandwidth_bytes_per_s=25e9)).port_bytes_per_s(nic) == 25e9


@pytest.mark.parametrize("count", [0, -1])
def test_there_is_at_least_one_node(count: int) -> None:
    with pytest.raises(TopologyError, match="--nodes"):
        Cluster(preset("dgx-h100"), count)


@pytest.mark.parametrize(
    "node", [preset("pcie-4gpu"), synthetic("switch:4,bandwidth=1GB/s")], ids=["preset", "synthetic"]
)
def test_nodes_without_nics_cannot_be_joined(node: Topology) -> None:
    with pytest.raises(TopologyError, match=r"has no NIC.*take a machine with NICs"):
        Cluster(node, 2)


def test_a_machine_without_ranks_and_ranks_that_are_not_there() -> None:
    with pytest.raises(TopologyError, match="has no GPU"):
        Cluster(Topology((Device("numa0", "cpu"),), (), (), name="bare"), 2)
    with pytest.raises(TopologyError, match="rank 16 is not"):
        Cluster(preset("dgx-h100"), 2).nic_of(16)


def test_a_nic_without_a_path() -> None:
    node = preset("dgx-h100")
    cut = replace(node, links=tuple(link for link in node.links if "mlx5_" not in link.src + link.dst))
    with pytest.raises(TopologyError, match="none of the 8 NICs"):
        Cluster(cut, 2)
    with pytest.raises(RouteError, match="from GPU0 to a NIC"):
        Cluster(cut, 1).nic_of(0)


def test_inactive_links_and_other_gpus_are_no_way_to_a_nic() -> None:
    node = preset("dgx-h100")
    down = tuple(replace(link, state="inactive") if "mlx5_3" in (link.src, link.dst) else link for link in node.links)
    reached = Cluster(replace(node, links=down), 2).nics_of(3)
    assert [nic.id for nic in reached] == ["mlx5_0"], "that of another GPU, since all others have one of their own"
    pair = Topology(
        (Device("GPU0", "gpu"), Device("GPU1", "gpu"), Device("nic", "nic")),
        tuple(
            Link(src, dst, "pcie", 1e9)
            for left, right in (("GPU0", "GPU1"), ("GPU1", "nic"))
            for src, dst in ((left, right), (right, left))
        ),
        ("GPU0", "GPU1"),
    )
    with pytest.raises(RouteError, match="from GPU0"):
        Cluster(pair, 2, Fabric(bandwidth_bytes_per_s=1e9)).nic_of(0)


def test_too_many_links_to_write_out() -> None:
    with pytest.raises(TopologyError, match="keep it folded"):
        Cluster(preset("dgx-h100"), 10**6).explicit()


@pytest.mark.parametrize(
    ("text", "fabric"),
    [
        ("flat", Fabric()),
        ("flat,bandwidth=400Gb/s", Fabric("flat", 50e9)),
        ("flat,latency=2us,bandwidth=50GB/s", Fabric("flat", 50e9, 2e-6)),
    ],
)
def test_fabrics(text: str, fabric: Fabric) -> None:
    assert parse_fabric(text) == fabric


@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        ("flatt", NameChoiceError, "did you mean 'flat'"),
        ("dragonfly,levels=2", NameChoiceError, "unknown fabric 'dragonfly'"),
        ("flat,rate=1GB/s", NameChoiceError, "'rate'"),
        ("flat,bandwidth=400", UnitError, "no unit"),
        ("flat,", TopologyError, "KEY=VALUE.*flat,bandwidth"),
    ],
)
def test_refused_fabrics(text: str, error: type[TopoError], problem: str) -> None:
    with pytest.raises(error, match=problem):
        parse_fabric(text)


@pytest.mark.parametrize(
    ("rate", "latency_s"), [(0.0, 0.0), (-1.0, 0.0), (float("inf"), 0.0), (None, -1.0), (None, float("nan"))]
)
def test_fabrics_are_physical(rate: float | None, latency_s: float) -> None:
    with pytest.raises(TopologyError, match="fabric flat has"):
        Fabric("flat", rate, latency_s)


def test_an_unknown_fabric_cannot_be_built() -> None:
    with pytest.raises(NameChoiceError, match="fabric 'torus'"):
        Fabric("torus")
