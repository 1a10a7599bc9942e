"""Numbers in sentences, and that lists of ranks in messages stay short however many there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.workload import Workload
from topo.words import counted
from validate.blame import name_ranks
from validate.jobs import Job, Run
from validate.words import MOST_NAMED, listed


@pytest.mark.parametrize(("number", "text"), [(0, "0 ranks"), (1, "1 rank"), (2, "2 ranks")])
def test_one_is_singular(number: int, text: str) -> None:
    assert counted(number, "rank") == text


@given(st.integers(0, 500))
def test_a_list_names_a_few_and_counts_the_rest(number: int) -> None:
    text = listed(range(number))
    shown, _, more = text.partition(" and ")
    names = shown.split(", ") if shown else []
    assert names == [str(index) for index in range(min(number, MOST_NAMED))]
    assert more == (f"{number - MOST_NAMED} more" if number > MOST_NAMED else "")


def test_ranks_and_helpers_are_named_apart_and_the_rest_is_counted() -> None:
    run = Run("gloo", 64, (Job(Workload("all_reduce", 8), "builtin"),))
    assert name_ranks(run, [5]) == "rank 5"
    assert name_ranks(run, [0, 1, 64]) == "ranks 0, 1 and helper 0"
    assert name_ranks(run, range(66)) == "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 56 more and helpers 0, 1"
