"""What is reduced in the network's switch: the bound by NICs in closed form, and what it gains over a ring."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.algorithms import ALGORITHMS
from sim.plan import Plan
from sim.planners.options import Options
from sim.planners.topology import TopologyPlanner
from sim.predict import Simulator
from sim.profile import load_profile
from sim.prove import prove
from sim.workload import Workload
from topo.cluster import Cluster
from topo.load import load_topology

GIB = 2**30


@pytest.mark.parametrize("groups", [((0, 1, 2),), ((0,), (1,), (2,)), ((0, 2), (1, 3)), ((0, 1, 2), (3, 4, 5))])
@pytest.mark.parametrize("num_chunks", [1, 3])
def test_every_part_is_summed_whatever_the_nodes_are(groups: tuple[tuple[int, ...], ...], num_chunks: int) -> None:
    num_ranks = sum(map(len, groups))
    prove(
        Plan(
            "collnet-direct",
            num_ranks,
            (tuple(range(num_ranks)),),
            num_chunks=num_chunks,
            helpers=("fabric",),
            groups=groups,
        ).schedule()
    )


@pytest.mark.parametrize("nodes", [2, 4, 32])
def test_one_gpu_per_node_takes_a_byte_up_and_a_byte_down(nodes: int) -> None:
    """S / B for the NIC's rate B, however many nodes there are, where a ring takes 2 (N - 1) / N times that."""
    machine = load_topology("hgx-h200-1gpu", nodes=nodes)
    profile = load_profile("ideal", machine)
    simulator = Simulator(machine, profile, planner="topology")
    reduced, around = (simulator.run(Workload("all_reduce", GIB), name) for name in ("collnet-direct", "ring"))
    assert isinstance(machine, Cluster)
    rate = machine.port_bytes_per_s(machine.nic_of(0))
    assert reduced.duration_s == pytest.approx(GIB / rate, rel=0.05)
    assert around.duration_s / reduced.duration_s == pytest.approx(2 * (nodes - 1) / nodes, rel=0.06)


def test_another_algorithm_of_the_kind_is_planned_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reduces where, and how deep its pipelines are, is asked of its row and not of its name."""
    monkeypatch.setitem(ALGORITHMS, "other", replace(ALGORITHMS["collnet-direct"], name="other"))
    planner, work = TopologyPlanner(load_topology("dgx-h100", nodes=3), Options()), Workload("all_reduce", GIB)
    known, other = (planner.plan(work, name) for name in ("collnet-direct", "other"))
    assert known.num_chunks > 1
    assert replace(other, algorithm="collnet-direct") == known


@pytest.mark.parametrize("nodes", [2, 5])
@pytest.mark.parametrize("algorithm", ["collnet-direct", "nvls"])
def test_engines_agree_on_a_network_that_reduces(algorithm: str, nodes: int) -> None:
    machine = load_topology("dgx-h100-sharp", nodes=nodes)
    options, workload = Options(environment=(("NCCL_COLLNET_ENABLE", "1"),)), Workload("all_reduce", GIB)
    plan = Simulator(machine, options=options).plan(workload, algorithm)
    prove(plan.schedule())
    assert isinstance(machine, Cluster)
    profile = load_profile("auto", machine)
    folded, explicit, by_event = (
        Simulator(one, profile, engine=engine).run_plan(plan, workload).duration_s
        for one, engine in ((machine, "steady"), (machine.explicit(), "steady"), (machine, "event"))
    )
    assert folded == pytest.approx(explicit, rel=1e-6)
    assert folded == pytest.approx(by_event, rel=0.01)
