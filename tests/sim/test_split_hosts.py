"""Where NCCL takes one host for several nodes, what runs between these goes over the NICs, not between processors."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sim.engines import ENGINES
from sim.planners.options import Options
from sim.predict import Simulator
from sim.profile import nccl_constants
from sim.workload import Workload
from topo.changes import Break, Put
from topo.cluster import Cluster, Fabric
from topo.edit import edit, with_nodes
from topo.errors import TopologyError
from topo.load import load_topology
from topo.topology import Topology

GIB = 2**30


def box(num_nodes: int) -> Topology | Cluster:
    """An EPYC box of eight GPUs whose NICs, at 200 Gb/s, are faster than NCCL takes its processors' links for."""
    machine = edit(load_topology("pcie-8gpu"), Put("nic", "bandwidth", 25e9))
    return with_nodes(machine, num_nodes) if num_nodes > 1 else machine


def told(name: str) -> Options:
    return Options(environment=((name, "1"),))


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
    simulator = Simulator(machine, options=told("NCCL_NET_DISABLE_INTRA"))
    assert not [note for note in simulator.planner.notes if "over its NICs" in note]
    names = {load.link for load in simulator.run(Workload("all_reduce", GIB), "ring").link_loads}
    assert [name for name in names if name.count("numa") == 2 and "switch" not in name]


def test_a_machine_that_is_one_node_keeps_its_links() -> None:
    machine = load_topology("dgx-h100")
    run = Simulator(machine, nccl_constants(machine)).run(Workload("all_reduce", GIB), "ring")
    assert not [load.link for load in run.link_loads if "fabric" in load.link]


def without(machine: Topology | Cluster, *names: str) -> Topology | Cluster:
    for name in names:
        machine = edit(machine, Break(name))
    return machine


FAR_NICS = tuple(f"mlx5_{index}" for index in range(4, 8))


@pytest.mark.parametrize("disabled", [False, True])
def test_what_nics_of_one_socket_carry_does_not_pass_the_other(disabled: bool) -> None:
    """GPUs of the other socket send over a GPU beside the NIC (PXN); without it rings end where NICs are."""
    options = told("NCCL_PXN_DISABLE") if disabled else Options()
    run = Simulator(without(load_topology("dgx-h100", nodes=4), *FAR_NICS), options=options).run(
        Workload("all_reduce", GIB), "ring"
    )
    assert run.limiting is not None
    assert "fabric" in run.limiting.link
    assert run.busbw_bytes_per_s == pytest.approx(200e9, rel=0.1), "four NICs of 50 GB/s"


def test_a_broken_nic_is_none_to_the_planner() -> None:
    """Broken, and not there at all: the same plan and the same time."""
    broken = without(load_topology("dgx-h100", nodes=2), *FAR_NICS)
    assert isinstance(broken, Cluster)
    node = broken.node
    gone = replace(
        node,
        devices=tuple(device for device in node.devices if device.id not in FAR_NICS),
        links=tuple(link for link in node.links if not {link.src, link.dst} & set(FAR_NICS)),
    )
    runs = [
        Simulator(machine).run(Workload("all_reduce", GIB), "ring") for machine in (broken, replace(broken, node=gone))
    ]
    assert runs[0].duration_s == runs[1].duration_s


def test_without_any_nic_nodes_cannot_be_joined() -> None:
    every = tuple(f"mlx5_{index}" for index in range(8))
    with pytest.raises(TopologyError, match="none of the 8 NICs"):
        without(load_topology("dgx-h100", nodes=2), *every)


@pytest.mark.parametrize("engine_name", ["auto", "event"])
@pytest.mark.parametrize("name", ["NCCL_P2P_DISABLE", "NCCL_PXN_DISABLE"])
@pytest.mark.parametrize("num_nodes", [1, 2])
def test_a_gpu_speaks_over_nics_of_its_own_host(num_nodes: int, name: str, engine_name: str) -> None:
    """Without P2P no NVLink joins the two hosts of the machine, and those of the other host lead nowhere."""
    machine = load_topology("gb200-nvl8", nodes=num_nodes)
    simulator = Simulator(machine, engine=engine_name, options=told(name))
    run = simulator.run(Workload("all_reduce", GIB), "ring")
    if name == "NCCL_P2P_DISABLE":
        assert {load.link for load in run.link_loads if load.num_bytes} >= {
            f"{'node0/' if num_nodes > 1 else ''}host{host}/mlx5_0->fabric" for host in (0, 1)
        }
    plan = simulator.planner.nccl
    assert plan is not None
    node = machine if isinstance(machine, Topology) else machine.node
    cluster = Cluster(node, 2)
    for rank, gpu_id in enumerate(node.gpu_ids):
        assert cluster.nic_of(rank).host == node.device(gpu_id).host


@pytest.mark.parametrize("engine_name", ["auto", *ENGINES])
@pytest.mark.parametrize("fabric", [Fabric(), Fabric("rail"), Fabric("fat-tree", oversubscription=2.0)])
@pytest.mark.parametrize(("collective", "algorithm"), [("all_reduce", "ring"), ("all_to_all", "direct")])
def test_two_nics_of_a_gpu_carry_what_one_of_twice_the_rate_does(
    collective: str, algorithm: str, fabric: Fabric, engine_name: str
) -> None:
    """Such machines differ in NICs alone: sixteen of 100 Gb/s, and eight of 200 Gb/s."""
    runs = []
    for name in ("oci-a100-16x100", "dgx-a100"):
        machine = load_topology(name)
        assert isinstance(machine, Topology)
        simulator = Simulator(Cluster(machine, 2, fabric), engine=engine_name)
        runs.append(simulator.run(Workload(collective, GIB), algorithm))
    halves, wholes = runs
    assert halves.duration_s == pytest.approx(wholes.duration_s, rel=0.01)
    leaves, inside = (
        [sum(load.num_bytes for load in run.link_loads if re.fullmatch(pattern, load.link)) for run in runs]
        for pattern in (r"node0/mlx5_\d+->(fabric|rail\d+|leaf\d+)", r"node0/GPU\d->node0/NVS0")
    )
    assert leaves[0] == pytest.approx(leaves[1])
    assert inside[0] == pytest.approx(inside[1])
