"""Ranks that start late, and GPUs that do not reach each other's memory: the same in both engines."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.algorithms import ALGORITHMS
from sim.engines import ENGINES, engine, event, steady
from sim.engines.network import network_of
from sim.engines.routes import Reach
from sim.planners.options import P2P_DISABLE, Options
from sim.predict import Simulator
from sim.profile import IDEAL
from sim.workload import Workload
from tests.support import examples
from topo.cluster import Cluster
from topo.errors import RouteError, TopologyError
from topo.presets import preset, synthetic
from topo.topology import Topology

MIB = 2**20
ALL_REDUCE = [name for name, row in ALGORITHMS.items() if "all_reduce" in row.collectives and not row.in_switch]
ANOMALY = 0.3
"""Where links are shared, to start later can make a run faster, or slower by more than the delay: this share of it."""
MACHINES = ["switch:5,bandwidth=200GB/s,latency=1us", "ring:6,bandwidth=50GB/s,latency=1us"]
BOXES = ["dgx1-v100", "dgx-h100", "pcie-8gpu"]


def machine_of(name: str) -> Topology:
    return synthetic(name) if ":" in name else preset(name)


def duration_s(
    name: str, algorithm: str, starts_s: list[float], *, engine_name: str = "event", num_bytes: int = 4 * MIB
) -> float:
    simulator = Simulator(machine_of(name), engine=engine_name, starts_s=starts_s)
    return simulator.run(Workload("all_reduce", num_bytes), algorithm).duration_s


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [("nvls", "dgx-h100"), *itertools.product(["ring", "tree", "parameter-server"], [*MACHINES, *BOXES])],
)
def test_a_late_rank_costs_at_most_its_delay_and_both_engines_agree(algorithm: str, name: str) -> None:
    num_ranks = machine_of(name).num_ranks
    prompt_s = duration_s(name, algorithm, [])
    for late_s in (1e-5, 2e-3):
        starts_s = [late_s if rank == 3 else 0.0 for rank in range(num_ranks)]
        late, steady = (duration_s(name, algorithm, starts_s, engine_name=which) for which in ("event", "steady"))
        assert prompt_s * (1 - ANOMALY) <= late <= prompt_s * (1 + ANOMALY) + late_s
        assert late >= late_s
        assert steady == pytest.approx(late, rel=0.01)


@pytest.mark.parametrize("engine_name", ENGINES)
def test_a_ring_waits_the_whole_delay(engine_name: str) -> None:
    """Every chunk passes every rank at every step, so that nothing of the delay hides."""
    name = MACHINES[0]
    starts_s = [0.0, 0.0, 1e-3, 0.0, 0.0]
    late_s = duration_s(name, "ring", starts_s, engine_name=engine_name)
    assert late_s == pytest.approx(duration_s(name, "ring", []) + 1e-3)


@pytest.mark.parametrize("algorithm", ALL_REDUCE)
def test_all_late_alike_is_the_same_run_later(algorithm: str) -> None:
    name = MACHINES[0]
    together_s = duration_s(name, algorithm, [])
    assert duration_s(name, algorithm, [5e-4] * 5) == pytest.approx(together_s + 5e-4)
    assert duration_s(name, algorithm, [0.0] * 5) == together_s


@settings(max_examples=examples(8))
@given(
    st.sampled_from(ALL_REDUCE),
    st.lists(st.sampled_from([0.0, 1e-6, 3e-5, 1e-3]), min_size=5, max_size=5),
    st.integers(0, 4),
)
def test_later_starts_end_later_by_no_more_than_they_are(algorithm: str, starts_s: list[float], later: int) -> None:
    simulator = Simulator(machine_of(MACHINES[0]), engine="event")
    plan = simulator.plan(Workload("all_reduce", MIB), algorithm)
    workload = Workload("all_reduce", MIB)
    first_s = simulator.run_plan(plan, workload).duration_s
    delayed = [start + 1e-3 * (rank == later) for rank, start in enumerate(starts_s)]
    both = [
        Simulator(machine_of(MACHINES[0]), engine="event", starts_s=starts).run_plan(plan, workload).duration_s
        for starts in (starts_s, delayed)
    ]
    assert first_s * (1 - ANOMALY) <= both[0] <= first_s * (1 + ANOMALY) + max(starts_s)
    assert both[0] * (1 - ANOMALY) <= both[1] <= both[0] * (1 + ANOMALY) + 1e-3


@pytest.mark.parametrize("algorithm", ["ring", "tree", "parameter-server"])
def test_nobody_sends_or_takes_in_before_its_start(algorithm: str) -> None:
    starts_s = np.array([0.0, 3e-4, 0.0, 1e-4, 0.0])
    simulator = Simulator(machine_of(MACHINES[0]), starts_s=starts_s.tolist())
    workload = Workload("all_reduce", MIB)
    plan = simulator.plan(workload, algorithm)
    rows, spans = plan.schedule().rows(), simulator.run_plan(plan, workload, spans=True).spans
    assert all(span.start_s >= starts_s[rows.src[span.row]] for span in spans)
    assert all(span.landed_s >= starts_s[rows.dst[span.row]] for span in spans)


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_folded_rows_are_late_as_rows_are(algorithm: str) -> None:
    simulator = Simulator(Cluster(preset("hgx-h100-4gpu"), 2), starts_s=[0.0] * 6 + [2e-4, 0.0])
    workload = Workload("all_reduce", MIB)
    plan = simulator.plan(workload, algorithm)
    network, schedule = simulator.network_for(plan), plan.schedule()
    folded, by_rows = (run(schedule, network, workload) for run in (event.simulate, event.simulate_rows))
    assert folded.duration_s == pytest.approx(by_rows.duration_s, rel=1e-9)
    assert folded.link_bytes == pytest.approx(by_rows.link_bytes)


@pytest.mark.parametrize("engine_name", ENGINES)
def test_a_single_rank_ends_no_sooner_than_it_starts(engine_name: str) -> None:
    simulator = Simulator(synthetic("switch:1,bandwidth=1GB/s"), engine=engine_name, starts_s=[1e-3])
    assert simulator.run(Workload("all_reduce", MIB), "ring").duration_s == pytest.approx(1e-3)


@pytest.mark.parametrize("starts_s", [[0.0], [1.0] * 9, [-1.0] + [0.0] * 7, [float("nan")] + [0.0] * 7])
def test_starts_are_one_for_each_rank(starts_s: list[float]) -> None:
    with pytest.raises(TopologyError, match="one of 0 s or more is needed for each"):
        Simulator(preset("dgx-h100"), starts_s=starts_s)


def without_peers(name: str, count: int = 1) -> Simulator:
    machine = preset(name) if count == 1 else Cluster(preset(name), count)
    return Simulator(machine, options=Options(environment=((P2P_DISABLE, "1"),)))


@pytest.mark.parametrize("count", [1, 2])
def test_without_peer_to_peer_data_passes_through_the_hosts_memory(count: int) -> None:
    simulator = without_peers("dgx-h100", count)
    loads = simulator.run(Workload("all_reduce", 64 * MIB), "ring").link_loads
    assert not [load.link for load in loads if "NVS0" in load.link]
    assert [load.link for load in loads if load.link.endswith("memory")]


@pytest.mark.parametrize("name", BOXES)
def test_without_peer_to_peer_nothing_is_faster(name: str) -> None:
    workload = Workload("all_reduce", 64 * MIB)
    assert without_peers(name).run(workload).duration_s >= Simulator(preset(name)).run(workload).duration_s


def test_what_hangs_below_no_processor_cannot_go_through_one() -> None:
    network = network_of(synthetic(MACHINES[0]), IDEAL, reach=Reach(peers=False))
    with pytest.raises(RouteError, match="keep p2p on"):
        engine("event")(
            Simulator(synthetic(MACHINES[0])).plan(Workload("all_reduce", MIB), "ring").schedule(),
            network,
            Workload("all_reduce", MIB),
        )


@pytest.mark.parametrize("starts_s", [(0.0, 0.0, 1e-3, 0.0, 0.0), (1e-5, 2e-5, 0.0, 3e-5, 1e-5)])
@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_of_very_many_transfers_all_wait_for_the_last(
    algorithm: str, starts_s: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady, "MOST_ROWS_WITH_LATE_STARTS", 10)
    together_s = duration_s(MACHINES[0], algorithm, [], engine_name="steady")
    late_s = duration_s(MACHINES[0], algorithm, list(starts_s), engine_name="steady")
    exact_s = duration_s(MACHINES[0], algorithm, list(starts_s), engine_name="event")
    assert late_s == pytest.approx(together_s + max(starts_s))
    assert exact_s * (1 - ANOMALY) <= late_s <= exact_s + max(starts_s)
