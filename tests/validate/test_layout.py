"""Which chunks a process keeps, and that what it holds is found again there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.collective import collective
from sim.plan import in_order
from sim.workload import Workload
from validate.backends.layout import Layout, bounds_of, layout_of, runs
from validate.inputs import contribution, expected


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.data())
def test_stretches_are_the_kept_chunks_in_order(lengths: list[int], data: st.DataObject) -> None:
    elements = np.array(lengths)
    kept = np.array(sorted(data.draw(st.sets(st.integers(0, len(lengths) - 1)))), dtype=np.int64)
    layout = Layout(elements, kept)
    shared = np.arange(elements.sum())
    own = np.concatenate([shared[first:end] for first, end, _ in layout.stretches()] or [shared[:0]])
    assert len(own) == layout.num_elements
    bounds = bounds_of(elements)
    for chunk, (first, last) in layout.places().items():
        np.testing.assert_array_equal(own[first:last], shared[bounds[chunk] : bounds[chunk + 1]])


@given(st.sets(st.integers(0, 30)))
def test_runs_cover_each_number_once(numbers: set[int]) -> None:
    found = [number for first, last in runs(np.array(sorted(numbers))) for number in range(first, last + 1)]
    assert found == sorted(numbers)


@pytest.mark.parametrize("num_ranks", [2, 3, 5])
def test_in_an_all_to_all_a_rank_keeps_what_it_sends_and_receives(num_ranks: int) -> None:
    workload = Workload("all_to_all", 4 * num_ranks * 3)
    schedule = in_order("direct", num_ranks).schedule()
    elements = schedule.chunk_bytes(workload) // 4
    for rank in range(num_ranks):
        layout = layout_of(schedule, rank, elements)
        square = np.arange(num_ranks**2).reshape(num_ranks, num_ranks)
        assert set(layout.kept.tolist()) == {*square[rank], *square[:, rank]}
        assert layout.num_elements == (2 * num_ranks - 1) * 3
    whole = layout_of(in_order("ring", num_ranks).schedule(), 0, np.ones(num_ranks, dtype=np.int64))
    assert whole.num_elements == num_ranks


def test_what_a_rank_must_receive_in_an_all_to_all_is_what_the_others_put_in() -> None:
    workload = Workload("all_to_all", 24)
    bounds = bounds_of(np.full(9, 2))
    before = collective("all_to_all").before(3, 9)
    received = expected(workload, 3, before, bounds, np.array([1, 4, 7]))
    sent = [contribution(workload, 3, rank, 2 * (3 * rank + 1), 2 * (3 * rank + 1) + 2) for rank in range(3)]
    np.testing.assert_array_equal(received, np.concatenate(sent))
