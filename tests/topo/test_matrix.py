"""A topology as a path matrix: data and text, and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given

from tests.topo.matrices import CAPTURES, Matrix, expanded, matrices
from topo.errors import TopologyError
from topo.merge import from_matrix
from topo.presets import preset
from topo.readers.nvidia_smi_topo import read
from topo.synthetic import synthetic
from topo.topology import Device, Link, Topology
from topo.writers.json import dumps
from topo.writers.matrix import MOST_ENDS, matrix, render


@pytest.mark.corpus
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name[:3])
def test_captures_survive_being_rendered(path: Path) -> None:
    facts = read(path.read_text(encoding="utf-8"))
    again = read(render(from_matrix(facts)))
    assert again.names == facts.names
    assert again.cells == facts.cells
    assert again.nic_legend == facts.nic_legend


@given(matrices())
def test_any_machine_survives_being_rendered(machine: Matrix) -> None:
    facts = read(expanded(machine))
    again = read(render(from_matrix(facts)))
    assert (again.names, again.cells) == (facts.names, facts.cells)
    assert again.numa == facts.numa


TWO = """\
        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity
GPU0     X      NV2     PIX     0-3             0
GPU1    NV2      X      SYS     4-7             1
NIC0    PIX     SYS      X

NIC Legend:

  NIC0: mlx5_0
"""


def test_rendered_like_nvidia_smi() -> None:
    lines = render(from_matrix(read(TWO))).splitlines()
    assert lines[:4] == [
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity",
        "GPU0\t X \tNV2\tPIX\t0-3\t0",
        "GPU1\tNV2\t X \tSYS\t4-7\t1",
        "NIC0\tPIX\tSYS\t X \t\t",
    ]
    assert lines[-1] == "  NIC0: mlx5_0"


def test_both_directions_and_nothing_else() -> None:
    assert matrix(from_matrix(read(TWO))) == {
        "GPU0": {"GPU1": "NV2", "NIC0": "PIX"},
        "GPU1": {"GPU0": "NV2", "NIC0": "SYS"},
        "NIC0": {"GPU0": "PIX", "GPU1": "SYS"},
    }


@pytest.mark.parametrize("ranks", [(4, 0, 1), (0, 1, 4)])
def test_gpus_that_take_part_in_the_order_of_the_machine(ranks: tuple[int, ...]) -> None:
    some = preset("dgx-h100").take_ranks(ranks)
    whole, found = matrix(preset("dgx-h100")), matrix(some)
    assert list(found) == ["GPU0", "GPU1", "GPU4", *(f"mlx5_{number}" for number in range(8))]
    assert found == {one: {other: whole[one][other] for other in found if other != one} for one in found}
    assert read(render(some)).gpus == ("GPU0", "GPU1", "GPU4")


def test_hidden_pairs_are_null_in_both_directions() -> None:
    found = matrix(from_matrix(read("\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPHB\tSYS\n")))
    assert found["GPU1"]["GPU2"] is None
    assert found["GPU2"]["GPU1"] is None
    assert found["GPU2"]["GPU0"] == "SYS"


def test_ids_stand_in_where_two_hosts_use_one_label() -> None:
    devices = tuple(Device(f"host{number}/GPU0", "gpu", label="GPU0") for number in range(2))
    links = (Link(devices[0].id, devices[1].id, "network", 1.0), Link(devices[1].id, devices[0].id, "network", 1.0))
    topology = Topology(devices, links, tuple(device.id for device in devices))
    assert matrix(topology) == {"host0/GPU0": {"host1/GPU0": "NET"}, "host1/GPU0": {"host0/GPU0": "NET"}}


def test_of_too_many_devices_no_matrix_is_made_and_the_document_goes_without() -> None:
    machine = synthetic(f"switch:{MOST_ENDS + 1},bandwidth=1GB/s")
    with pytest.raises(TopologyError, match="has 1,025 GPUs and NICs, a matrix is made of at most 1,024"):
        matrix(machine)
    assert json.loads(dumps(machine))["matrix"] is None
