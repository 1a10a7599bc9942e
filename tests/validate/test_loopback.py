"""The loopback's topology comes from point-to-point messages, and predicts what follows from them."""

from __future__ import annotations

import pytest

from sim.predict import predict
from sim.workload import Workload
from topo.errors import MeasurementError
from validate import loopback
from validate.jobs import Job
from validate.loopback import HOPS, LARGE_BYTES, SMALL_BYTES, PointToPoint
from validate.measurement import Measurement

FOUND = PointToPoint(4, pair_latency_s=1e-4, hop_latency_s=2e-4, pair_bytes_per_s=2e9, total_bytes_per_s=3e9)


def as_measured(job: Job, found: PointToPoint) -> Measurement:
    """What a machine with exactly these facts would measure."""
    alone = job.algorithm == loopback.PING_PONG
    latency_s = found.pair_latency_s if alone else found.hop_latency_s
    rate = found.pair_bytes_per_s if alone else found.total_bytes_per_s / found.num_ranks
    extra = job.workload.num_bytes - SMALL_BYTES
    sample_s = HOPS[job.workload.num_bytes] * (latency_s + extra / rate)
    return Measurement(job.workload, found.num_ranks, "gloo", "point-to-point", job.algorithm, (sample_s,))


def test_facts_are_found_again_from_what_they_cause() -> None:
    jobs = loopback.calibration_jobs(4)
    assert not any(job.check for job in jobs)
    assert jobs[0].label == "calibration by one pair, 8 bytes"
    assert jobs[-1].label == f"calibration by all neighbours at once, {LARGE_BYTES} bytes"
    again = loopback.fit({(job.algorithm, job.workload.num_bytes): as_measured(job, FOUND) for job in jobs})
    assert again.num_ranks == 4
    for name in ("pair_latency_s", "hop_latency_s", "pair_bytes_per_s", "total_bytes_per_s"):
        assert getattr(again, name) == pytest.approx(getattr(FOUND, name))


def test_noise_that_turns_sizes_around_still_gives_a_rate() -> None:
    samples = {
        (pattern, num_bytes): Measurement(Workload("all_reduce", num_bytes), 2, "gloo", "p2p", pattern, (hops * 1e-3,))
        for pattern in (loopback.PING_PONG, loopback.NEIGHBOURS)
        for num_bytes, hops in HOPS.items()
    }
    assert loopback.fit(samples).pair_bytes_per_s == pytest.approx((LARGE_BYTES - SMALL_BYTES) / 1e-3)


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
