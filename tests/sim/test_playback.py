"""A run followed transfer by transfer: the engine's times, and numbers that an all-reduce would give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sim import playback as module
from sim.page import data as drawn
from sim.page.data import followed_chunks, run_data
from sim.page.loads import DIGITS, as_digits, link_loads
from sim.page.phases import phases
from sim.plan import Plan
from sim.playback import Playback, plan_of, playback
from sim.predict import Simulator
from sim.workload import Workload
from tests.sim.pages import GIB, MIB, STAR, played_on, simulator_of
from tests.sim.ways import WAYS
from topo.load import load_topology

MACHINES = (("dgx-h100", 1), ("dgx-h100", 2), ("pcie-4gpu", 1), (STAR, 1))
PLAYED = played_on(MACHINES, "topology")


def followed(machine: str, nodes: int, algorithm: str, collective: str = "all_reduce", size: int = MIB) -> Playback:
    simulator, workload = simulator_of(machine, nodes, "topology"), Workload(collective, size)
    plan = simulator.plan(workload, algorithm)
    found = playback(simulator, plan, simulator.run_plan(plan, workload))
    assert found is not None
    return found


def test_every_algorithm_is_played_on_some_machine() -> None:
    assert {(algorithm, collective) for _, _, algorithm, collective in PLAYED} == set(WAYS)


@pytest.mark.parametrize(("machine", "nodes", "algorithm", "collective"), PLAYED)
def test_playing_the_rows_in_order_of_landing_gives_the_collective(
    machine: str, nodes: int, algorithm: str, collective: str
) -> None:
    """What the page's script does: each landing copies or adds what the interpreter says the row carried."""
    run = followed(machine, nodes, algorithm, collective)
    held = run.start.copy()
    for row in np.lexsort((np.arange(len(run.rows)), run.landed_s)).tolist():
        place = run.rows.dst[row], run.rows.chunk[row]
        held[place] = run.sent[row] + (held[place] if run.rows.op[row] else 0)
    ranks = held[: run.schedule.num_ranks]
    assert (ranks[run.wanted] == np.broadcast_to(run.total, ranks.shape)[run.wanted]).all()


@pytest.mark.parametrize(("machine", "nodes"), MACHINES)
@pytest.mark.parametrize("algorithm", ["ring", "tree", "parameter-server"])
def test_times_and_loads_are_those_of_the_prediction(machine: str, nodes: int, algorithm: str) -> None:
    run = followed(machine, nodes, algorithm)
    assert run.landed_s.max() == pytest.approx(run.run.duration_s)
    assert (run.start_s <= run.sent_s).all()
    assert (run.sent_s <= run.landed_s).all()
    loads = {load.link: load for load in run.run.link_loads}
    ids = run.link_ids()
    for link, load in link_loads(run, 100).items():
        known = loads[ids[link]]
        assert load.mean() == pytest.approx(known.num_bytes / known.bandwidth_bytes_per_s / run.run.duration_s)


def test_loads_are_written_as_digits() -> None:
    assert as_digits(np.array([0, 0.5, 1, 1.2])) == f"0{DIGITS[30]}{DIGITS[-1]}{DIGITS[-1]}"


def test_the_halves_of_a_ring_follow_each_other() -> None:
    first, second = phases(followed(STAR, 1, "ring"))
    assert (first.name, first.action) == ("reduce-scatter", "receive, reduce, send")
    assert (second.name, second.action) == ("all-gather", "receive, copy, send")
    assert first.end_s <= second.end_s


@pytest.mark.parametrize(("machine", "nodes", "algorithm", "collective"), PLAYED)
def test_every_algorithm_has_words_for_its_halves(machine: str, nodes: int, algorithm: str, collective: str) -> None:
    found = phases(followed(machine, nodes, algorithm, collective))
    assert found
    assert all(phase.name and phase.action for phase in found)


def test_auto_plays_what_was_predicted() -> None:
    simulator = Simulator(load_topology("dgx-h100"))
    workload = Workload("all_reduce", GIB)
    prediction = simulator.run(workload)
    plan = plan_of(simulator, prediction, "auto")
    if plan is not None:
        assert (plan.algorithm, plan.instead_of) == (prediction.algorithm, prediction.instead_of)
    star = Simulator(load_topology(STAR))
    ring = plan_of(star, star.run(workload), "auto")
    assert ring is not None
    assert ring.algorithm == "ring"


def test_what_has_no_schedule_has_no_plan() -> None:
    simulator = Simulator(load_topology("dgx-h100"))
    prediction = replace(simulator.run(Workload("all_reduce", GIB), "ring"), algorithm="by-hand")
    assert plan_of(simulator, prediction, "auto") is None


def test_a_run_ends_when_the_prediction_says() -> None:
    simulator, workload = Simulator(load_topology(STAR)), Workload("all_reduce", MIB)
    plan = simulator.plan(workload, "ring")
    prediction = simulator.run_plan(plan, workload)
    run = playback(simulator, plan, replace(prediction, duration_s=2 * prediction.duration_s))
    assert run is not None
    assert run.stretch == pytest.approx(2)
    assert run.landed_s.max() == pytest.approx(2 * prediction.duration_s)


def test_a_run_too_large_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TRANSFERS", 100)
    simulator, workload = Simulator(load_topology(STAR)), Workload("all_reduce", MIB)
    assert playback(simulator, simulator.plan(workload, "ring"), simulator.run(workload, "ring")) is None


def test_of_many_transfers_the_first_channels_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "MOST_DRAWN", 1000)
    plan = Plan("ring", 16, tuple(tuple((rank * step) % 16 for rank in range(16)) for step in (1, 3, 5)))
    simulator = Simulator(load_topology(STAR.replace("8", "16", 1)))
    large = playback(simulator, plan, simulator.run_plan(plan, Workload("all_reduce", MIB)))
    assert large is not None
    chunks = followed_chunks(large)
    kept = np.isin(large.rows.chunk, chunks)
    assert kept.sum() <= 1000 < len(large.rows)
    assert kept[large.rows.channel <= 1].all(), "channels are followed whole, one after the other"
    data = run_data(large, {})
    assert len(data["rows"]["start"]) == kept.sum()
    assert data["num_chunks"] == len(chunks)


def test_names_of_a_cluster_say_the_node() -> None:
    run = followed("dgx1-v100", 2, "parameter-server")
    assert (run.names[0], run.names[-1]) == ("node0/GPU0", "node1/GPU7")
    assert run.agents[-1] == "node1/GPU7"
