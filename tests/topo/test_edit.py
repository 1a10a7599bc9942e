"""Changes made to machines: what they touch, what they leave, and that only machines come out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import examples
from topo import catalog
from topo.change_verbs import parse_changes
from topo.changes import MachineChange, Put, Scale
from topo.cluster import Cluster, Fabric
from topo.edit import Machine, edit, node_of, with_nodes
from topo.errors import TopoError
from topo.load import load_topology
from topo.presets import PRESETS, preset
from topo.topology import Link, Topology


def edited(machine: Machine, text: str) -> Machine:
    for change in parse_changes(text):
        assert isinstance(change, MachineChange)
        machine = edit(machine, change)
    return machine


def node_with(name: str, text: str) -> Topology:
    return node_of(edited(preset(name), text))


def link(topology: Topology, link_id: str, kind: str = "nvlink") -> Link:
    return next(link for link in topology.links if (link.id, link.kind) == (link_id, kind))


def changed(before: Topology, after: Topology) -> set[str]:
    """The links that differ."""
    assert len(before.links) == len(after.links)
    return {old.id for old, new in zip(before.links, after.links, strict=True) if old != new}


def test_a_broken_link_is_inactive_both_ways_and_all_else_stays() -> None:
    before, after = preset("dgx1-v100"), node_with("dgx1-v100", "break GPU0-GPU1")
    assert changed(before, after) == {"GPU0->GPU1", "GPU1->GPU0"}
    assert link(after, "GPU0->GPU1").state == "inactive"
    assert after.devices == before.devices


def test_one_direction_can_be_named() -> None:
    assert changed(preset("dgx1-v100"), node_with("dgx1-v100", "break GPU0->GPU1")) == {"GPU0->GPU1"}


def test_a_lost_lane_takes_its_share_of_the_rate() -> None:
    after = link(node_with("dgx-a100", "lanes GPU3-NVS0=11"), "GPU3->NVS0")
    assert (after.lanes, after.bandwidth_bytes_per_s) == (11, 11 * 25e9)


def test_lanes_of_a_gpu_are_its_nvlinks() -> None:
    assert changed(preset("dgx-h100"), node_with("dgx-h100", "lanes GPU3=11")) == {"GPU3->NVS0", "NVS0->GPU3"}


def test_pcie_changes_in_rates_and_in_what_its_functions_say() -> None:
    after = node_with("dgx-a100", "set pcie generation=5 width=8")
    rate = catalog.pcie_bytes_per_s(5, 8)
    assert {link.bandwidth_bytes_per_s for link in after.links if link.kind == "pcie"} == {rate}
    said = {(device.pci.link_speed, device.pci.link_width) for device in after.devices if device.pci}
    assert said == {("32.0 GT/s PCIe", "8")}


def test_pcie_of_one_gpu_is_its_own() -> None:
    after = node_with("dgx-a100", "set GPU2 width=4")
    said = {device.id for device in after.devices if device.pci and device.pci.link_width == "4"}
    assert said == {"GPU2"}


def test_a_scale_leaves_what_hardware_says_of_itself() -> None:
    before, after = preset("dgx-h100"), node_with("dgx-h100", "scale pcie bandwidth x0.5")
    assert after.devices == before.devices
    assert all(
        new.bandwidth_bytes_per_s == (0.5 if new.kind == "pcie" else 1) * old.bandwidth_bytes_per_s
        for old, new in zip(before.links, after.links, strict=True)
    )


@pytest.mark.parametrize("text", ["set nic rate=200Gb/s", "scale nic bandwidth x0.5", "scale network bandwidth x0.5"])
def test_ports_of_nics(text: str) -> None:
    after = node_with("dgx-h100", text)
    assert {nic.nic.bandwidth_bytes_per_s for nic in after.of_kind("nic") if nic.nic} == {25e9}


def test_the_port_of_a_nic_is_meant_by_its_name() -> None:
    after = node_with("dgx-h100", "scale mlx5_3 bandwidth x0.5")
    slow = [nic.id for nic in after.of_kind("nic") if nic.nic and nic.nic.bandwidth_bytes_per_s == 25e9]
    assert slow == ["mlx5_3"]


def test_other_gpus_bring_their_nvlinks_and_their_capability() -> None:
    after = node_with("dgx-a100", "replace gpu with b200")
    assert (link(after, "GPU0->NVS0").lanes, link(after, "GPU0->NVS0").bandwidth_bytes_per_s) == (18, 18 * 50e9)
    assert {gpu.gpu.compute_capability for gpu in after.of_kind("gpu") if gpu.gpu} == {100}


def test_gpus_that_are_slower_on_pcie_slow_their_slots() -> None:
    after = node_with("dgx-h100", "replace gpu with a100")
    gpu = after.device("GPU0")
    assert gpu.pci is not None
    assert gpu.pci.link_speed == "16.0 GT/s PCIe"
    assert link(after, "GPU0->numa0/switch0", "pcie").bandwidth_bytes_per_s == catalog.pcie_bytes_per_s(4, 16)


def test_nvlinks_between_gpus_keep_their_share() -> None:
    assert link(node_with("hgx-a100-4gpu-mesh", "replace gpu with h100"), "GPU0->GPU1").lanes == 6


@pytest.mark.parametrize(
    ("name", "place", "parent"),
    [
        ("dgx-h100", "node0", "numa0/switch0"),
        ("dgx-h100", "GPU5", "numa1/switch1"),
        ("dgx-h100", "numa1/switch3", "numa1/switch3"),
        ("pcie-4gpu", "numa1", "numa1"),
    ],
)
def test_a_nic_is_put_where_it_is_wanted(name: str, place: str, parent: str) -> None:
    before, after = preset(name), node_with(name, f"add nic to {place} rate=400Gb/s")
    (nic,) = set(after.devices) - set(before.devices)
    assert nic.nic is not None
    assert nic.nic.bandwidth_bytes_per_s == 50e9
    assert {link.dst for link in after.links if link.src == nic.id} == {parent}
    assert len({device.pci.bus_id for device in after.devices if device.pci}) == len(
        [device for device in after.devices if device.pci]
    )


def test_several_nics_have_names_of_their_own() -> None:
    after = node_with("dgx-h100", "add nic to node0 rate=400Gb/s count=3")
    assert [nic.name for nic in after.of_kind("nic")][8:] == ["mlx5_8", "mlx5_9", "mlx5_10"]


def test_a_new_nic_serves_its_gpu_in_a_cluster() -> None:
    cluster = edited(Cluster(preset("hgx-h100-4nic"), 2), "add nic to GPU1 rate=400Gb/s")
    assert isinstance(cluster, Cluster)
    own = [cluster.nic_of(rank).id for rank in range(2)]
    assert len(set(own)) == 2


def test_every_node_of_a_cluster_changes_alike() -> None:
    cluster = edited(Cluster(preset("dgx-h100"), 4), "break nvlink")
    assert isinstance(cluster, Cluster)
    assert cluster.count == 4
    assert {link.state for link in cluster.node.links if link.kind == "nvlink"} == {"inactive"}


def test_one_port_of_one_node_stays_folded() -> None:
    cluster = edited(Cluster(preset("dgx-h100"), 4), "scale node2/mlx5_1 bandwidth x0.5; set node3/mlx5_0 rate=100Gb/s")
    assert isinstance(cluster, Cluster)
    assert cluster.node == preset("dgx-h100")
    assert cluster.port_factors() == {(2, 1): 0.5, (3, 0): 0.25}


def test_nodes_and_fabrics() -> None:
    cluster = edited(
        preset("dgx-h100"), "nodes 8; fabric fat-tree:2; set fabric latency=2us; scale fabric bandwidth x0.5"
    )
    assert isinstance(cluster, Cluster)
    assert cluster.count == 8
    assert cluster.fabric == Fabric("fat-tree", 25e9, 2e-6, 2.0)
    assert edited(cluster, "fabric rail") == replace(cluster, fabric=Fabric("rail", 25e9, 2e-6))
    assert edited(cluster, "fabric rail,latency=1us") == replace(cluster, fabric=Fabric("rail", 25e9, 1e-6))
    assert with_nodes(cluster, 1) == preset("dgx-h100")
    assert with_nodes(cluster, 2) == replace(cluster, count=2)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("dgx-h100", "break GPU9-NVS0", "did you mean 'GPU0'"),
        ("dgx-h100", "break GPU0-GPU1", "those of GPU0 are GPU0-numa0/switch0, GPU0-NVS0"),
        ("dgx-h100", "break nvlnk", "did you mean 'nvlink'"),
        ("pcie-4gpu", "break nvlink", "kinds that are there are cpu, local, pcie"),
        ("dgx-h100", "break NVS0; lanes GPU0-NVS0=3", "broken already"),
        ("dgx-h100", "break nvlink; break GPU0-NVS0", "broken already"),
        ("dgx-h100", "break GPU0", "no path"),
        ("dgx-h100", "lanes numa0-numa1=2", "cpu link"),
        ("dgx-h100", "set GPU0-NVS0 generation=4", "only PCIe has a generation"),
        ("dgx-h100", "set pcie generation=9", "known are 1, 2, 3, 4, 5, 6"),
        ("dgx-h100", "set pcie width=64", "no PCIe slot has 64 lanes: give one of 1, 2, 4, 8, 16"),
        ("dgx-h100", "set pcie width=3", "no PCIe slot has 3 lanes"),
        ("dgx-h100", "set pcie lanes=12", "no PCIe slot has 12 lanes"),
        ("dgx-h100", "set nic latency=1us", "set fabric latency"),
        ("dgx-h100", "scale nvlink latency x2", "set nvlink latency="),
        ("dgx-h100", "scale nic latency x2", "set fabric latency="),
        ("dgx-h100", "nodes 2; scale fabric latency x2", "states no latency that could be multiplied"),
        ("pcie-4gpu", "set nic rate=400Gb/s", "no NIC of known rate"),
        ("dgx-h100", "add nic to node7 rate=400Gb/s", "known are node0, node1"),
        ("dgx-h100", "add nic to NVS0 rate=400Gb/s", "below a processor, a switch or beside a GPU"),
        ("dgx-h100", "replace gpu with b20", "did you mean 'b200'"),
        ("dgx-h100", "replace gpu with l40s", "break nvlink before it"),
        ("dgx-h100", "replace gpu with mi300x", "xGMI"),
        ("dgx-h100", "fabric rail", "add --nodes 2"),
        ("dgx-h100", "set fabric latency=1us", "add --nodes 2"),
        ("dgx-h100", "scale node0/mlx5_0 bandwidth x0.5", "add --nodes 2"),
        ("dgx-h100", "nodes 2; scale node7/mlx5_0 bandwidth x0.5", "node0 to node1"),
        ("dgx-h100", "nodes 2; break node1/GPU0-NVS0", "only a NIC's port can differ"),
        ("dgx-h100", "nodes 2; set fabric width=2", "known are bandwidth, latency"),
        ("pcie-4gpu", "nodes 2", "has no NIC"),
    ],
)
def test_what_makes_no_machine_is_refused_in_one_sentence(name: str, text: str, says: str) -> None:
    with pytest.raises(TopoError) as refused:
        edited(preset(name), text)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_broken_nvlinks_do_not_keep_another_gpu_out() -> None:
    after = node_with("dgx-h100", "break nvlink; replace gpu with l40s")
    assert {gpu.gpu.compute_capability for gpu in after.of_kind("gpu") if gpu.gpu} == {89}


@pytest.mark.parametrize("name", PRESETS)
def test_every_link_of_every_machine_can_be_named(name: str) -> None:
    before = preset(name)
    for one in before.links[:: max(1, len(before.links) // 40)]:
        after = edit(before, Scale(one.id, "bandwidth", 0.5))
        assert isinstance(after, Topology)
        assert one.id in changed(before, after)


@pytest.mark.parametrize("name", PRESETS)
def test_every_rank_of_every_machine_may_have_another_model(name: str) -> None:
    before, after = preset(name), node_with(name, "replace gpu with b200")
    assert after.gpu_ids == before.gpu_ids
    assert node_of(edited(after, "replace gpu with b200")).links == after.links


@settings(max_examples=examples(10))
@given(st.data())
def test_scaling_back_is_the_machine_as_it_was(data: st.DataObject) -> None:
    before = load_topology(data.draw(st.sampled_from(["dgx1-v100", "dgx-a100", "pcie-8gpu"])))
    assert isinstance(before, Topology)
    part = data.draw(st.sampled_from([*{link.kind for link in before.links}, *(link.id for link in before.links)]))
    factor = data.draw(st.sampled_from([0.25, 0.5, 2.0, 8.0]))
    after = edit(edit(before, Scale(part, "bandwidth", factor)), Scale(part, "bandwidth", 1 / factor))
    assert isinstance(after, Topology)
    assert after.links == before.links


def test_latency_of_links_can_be_put() -> None:
    star = load_topology("switch:4,bandwidth=100GB/s,latency=1us")
    after = edit(star, Put("network", "latency", 2e-6))
    assert {link.latency_s for link in node_of(after).links} == {2e-6}
