"""Presets agree with captures of the same machines; synthetic descriptions mean what they say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.errors import NameChoiceError, TopoError, TopologyError, UnitError
from topo.presets import PRESETS, is_synthetic, preset, synthetic
from topo.readers import nccl_xml
from topo.topology import Device, Topology

CAPTURED = ("dgx1-v100", "dgx-a100", "dgx-h100", "dgx-b200")


def _walk(topology: Topology) -> list[tuple[str, str, int | None]]:
    """The devices in order, as far as both sources name them; host memory is in no NCCL file."""
    known = ("gpu", "nic", "nvswitch")
    return [
        (device.kind, device.id if device.kind in known else "", device.numa_node)
        for device in topology.devices
        if device.kind != "host_memory"
    ]


def _links(topology: Topology) -> list[tuple[str, str, str, int, float]]:
    """The links in order, by what stands at their ends; what joins two processors depends on the processor."""

    def end(device: Device) -> str:
        return device.id if device.kind in ("gpu", "nic", "nvswitch") else f"{device.kind} of {device.numa_node}"

    return [
        (
            end(topology.device(link.src)),
            end(topology.device(link.dst)),
            link.kind,
            link.lanes,
            link.bandwidth_bytes_per_s,
        )
        for link in topology.links
        if link.kind not in ("local", "cpu")
    ]


@pytest.mark.corpus
@pytest.mark.parametrize("name", CAPTURED)
def test_agrees_with_the_capture(name: str, corpus: Path) -> None:
    captured = nccl_xml.read((corpus / "machines" / f"{name}.xml").read_text(), name)
    built = preset(name)
    assert _walk(built) == _walk(captured)
    assert _links(built) == _links(captured)
    assert built.gpu_ids == captured.gpu_ids
    for mine, theirs in zip(built.of_kind("gpu", "nic"), captured.of_kind("gpu", "nic"), strict=True):
        assert (mine.gpu, mine.nic, mine.label) == (theirs.gpu, theirs.nic, theirs.label)
        assert mine.pci is not None
        assert theirs.pci is not None
        assert (mine.pci.bus_id, mine.pci.device_class, mine.pci.link_speed, mine.pci.link_width) == (
            theirs.pci.bus_id,
            theirs.pci.device_class,
            theirs.pci.link_speed,
            theirs.pci.link_width,
        )


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_whole(name: str) -> None:
    machine = preset(name)
    assert machine == PRESETS[name].build()
    assert machine.name == PRESETS[name].name == name
    assert PRESETS[name].description
    assert machine.complete
    assert not machine.synthetic
    assert machine.gpu_ids == tuple(f"GPU{rank}" for rank in range(len(machine.of_kind("gpu"))))
    for cpu in machine.of_kind("cpu"):
        assert cpu.cpu is not None
        assert machine.device(f"{cpu.id}/memory").kind == "host_memory"
    both_ways = {(link.src, link.dst, link.kind): link.bandwidth_bytes_per_s for link in machine.links}
    assert all(both_ways[dst, src, kind] == rate for (src, dst, kind), rate in both_ways.items())


@pytest.mark.parametrize(("name", "lanes"), [("dgx1-v100", 6), ("dgx-a100", 12), ("dgx-h100", 18), ("pcie-4gpu", 0)])
def test_every_gpu_has_its_nvlinks(name: str, lanes: int) -> None:
    machine = preset(name)
    for gpu_id in machine.gpu_ids:
        assert sum(link.lanes for link in machine.links if link.kind == "nvlink" and link.src == gpu_id) == lanes


def test_pcie_boxes_have_their_gpus_where_they_say() -> None:
    four, eight = preset("pcie-4gpu"), preset("pcie-8gpu")
    assert [gpu.numa_node for gpu in four.of_kind("gpu")] == [0, 0, 1, 1]
    assert not four.of_kind("pcie_switch", "nic")
    assert [gpu.numa_node for gpu in eight.of_kind("gpu")] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [switch.id for switch in eight.of_kind("pcie_switch")] == [
        "numa0/switch0",
        "numa0/switch1",
        "numa1/switch0",
        "numa1/switch1",
    ]
    assert len(eight.of_kind("nic")) == 4


def test_unknown_preset() -> None:
    with pytest.raises(NameChoiceError, match="did you mean 'dgx-h100'"):
        preset("dgx-h10")


def test_a_switch() -> None:
    machine = synthetic("switch:4,bandwidth=200GB/s,latency=1us")
    assert machine.gpu_ids == ("GPU0", "GPU1", "GPU2", "GPU3")
    assert machine.synthetic
    assert machine.device("SW0").kind == "net_switch"
    assert len(machine.links) == 8
    assert {(link.kind, link.bandwidth_bytes_per_s, link.latency_s) for link in machine.links} == {
        ("network", 200e9, 0.5e-6)
    }


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize(("shape", "neighbours"), [("ring", 2), ("fully-connected", 99)])
def test_rings_and_full_meshes(shape: str, neighbours: int, count: int) -> None:
    machine = synthetic(f"{shape}:{count},bandwidth=100Gb/s,latency=2us")
    assert len(machine.links) == count * min(neighbours, count - 1)
    for rank, gpu_id in enumerate(machine.gpu_ids):
        reached = {link.dst for link in machine.links if link.src == gpu_id}
        assert len(reached) == min(neighbours, count - 1)
        if count > 1:
            assert f"GPU{(rank + 1) % count}" in reached
    assert all((link.bandwidth_bytes_per_s, link.latency_s) == (12.5e9, 2e-6) for link in machine.links)


def test_order_of_keys_and_missing_latency() -> None:
    given = synthetic("ring:3,latency=1us,bandwidth=1GB/s")
    assert given.links == synthetic("ring:3,bandwidth=1GB/s,latency=1us").links
    assert {link.latency_s for link in synthetic("ring:3,bandwidth=1GB/s").links} == {0.0}


@given(st.floats(0, 10), st.integers(1, 5))
def test_latency_between_neighbours_of_a_switch_is_exact(latency_s: float, count: int) -> None:
    links = synthetic(f"switch:{count},bandwidth=1GB/s,latency={latency_s!r}s").links
    assert links[0].latency_s + links[1].latency_s == pytest.approx(latency_s, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        ("swich:8,bandwidth=1GB/s", NameChoiceError, "did you mean 'switch'"),
        ("switch:8,bandwith=1GB/s", NameChoiceError, "did you mean 'bandwidth'"),
        ("switch:8", TopologyError, "states no bandwidth"),
        ("switch:8,latency=1us", TopologyError, "states no bandwidth"),
        ("switch:0,bandwidth=1GB/s", TopologyError, "'0' GPUs"),
        ("switch:-1,bandwidth=1GB/s", TopologyError, "'-1' GPUs"),
        ("ring:x,bandwidth=1GB/s", TopologyError, "'x' GPUs"),
        ("ring:1.5,bandwidth=1GB/s", TopologyError, "'1.5' GPUs"),
        ("ring:,bandwidth=1GB/s", TopologyError, "'' GPUs"),
        ("ring:8,bandwidth=200", UnitError, "no unit"),
        ("ring:8,bandwidth=0GB/s", UnitError, "more than 0"),
        ("ring:8,bandwidth=1GB/s,latency=-1us", UnitError, "negative"),
        ("ring:8,bandwidth=1GB/s,latency=1", UnitError, "no unit"),
        ("ring:8,bandwidth=1GB/s,bandwidth=2GB/s", TopologyError, "bandwidth twice"),
        ("ring:8,bandwidth=1GB/s,", TopologyError, "KEY=VALUE"),
        ("ring:8,1GB/s", TopologyError, "KEY=VALUE"),
        ("fully-connected:65536,bandwidth=1GB/s", TopologyError, "links, more than"),
        ("switch:999999999,bandwidth=1GB/s", TopologyError, "links, more than"),
    ],
)
def test_refused_descriptions(text: str, error: type[TopoError], problem: str) -> None:
    assert is_synthetic(text)
    with pytest.raises(error, match=problem):
        synthetic(text)


@pytest.mark.parametrize("text", ["dgx-h100", "-", "machine.xml", "./a:b", "C:\\capture.txt", "", "a/switch:8"])
def test_what_is_no_description(text: str) -> None:
    assert not is_synthetic(text)


def test_a_large_switch_is_built_quickly() -> None:
    import time

    started_s = time.process_time()
    machine = synthetic("switch:65536,bandwidth=200GB/s,latency=1us")
    spent_s = time.process_time() - started_s
    assert machine.num_ranks == 65536
    # It takes about one second; the margin is for a busy machine, quadratic work would still exceed it.
    assert spent_s < (20 if sys.gettrace() else 6)
