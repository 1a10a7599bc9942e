"""What the lab makes of measurements: facts of messages, orders of algorithms, errors with intervals, sentences."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.engines.event import simulate
from sim.engines.network import network_of
from sim.plan import in_order
from sim.predict import Simulator
from sim.prediction import Prediction
from sim.prove import prove
from sim.workload import Workload
from tests.support import examples
from topo.errors import MeasurementError, NameChoiceError
from topo.jsonio import encode_document
from topo.topology import Topology
from validate.arrivals import Arrivals, read_arrivals
from validate.compare import Comparison
from validate.held_out import held_out
from validate.jobs import Job
from validate.lab import calibrate, report
from validate.lab.calibrate import PointToPoint
from validate.lab.fabric import default_fabrics, topology_of, uniform
from validate.lab.order import orders
from validate.lab.session import Lab
from validate.lab.trial import Request, Trial, builtin_plan
from validate.measurement import Measurement
from validate.stage import STAGE_VARIABLE, Place, Stage, stage_of

FACTS = PointToPoint(0.95, 0.95, 3e-4, 1e-3)
CROWDED = replace(FACTS, both_ways_share=0.7)
SIZES = (2**20, 2**22)


def as_measured(job: Job, topology: Topology, facts: PointToPoint) -> Measurement:
    """What a lab with exactly these facts would measure."""
    assert job.schedule is not None
    time_s = simulate(job.schedule, network_of(topology, calibrate.profile(facts)), job.workload).duration_s
    return Measurement(job.workload, topology.num_ranks, "gloo", "point-to-point", job.algorithm, (time_s,))


@pytest.mark.parametrize("num_hosts", [2, 4, 7])
@pytest.mark.parametrize("which", range(3))
def test_facts_are_found_again_from_what_they_cause(which: int, num_hosts: int) -> None:
    topology = topology_of(default_fabrics(num_hosts, 25e6)[which])
    jobs = calibrate.jobs(topology.num_ranks)
    assert not any(job.check for job in jobs)
    found = {(job.algorithm, job.workload.num_bytes): as_measured(job, topology, FACTS) for job in jobs}
    again = calibrate.fit(found, topology)
    assert again.both_ways_share == pytest.approx(FACTS.both_ways_share)
    assert not again.is_crowded
    assert again.one_way_share == pytest.approx(FACTS.one_way_share)
    assert again.start_s == pytest.approx(FACTS.start_s)
    assert again.in_cast_s == pytest.approx(again.in_cast_expected_s)


def test_where_the_processor_limits_one_way_counts_and_it_is_said() -> None:
    assert CROWDED.is_crowded
    assert CROWDED.goodput_share == FACTS.one_way_share
    notes = report.notes(Lab((replace(trial(), facts=CROWDED),)))
    assert any("the processor limits and not the links: use a lower --rate" in note for note in notes)
    assert replace(FACTS, both_ways_share=0.93).goodput_share == 0.93


@pytest.mark.parametrize("num_ranks", [2, 3, 5])
def test_messages_alone_are_measured_for_any_number_of_hosts(num_ranks: int) -> None:
    jobs = calibrate.jobs(num_ranks)
    assert {job.algorithm for job in jobs} == {"one way", "both ways", "in-cast"}
    assert all(job.schedule is not None and len(job.schedule.rows()) < 4 for job in jobs)


def test_a_machine_too_busy_to_measure_on_is_said() -> None:
    topology = topology_of(uniform(4, 25e6))
    found = {
        (job.algorithm, job.workload.num_bytes): replace(as_measured(job, topology, FACTS), samples_s=(0.1,))
        for job in calibrate.jobs(4)
    }
    with pytest.raises(MeasurementError, match="too busy to measure on"):
        calibrate.fit(found, topology)


@pytest.mark.parametrize("num_ranks", range(2, 6))
def test_what_gloo_does_by_itself_is_an_all_reduce(num_ranks: int) -> None:
    schedule = builtin_plan(num_ranks).schedule()
    prove(schedule)
    first = schedule.rows()
    assert {(int(src) - int(dst)) % num_ranks for src, dst in zip(first.src, first.dst, strict=True)} == {1}


def compared(name: str, predicted: float, samples_s: tuple[float, ...], num_bytes: int = 2**20) -> Comparison:
    workload = Workload("all_reduce", num_bytes)
    prediction = Prediction(workload, 4, name, "simple", 1, "event", "lab", predicted)
    return Comparison(prediction, Measurement(workload, 4, "gloo", "point-to-point", name, samples_s), 0.1)


def test_an_order_is_wrong_where_the_model_turns_two_around() -> None:
    rows = [compared("ring", 1.0, (1.2,)), compared("tree", 1.1, (1.0,)), compared("builtin", 0.9, (1.01,))]
    (order,) = orders(rows)
    assert order.measured == ("tree", "builtin", "ring")
    assert order.wrong == (("tree", "ring"),)
    assert order.sentence == "1 MiB: measured tree before ring, predicted the other way round"
    assert not orders(rows[:1])


@given(st.lists(st.lists(st.floats(0.5, 2), min_size=2, max_size=6), min_size=1, max_size=4))
@settings(max_examples=examples(10))
def test_an_error_lies_within_what_its_samples_allow(samples_s: list[list[float]]) -> None:
    (found,) = held_out([compared("ring", 1.0, tuple(row)) for row in samples_s])
    possible = [abs(1 / sample - 1) for row in samples_s for sample in row]
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.high <= max(possible) + 1e-9
    assert found.median_abs_error <= found.worst_abs_error <= max(possible) + 1e-9
    assert "95 % interval" in found.sentence


def test_more_samples_say_more_and_one_says_nothing() -> None:
    few, many = (held_out([compared("ring", 1.0, (0.9, 1.0, 1.1) * times)])[0] for times in (1, 20))
    assert None not in (few.low, few.high, many.low, many.high)
    assert (many.high or 0) - (many.low or 0) < (few.high or 0) - (few.low or 0)
    (single,) = held_out([compared("ring", 1.0, (1.25,))])
    assert (single.low, single.high) == (None, None)
    assert "one sample a row tells nothing of noise" in single.sentence


def trial(
    samples_s: tuple[float, ...] = (0.0661, 0.0662, 0.0663), waits_s: tuple[tuple[float, ...], ...] = ()
) -> Trial:
    topology = topology_of(uniform(4, 25e6))
    workload = Workload("all_reduce", 2**20)
    prediction = Simulator(topology, calibrate.profile(FACTS)).run_plan(in_order("ring", 4), workload)
    measured = Measurement(workload, 4, "gloo", "point-to-point", "ring", samples_s, correct=True)
    return Trial("uniform", topology, FACTS, (Comparison(prediction, measured, 0.3),), Arrivals(waits_s))


def test_a_lab_reports_rows_with_fabric_and_algorithm_and_a_summary_with_intervals() -> None:
    lab = Lab((trial(),), load=0.5)
    document = json.loads(encode_document(report.SCHEMA, report.document(lab)))
    (row,) = document["rows"]
    assert (row["fabric"], row["algorithm"], row["verdict"]) == ("uniform", "ring", "OK")
    assert row["relative_error"] == pytest.approx(row["predicted_s"] / row["measured_s"] - 1)
    assert document["summary"]["num_rows"] == 1
    assert document["held_out"][0]["low"] <= document["held_out"][0]["high"]
    assert document["fabrics"][0]["point_to_point"]["both_ways_share"] == FACTS.both_ways_share
    table = report.table(lab, "table")
    assert [column.key for column in table.columns][:3] == ["fabric", "num_bytes", "algorithm"]
    assert all(len(cells) == len(table.columns) for cells in table.rows)
    notes = report.notes(lab)
    assert any("limits of 25 MB/s discovered" in note and "no collective was looked at" in note for note in notes)
    assert not report.has_finding(lab)


@pytest.mark.parametrize(
    ("lab", "words"),
    [
        (Lab((trial((0.2, 0.2)),)), "worst 6"),
        (Lab((trial(waits_s=((0.2, 0.2, 0.0, 0.2),) * 3),)), "h2 (rank 2) comes 200 ms after the first"),
        (
            Lab((trial(),), failure="rank 1 died"),
            "rank 1 died; 1 comparison so far kept, everything of the lab is removed",
        ),
    ],
)
def test_what_is_off_late_or_unfinished_is_a_finding(lab: Lab, words: str) -> None:
    assert report.has_finding(lab)
    assert any(words in note for note in report.notes(lab))


def test_a_lab_that_ended_before_anything_was_measured_says_so() -> None:
    lab = Lab((replace(trial(), facts=None, comparisons=()),), leftovers=("topolab-1-2-h0",), failure="interrupted")
    assert report.document(lab)["summary"]["median_abs_error"] is None
    assert report.table(lab, "table").rows == ()
    notes = report.notes(lab)
    assert notes[0] == "removed what a dead run had left: topolab-1-2-h0"
    assert notes[-1].startswith("interrupted; 0 comparisons so far kept")


def test_a_request_refuses_what_cannot_run() -> None:
    with pytest.raises(NameChoiceError, match="unknown algorithm 'rign': did you mean 'ring'"):
        Request(SIZES, ("rign",))
    with pytest.raises(MeasurementError, match="nothing is to be run"):
        Request((), ("ring",))


def test_a_stage_survives_the_way_to_the_processes(tmp_path: Path) -> None:
    stage = Stage((Place("ns", "eth0", "10.0.0.1"),), (0.0, 0.2), str(tmp_path / "arrivals"))
    variables = stage.environment(tmp_path)
    assert set(variables) == {STAGE_VARIABLE}
    assert stage_of(variables) == stage
    assert stage.delay_s(1) == 0.2
    assert stage.delay_s(7) == 0
    assert stage_of({}) == Stage()


def test_arrivals_are_read_as_far_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.jsonl"
    assert read_arrivals(path).num_meetings == 0
    path.write_text('{"job": 0, "waits_s": [[0.1, 0.2], [0.0, 0.1]]}\n{"job": 1, "wai')
    assert read_arrivals(path) == Arrivals(((0.1, 0.0), (0.2, 0.1)))
    assert read_arrivals(path).late_s == (0.0, pytest.approx(0.1))
