"""What messages between processes cost is found from point-to-point times, and predicts what follows from it."""

from __future__ import annotations

import pytest

from sim.predict import predict
from sim.workload import Workload
from topo.errors import MeasurementError
from validate import loopback
from validate.loopback import HOPS, SIZES, SMALL_BYTES, PointToPoint, Trial
from validate.measurement import Measurement

FOUND = PointToPoint(4, pair_latency_s=1e-4, hop_latency_s=2e-4, pair_bytes_per_s=2e9, total_bytes_per_s=3e9)
MEETING_S = 3e-4
"""What a sample costs beside its messages."""
STEP_SHARE = 0.7
COMBINE_S = 2e-5


def sample_s(trial: Trial, found: PointToPoint) -> float:
    """What a machine with exactly these facts would measure."""
    alone = trial.pattern == loopback.PING_PONG
    latency_s = found.pair_latency_s if alone else found.hop_latency_s
    rate = found.pair_bytes_per_s if alone else found.total_bytes_per_s / found.num_ranks
    hop_s = latency_s + (trial.num_bytes - SMALL_BYTES) / rate
    if trial.pattern == loopback.SEVERAL:
        hop_s *= STEP_SHARE + (1 - STEP_SHARE) * trial.num_messages
    if trial.pattern == loopback.COMBINING:
        hop_s += COMBINE_S
    return MEETING_S + trial.num_hops * hop_s


def measured(seconds: float, num_ranks: int = 4) -> Measurement:
    return Measurement(Workload("all_reduce", 8), num_ranks, "gloo", "point-to-point", "x", (seconds,))


def test_facts_are_found_again_from_what_they_cause() -> None:
    again = loopback.fit([measured(sample_s(trial, FOUND)) for trial in loopback.trials()], num_cores=2)
    assert (again.num_ranks, again.num_cores) == (4, 2)
    for name in ("pair_latency_s", "hop_latency_s", "pair_bytes_per_s", "total_bytes_per_s"):
        assert getattr(again, name) == pytest.approx(getattr(FOUND, name))
    assert again.step_s == pytest.approx(STEP_SHARE * FOUND.pair_latency_s)
    assert [cost.num_bytes for cost in again.costs] == list(SIZES)
    for cost in again.costs:
        assert cost.alone_s == pytest.approx(1e-4 + (cost.num_bytes - SMALL_BYTES) / 2e9)
        assert cost.combine_s == pytest.approx(COMBINE_S * 2 / 4)


@pytest.mark.parametrize("num_ranks", [2, 3, 4])
def test_every_trial_is_a_job_that_sends_what_it_says(num_ranks: int) -> None:
    jobs = loopback.calibration_jobs(num_ranks)
    assert not any(job.check for job in jobs)
    assert jobs[0].label == f"calibration by one pair, 5 messages in a row, {SMALL_BYTES * num_ranks} bytes"
    for trial, job in zip(loopback.trials(), jobs, strict=True):
        schedule = job.schedule
        assert schedule is not None
        assert (schedule.chunk_bytes(job.workload) == trial.num_bytes).all()
        senders = 1 if trial.pattern == loopback.PING_PONG else num_ranks
        assert schedule.num_messages == trial.num_hops * trial.num_messages * senders


def test_noise_that_turns_few_and_many_around_still_gives_rates() -> None:
    found = loopback.fit([measured(1e-3, 2) for _ in loopback.trials()], num_cores=2)
    assert found.pair_latency_s == pytest.approx(1e-3 / HOPS[SMALL_BYTES][1])
    assert found.pair_bytes_per_s > 0
    assert all(cost.combine_s == 0 for cost in found.costs)


def test_everybody_together_shares_one_link() -> None:
    machine, profile = loopback.topology(FOUND), loopback.profile(FOUND)
    assert machine.num_ranks == 4
    workload = Workload("all_reduce", 12_000_000)
    ring = predict(machine, workload, algorithm="ring", profile=profile)
    hops = 2 * (4 - 1)
    assert ring.duration_s == pytest.approx(hops * (FOUND.hop_latency_s + workload.num_bytes / FOUND.total_bytes_per_s))
    assert ring.limiting is not None
    assert ring.limiting.link == "loopback-in->loopback-out"


def test_one_rank_has_nobody_to_send_to() -> None:
    with pytest.raises(MeasurementError, match="1 rank: messages need at least 2"):
        loopback.calibration_jobs(1)
