"""A slow link is named by the pairs it slows, a late rank by the waiting of others; neither is taken for the other."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sim.engines.network import network_of
from sim.profile import IDEAL, Profile, Transport
from sim.workload import Workload
from tests.support import examples
from tests.validate.fabrics import fabrics
from topo.errors import MeasurementError, NameChoiceError
from topo.synthetic import synthetic
from validate import bisect_report
from validate.arrivals import Arrivals
from validate.bisect import (
    Bisection,
    PairTime,
    all_pairs,
    bisect_run,
    explain,
    held_against,
    links_of,
    predicted_s,
    scale_of,
)
from validate.bisect_session import Request, with_cuts
from validate.lab.fabric import Fabric, topology_of, two_racks, uniform
from validate.measurement import Measurement

NUM_BYTES = 2**20
GOODPUT = Profile("goodput", "", (Transport("network", 0.95, 1e-4),))


def measured(fabric: Fabric, profile: Profile = GOODPUT) -> dict[tuple[int, int], Measurement]:
    """What a machine would measure that is exactly like this fabric."""
    num_ranks = len(fabric.hosts)
    times_s = predicted_s(network_of(topology_of(fabric), profile), num_ranks, NUM_BYTES)
    workload = Workload("all_reduce", NUM_BYTES, "uint8")
    return {
        pair: Measurement(workload, num_ranks, "gloo", "point-to-point", "pair", (1.5 * time_s, time_s))
        for pair, time_s in times_s.items()
    }


def bisected(stated: Fabric, real: Fabric, waits_s: tuple[tuple[float, ...], ...] = ()) -> Bisection:
    topology = topology_of(stated)
    network = network_of(topology, IDEAL)
    num_ranks = len(stated.hosts)
    found, predictions = measured(real), predicted_s(network, num_ranks, NUM_BYTES)
    scale = scale_of(found, predictions)
    pairs = held_against(found, predictions, scale or 1.0)
    explained = explain(pairs, links_of(network, num_ranks))
    return Bisection(topology, NUM_BYTES, explained, Arrivals(waits_s), scale=scale)


@given(fabrics())
@settings(max_examples=examples(3))
def test_on_a_healthy_fabric_nothing_is_found(fabric: Fabric) -> None:
    found = bisected(fabric, fabric)
    assert found.is_healthy
    assert "nothing to find" in bisect_report.notes(found)[-1]


@given(fabrics(), st.data())
@settings(max_examples=examples(3))
def test_a_cut_link_is_among_those_named_and_explains_every_slow_pair(fabric: Fabric, data: st.DataObject) -> None:
    cable = data.draw(st.sampled_from(fabric.cables))
    slowest = min(row.rate_bytes_per_s for row in fabric.cables)
    assume(len(fabric.hosts) > 2)
    found = bisected(fabric, with_cuts(fabric, {cable.name: slowest / 3})).found
    routes = links_of(network_of(topology_of(fabric), IDEAL), len(fabric.hosts))
    ways = {f"{cable.near}->{cable.far}", f"{cable.far}->{cable.near}"}
    crossing = {pair for pair, links in routes.items() if ways & set(links)}
    assume(0 < len(crossing) <= 0.8 * len(routes))
    assert {(row.src, row.dst) for row in found.slow} == crossing
    assert not found.unexplained
    named = {link for suspect in found.suspects for link in suspect.links}
    assert ways & {link for links in routes.values() for link in links} <= named
    assert {pair for suspect in found.suspects for pair in suspect.pairs} == crossing


def test_the_port_that_is_cut_to_a_third_is_named() -> None:
    fabric = uniform(4, 25e6)
    found = bisected(fabric, with_cuts(fabric, {"h3-sw": 25e6 / 3}))
    assert {suspect.links for suspect in found.found.suspects} == {("h3->sw",), ("sw->h3",)}
    assert [suspect.ratio for suspect in found.found.suspects] == [pytest.approx(3, rel=0.01)] * 2
    notes = bisect_report.notes(found)
    assert "slow link h3->sw: the 3 pairs over it take 3.0 times as long as predicted (33% of the speed)" in notes
    assert not any("late" in note for note in notes)


def test_an_uplink_is_told_from_the_ports_behind_it() -> None:
    fabric = two_racks(4, 25e6)
    found = bisected(fabric, with_cuts(fabric, {"rack0-rack1": 5e6}))
    assert {suspect.links for suspect in found.found.suspects} == {("rack0->rack1",), ("rack1->rack0",)}


def test_links_that_no_pair_tells_apart_are_named_together() -> None:
    topology = synthetic("switch:2,bandwidth=1GB/s,latency=1us")
    network = network_of(topology, IDEAL)
    predictions = predicted_s(network, 2, NUM_BYTES)
    pairs = [PairTime(*pair, time_s, time_s * (3 if pair == (0, 1) else 1)) for pair, time_s in predictions.items()]
    found = explain(pairs, links_of(network, 2))
    assert [suspect.links for suspect in found.suspects] == [("GPU0->SW0", "SW0->GPU1")]
    said = bisect_report.notes(Bisection(topology, NUM_BYTES, found, Arrivals()))
    assert said[0].startswith(
        "slow link GPU0->SW0 or SW0->GPU1, which no pair tells apart: the 1 pair over it takes 3.0"
    )


def test_a_pair_that_no_link_explains_is_named_itself() -> None:
    fabric = uniform(3, 25e6)
    found = bisected(fabric, fabric)
    slow = [
        replace(row, measured_s=2 * row.measured_s) if (row.src, row.dst) == (0, 1) else row
        for row in found.found.pairs
    ]
    network = network_of(found.machine, IDEAL)
    open_case = replace(found, found=explain(slow, links_of(network, 3)))
    assert open_case.found.unexplained == ((0, 1),)
    assert not open_case.found.suspects
    assert not open_case.is_healthy
    assert "slow, though every link on the way is fast for others: h0 to h1" in bisect_report.notes(open_case)[-1]


@given(st.integers(3, 8), st.integers(0, 7), st.randoms())
@settings(max_examples=examples(3))
def test_a_late_rank_is_late_and_no_link_is_slow(num_ranks: int, which: int, chance: random.Random) -> None:
    late = which % num_ranks
    arrive_s = [[0.2 * (rank == late) + chance.uniform(0, 0.003) for rank in range(num_ranks)] for _ in range(5)]
    waits_s = tuple(tuple(max(row) - time_s for time_s in row) for row in arrive_s)
    found = bisected(uniform(num_ranks, 25e6), uniform(num_ranks, 25e6), waits_s)
    assert found.arrivals.late_ranks == (late,)
    assert found.arrivals.late_s[late] == pytest.approx(0.2, abs=0.01)
    assert not found.found.suspects
    said = bisect_report.notes(found)[-1]
    assert said.startswith(f"late rank {late} (h{late}): comes ")
    assert said.endswith("late, not on a slow link")
    assert not found.is_healthy


def test_a_late_rank_on_a_slow_link_is_both() -> None:
    fabric, waits_s = uniform(4, 25e6), ((0.2, 0.2, 0.2, 0.0),) * 5
    found = bisected(fabric, with_cuts(fabric, {"h3-sw": 25e6 / 3}), waits_s)
    assert bisect_report.notes(found)[-1].endswith("6 of its 6 pairs are slow besides")
    assert len(found.found.suspects) == 2


def test_noise_of_a_busy_machine_is_no_lateness() -> None:
    assert Arrivals(((0.01, 0.0, 0.004), (0.0, 0.012, 0.001))).late_ranks == ()
    assert Arrivals().late_ranks == ()
    assert Arrivals().late_s == ()


def test_the_document_names_pairs_suspects_and_late_ranks() -> None:
    fabric = uniform(4, 25e6)
    found = bisected(fabric, with_cuts(fabric, {"h3-sw": 25e6 / 3}), ((0.2, 0.2, 0.0, 0.2),) * 3)
    document = bisect_report.document(found)
    assert len(document["rows"]) == 12
    assert [row["verdict"] for row in document["rows"] if "h3" in (row["src"], row["dst"])] == ["LOW"] * 6
    for row in document["rows"]:
        assert row["relative_error"] == pytest.approx(row["predicted_s"] / row["measured_s"] - 1)
    assert sorted(suspect["links"] for suspect in document["suspects"]) == [["h3->sw"], ["sw->h3"]]
    assert document["late_ranks"] == ["h2"]
    matrix = bisect_report.table(found, "table")
    assert [len(row) for row in matrix.rows] == [5] * 4
    assert matrix.rows[0][1] is None
    assert matrix.rows[0][4] == pytest.approx(33, abs=1)
    assert len(bisect_report.table(found, "csv").rows) == 12


def test_every_pair_is_one_message_in_each_direction() -> None:
    run = bisect_run(3, NUM_BYTES, "gloo")
    ways = [(int(job.schedule.rows().src[0]), int(job.schedule.rows().dst[0])) for job in run.jobs if job.schedule]
    assert tuple(ways) == all_pairs(3)
    with pytest.raises(MeasurementError, match="2 to 32 can be measured pair by pair"):
        bisect_run(33, NUM_BYTES, "gloo")


def test_names_that_are_none_are_refused_with_the_nearest() -> None:
    with pytest.raises(NameChoiceError, match="unknown link 'h3-s': did you mean 'h3-sw'"):
        with_cuts(uniform(4, 25e6), {"h3-s": 1e6})
    with pytest.raises(MeasurementError, match="--late 4: there are 4 ranks, 0 to 3"):
        Request(NUM_BYTES, delays_s={4: 0.2}).delays(4)
    assert Request(NUM_BYTES, delays_s={2: 0.2}).delays(4) == (0.0, 0.0, 0.2, 0.0)
