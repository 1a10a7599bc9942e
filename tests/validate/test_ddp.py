"""Replayed training steps: what is asked of processes, what is made of their answers, and a real run of two of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sim.ddp.buckets import Caps, buckets_of
from sim.ddp.model import Layer, Model, Parameter
from sim.ddp.models import load_model
from sim.ddp.request import replayed_times
from sim.ddp.times import LayerTime
from topo.cli import main
from topo.errors import EnvironmentMissing, MeasurementError
from topo.load import load_topology
from validate.ddp import ROUNDS, DdpRequest, DdpSession, MeasuredCosts, run_ddp
from validate.ddp_report import report_json, report_table, sentences
from validate.jobs import Job, Run, run_from_plain, run_to_plain
from validate.launch import Outcome
from validate.measurement import Measurement, Setting
from validate.replay import Replay, replay_of

MODEL = load_model("resnet18")
TIMES = replayed_times(MODEL, None, "100ms", "400ms")
RATE_BYTES_PER_S = 1e9


def a_request(**changes: Any) -> DdpRequest:
    given: dict[str, Any] = {
        "backend": "gloo",
        "num_ranks": 2,
        "model": MODEL,
        "times": TIMES,
        "caps": (Caps(1), Caps(25), Caps(100)),
        **changes,
    }
    return DdpRequest(**given)


def answers(run: Run, seconds: Mapping[float, float], **more: Any) -> Outcome:
    """What processes bring: collectives at a fixed rate, steps that take so long by their cap (0: not synchronised)."""
    found = {}
    for number, job in enumerate(run.jobs):
        settings: tuple[Setting, ...] = ()
        if job.replay is None:
            sample_s = job.workload.num_bytes / RATE_BYTES_PER_S
        else:
            cap_mb = job.replay.caps.cap_mb if job.replay.synchronisation == "ddp" else 0.0
            sample_s = seconds[cap_mb]
            sizes = ",".join(str(bucket.num_bytes) for bucket in buckets_of(MODEL, job.replay.caps))
            settings = (Setting("ddp_bucket_bytes", sizes),)
        found[number] = Measurement(job.workload, run.num_ranks, "gloo", "x", "x", (sample_s,) * 3, software=settings)
    return Outcome(found, {}, **more)


def a_session(seconds: Mapping[float, float], **more: Any) -> DdpSession:
    def launcher(run: Run, **_: Any) -> Outcome:
        return answers(run, seconds, **more)

    return run_ddp(a_request(), launcher=launcher)


def test_steps_are_predicted_from_what_collectives_cost_alone() -> None:
    session = a_session({0: 0.5, 1: 0.51, 25: 0.516, 100: 0.6})
    last = buckets_of(MODEL, Caps(25))[-1].num_bytes
    row = session.rows[1]
    assert row.prediction.exposed_s == pytest.approx(last / RATE_BYTES_PER_S, rel=1e-3)
    assert row.prediction.step_s == pytest.approx(0.5 + last / RATE_BYTES_PER_S, rel=1e-3)
    assert row.measured_exposed_s == pytest.approx(0.016)
    assert [one.verdict for one in session.rows] == ["OK", "OK", "OK"]
    assert all(one.same_buckets for one in session.rows)
    assert session.same_best
    assert len(row.measurement.samples_s) == 3 * ROUNDS


def test_verdicts_and_the_best_cap() -> None:
    session = a_session({0: 0.5, 1: 0.6, 25: 0.515, 100: 0.3})
    assert [row.verdict for row in session.rows] == ["LOW", "OK", "HIGH"]
    assert not session.same_best
    assert "disagree" in " ".join(sentences(session))


def test_steps_within_two_percent_are_equally_good() -> None:
    assert a_session({0: 0.5, 1: 0.509, 25: 0.5, 100: 0.6}).same_best


def test_a_run_that_ended_early_says_so() -> None:
    session = run_ddp(a_request(), launcher=lambda run, **_: Outcome({}, {}, failure="rank 1 died"))
    assert session.rows == ()
    assert session.failure == "rank 1 died"
    assert "rank 1 died" in " ".join(sentences(session))
    assert json.loads(report_json(session))["failure"] == "rank 1 died"


def test_a_wrong_gradient_is_a_finding() -> None:
    def launcher(run: Run, **_: Any) -> Outcome:
        from dataclasses import replace

        outcome = answers(run, {0: 0.5, 1: 0.5, 25: 0.5, 100: 0.5})
        last = len(run.jobs) - 1
        outcome.measurements[last] = replace(outcome.measurements[last], correct=False)
        return outcome

    session = run_ddp(a_request(), launcher=launcher)
    assert session.findings == ("WRONG result: gradients under 100 MB are not their mean",)


def test_a_machine_that_is_given_is_simulated() -> None:
    machine = load_topology("switch:2,bandwidth=1GB/s,latency=1us")

    def launcher(run: Run, **_: Any) -> Outcome:
        assert all(job.replay is not None for job in run.jobs), "nothing is calibrated"
        return answers(run, {0: 0.5, 1: 0.5, 25: 0.516, 100: 0.55})

    session = run_ddp(a_request(), machine, launcher=launcher)
    assert session.rows[1].prediction.exposed_s == pytest.approx(15853824 / 1e9, rel=0.01)
    with pytest.raises(MeasurementError, match="8 ranks, 2 are to be measured"):
        run_ddp(a_request(), load_topology("dgx-h100"), launcher=launcher)


def test_the_document_keeps_predicted_and_measured_apart() -> None:
    document = json.loads(report_json(a_session({0: 0.5, 1: 0.51, 25: 0.516, 100: 0.6})))
    assert document["schema"] == "validate-ddp/1"
    row = document["rows"][1]
    assert row["relative_error"] == pytest.approx(row["predicted_s"] / row["measured_s"] - 1)
    assert row["buckets"] == row["measured_buckets"]
    assert [bucket["num_bytes"] for bucket in row["buckets"]] == [2052000, 28852224, 15853824]
    assert len(report_table(a_session({0: 0.5, 1: 0.51, 25: 0.516, 100: 0.6})).rows) == 3


def test_costs_lie_on_straight_lines() -> None:
    costs = MeasuredCosts({4096: 1.0, 8192: 2.0, 16384: 3.0})
    given = {4096: 1.0, 6144: 1.5, 12288: 2.5, 32768: 5.0}
    assert [costs("all_reduce", num_bytes // 4, "float32") for num_bytes in given] == pytest.approx([*given.values()])


def test_a_replay_has_the_gradients_in_their_order() -> None:
    layers = (
        Layer("a", (Parameter("a.weight", (4, 4)), Parameter("a.bias", (4,)))),
        Layer("b", (Parameter("b.weight", (2,)), Parameter("b.bias", (3,))), first_to_last=True),
    )
    times = (LayerTime("a", 0.5, 1.0), LayerTime("b", 0.25, 2.0))
    replay = replay_of(Model("two", layers), times, Caps(25))
    assert [(row.num_elements, row.ready_s) for row in replay.gradients] == [(2, 2.0), (3, 2.0), (4, 3.0), (16, 3.0)]
    assert (replay.forward_s, replay.backward_s, replay.num_bytes) == (0.75, 3.0, 100)


def test_gradients_of_several_types_are_refused() -> None:
    rows = (Parameter("a", (2,)), Parameter("b", (2,), "float16"))
    model = Model("mixed", (Layer("l", rows),))
    with pytest.raises(MeasurementError, match="float16 and float32"):
        replay_of(model, (LayerTime("l", 0, 0),), Caps(25))


def test_times_of_a_file_stand_unless_totals_are_given(tmp_path: Path) -> None:
    model = load_model(str(small_model(tmp_path)))
    path = tmp_path / "times.json"
    rows = [{"name": name, "forward_s": 0.25, "backward_s": 0.5} for name in "abcd"]
    path.write_text(json.dumps({"schema": "layer-times/1", "layers": rows}))
    assert sum(row.backward_s for row in replayed_times(model, path, None, None)) == pytest.approx(2.0)
    assert sum(row.backward_s for row in replayed_times(model, path, None, "1s")) == pytest.approx(1.0)
    assert sum(row.forward_s for row in replayed_times(model, None, None, "1s")) == pytest.approx(0.1)


def test_a_replay_without_gradients_is_refused() -> None:
    with pytest.raises(MeasurementError, match="needs gradients"):
        Replay((), 0.1, Caps(25))


def test_jobs_with_a_replay_travel_unchanged() -> None:
    replay = a_request(compression="fp16").replay(Caps(25))
    from sim.workload import Workload

    run = Run("gloo", 2, (Job(Workload("all_reduce", replay.num_bytes), "ddp", replay=replay),))
    (job,) = run_from_plain(json.loads(json.dumps(run_to_plain(run)))).jobs
    assert job.replay == replay


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"num_ranks": 1}, MeasurementError, "at least 2"),
        ({"compression": "bf16"}, MeasurementError, "use --compress fp16"),
        ({"num_ranks": 1000, "model": load_model("llama-7b")}, MeasurementError, "GiB"),
        ({"backend": "nccl", "num_ranks": 1000}, EnvironmentMissing, "use fewer --ranks"),
    ],
)
def test_what_cannot_run_is_refused_before_it_starts(
    changes: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        a_request(**changes)


def small_model(path: Path) -> Path:
    """Four layers of 64 KiB, 256 KiB, 1 MiB and 2 MiB."""
    sizes = {"a": [128, 128], "b": [256, 256], "c": [512, 512], "d": [512, 1024]}
    rows = [{"name": f"{name}.weight", "shape": shape} for name, shape in sizes.items()]
    target = path / "model.json"
    target.write_text(json.dumps({"schema": "ddp-model/1", "name": "small", "parameters": rows}))
    return target


def test_two_real_processes(tmp_path: Path) -> None:
    """What does not depend on the clock of a busy machine: buckets, results, and that every step took its time."""
    arguments = ["--model", str(small_model(tmp_path)), "--ranks", "2", "--backend", "gloo", "--timeout", "120"]
    arguments += ["--bucket-cap-mb", "0.5,1,25", "--first-bucket-cap-mb", "0.25", "-n", "2", "-w", "0"]
    arguments += ["--forward", "5ms", "--backward", "20ms", "--format", "json"]
    done = CliRunner().invoke(main, ["validate", "ddp", *arguments], prog_name="topo")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    sizes = [[bucket["num_bytes"] for bucket in row["measured_buckets"]] for row in document["rows"]]
    mib = 2**20
    assert sizes == [[2 * mib, mib, 5 * mib // 16], [2 * mib, mib, 5 * mib // 16], [2 * mib, 21 * mib // 16]]
    for row in document["rows"]:
        assert row["buckets"] == row["measured_buckets"]
        assert row["correct"] is True
        assert min(row["samples_s"]) >= 0.025
        assert row["predicted_s"] >= 0.025
    assert document["alone_s"] >= 0.025


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("--bucket-cap-mb", "0"), 2, "a bucket cap of 0 MB"),
        (("--bucket-cap-mb", "1e9"), 2, "a bucket cap of 1e+09 MB"),
        (("--gpus", "0-1"), 2, "--gpus picks GPUs of TOPOLOGY"),
        (("--ranks", "1"), 2, "2<=x<=1024"),
        (("--backward", "soon"), 2, "duration"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[str, ...], status: int, says: str) -> None:
    done = CliRunner().invoke(main, ["validate", "ddp", "--model", "resnet18", *arguments], prog_name="topo")
    assert done.exit_code == status
    (line,) = done.stderr.splitlines()
    assert says in line
