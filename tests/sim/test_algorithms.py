"""Every algorithm, every rank count: proved on numpy, and every mutant of it caught."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.algorithms.tree import ROOT, double_binary_parents
from sim.bundles import bundled
from sim.plan import Plan, in_order
from sim.planners import PLANNERS
from sim.planners.options import Options
from sim.prove import prove, run
from sim.schedule import COLUMNS, COPY, REDUCE, Block, Rows, Schedule
from sim.workload import Workload
from tests.sim.ways import every_way, natural
from topo.errors import ScheduleError
from topo.load import load_topology

RANKS = tuple(range(1, 18))


def variants(algorithm: str, collective: str, num_ranks: int) -> list[Plan]:
    """Plans with several channels, chunks, orders and servers."""
    plan = natural((algorithm, collective), num_ranks)
    backwards = tuple(reversed(range(num_ranks)))
    more = [plan, replace(plan, rings=(*plan.rings, backwards), num_chunks=3)]
    if algorithm == "parameter-server":
        more.append(replace(plan, num_chunks=4, servers=(num_ranks - 1, num_ranks), helpers=("numa0",)))
    if plan.helpers:
        more.append(replace(plan, num_chunks=2, helpers=plan.helpers * 2))
    return more


def with_rows(schedule: Schedule, rows: Rows) -> Schedule:
    return replace(schedule, blocks=(Block(rows),), places=None)


def is_proved(schedule: Schedule) -> bool:
    try:
        prove(schedule)
    except ScheduleError:
        return False
    return True


@pytest.mark.parametrize("num_ranks", RANKS)
@every_way
def test_every_schedule_is_its_collective(algorithm: str, collective: str, num_ranks: int) -> None:
    for plan in variants(algorithm, collective, num_ranks):
        prove(plan.schedule())


@pytest.mark.parametrize("num_ranks", [2, 3, 5, 8])
@every_way
def test_every_mutant_is_caught(algorithm: str, collective: str, num_ranks: int) -> None:
    schedule = natural((algorithm, collective), num_ranks, num_chunks=2).schedule()
    rows = schedule.rows()
    everything = np.arange(len(rows))
    for row in everything:
        flipped = rows.op.copy()
        flipped[row] = COPY if flipped[row] == REDUCE else REDUCE
        mutants = {
            "drop": rows.take(np.delete(everything, row)),
            "flip": replace(rows, op=flipped),
            "duplicate": rows.take(np.sort(np.append(everything, row))),
        }
        so_far = (rows.dst == rows.dst[row]) & (rows.chunk == rows.chunk[row]) & (rows.step <= rows.step[row])
        if rows.dst[row] >= num_ranks and so_far.sum() == 1:
            del mutants["flip"]  # Into a helper's empty slot a single row means the same either way.
        for what, mutant in mutants.items():
            assert not is_proved(with_rows(schedule, mutant)), f"{what} of row {row} was not caught"


NCCL_MACHINES = (
    ("dgx-h100", (1, 2, 3, 4)),
    ("dgx1-v100", (1, 2)),
    ("hgx-a100-4gpu-mesh", (1, 2, 5)),
    ("pcie-8xl40s-amd", (1, 2, 3)),
    ("pcie-4gpu", (1,)),
    ("alps-gh200x4", (2, 7)),
    ("gb200-nvl8", (1, 3)),
    ("hgx-h200-1gpu", (2, 6)),
)


@pytest.mark.parametrize(("name", "count"), [(name, count) for name, counts in NCCL_MACHINES for count in counts])
@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_channels_of_nccl_are_an_all_reduce(name: str, count: int, algorithm: str) -> None:
    machine = load_topology(name, nodes=count)
    prepared = PLANNERS["nccl-2.30"].on(machine, Options(num_chunks=2 if algorithm == "tree" else None))
    for num_bytes in (8, 1 << 20, 1 << 30):
        plan = prepared.plan(Workload("all_reduce", num_bytes), algorithm)
        assert (plan.algorithm, plan.num_ranks) == (algorithm, machine.num_ranks)
        prove(plan.schedule())


@pytest.mark.parametrize(
    ("channels", "bundles"),
    [("aaaa", "a"), ("ab", "ab"), ("aabb", "ab"), ("aab", "aab"), ("aaaabb", "aab"), ("", "")],
)
def test_equal_channels_are_bundled_as_far_as_shares_stay_equal(channels: str, bundles: str) -> None:
    assert "".join(bundled(channels)) == bundles


def test_plans_that_run_alike_have_one_shape() -> None:
    plan = in_order("ring", 4, num_channels=24)
    other = replace(plan, rings=plan.rings[:8], protocol="ll", planner="nccl-2.30", chunk_bytes=1 << 15)
    assert (plan.num_channels, other.num_channels) == (24, 8)
    assert plan.shape == other.shape == in_order("ring", 4).shape


def test_gradients_0_and_7_average_to_3_5() -> None:
    schedule = in_order("ring", 2).schedule()
    gradients = np.array([[0, 0], [7, 7]], dtype=np.uint64)
    value, _ = run(schedule, gradients, np.ones((2, 2), dtype=bool))
    assert (value / 2 == 3.5).all()


@given(st.integers(1, 300))
def test_the_two_trees_span_and_complement_each_other(num_ranks: int) -> None:
    inner = []
    for parents in (tree.tolist() for tree in double_binary_parents(num_ranks)):
        assert parents.count(ROOT) == 1
        for position in range(num_ranks):
            steps, above = 0, parents[position]
            while above != ROOT:
                steps, above = steps + 1, parents[above]
            assert steps <= 2 + np.log2(num_ranks)
        children = [parents.count(position) for position in range(num_ranks)]
        assert max(children, default=0) <= 2
        inner.append({position for position, count in enumerate(children) if count == 2})
    assert not inner[0] & inner[1]


def test_a_ring_is_two_blocks_whatever_its_length() -> None:
    schedule = in_order("ring", 1000).schedule()
    assert [len(block.rows) for block in schedule.blocks] == [1000, 1000]
    assert schedule.num_rows == 2 * 999 * 1000


@given(st.integers(2, 40), st.integers(1, 3))
def test_rank_shift_unrolls_like_rows_written_out(num_ranks: int, stride: int) -> None:
    first = Rows.of([(0, 0, 1, 0, COPY, 0)])
    block = Block(first, repeat=num_ranks, step_shift=1, rank_shift=stride)
    rows = Schedule("broadcast", num_ranks, 1, (block,)).rows()
    assert rows.src.tolist() == [turn * stride % num_ranks for turn in range(num_ranks)]
    assert rows.dst.tolist() == [(turn * stride + 1) % num_ranks for turn in range(num_ranks)]
    assert {len(getattr(rows, name)) for name in COLUMNS} == {num_ranks}


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ((0, 0, 0, 0, COPY, 0), "sends to itself"),
        ((0, 0, 9, 0, COPY, 0), "dst 9 is outside"),
        ((0, 0, 1, 5, COPY, 0), "chunk 5 is outside"),
        ((0, 0, 1, 0, 7, 0), "op 7 is outside"),
        ((-1, 0, 1, 0, COPY, 0), "step -1 is outside"),
    ],
)
def test_malformed_rows_are_refused(row: tuple[int, int, int, int, int, int], complaint: str) -> None:
    with pytest.raises(ScheduleError, match=complaint):
        Schedule("all_reduce", 2, 1, (Block(Rows.of([row])),)).check()


def test_two_copies_into_one_slot_are_refused() -> None:
    rows = Rows.of([(0, 0, 2, 0, COPY, 0), (0, 1, 2, 0, REDUCE, 0)])
    with pytest.raises(ScheduleError, match="exactly one COPY"):
        Schedule("all_reduce", 3, 1, (Block(rows),)).check()
