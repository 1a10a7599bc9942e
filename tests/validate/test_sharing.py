"""Processes that share cores: what messages cost alone, and what they cost while others are at work."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.plan import in_order
from sim.prediction import LinkLoad, Prediction
from sim.schedule import Schedule
from sim.workload import Workload
from validate import loopback
from validate.loopback import NEIGHBOURS, PING_PONG, SIZES
from validate.sharing import Cores, MessageCost, taking

NAMES = ("ring", "tree", "parameter-server", "halving-doubling")


def cores(num_ranks: int, num_cores: int, *, crowding: float = 1.0, step_share: float = 0.0) -> Cores:
    """Messages of 100 us and 1 ns a byte; `crowding` is what a step with all ranks costs more than on enough cores."""

    def cost(num_bytes: int) -> MessageCost:
        alone_s = 1e-4 + num_bytes * 1e-9
        return MessageCost(num_bytes, alone_s, alone_s * crowding * num_ranks / min(num_cores, num_ranks))

    return Cores(num_ranks, num_cores, tuple(cost(size) for size in SIZES), step_share * 1e-4)


def schedule_of(name: str, num_ranks: int) -> Schedule:
    return in_order(name, num_ranks, collective="all_reduce", num_chunks=1).schedule()


@pytest.mark.parametrize("num_ranks", [2, 4, 7])
@pytest.mark.parametrize("num_cores", [1, 2, 16])
@pytest.mark.parametrize("crowding", [1.0, 1.6])
@pytest.mark.parametrize("step_share", [0.0, 0.5])
def test_what_was_measured_is_predicted_again(
    num_ranks: int, num_cores: int, crowding: float, step_share: float
) -> None:
    found = cores(num_ranks, num_cores, crowding=crowding, step_share=step_share)
    jobs = dict(zip(loopback.trials(), loopback.calibration_jobs(num_ranks), strict=True))
    for trial, job in jobs.items():
        if trial.pattern not in (PING_PONG, NEIGHBOURS):
            continue
        assert job.schedule is not None
        hop_s = found.duration_s(job.schedule, job.workload) / trial.num_hops
        cost = next(row for row in found.costs if row.num_bytes == trial.num_bytes)
        if trial.pattern == NEIGHBOURS:
            assert hop_s == pytest.approx(cost.crowded_s, rel=0.02)
        else:
            assert (
                cost.alone_s * (1 - step_share) * 0.9
                <= hop_s
                <= cost.alone_s * max(1.0, 2 / num_cores) * crowding * 1.6
            )


@given(st.sampled_from(NAMES), st.integers(2, 9), st.integers(1, 10), st.integers(4, 2**22))
def test_more_cores_and_fewer_bytes_are_hardly_ever_slower(
    name: str, num_ranks: int, num_cores: int, num_bytes: int
) -> None:
    schedule = schedule_of(name, num_ranks)
    here, more = (cores(num_ranks, count) for count in (num_cores, num_cores + 1))
    workload = Workload("all_reduce", num_bytes // 4 * 4)
    twice = replace(workload, num_bytes=2 * workload.num_bytes)
    duration_s = here.duration_s(schedule, workload)
    # Where work is taken in another order, it may come in a little later.
    assert more.duration_s(schedule, workload) <= duration_s * 1.1
    assert duration_s <= here.duration_s(schedule, twice) * 1.1


@given(st.sampled_from(NAMES), st.integers(2, 9), st.integers(1, 10), st.integers(4, 2**22))
def test_no_schedule_beats_its_work_over_the_cores(name: str, num_ranks: int, num_cores: int, num_bytes: int) -> None:
    schedule, workload = schedule_of(name, num_ranks), Workload("all_reduce", num_bytes // 4 * 4)
    rows = schedule.rows()
    sizes = schedule.chunk_bytes(workload)[rows.chunk]
    work_s = sum(1e-4 + size * 1e-9 for size in sizes.tolist() if size)
    assert cores(num_ranks, num_cores).duration_s(schedule, workload) >= work_s / num_cores * (1 - 1e-9)


def test_steps_in_which_few_send_are_not_charged_for_all() -> None:
    found, workload = cores(8, 2, crowding=1.5), Workload("all_reduce", 1024)
    tree, ring = (found.duration_s(schedule_of(name, 8), workload) for name in ("tree", "ring"))
    steps_of_tree, steps_of_ring = 6, 14
    assert ring == pytest.approx(steps_of_ring * found.costs[0].crowded_s, rel=0.05)
    assert tree < 0.6 * steps_of_tree * found.costs[0].crowded_s


def test_a_library_posts_its_own_messages_for_less() -> None:
    found, workload = cores(4, 2, crowding=1.5, step_share=0.8), Workload("all_reduce", 1024)
    own, torch = (each.duration_s(schedule_of("ring", 4), workload) for each in (found.of_library(), found))
    assert own == pytest.approx(0.6 * torch, rel=0.05)


def test_adding_what_comes_costs_the_processor() -> None:
    plain, workload = cores(4, 4), Workload("all_reduce", 4096)
    adding = replace(plain, costs=tuple(replace(cost, combine_s=3e-5) for cost in plain.costs))
    ring = schedule_of("ring", 4)
    assert adding.duration_s(ring, workload) - plain.duration_s(ring, workload) == pytest.approx(3 * 3e-5, rel=0.01)


def test_links_are_busy_for_less_of_a_longer_time() -> None:
    load = LinkLoad("a->b", 1e6, 1e9, 0.8)
    simulated = Prediction(Workload("all_reduce", 8), 2, "ring", "simple", 1, "event", "x", 1e-3, (load,))
    longer = taking(simulated, 4e-3, 2)
    assert (longer.duration_s, longer.engine) == (4e-3, "processes on 2 cores")
    assert longer.link_loads[0].busy_fraction == pytest.approx(0.2)
    assert taking(simulated, 1e-4, 1).link_loads[0].busy_fraction == 1
