"""Descriptions of machines: what a layout means, and which are refused. That they are true, test_presets holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from topo.errors import TopologyError
from topo.machines import parts
from topo.machines.build import build
from topo.machines.machine import Buses, Machine, bridged_pairs, full_mesh
from topo.machines.parts import GEN4, GEN5, Port

SMALL = Machine(("(GN)G", "N"), parts.L40S, parts.EPYC, Port(GEN4), parts.CONNECTX_6)


def test_brackets_are_switches_and_texts_are_numa_nodes() -> None:
    topology = build("small", SMALL)
    assert [device.id for device in topology.devices] == [
        *("numa0", "numa0/switch0", "GPU0", "mlx5_0", "GPU1", "numa1", "mlx5_1", "numa0/memory", "numa1/memory")
    ]
    links = {(link.src, link.dst) for link in topology.links}
    assert {("GPU0", "numa0/switch0"), ("mlx5_0", "numa0/switch0"), ("GPU1", "numa0"), ("mlx5_1", "numa1")} <= links
    assert SMALL.num_ranks == topology.num_ranks == 2


def test_bus_ids_count_up_in_document_order_unless_they_are_stated() -> None:
    stated = replace(SMALL, buses=Buses(first=0x0F, nics=("0000:a0:00.0", "0000:a1:00.0")))
    found = {device.id: device.pci.bus_id for device in build("small", stated).devices if device.pci}
    assert found == {
        "numa0/switch0": "0000:0f:00.0",
        "GPU0": "0000:10:00.0",
        "mlx5_0": "0000:a0:00.0",
        "GPU1": "0000:11:00.0",
        "mlx5_1": "0000:a1:00.0",
    }


def test_a_nic_may_have_a_port_of_its_own() -> None:
    narrow = build("small", replace(SMALL, nic_port=Port(GEN5, 4)))
    widths = {(link.src, link.lanes) for link in narrow.links if link.kind == "pcie"}
    assert {("mlx5_0", 4), ("GPU0", 16), ("numa0/switch0", 16)} <= widths


def test_hosts_repeat_everything_but_ranks() -> None:
    rack = build("rack", replace(SMALL, num_hosts=3, nvswitch_lanes=4))
    assert rack.num_ranks == 6
    assert [gpu.gpu.index for gpu in rack.of_kind("gpu") if gpu.gpu] == [0, 1] * 3
    assert rack.device("host2/mlx5_1").host == "host2"
    assert not [link for link in rack.links if link.kind == "cpu" and link.src.split("/")[0] != link.dst.split("/")[0]]
    assert sum(link.kind == "nvlink" for link in rack.links) == 12


def test_meshes_and_pairs() -> None:
    assert full_mesh(3, 2) == ((0, 1, 2), (0, 2, 2), (1, 2, 2))
    assert bridged_pairs(4, 12) == ((0, 1, 12), (2, 3, 12))


@pytest.mark.parametrize(
    ("layout", "problem"),
    [("GX", "'X'"), ("N+", r"\+ that stands behind no G"), ("+", "behind no G"), ("(GN)", "names no NIC")],
)
def test_refused_layouts(layout: str, problem: str) -> None:
    with pytest.raises(TopologyError, match=problem):
        replace(SMALL, layout=(layout,), nic=None if layout == "(GN)" else SMALL.nic)


def test_a_gpu_that_the_catalogue_lacks() -> None:
    with pytest.raises(TopologyError, match="no GPU 'Abacus'"):
        build("small", replace(SMALL, gpu=parts.GpuPart("Abacus", "0x0001")))
