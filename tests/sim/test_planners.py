"""Planners: one table, one signature, plans as plain values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim import PLANNERS, Plan, Workload
from sim.planners import prepare
from sim.planners.nccl_2_30.front_door import plan_machine
from sim.planners.options import Options
from sim.predict import predict
from sim.prove import prove
from topo.cluster import Cluster
from topo.errors import NameChoiceError, ScheduleError, TopoError, TopologyError
from topo.jsonio import decode, encode
from topo.load import load_topology
from topo.topology import Topology

MIB = 1 << 20
every_planner = pytest.mark.parametrize("name", PLANNERS)


@every_planner
@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_one_signature_gives_a_plan_that_is_an_all_reduce(name: str, algorithm: str) -> None:
    machine = load_topology("dgx-h100", nodes=2)
    plan = PLANNERS[name](machine, Workload("all_reduce", MIB), Options(num_chunks=2), algorithm)
    assert (plan.planner, plan.algorithm, plan.num_ranks) == (name, algorithm, 16)
    prove(plan.schedule())


@every_planner
def test_a_plan_is_a_document(name: str) -> None:
    plan = PLANNERS[name](load_topology("dgx1-v100"), Workload("all_reduce", MIB), algorithm="tree")
    assert decode(encode(plan, "test/1"), Plan, "test/1") == plan


def test_nccl_chooses_and_the_topology_does_not() -> None:
    machine, workload = load_topology("dgx-a100", nodes=2), Workload("all_reduce", 64 << 10)
    plan = PLANNERS["nccl-2.30"](machine, workload)
    assert (plan.algorithm, plan.protocol, plan.num_channels, plan.chunk_bytes) == ("tree", "ll", 16, 32 << 10)
    assert plan.num_chunks == 1
    assert len(plan.trees) == len(plan.rings) == 16
    with pytest.raises(ScheduleError, match="chooses no algorithm"):
        PLANNERS["topology"](machine, workload)


def test_chunks_of_a_tree_are_those_of_nccl() -> None:
    plan = PLANNERS["nccl-2.30"](load_topology("dgx-h100"), Workload("all_reduce", 1 << 30), algorithm="tree")
    assert plan.chunk_bytes == 512 << 10
    assert plan.num_chunks == -(-(1 << 30) // 24 // (512 << 10))


def test_channels_by_number_repeat_those_of_nccl() -> None:
    workload = Workload("all_reduce", 1 << 30)
    machine = load_topology("dgx-h100", nodes=2)
    usual = PLANNERS["nccl-2.30"](machine, workload, algorithm="ring")
    asked = PLANNERS["nccl-2.30"](machine, workload, Options(num_channels=20), "ring")
    assert asked.num_channels == 20
    assert asked.rings == usual.rings + usual.rings[:4]


def test_a_slower_fabric_is_what_nccl_sees_of_its_nics() -> None:
    rates = [
        plan_machine(load_topology("dgx-h100", nodes=2, fabric=fabric), {}).wiring.graphs["ring"].inter_bytes_per_s
        for fabric in (None, "flat,bandwidth=100Gb/s")
    ]
    assert rates == [48e9, 12e9]


def test_auto_says_why_nccl_is_not_planned() -> None:
    star = load_topology("switch:4,bandwidth=1GB/s")
    prepared, why = prepare("auto", star, Options())
    assert prepared.name == "topology"
    assert "a description without PCIe" in why
    with pytest.raises(TopologyError, match="--protocol is for NCCL's planner"):
        prepare("auto", star, Options(protocol="ll"))
    prepared, why = prepare("auto", load_topology("dgx-h100"), Options(protocol="ll"))
    assert (prepared.name, why) == ("nccl-2.30", "")
    with pytest.raises(NameChoiceError, match=r"nccl-2\.30"):
        prepare("nccl-2.29", star, Options())


VARIABLES = ("NCCL_P2P_LEVEL=LOC", "NCCL_SHM_DISABLE=1", "NCCL_P2P_DISABLE=1", "NCCL_ALGO=Ring", "NCCL_PROTO=LL")


@pytest.mark.parametrize("engine", ["auto", "event"])
@pytest.mark.parametrize("collective", ["all_to_all", "sendrecv"])
@pytest.mark.parametrize("variable", VARIABLES)
def test_sends_and_receives_are_nccl_s_own_and_follow_its_variables(
    variable: str, collective: str, engine: str
) -> None:
    machine, workload = load_topology("dgx-h100", nodes=2), Workload(collective, 64 * MIB)
    name, _, value = variable.partition("=")
    options = Options(environment=((name, value),))
    duration_s = predict(machine, workload, options=options, engine=engine).duration_s
    usual_s = predict(machine, workload, engine=engine).duration_s
    if name in ("NCCL_ALGO", "NCCL_PROTO"):
        assert duration_s == usual_s, "they steer collectives alone"
    assert duration_s >= usual_s


def test_without_peers_and_shared_memory_messages_leave_by_nics() -> None:
    options = Options(environment=(("NCCL_P2P_LEVEL", "LOC"), ("NCCL_SHM_DISABLE", "1")))
    for engine in ("auto", "event"):
        run = predict(load_topology("dgx-h100"), Workload("all_to_all", MIB), options=options, engine=engine)
        assert {load.link for load in run.link_loads if load.num_bytes} >= {f"mlx5_{nic}->fabric" for nic in range(8)}


@pytest.mark.parametrize("name", ["NCCL_SHM_DISABEL", "NCCL_P2P_LEVEL"])
def test_what_nccl_could_not_read_is_refused_for_messages_too(name: str) -> None:
    with pytest.raises(NameChoiceError, match=name):
        predict(
            load_topology("dgx-h100"), Workload("all_to_all", MIB), options=Options(environment=((name, "nonsense"),))
        )


@pytest.mark.parametrize(
    ("machine", "collective", "algorithm"),
    [
        ("dgx-h100", "all_reduce", "halving-doubling"),
        ("switch:4,bandwidth=1GB/s", "all_to_all", "auto"),
        ("switch:4,bandwidth=1GB/s", "all_reduce", "ring"),
    ],
)
def test_where_no_plan_of_nccl_s_is_behind_it_its_variables_are_refused_by_name(
    machine: str, collective: str, algorithm: str
) -> None:
    options = Options(environment=(("NCCL_SHM_DISABLE", "1"),))
    with pytest.raises(TopoError, match=r"^NCCL_SHM_DISABLE (steers what NCCL plans|is for NCCL's planner)"):
        predict(load_topology(machine), Workload(collective, MIB), algorithm=algorithm, options=options)


def test_hosts_without_nvlink_between_them_are_copies_of_the_first() -> None:
    cluster = load_topology("dgx-a100", nodes=3)
    node = load_topology("dgx-a100")
    assert isinstance(node, Topology)
    whole = replace(
        node,
        devices=tuple(
            replace(device, id=f"h{host}/{device.id}", host=f"h{host}") for host in range(3) for device in node.devices
        ),
        links=tuple(
            replace(link, src=f"h{host}/{link.src}", dst=f"h{host}/{link.dst}")
            for host in range(3)
            for link in node.links
        ),
        gpu_ids=tuple(f"h{host}/{gpu_id}" for host in range(3) for gpu_id in node.gpu_ids),
        complete=False,
    )
    workload = Workload("all_reduce", MIB)
    assert PLANNERS["nccl-2.30"](whole, workload) == PLANNERS["nccl-2.30"](cluster, workload)
    mixed = replace(whole, gpu_ids=(*whole.gpu_ids[::2], *whole.gpu_ids[1::2]))
    with pytest.raises(TopologyError, match="mixed or unequal"):
        PLANNERS["nccl-2.30"](mixed, workload)


@pytest.mark.parametrize(
    ("name", "nodes", "algorithm", "collective"),
    [
        ("dgx-h100", 1, "nvls", "all_reduce"),
        ("dgx-h100", 1, "nvls", "reduce_scatter"),
        ("dgx-h100", 4, "nvls-tree", "all_reduce"),
        ("hgx-h200-1gpu", 6, "pat", "all_gather"),
        ("dgx-h100-sharp", 3, "collnet-direct", "all_reduce"),
        ("dgx-h100-sharp", 3, "nvls", "all_reduce"),
    ],
)
def test_what_nccl_takes_is_the_collective_it_stands_for(
    name: str, nodes: int, algorithm: str, collective: str
) -> None:
    machine = load_topology(name, nodes=nodes)
    options = Options(num_chunks=2, environment=(("NCCL_COLLNET_ENABLE", "1"),))
    plan = PLANNERS["nccl-2.30"](machine, Workload(collective, 64 * MIB), options, algorithm)
    assert (plan.algorithm, plan.instead_of) == (algorithm, None)
    prove(plan.schedule())


def test_the_switches_of_every_node_help() -> None:
    cluster = load_topology("dgx-h100", nodes=3)
    plan = PLANNERS["topology"](cluster, Workload("all_reduce", MIB), algorithm="nvls-tree")
    assert plan.helpers == ("node0/NVS0", "node1/NVS0", "node2/NVS0")
    assert plan.groups == tuple(tuple(range(first, first + 8)) for first in (0, 8, 16))


@pytest.mark.parametrize(
    ("name", "nodes", "algorithm", "complaint"),
    [
        ("pcie-4gpu", 1, "nvls", "pcie-4gpu has none at rank 0"),
        ("dgx1-v100", 2, "nvls-tree", "needs an NVSwitch that reduces beside every rank"),
        ("dgx-h100", 1, "nvls-tree", "one NVSwitch joins all: use nvls"),
        ("dgx-h100", 2, "nvls", "there are 2 groups: use nvls-tree"),
        ("dgx-h100", 1, "collnet-direct", "reduces between several nodes, here is one: add --nodes"),
    ],
)
def test_without_the_switches_there_is_no_such_plan(name: str, nodes: int, algorithm: str, complaint: str) -> None:
    with pytest.raises(TopologyError, match=complaint):
        PLANNERS["topology"](load_topology(name, nodes=nodes), Workload("all_reduce", MIB), algorithm=algorithm)


def test_two_levels_want_as_many_ranks_on_each_node() -> None:
    whole = load_topology("dgx-a100", nodes=2)
    assert isinstance(whole, Cluster)
    explicit = whole.explicit()
    machine = replace(explicit, gpu_ids=explicit.gpu_ids[:-1], complete=False)
    with pytest.raises(TopologyError, match=r"as many ranks on each node, here are node0 8, node1 7"):
        PLANNERS["topology"](machine, Workload("all_reduce", MIB), algorithm="hierarchical")


def test_squares_of_ranks_are_refused_before_they_fill_the_memory() -> None:
    with pytest.raises(ScheduleError, match="pat over 4096 ranks has too many transfers"):
        PLANNERS["topology"](load_topology("switch:4096,bandwidth=1GB/s"), Workload("all_gather", MIB), algorithm="pat")


@pytest.mark.parametrize(
    ("name", "nodes", "enable", "why"),
    [
        ("dgx-h100-sharp", 4, "0", "off: NCCL_COLLNET_ENABLE=1 allows it"),
        ("dgx-h100-sharp", 1, "1", "needs 2 nodes, 1 node here"),
        ("dgx-h100", 4, "1", "no NIC here says that its network reduces"),
    ],
)
def test_where_the_network_does_not_reduce_it_is_said_why(name: str, nodes: int, enable: str, why: str) -> None:
    options = Options(environment=(("NCCL_COLLNET_ENABLE", enable),))
    prepared = PLANNERS["nccl-2.30"].on(load_topology(name, nodes=nodes), options)
    for algorithm in ("collnet-direct", "collnet-chain", *(("nvls",) if nodes > 1 else ())):
        with pytest.raises(TopoError, match=why):
            prepared.plan(Workload("all_reduce", MIB), algorithm, runnable=False)


def test_nvls_over_a_tree_of_switches_that_reduce_is_stood_in_for() -> None:
    cluster, workload = load_topology("dgx-h100-sharp", nodes=8, fabric="fat-tree:1"), Workload("all_reduce", 64 * MIB)
    options = Options(environment=(("NCCL_COLLNET_ENABLE", "1"),))
    prepared = PLANNERS["nccl-2.30"].on(cluster, options)
    assert prepared.plan(workload, runnable=False).algorithm == "nvls"
    stands_in = prepared.plan(workload)
    assert stands_in.instead_of == "nvls"
    assert stands_in.algorithm in ("ring", "tree", "nvls-tree")
