"""What each agent does in each step, against the interpreter that proves schedules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.collective import collective as find_collective
from sim.plan import in_order
from sim.prove import run
from sim.schedule import COPY, REDUCE, Block, Rows, Schedule
from sim.workload import Workload
from tests.sim.ways import every_way, natural
from tests.validate.schedules import all_gather, recursive_doubling, reduce_scatter, rotation
from topo.errors import ScheduleError
from validate.backends.steps import Step, chunk_bounds, staging_elements, steps_of


def execute(schedule: Schedule, start: np.ndarray) -> np.ndarray:
    """All agents' steps run by message passing in one process; every agent goes as far as its messages let it."""
    ones = np.ones(schedule.num_chunks, dtype=np.int64)
    todo = {agent: list(steps_of(schedule, agent, ones)) for agent in range(schedule.num_agents)}
    held = np.zeros((schedule.num_agents, schedule.num_chunks), dtype=np.uint64)
    held[: schedule.num_ranks] = start
    posted: set[int] = set()
    mail: dict[tuple[int, int, int], list[np.uint64]] = {}
    while any(todo.values()):
        moved = False
        for agent, steps in todo.items():
            if steps and agent not in posted:
                for send in steps[0].sends:
                    mail.setdefault((agent, send.peer, send.tag), []).append(held[agent, send.chunk])
                posted.add(agent)
                moved = True
            if steps and all(mail.get((row.peer, agent, row.tag)) for row in steps[0].receives):
                deliver(steps.pop(0), agent, held, mail)
                posted.discard(agent)
                moved = True
        assert moved, "locked"
    return held


def deliver(step: Step, agent: int, held: np.ndarray, mail: dict[tuple[int, int, int], list[np.uint64]]) -> None:
    arrived = [mail[(row.peer, agent, row.tag)].pop(0) for row in step.receives]
    sent = {send.chunk for send in step.sends}
    for row, value in zip(step.receives, arrived, strict=True):
        if row.staged_at is None:
            assert row.replaces
            assert row.chunk not in sent, "would overwrite what is being sent"
            held[agent, row.chunk] = value
    for row, value in zip(step.receives, arrived, strict=True):
        if row.staged_at is not None:
            held[agent, row.chunk] = value if row.replaces else held[agent, row.chunk] + value


def start_values(schedule: Schedule) -> np.ndarray:
    before = find_collective(schedule.collective).before(schedule.num_ranks, schedule.num_chunks)
    values = np.random.default_rng(1).integers(1, 2**60, size=before.shape, dtype=np.uint64)
    return np.where(before, values, np.uint64(0))


def same_as_interpreter(schedule: Schedule) -> None:
    start = start_values(schedule)
    before = find_collective(schedule.collective).before(schedule.num_ranks, schedule.num_chunks)
    value, filled = run(schedule, start, before)
    np.testing.assert_array_equal(execute(schedule, start)[filled], value[filled])


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5, 8])
@every_way
def test_agents_together_do_what_the_interpreter_does(algorithm: str, collective: str, num_ranks: int) -> None:
    plan = natural((algorithm, collective), num_ranks, 2, 3)
    same_as_interpreter(plan.schedule())
    if algorithm == "parameter-server":
        same_as_interpreter(replace(plan, servers=(0, num_ranks), helpers=("numa0",)).schedule())


@pytest.mark.parametrize("build", [recursive_doubling, rotation, all_gather, reduce_scatter])
def test_schedules_written_by_hand_too(build) -> None:
    same_as_interpreter(build(4))


@given(st.data())
def test_random_rows_too(data: st.DataObject) -> None:
    num_ranks, num_chunks = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 3))
    row = st.tuples(
        st.integers(0, 3),
        st.integers(0, num_ranks - 1),
        st.integers(0, num_ranks - 1),
        st.integers(0, num_chunks - 1),
        st.sampled_from([COPY, REDUCE]),
        st.integers(0, 1),
    )
    rows = sorted(r for r in data.draw(st.lists(row, max_size=20)) if r[1] != r[2])
    schedule = Schedule("all_reduce", num_ranks, num_chunks, (Block(Rows.of(rows)),))
    try:
        schedule.check()
    except ScheduleError:
        return
    same_as_interpreter(schedule)


def test_a_slot_that_is_sent_and_replaced_is_staged() -> None:
    (step,) = steps_of(rotation(2), 0, np.array([5]))
    assert [(row.staged_at, row.replaces) for row in step.receives] == [(0, True)]
    assert staging_elements((step,), np.array([5])) == 5


def test_the_first_reduction_into_an_empty_slot_replaces() -> None:
    schedule = replace(in_order("parameter-server", 3), servers=(3,), helpers=("numa0",)).schedule()
    first = steps_of(schedule, 3, np.array([4]))[0]
    assert [(row.staged_at, row.replaces) for row in first.receives] == [(None, True), (0, False), (4, False)]


def test_empty_chunks_are_left_out() -> None:
    workload = Workload("all_reduce", 8)
    schedule = in_order("ring", 5).schedule()
    bounds = chunk_bounds(workload, schedule.num_chunks)
    assert bounds.tolist() == [0, 1, 2, 2, 2, 2]
    sent = [
        send.chunk for agent in range(5) for step in steps_of(schedule, agent, np.diff(bounds)) for send in step.sends
    ]
    assert sorted(sent) == [0] * 8 + [1] * 8


def test_sending_what_is_not_held_is_refused() -> None:
    schedule = Schedule("broadcast", 3, 1, (Block(Rows.of([(0, 1, 2, 0, COPY, 0)])),))
    with pytest.raises(ScheduleError, match="agent 1 sends chunk 0 to 2 before it holds"):
        steps_of(schedule, 1, np.array([1]))
