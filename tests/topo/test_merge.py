"""Facts of a matrix -> topology: the letters come back for every capture, and what was left open is said."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topo.matrices import CAPTURES, Matrix, matrices, tabbed
from topo import catalog
from topo.merge import from_matrix
from topo.readers.nvidia_smi_topo import MatrixFacts, read
from topo.topology import Topology
from topo.writers.matrix import matrix


def as_rows(facts: MatrixFacts) -> dict[str, dict[str, str | None]]:
    return {one: {other: facts.letters(one, other) for other in facts.names if other != one} for one in facts.names}


def capture(number: str) -> Topology:
    path = next((path for path in CAPTURES if path.name.startswith(number)), None)
    if path is None:
        pytest.skip("no corpus of captures (set TOPOSCOPE_CORPUS to run these)")
    return from_matrix(read(path.read_text(encoding="utf-8"), path.name))


def kinds(topology: Topology) -> Counter[str]:
    return Counter(device.kind for device in topology.devices)


def says(topology: Topology, words: str) -> bool:
    return any(words in finding for finding in topology.remarks)


@pytest.mark.corpus
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name[:3])
def test_captures_give_their_letters_back(path: Path) -> None:
    facts = read(path.read_text(encoding="utf-8"), path.name)
    topology = from_matrix(facts)
    assert matrix(topology) == as_rows(facts)
    assert list(matrix(topology)) == list(facts.names)
    assert topology.complete == facts.complete
    assert topology.gpu_ids == facts.gpus
    assert {link.src + link.dst for link in topology.links} == {link.dst + link.src for link in topology.links}
    assert not any("odd" in device.id for device in topology.devices)


@given(matrices())
def test_any_machine_gives_its_letters_back(machine: Matrix) -> None:
    facts = read(tabbed(machine))
    assert matrix(from_matrix(facts)) == as_rows(facts)


@given(st.integers(2, 6), st.data())
def test_any_letters_come_back_even_where_no_tree_explains_them(num_devices: int, data: st.DataObject) -> None:
    names = tuple(f"GPU{number}" if number < 3 else f"NIC{number}" for number in range(num_devices))
    cell = st.sampled_from(["PIX", "PXB", "PHB", "NODE", "SYS", None])
    cells = tuple((pair, data.draw(cell)) for pair in combinations(names, 2))
    facts = MatrixFacts(names, cells)
    assert matrix(from_matrix(facts)) == as_rows(facts)


def facts_of(*cells: tuple[str, str, str], numa: tuple[tuple[str, str], ...] = ()) -> MatrixFacts:
    names = tuple(dict.fromkeys(name for one, other, _ in cells for name in (one, other)))
    return MatrixFacts(names, tuple(((one, other), letters) for one, other, letters in cells), numa=numa)


def test_a_pair_that_no_tree_explains_is_said() -> None:
    topology = from_matrix(facts_of(("GPU0", "GPU1", "NODE"), ("GPU0", "NIC0", "PHB"), ("GPU1", "NIC0", "PHB")))
    assert says(topology, "GPU1-NIC0 is PHB, which no tree explains")
    assert topology.device("odd0/bridge0").kind == "host_bridge"


def test_numa_nodes_that_contradict_letters_are_said() -> None:
    numa = (("GPU0", "0"), ("GPU1", "0"))
    torn = from_matrix(facts_of(("GPU0", "GPU1", "SYS"), numa=numa))
    assert says(torn, "GPU0, GPU1 state NUMA node 0, yet are SYS from each other")
    assert [cpu.id for cpu in torn.of_kind("cpu")] == ["numa0", "numa0.1"]
    mixed = from_matrix(facts_of(("GPU0", "GPU1", "NODE"), numa=(("GPU0", "0"), ("GPU1", "1"))))
    assert says(mixed, "GPU0, GPU1 state NUMA nodes 0, 1, yet letters join them in one")
    assert [cpu.id for cpu in mixed.of_kind("cpu")] == ["numa0+1"]


def test_eight_hoppers_hang_on_an_nvswitch() -> None:
    topology = capture("021")
    assert kinds(topology)["nvswitch"] == 1
    links = [link for link in topology.links if link.src == "GPU0" and link.kind == "nvlink"]
    assert [(link.dst, link.lanes, link.bandwidth_bytes_per_s) for link in links] == [("NVS0", 18, 450e9)]
    assert says(topology, "Hopper is assumed")
    assert [device.numa_node for device in topology.of_kind("gpu")] == [0] * 4 + [1] * 4


def test_four_a100_are_linked_directly() -> None:
    topology = capture("014")
    assert kinds(topology)["nvswitch"] == 0
    assert sum(link.kind == "nvlink" for link in topology.links) == 12
    assert [cpu.id for cpu in topology.of_kind("cpu")] == ["numa3", "numa2", "numa1", "numa0"]
    assert [cpu.cpu.affinity for cpu in topology.of_kind("cpu") if cpu.cpu] == [
        "24-31,56-63",
        "16-23,48-55",
        "8-15,40-47",
        "0-7,32-39",
    ]


def test_a_switch_tree_has_no_switch_too_many() -> None:
    topology = capture("009")
    assert kinds(topology) == {"gpu": 8, "cpu": 1, "host_bridge": 2, "pcie_switch": 4}


def test_grace_gpus_reach_their_cpu_over_c2c() -> None:
    topology = capture("126")
    c2c = [link for link in topology.links if link.kind == "c2c" and link.src.startswith("GPU")]
    assert [(link.src, link.dst) for link in c2c] == [(f"GPU{number}", f"numa{number}") for number in range(4)]
    assert {link.bandwidth_bytes_per_s for link in c2c} == {catalog.c2c_bytes_per_s(90)}


def test_what_is_not_shown_is_hidden_and_said() -> None:
    topology = capture("119")
    assert ("GPU6", "GPU7") in topology.hidden_pairs
    assert not topology.complete
    assert says(topology, "lacks the rows of GPU6, GPU7, NIC0")
    assert says(topology, "NIC0: SYS from all that state a NUMA node")


def test_interfaces_keep_both_names() -> None:
    nic = capture("016").device("NIC3")
    assert nic.label == "NIC3"
    assert nic.nic is not None
    assert (nic.nic.os_name, nic.nic.index) == ("mlx5_3", 3)


def test_assumed_rates_are_said_and_positive() -> None:
    topology = capture("003")
    assert says(topology, "generation 4 x16 is assumed")
    assert {link.bandwidth_bytes_per_s for link in topology.links if link.src == "GPU0"} == {
        catalog.pcie_bytes_per_s(4, 16)
    }


@pytest.mark.parametrize("numa", ["0-1", "0,8,252-255", "N/A", ""])
def test_lists_of_numa_nodes_are_no_number(numa: str) -> None:
    topology = from_matrix(facts_of(("GPU0", "GPU1", "PIX"), numa=(("GPU0", numa), ("GPU1", numa))))
    assert [gpu.numa_node for gpu in topology.of_kind("gpu")] == [None, None]
    assert [cpu.id for cpu in topology.of_kind("cpu")] == ["cpu0"]
