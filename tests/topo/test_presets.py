"""Presets agree with captures of the same machines; synthetic descriptions mean what they say."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import NO_CORPUS, calls, corpus_files
from topo.errors import NameChoiceError, TopoError, TopologyError, UnitError
from topo.presets import PRESETS, is_synthetic, preset, synthetic
from topo.readers import nccl_xml
from topo.topology import Device

MACHINES = corpus_files("machines/*.xml")
SWITCH = "switch:{},bandwidth=200GB/s,latency=1us"
PLACEHOLDERS = (None, "0x0000", "0xffff")
"""What a capture says where the part's own id was taken out."""


def _known_to(captured: Device, device: Device) -> Device:
    """The device without what the capture holds placeholders for: products' ids, CPU lists, vendors left out."""
    pci, cpu, vendor = device.pci, device.cpu, device.vendor
    if pci is not None and device.kind in ("gpu", "nic"):
        said = captured.pci.vendor_id if captured.pci else None
        vendor_id = None if said in PLACEHOLDERS else pci.vendor_id
        pci = replace(pci, vendor_id=vendor_id, device_id=None, subsystem_vendor_id=None, subsystem_device_id=None)
    if captured.vendor is None:
        vendor = None
    return replace(device, model=None, vendor=vendor, pci=pci, cpu=cpu and replace(cpu, affinity=None))


@pytest.mark.corpus
@pytest.mark.skipif(not MACHINES, reason=NO_CORPUS)
@pytest.mark.parametrize("file", MACHINES, ids=lambda file: file.stem)
def test_agrees_with_the_capture(file: Path) -> None:
    captured = nccl_xml.read(file.read_text(), file.stem)
    built = preset(file.stem)
    memory = {device.id for device in built.of_kind("host_memory")}
    devices = [device for device in built.devices if device.id not in memory]
    for mine, theirs in zip(devices, captured.devices, strict=True):
        assert _known_to(theirs, mine) == _known_to(theirs, theirs)
    assert captured.links == tuple(link for link in built.links if memory.isdisjoint((link.src, link.dst)))
    assert built.gpu_ids == captured.gpu_ids
    assert PRESETS[file.stem].num_ranks == captured.num_ranks


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_whole(name: str) -> None:
    machine = preset(name)
    assert machine == PRESETS[name].build()
    assert machine.name == PRESETS[name].name == name
    assert PRESETS[name].description
    assert machine.complete
    assert not machine.synthetic
    assert machine.gpu_ids == tuple(f"GPU{rank}" for rank in range(PRESETS[name].num_ranks))
    assert all(gpu.model for gpu in machine.of_kind("gpu"))
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


def test_the_work_of_a_switch_grows_with_its_ports() -> None:
    few, many = (calls(partial(synthetic, SWITCH.format(ports))) for ports in (1024, 8192))
    assert many < 9 * few
    assert synthetic(SWITCH.format(65536)).num_ranks == 65536
