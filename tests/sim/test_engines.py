"""Every engine, every algorithm, any rank count: closed forms, bounds, conservation and symmetries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.algorithms import ALGORITHMS
from sim.engines import ENGINES, engine
from sim.engines.dependencies import groups
from sim.engines.event import simulate_rows
from sim.engines.instants import _in_line
from sim.engines.network import network_of
from sim.engines.rates import RateSolver
from sim.engines.routes import Routes
from sim.engines.tasks import Table
from sim.plan import Plan, in_order
from sim.planners.topology import Options
from sim.predict import Simulator, predict
from sim.prediction import Prediction
from sim.profile import IDEAL, load_profile
from sim.schedule import COPY, REDUCE, Block, Rows, Schedule
from sim.workload import Workload
from tests.sim.ways import WAYS, every_way, natural
from tests.support import examples
from topo.cluster import Cluster
from topo.errors import Deadlock, RouteError, TopoError, TopologyError
from topo.load import load_topology
from topo.presets import preset, synthetic
from topo.topology import Device, Link, Topology

MIB, GIB = 2**20, 2**30
BANDWIDTH, LATENCY = 200e9, 1e-6

every_engine = pytest.mark.parametrize("engine_name", ENGINES)


def star(num_ranks: int) -> Topology:
    return synthetic(f"switch:{num_ranks},bandwidth=200GB/s,latency=1us")


def ran(machine: Topology, plan: Plan, num_bytes: int, engine_name: str) -> Prediction:
    return Simulator(machine, IDEAL, engine=engine_name).run_plan(plan, Workload(plan.collective, num_bytes))


@every_engine
@pytest.mark.parametrize(("num_ranks", "num_bytes"), [(2, MIB), (8, MIB), (8, GIB), (64, MIB), (256, MIB)])
def test_a_ring_takes_its_closed_form(num_ranks: int, num_bytes: int, engine_name: str) -> None:
    run = ran(star(num_ranks), in_order("ring", num_ranks), num_bytes, engine_name)
    expected = 2 * (num_ranks - 1) * (LATENCY + num_bytes / (num_ranks * BANDWIDTH))
    assert run.duration_s == pytest.approx(expected, rel=1e-9)


@every_engine
@pytest.mark.parametrize(("num_ranks", "num_bytes"), [(2, 8), (8, MIB), (64, GIB), (256, MIB)])
def test_halving_and_doubling_takes_its_closed_form(num_ranks: int, num_bytes: int, engine_name: str) -> None:
    run = ran(star(num_ranks), in_order("halving-doubling", num_ranks), num_bytes, engine_name)
    share = (num_ranks - 1) / num_ranks
    assert run.duration_s == pytest.approx(2 * (np.log2(num_ranks) * LATENCY + share * num_bytes / BANDWIDTH), rel=1e-9)


@every_engine
@pytest.mark.parametrize(("num_nodes", "size"), [(2, 2), (4, 8), (16, 4), (5, 3), (7, 1)])
def test_two_levels_take_their_closed_form(num_nodes: int, size: int, engine_name: str) -> None:
    """Where every hop costs the same: a ring over each node with all data, and one over the nodes with a part."""
    num_ranks, num_bytes = num_nodes * size, 4 * 1680 * 1024
    groups = tuple(tuple(range(node * size, (node + 1) * size)) for node in range(num_nodes))
    run = ran(star(num_ranks), replace(in_order("hierarchical", num_ranks), groups=groups), num_bytes, engine_name)
    inside = (size - 1) * (LATENCY + num_bytes / size / BANDWIDTH)
    between = (num_nodes - 1) * (LATENCY + num_bytes / num_ranks / BANDWIDTH)
    assert run.duration_s == pytest.approx(2 * (inside + between), rel=1e-6)


@every_engine
@pytest.mark.parametrize("collective", ["reduce_scatter", "all_gather"])
@pytest.mark.parametrize(("num_ranks", "num_bytes"), [(2, MIB), (8, GIB), (129, 129 * MIB)])
def test_half_a_ring_takes_half_its_time(collective: str, num_ranks: int, num_bytes: int, engine_name: str) -> None:
    run = ran(star(num_ranks), in_order("ring", num_ranks, collective=collective), num_bytes, engine_name)
    expected = (num_ranks - 1) * (LATENCY + num_bytes / (num_ranks * BANDWIDTH))
    assert run.duration_s == pytest.approx(expected, rel=1e-9)
    assert run.busbw_bytes_per_s == pytest.approx(run.wire_bytes_per_s)


@every_engine
@pytest.mark.parametrize("collective", ["reduce_scatter", "all_gather"])
@pytest.mark.parametrize("num_ranks", [2, 8, 64])
def test_trees_in_parallel_need_as_many_hops_as_the_number_has_bits(
    collective: str, num_ranks: int, engine_name: str
) -> None:
    run = ran(star(num_ranks), in_order("pat", num_ranks, collective=collective), 64 * MIB, engine_name)
    expected = np.log2(num_ranks) * LATENCY + (num_ranks - 1) / num_ranks * 64 * MIB / BANDWIDTH
    assert run.duration_s == pytest.approx(expected, rel=0.01)
    assert run.duration_s >= (num_ranks - 1) / num_ranks * 64 * MIB / BANDWIDTH + LATENCY * 0.999


@every_engine
def test_a_switch_that_reduces_takes_each_byte_once_up_and_once_down_every_link(engine_name: str) -> None:
    """As many bytes each way as the buffer has, whatever the number of ranks: busbw is 2 (n - 1) / n times the link."""
    run = ran(star(8), in_order("nvls", 8, num_chunks=64), GIB, engine_name)
    assert [load.num_bytes for load in run.link_loads] == [pytest.approx(GIB)] * 16
    assert run.duration_s == pytest.approx(LATENCY + (1 + 1 / 64) * GIB / BANDWIDTH, rel=1e-6)


@every_engine
@pytest.mark.parametrize("num_ranks", [2, 7])
def test_everybody_sends_to_the_next_at_the_rate_of_a_link(num_ranks: int, engine_name: str) -> None:
    run = ran(star(num_ranks), in_order("direct", num_ranks, collective="sendrecv"), GIB, engine_name)
    assert run.duration_s == pytest.approx(LATENCY + GIB / BANDWIDTH, rel=1e-9)
    assert run.busbw_bytes_per_s == pytest.approx(run.algbw_bytes_per_s)


@every_engine
@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
@pytest.mark.parametrize(("num_ranks", "num_chunks"), [(2, 1), (8, 64), (8, 512), (65, 16)])
def test_a_chain_fills_once_and_then_takes_a_chunk_per_hop(
    collective: str, num_ranks: int, num_chunks: int, engine_name: str
) -> None:
    """A hop's latency overlaps the next chunk, so that it is paid once per hop, and the transmission once per chunk."""
    plan = in_order("ring", num_ranks, collective=collective, num_chunks=num_chunks)
    run = ran(star(num_ranks), plan, 64 * MIB, engine_name)
    chunk_s = 64 * MIB / num_chunks / BANDWIDTH
    expected = (num_ranks - 1) * (LATENCY + chunk_s) + (num_chunks - 1) * chunk_s
    assert run.duration_s == pytest.approx(expected, rel=1e-9)


@given(
    factors=st.lists(st.sampled_from([0.1, 0.5, 0.9, 1.0, 1.0]), min_size=2, max_size=12),
    latency_s=st.sampled_from([0.0, 1e-6, 1e-3]),
    num_chunks=st.integers(1, 150),
    collective=st.sampled_from(["broadcast", "reduce"]),
)
@settings(max_examples=60)
def test_a_chain_of_unlike_links_is_walked_in_part(
    factors: list[float], latency_s: float, num_chunks: int, collective: str
) -> None:
    machine = star(len(factors))
    links = tuple(
        replace(link, bandwidth_bytes_per_s=BANDWIDTH * factors[index // 2], latency_s=latency_s)
        for index, link in enumerate(machine.links)
    )
    machine = replace(machine, links=links)
    plan = in_order("ring", len(factors), collective=collective, num_chunks=num_chunks)
    event, steady = (ran(machine, plan, 64 * MIB, name).duration_s for name in ("event", "steady"))
    assert steady == pytest.approx(event, rel=0.01)


def test_what_a_long_chain_costs_does_not_grow_with_its_chunks() -> None:
    work = [
        engine("steady")(
            in_order("ring", 64, collective="broadcast", num_chunks=count).schedule(),
            network_of(star(64), IDEAL),
            Workload("broadcast", GIB),
        ).work["instants"]
        for count in (256, 4096)
    ]
    assert work[1] <= work[0] <= 64 * 40


@every_engine
@pytest.mark.parametrize(("num_ranks", "expected_us"), [(8, 75_163.92768), (1024, 10_984_380.85952)])
def test_in_cast_to_a_parameter_server_is_not_free(num_ranks: int, expected_us: float, engine_name: str) -> None:
    run = ran(star(num_ranks), in_order("parameter-server", num_ranks), GIB, engine_name)
    assert run.duration_s * 1e6 == pytest.approx(expected_us, rel=1e-9)


@every_engine
@pytest.mark.parametrize(("num_ranks", "expected_us"), [(64, 5_285.82304), (256, 5_348.73760)])
def test_an_all_to_all_takes_its_closed_form(num_ranks: int, expected_us: float, engine_name: str) -> None:
    run = ran(star(num_ranks), in_order("direct", num_ranks), GIB, engine_name)
    assert run.duration_s == pytest.approx((num_ranks - 1) * GIB / num_ranks / BANDWIDTH + LATENCY, rel=1e-9)
    assert run.duration_s * 1e6 == pytest.approx(expected_us, rel=1e-6)


@every_engine
@every_way
def test_one_rank_moves_nothing(algorithm: str, collective: str, engine_name: str) -> None:
    run = ran(star(1), natural((algorithm, collective), 1), 8, engine_name)
    assert (run.duration_s, run.algbw_bytes_per_s, run.limiting) == (0.0, None, None)


@every_engine
@every_way
@given(num_ranks=st.integers(2, 14), elements=st.integers(1, 10**6), chunks=st.integers(1, 5))
@settings(max_examples=examples(25))
def test_bounds_and_conservation(
    algorithm: str, collective: str, engine_name: str, num_ranks: int, elements: int, chunks: int
) -> None:
    plan = natural((algorithm, collective), num_ranks, 1 + chunks % 2, chunks)
    run = ran(star(num_ranks), plan, 4 * elements, engine_name)
    busiest = max(load.num_bytes / load.bandwidth_bytes_per_s for load in run.link_loads)
    assert run.duration_s >= busiest * (1 - 1e-9)
    assert all(0 < load.busy_fraction <= 1 + 1e-9 for load in run.link_loads)
    schedule = plan.schedule()
    rows = schedule.rows()
    num_bytes = schedule.chunk_bytes(run.workload)[rows.chunk]
    up = sum(load.num_bytes for load in run.link_loads if load.link.endswith("->SW0"))
    down = sum(load.num_bytes for load in run.link_loads if load.link.startswith("SW0->"))
    for carried, end in ((up, rows.src), (down, rows.dst)):
        sent = num_bytes[end < num_ranks].sum()
        assert carried == pytest.approx(sent, rel=1e-6, abs=num_ranks * schedule.num_chunks * 8)


@every_way
@given(
    num_ranks=st.integers(1, 14),
    elements=st.integers(1, 10**6),
    chunks=st.integers(1, 20),
    slow=st.floats(0.1, 1.0),
)
@settings(max_examples=examples(40))
def test_engines_agree_on_whole_and_on_slow_links(
    algorithm: str, collective: str, num_ranks: int, elements: int, chunks: int, slow: float
) -> None:
    """Folded or row by row, event answers the same; steady within 1 %."""
    machine = star(num_ranks)
    first, *rest = machine.links
    machine = replace(machine, links=(replace(first, bandwidth_bytes_per_s=first.bandwidth_bytes_per_s * slow), *rest))
    plan = natural((algorithm, collective), num_ranks, 1 + chunks % 2, chunks)
    schedule, network = plan.schedule(), network_of(machine, IDEAL, plan.helpers)
    per_buffer = schedule.num_chunks // schedule.num_buffers
    workload = Workload(plan.collective, 4 * per_buffer * max(1, elements // per_buffer))
    exact = simulate_rows(schedule, network, workload).duration_s
    for name, tolerance in (("event", 1e-9), ("steady", 0.01)):
        assert engine(name)(schedule, network, workload).duration_s == pytest.approx(exact, rel=tolerance), name


@every_engine
@every_way
@pytest.mark.parametrize("num_ranks", [3, 6, 12])
def test_monotone_in_size_and_in_bandwidth(algorithm: str, collective: str, num_ranks: int, engine_name: str) -> None:
    plan = natural((algorithm, collective), num_ranks, num_chunks=4)
    times = [ran(star(num_ranks), plan, num_bytes, engine_name).duration_s for num_bytes in (8, 1000, MIB, 10 * MIB)]
    assert times == sorted(times)
    machine = star(num_ranks)
    faster = replace(
        machine, links=tuple(replace(x, bandwidth_bytes_per_s=2 * x.bandwidth_bytes_per_s) for x in machine.links)
    )
    assert ran(faster, plan, MIB, engine_name).duration_s <= ran(machine, plan, MIB, engine_name).duration_s


@every_engine
@every_way
@given(seed=st.integers(0, 2**31))
@settings(max_examples=10)
def test_relabelling_the_ranks_of_a_symmetric_machine_changes_nothing(
    algorithm: str, collective: str, engine_name: str, seed: int
) -> None:
    machine, plan = star(6), natural((algorithm, collective), 6, num_chunks=3)
    shuffled = replace(machine, gpu_ids=tuple(np.random.default_rng(seed).permutation(machine.gpu_ids).tolist()))
    expected = ran(machine, plan, MIB, engine_name).duration_s
    assert ran(shuffled, plan, MIB, engine_name).duration_s == pytest.approx(expected, rel=1e-9)


@every_engine
def test_contention_shares_a_link_fairly(engine_name: str) -> None:
    """Two transfers leave one port at once: each gets half of it, and both take twice as long."""
    rows = Rows.of([(0, 0, 1, 0, COPY, 0), (0, 0, 2, 0, COPY, 0)])
    schedule = Schedule("broadcast", 3, 1, (Block(rows),))
    run = engine(engine_name)(schedule, network_of(star(3), IDEAL), Workload("broadcast", 10 * MIB))
    assert run.duration_s == pytest.approx(2 * 10 * MIB / BANDWIDTH + LATENCY, rel=1e-9)


@every_engine
def test_an_exchange_in_place_reads_before_it_is_overwritten(engine_name: str) -> None:
    """Recursive doubling: both send and reduce the same slot in one step."""
    rows = Rows.of([(0, 0, 1, 0, REDUCE, 0), (0, 1, 0, 0, REDUCE, 0)])
    schedule = Schedule("all_reduce", 2, 1, (Block(rows),))
    run = engine(engine_name)(schedule, network_of(star(2), IDEAL), Workload("all_reduce", MIB))
    assert run.duration_s == pytest.approx(MIB / BANDWIDTH + LATENCY, rel=1e-9)


@every_engine
def test_a_run_that_cannot_finish_names_its_transfers(engine_name: str) -> None:
    network = network_of(star(2), IDEAL)
    dead = replace(network, bandwidth_bytes_per_s=np.zeros_like(network.bandwidth_bytes_per_s))
    with pytest.raises(Deadlock, match="step 0 0->1 chunk 0"):
        engine(engine_name)(in_order("ring", 2).schedule(), dead, Workload("all_reduce", MIB))


@every_engine
@every_way
def test_empty_chunks_cost_nothing(algorithm: str, collective: str, engine_name: str) -> None:
    """8 bytes over 13 ranks: two elements travel, the other chunks are empty."""
    run = ran(star(13), natural((algorithm, collective), 13, num_chunks=4), 8, engine_name)
    assert 0 < run.duration_s < 25 * LATENCY


@every_way
def test_dependencies_open_every_group_once(algorithm: str, collective: str) -> None:
    schedule = natural((algorithm, collective), 7, 2, 3).schedule()
    found = groups(schedule)
    assert found.sizes.sum() == 2 * schedule.num_rows
    assert found.writes[found.write].all()
    assert not found.writes[found.read].any()
    assert not found.follows[0]


@given(data=st.data())
@settings(max_examples=60)
def test_rates_are_max_min_fair(data: st.DataObject) -> None:
    """Feasible, and each transfer crosses a full link on which no other is faster."""
    num_links = data.draw(st.integers(1, 6))
    routes = data.draw(st.lists(st.sets(st.integers(0, num_links - 1), min_size=1).map(sorted), min_size=1, max_size=8))
    capacity = np.array(data.draw(st.lists(st.floats(1, 100), min_size=num_links, max_size=num_links)))
    counts = np.array(
        data.draw(st.lists(st.integers(1, 3), min_size=len(routes), max_size=len(routes))), dtype=np.int32
    )
    first = np.cumsum([0, *(len(route) for route in routes)], dtype=np.int32)
    links = np.concatenate([np.array(route, dtype=np.int32) for route in routes])
    solver = RateSolver(Routes(first, links, np.zeros(len(routes))), capacity)
    rate = solver.share(counts).rate_bytes_per_s[:-1]
    load = np.zeros(num_links)
    for route, each, count in zip(routes, rate, counts, strict=True):
        load[route] += each * count
    assert (load <= capacity * (1 + 1e-9)).all()
    for route, each in zip(routes, rate, strict=True):
        on_link = [[r for other, r in zip(routes, rate, strict=True) if link in other] for link in route]
        assert any(
            load[link] >= capacity[link] * (1 - 1e-9) and each >= max(rates) * (1 - 1e-9)
            for link, rates in zip(route, on_link, strict=True)
        )


NVLINK_BOXES, PCIE_BOXES = ("dgx1-v100", "dgx-a100", "dgx-h100", "dgx-b200"), ("pcie-4gpu", "pcie-8gpu")


@pytest.mark.parametrize(
    ("name", "planner"),
    [(name, "topology") for name in (*NVLINK_BOXES, *PCIE_BOXES)] + [(name, "nccl-2.30") for name in NVLINK_BOXES],
)
def test_ring_beats_tree_beats_parameter_server_on_large_buffers(name: str, planner: str) -> None:
    machine = preset(name)
    planners = {"ring": planner, "tree": planner, "parameter-server": "topology"}
    times = [
        predict(machine, Workload("all_reduce", GIB), algorithm=algorithm, planner=chosen).duration_s
        for algorithm, chosen in planners.items()
    ]
    assert times == sorted(times)


@pytest.mark.parametrize("name", PCIE_BOXES)
def test_a_chain_crosses_the_sockets_once_each_way_where_a_ring_does_nearly_twice(name: str) -> None:
    """NCCL's tree on one node is a chain, so a box limited by its sockets runs it faster while nothing else limits."""
    machine, workload = preset(name), Workload("all_reduce", 64 * MIB)
    loads = {
        algorithm: next(
            load.num_bytes
            for load in predict(machine, workload, algorithm=algorithm, planner="nccl-2.30").link_loads
            if load.link == "numa0->numa1"
        )
        for algorithm in ("ring", "tree")
    }
    num_ranks = machine.num_ranks
    assert loads["tree"] == pytest.approx(workload.num_bytes)
    assert loads["ring"] == pytest.approx(workload.num_bytes * 2 * (num_ranks - 1) / num_ranks)


def test_the_ring_of_8_h100_reaches_what_nccl_counts_for_its_nvlinks() -> None:
    run = predict(preset("dgx-h100"), Workload("all_reduce", GIB), algorithm="ring")
    assert run.busbw_bytes_per_s is not None
    assert 340e9 < run.busbw_bytes_per_s < 371e9


def test_the_server_on_a_pcie_box_is_limited_by_its_own_port() -> None:
    run = predict(preset("pcie-8gpu"), Workload("all_reduce", GIB), algorithm="parameter-server")
    assert run.limiting is not None
    assert run.limiting.link.startswith("GPU0->") or run.limiting.link.endswith("->GPU0")


def test_a_slow_link_of_a_pcie_box_is_named() -> None:
    machine = preset("pcie-4gpu")
    slow = next(link for link in machine.links if link.dst == "GPU2")
    links = tuple(replace(x, bandwidth_bytes_per_s=1e9) if x == slow else x for x in machine.links)
    run = predict(replace(machine, links=links), Workload("all_reduce", 64 * MIB), algorithm="ring")
    assert run.limiting is not None
    assert run.limiting.link == slow.id


def test_a_host_server_crosses_the_host() -> None:
    machine = preset("pcie-4gpu")
    run = predict(machine, Workload("all_reduce", MIB), algorithm="parameter-server", options=Options(server="host"))
    assert any("memory" in load.link or "numa" in load.link for load in run.link_loads)


def test_an_inactive_link_is_no_way() -> None:
    devices = (Device("GPU0", "gpu"), Device("GPU1", "gpu"))
    links = tuple(Link(a, b, "nvlink", 1e9, state="inactive") for a, b in (("GPU0", "GPU1"), ("GPU1", "GPU0")))
    machine = Topology(devices, links, ("GPU0", "GPU1"), complete=False)
    with pytest.raises(RouteError, match="GPU0 to GPU1"):
        predict(machine, Workload("all_reduce", MIB), algorithm="ring")


@pytest.mark.parametrize("fabric", ["flat", "rail", "fat-tree:2,nodes_per_leaf=2"])
@every_way
def test_a_folded_cluster_costs_what_the_explicit_one_does(algorithm: str, collective: str, fabric: str) -> None:
    cluster = load_topology("dgx-h100", nodes=4, fabric=fabric)
    assert isinstance(cluster, Cluster)
    workload = Workload(collective, 64 * MIB)
    if algorithm == "nvls":
        with pytest.raises(TopoError, match="nvls alone joins no nodes"):
            Simulator(cluster).plan(workload, algorithm)
        return
    profile = load_profile("auto", cluster)
    folded = Simulator(cluster, profile, planner="topology" if algorithm in ("pat", "collnet-direct") else "auto")
    if algorithm == "collnet-direct" and fabric != "flat":
        with pytest.raises(TopologyError, match="a tree of switches is not modelled"):
            folded.plan(workload, algorithm)
        return
    plan = folded.plan(workload, algorithm)
    explicit = Simulator(cluster.explicit(), profile)
    assert folded.run_plan(plan, workload).duration_s == pytest.approx(
        explicit.run_plan(plan, workload).duration_s, rel=1e-6
    )


@pytest.mark.parametrize("shape", ["ring", "fully-connected", "switch"])
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 7])
@every_way
def test_every_shape_runs_every_way(algorithm: str, collective: str, num_ranks: int, shape: str) -> None:
    machine = synthetic(f"{shape}:{num_ranks},bandwidth=200GB/s,latency=1us")
    if ALGORITHMS[algorithm].in_switch:
        with pytest.raises(TopologyError, match=r"needs (an NVSwitch|a network switch) that reduces"):
            predict(machine, Workload(collective, MIB), algorithm=algorithm)
        return
    run = predict(machine, Workload(collective, MIB), algorithm=algorithm)
    halves = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}
    if algorithm == "ring" and collective in halves:
        expected = halves[collective] * (num_ranks - 1) * (LATENCY + MIB / (num_ranks * BANDWIDTH))
        assert run.duration_s == pytest.approx(expected, rel=1e-5)


def test_one_slow_port_of_a_cluster_is_named_and_slows_all() -> None:
    whole = Cluster(preset("dgx-h100"), 3)
    broken = whole.with_port(2, "mlx5_3", 0.5)
    workload = Workload("all_reduce", 64 * MIB)
    plan = Simulator(whole).plan(workload, "ring")
    healthy, slow = (Simulator(machine, engine="steady").run_plan(plan, workload) for machine in (whole, broken))
    assert slow.limiting is not None
    assert "node2/mlx5_3" in slow.limiting.link
    assert slow.duration_s > healthy.duration_s
    exact = Simulator(broken.explicit(), load_profile("auto", broken), engine="event").run_plan(plan, workload)
    assert slow.duration_s == pytest.approx(exact.duration_s, rel=0.02)


@pytest.mark.parametrize(("name", "num_nodes"), [("dgx1-v100", 3), ("dgx-h100", 5), ("pcie-8gpu", 2)])
@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_engines_agree_on_clusters_of_many_channels(algorithm: str, name: str, num_nodes: int) -> None:
    """Where every channel enters a node elsewhere, classes are many, and the slow hop comes every eighth time."""
    machine = load_topology(name, nodes=num_nodes)
    for num_bytes in (1024, MIB):
        event, steady = (
            Simulator(machine, engine=name).run(Workload("all_reduce", num_bytes), algorithm) for name in ENGINES
        )
        assert steady.duration_s == pytest.approx(event.duration_s, rel=0.01)


CUBE_MESH_WAYS = [("pat", "reduce_scatter"), ("ring", "broadcast"), ("ring", "reduce"), ("tree", "all_reduce")]


@pytest.mark.parametrize(
    ("algorithm", "collective", "name", "num_nodes"),
    [
        *((*way, name, 2) for name in ("dgx1-v100", "pcie-8gpu") for way in WAYS if not ALGORITHMS[way[0]].in_switch),
        *((*way, "dgx1-v100", 4) for way in CUBE_MESH_WAYS),
    ],
)
def test_engines_agree_on_machines_that_are_not_symmetric(
    algorithm: str, collective: str, name: str, num_nodes: int
) -> None:
    """On a cube mesh hardly two ranks have the same around them."""
    machine = load_topology(name, nodes=num_nodes, fabric="rail")
    by_event, steady = (Simulator(machine, engine=engine, planner="topology") for engine in ("event", "steady"))
    workload = Workload(collective, MIB)
    plan = by_event.plan(workload, algorithm)
    assert steady.run_plan(plan, workload).duration_s == pytest.approx(
        by_event.run_plan(plan, workload).duration_s, rel=0.01
    )


@pytest.mark.parametrize(("num_ranks", "num_chunks"), [(2, 1000), (6, 500), (100, 2)])
def test_steady_keeps_up_with_long_and_with_short_pipelines(num_ranks: int, num_chunks: int) -> None:
    schedule = in_order("tree", num_ranks, num_chunks=num_chunks).schedule()
    network, workload = network_of(star(num_ranks), IDEAL), Workload("all_reduce", MIB)
    times = [engine(name)(schedule, network, workload).duration_s for name in ("event", "steady")]
    assert times[1] == pytest.approx(times[0], rel=0.01)


def test_a_connection_without_tasks_serves_none() -> None:
    """Its queue is empty where a block carries none of so few elements."""
    queue = Table(np.array([1, 3, 1, 3]), np.arange(4), 5)
    first, after = _in_line(queue, 4)
    assert first.tolist() == [4, 0, 4, 1, 4]
    assert after.tolist() == [2, 3, 4, 4]
