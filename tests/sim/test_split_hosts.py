"""Where NCCL takes one host for several nodes, what runs between these goes over the NICs, not between processors."""

from __future__ import annotations

import pytest

from sim.engines import ENGINES
from sim.planners.options import Options
from sim.predict import Simulator
from sim.profile import nccl_constants
from sim.workload import Workload
from topo.changes import Put
from topo.cluster import Cluster
from topo.edit import edit, with_nodes
from topo.load import load_topology
from topo.topology import Topology

GIB = 2**30


def box(num_nodes: int) -> Topology | Cluster:
    """An EPYC box of eight GPUs whose NICs, at 200 Gb/s, are faster than NCCL takes its processors' links for."""
    machine = edit(load_topology("pcie-8gpu"), Put("nic", "bandwidth", 25e9))
    return with_nodes(machine, num_nodes) if num_nodes > 1 else machine


def whole(environment: tuple[tuple[str, str], ...] = (("NCCL_NET_DISABLE_INTRA", "1"),)) -> Options:
    return Options(environment=environment)


@pytest.mark.parametrize("engine_name", ["auto", *ENGINES])
@pytest.mark.parametrize("num_nodes", [1, 2])
def test_parts_speak_over_nics(num_nodes: int, engine_name: str) -> None:
    machine = box(num_nodes)
    run = Simulator(machine, nccl_constants(machine), engine=engine_name).run(Workload("all_reduce", GIB), "ring")
    names = {load.link for load in run.link_loads}
    assert not [name for name in names if name.count("numa") == 2 and "switch" not in name]
    assert any("mlx5_" in name and "fabric" in name for name in names)


def test_the_rate_is_what_nccl_searched_for() -> None:
    machine = box(2)
    simulator = Simulator(machine, nccl_constants(machine))
    graph = simulator.planner.nccl.wiring.graphs["ring"]  # type: ignore[union-attr]
    run = simulator.run(Workload("all_reduce", GIB), "ring")
    assert run.busbw_bytes_per_s == pytest.approx(graph.inter_bytes_per_s * len(graph.channels), rel=0.01)


@pytest.mark.parametrize("num_nodes", [1, 2])
def test_it_is_said_and_can_be_turned_off(num_nodes: int) -> None:
    machine = box(num_nodes)
    (note,) = [note for note in Simulator(machine).planner.notes if "nodes that speak over its NICs" in note]
    assert "NCCL_NET_DISABLE_INTRA=1" in note
    simulator = Simulator(machine, options=whole())
    assert not [note for note in simulator.planner.notes if "over its NICs" in note]
    names = {load.link for load in simulator.run(Workload("all_reduce", GIB), "ring").link_loads}
    assert [name for name in names if name.count("numa") == 2 and "switch" not in name]


def test_a_machine_that_is_one_node_keeps_its_links() -> None:
    machine = load_topology("dgx-h100")
    run = Simulator(machine, nccl_constants(machine)).run(Workload("all_reduce", GIB), "ring")
    assert not [load.link for load in run.link_loads if "fabric" in load.link]
