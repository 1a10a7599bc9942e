"""Fabrics of a cluster: what their descriptions mean, and that folded routes cross what the written-out ones do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.cluster import Cluster
from topo.errors import NameChoiceError, TopoError, TopologyError, UnitError
from topo.fabric import Fabric, Wiring, parse_fabric
from topo.load import load_topology
from topo.presets import preset
from topo.readers import nccl_xml
from topo.topology import Device, Link, NicFacts, Topology

WIRINGS = st.builds(
    Wiring,
    st.one_of(
        st.sampled_from([Fabric("flat"), Fabric("rail")]),
        st.builds(
            Fabric,
            st.just("fat-tree"),
            oversubscription=st.floats(1, 8),
            nodes_per_leaf=st.one_of(st.none(), st.integers(1, 9)),
        ),
    ),
    st.integers(2, 40),
    st.lists(st.sampled_from([12.5e9, 25e9, 50e9]), min_size=1, max_size=10).map(tuple),
)


def _loaded(argument: str, nodes: int, fabric: str) -> Cluster:
    cluster = load_topology(argument, nodes=nodes, fabric=fabric)
    assert isinstance(cluster, Cluster)
    return cluster


@pytest.mark.parametrize(
    ("text", "fabric"),
    [
        ("rail", Fabric("rail")),
        ("rail,latency=2us", Fabric("rail", latency_s=2e-6)),
        ("fat-tree:2", Fabric("fat-tree", oversubscription=2)),
        ("fat-tree:2:1", Fabric("fat-tree", oversubscription=2)),
        ("fat-tree:1.5, nodes_per_leaf=16", Fabric("fat-tree", oversubscription=1.5, nodes_per_leaf=16)),
        (
            "fat-tree:2,nodes_per_leaf=16,bandwidth=400Gb/s,latency=2us",
            Fabric("fat-tree", 50e9, 2e-6, 2, 16),
        ),
    ],
)
def test_descriptions(text: str, fabric: Fabric) -> None:
    assert parse_fabric(text) == fabric


@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        ("fattree:2", NameChoiceError, "did you mean 'fat-tree'"),
        ("fat-tree", TopologyError, "no ratio, expected 1 .*fat-tree:2"),
        ("fat-tree:", TopologyError, "no ratio"),
        ("fat-tree:two", TopologyError, "'two' is no ratio"),
        ("fat-tree:0.5", TopologyError, "oversubscription 0.5: expected 1"),
        ("fat-tree:1:2", TopologyError, "'1:2' is no ratio"),
        ("fat-tree:2,nodes_per_leaf=0", TopologyError, "0 nodes per leaf"),
        ("fat-tree:2,nodes_per_leaf=4.5", TopologyError, "'4.5' nodes per leaf"),
        ("fat-tree:2,nodes_per_lef=4", NameChoiceError, "did you mean 'nodes_per_leaf'"),
        ("fat-tree:2,latency=2us,latency=3us", TopologyError, "latency twice"),
        ("fat-tree:2,bandwidth=400", UnitError, "no unit"),
        ("rail:2", TopologyError, "rail takes no ratio"),
        ("rail,nodes_per_leaf=4", NameChoiceError, "'nodes_per_leaf'"),
    ],
)
def test_refused_descriptions(text: str, error: type[TopoError], problem: str) -> None:
    with pytest.raises(error, match=problem):
        parse_fabric(text)


def test_a_fat_tree_of_16_dgx_h100() -> None:
    cluster = _loaded("dgx-h100", 16, "fat-tree:2")
    links = cluster.fabric_links()
    assert [link.name for link in links[:3]] == ["leaf0->spine", "spine->leaf0", "leaf1->spine"]
    assert len(links) == 8
    assert {link.bandwidth_bytes_per_s for link in links} == {4 * 8 * 50e9 / 2}
    first, crossed = cluster.fabric_route(np.array([0, 0]), np.array([3, 3]), np.array([3, 4]), np.array([3, 7]))
    assert (first.tolist(), crossed.tolist()) == ([0, 0, 2], [0, 3])
    whole = cluster.explicit()
    assert [switch.id for switch in whole.of_kind("net_switch")] == ["leaf0", "leaf1", "leaf2", "leaf3", "spine"]


def test_a_rail_meets_the_spine_only_between_unlike_nics() -> None:
    cluster = _loaded("dgx-h100", 3, "rail,bandwidth=200Gb/s")
    assert {link.bandwidth_bytes_per_s for link in cluster.fabric_links()} == {3 * 25e9}
    src, dst = np.array([0, 0, 2]), np.array([1, 1, 2])
    first, crossed = cluster.fabric_route(src, np.array([5, 5, 0]), dst, np.array([5, 6, 1]))
    names = [cluster.fabric_links()[number].name for number in crossed]
    assert first.tolist() == [0, 0, 2, 4]
    assert names == ["rail5->spine", "spine->rail6", "rail0->spine", "spine->rail1"]


def test_a_flat_fabric_has_no_links_inside() -> None:
    cluster = _loaded("dgx-h100", 4, "flat")
    assert cluster.fabric_links() == ()
    first, crossed = cluster.fabric_route(np.array([0, 1]), np.array([0, 1]), np.array([1, 3]), np.array([0, 7]))
    assert (first.tolist(), crossed.tolist()) == ([0, 0, 0], [])


@pytest.mark.parametrize(("nodes", "sizes"), [(2, [1, 1]), (5, [2, 2, 1]), (9, [4, 4, 1]), (16, [4, 4, 4, 4])])
def test_leaves_without_a_stated_size_leave_an_uplink_to_meet(nodes: int, sizes: list[int]) -> None:
    wiring = Wiring(Fabric("fat-tree", oversubscription=2), nodes, (10e9,))
    assert [2 * wiring.uplink_bytes_per_s(leaf) / 10e9 for leaf in range(wiring.num_leaves)] == sizes


def test_one_leaf_for_all_is_a_flat_fabric() -> None:
    node = preset("dgx-h100")
    alone = Cluster(node, 4, Fabric("fat-tree", oversubscription=3, nodes_per_leaf=4))
    assert alone.explicit() == Cluster(node, 4).explicit()


@pytest.mark.parametrize("given", [{"oversubscription": 2.0}, {"nodes_per_leaf": 4}])
def test_only_a_fat_tree_has_groups(given: dict[str, int]) -> None:
    with pytest.raises(TopologyError, match="only fat-tree does"):
        Fabric("rail", **given)


@given(WIRINGS)
def test_uplinks_carry_all_ports_over_the_ratio(wiring: Wiring) -> None:
    ports = wiring.num_nodes * sum(wiring.port_rates)
    ups = [wiring.uplink_bytes_per_s(leaf) for leaf in range(wiring.num_leaves)]
    assert sum(ups) * wiring.fabric.oversubscription == pytest.approx(ports)
    assert len(wiring.links()) == (2 * wiring.num_leaves if wiring.num_leaves > 1 else 0)


@given(WIRINGS, st.data())
def test_routes_of_arrays_are_those_of_single_pairs(wiring: Wiring, data: st.DataObject) -> None:
    place = st.tuples(st.integers(0, wiring.num_nodes - 1), st.integers(0, len(wiring.port_rates) - 1))
    pairs = data.draw(st.lists(st.tuples(place, place), max_size=20))
    table = np.array([(*src, *dst) for src, dst in pairs], dtype=np.int64).reshape(-1, 4)
    first, links = wiring.route(*table.T)
    assert len(first) == len(pairs) + 1
    for number, (src, dst) in enumerate(pairs):
        src_leaf, dst_leaf = wiring.leaf_of(*src), wiring.leaf_of(*dst)
        expected = [] if src_leaf == dst_leaf else [2 * src_leaf, 2 * dst_leaf + 1]
        assert links[first[number] : first[number + 1]].tolist() == expected


@pytest.mark.parametrize("fabric", ["flat", "rail", "fat-tree:2", "fat-tree:4,nodes_per_leaf=2"])
@pytest.mark.parametrize("name", ["dgx-a100", "dgx1-v100", "oci-a100-16x100"])
def test_folded_routes_are_those_of_the_cluster_written_out(name: str, fabric: str) -> None:
    cluster = _loaded(name, 5, f"{fabric},latency=2us")
    whole = cluster.explicit()
    network = nx.DiGraph((link.src, link.dst, {"link": link}) for link in whole.links if link.kind == "network")
    places = [(node, nic) for node in (0, 1, 4) for nic in (0, 1, len(cluster.nics) - 1)]
    for src_node, src_nic in places:
        for dst_node, dst_nic in places:
            if src_node != dst_node:
                ends = [np.array([number]) for number in (src_node, src_nic, dst_node, dst_nic)]
                _, crossed = cluster.fabric_route(*ends)
                src, dst = (
                    cluster.device_id(node, cluster.nics[nic].id)
                    for node, nic in ((src_node, src_nic), (dst_node, dst_nic))
                )
                path = nx.shortest_path(network, src, dst)
                found = [network.edges[edge]["link"] for edge in nx.utils.pairwise(path)]
                assert [link.id for link in found[1:-1]] == [cluster.fabric_links()[number].name for number in crossed]
                assert sum(link.latency_s for link in found) == pytest.approx(2e-6)


def _joined(*nics: tuple[Device, str, float]) -> Topology:
    """A GPU and the given NICs on one processor, each by a link of that kind and rate."""
    ends = [(Device("GPU0", "gpu"), "pcie", 1e9), *nics]
    links = [
        Link(src, dst, kind, rate)  # type: ignore[arg-type]
        for device, kind, rate in ends
        for src, dst in ((device.id, "numa0"), ("numa0", device.id))
    ]
    return Topology((Device("numa0", "cpu"), *(device for device, *_ in ends)), tuple(links), ("GPU0",), name="box")


LOOPBACK = (Device("lo", "nic", nic=NicFacts(bandwidth_bytes_per_s=5e9)), "local", 5e9)
BRIDGE = (Device("br0", "nic", nic=NicFacts(bandwidth_bytes_per_s=1e9)), "pcie", 5000e9)
SILENT = (Device("eth1", "nic", nic=NicFacts()), "pcie", 1e9)
REAL = (Device("eth0", "nic", nic=NicFacts(bandwidth_bytes_per_s=1e9)), "pcie", 1e9)


def test_only_nics_on_pcie_with_a_rate_lead_out_of_a_node() -> None:
    node = _joined(LOOPBACK, BRIDGE, SILENT, REAL)
    assert [nic.id for nic in Cluster(node, 2).nics] == ["eth0"]
    assert Cluster(node, 2).nic_of(0).id == "eth0"
    assert [nic.id for nic in Cluster(node, 2, Fabric(bandwidth_bytes_per_s=1e9)).nics] == ["eth1", "eth0"]
    ports = {link.src for link in Cluster(node, 2).explicit().links if link.kind == "network"}
    assert ports == {"node0/eth0", "node1/eth0", "fabric"}


@pytest.mark.parametrize(
    ("nics", "problem"),
    [
        ((LOOPBACK, BRIDGE), r"no NIC on PCIe \(lo, br0 leads nowhere\)"),
        ((LOOPBACK, SILENT), "rate of NIC eth1: state"),
    ],
)
def test_a_node_without_a_way_out(nics: tuple[tuple[Device, str, float], ...], problem: str) -> None:
    with pytest.raises(TopologyError, match=problem):
        Cluster(_joined(*nics), 2)
    assert Cluster(_joined(*nics), 1).nics == ()


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "software"),
    [("rtx4090-4-cali", ("tunl0", "br-", "cali")), ("dgx1v-8", ("lxcbr0", "br-")), ("b200-hgx-8", ("eth0",))],
)
def test_software_interfaces_of_captures_are_no_way_out(name: str, software: tuple[str, ...], corpus: Path) -> None:
    node = nccl_xml.read((corpus / "nccl-xml" / f"{name}.xml").read_text(), name)
    assert any(nic.id.startswith(software) for nic in node.of_kind("nic"))
    assert not [nic.id for nic in Cluster(node, 1).nics if nic.id.startswith(software)]


def test_ports_of_one_card_lead_out() -> None:
    card = Device("card", "nic_card")
    node = _joined((card, "pcie", 16e9))
    port = Device("mlx5_0", "nic", nic=NicFacts(bandwidth_bytes_per_s=1e9))
    both = (Link("mlx5_0", "card", "local", 5000e9), Link("card", "mlx5_0", "local", 5000e9))
    assert Cluster(replace(node, devices=(*node.devices, port), links=(*node.links, *both)), 2).nics == (port,)
