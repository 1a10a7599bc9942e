"""Index arithmetic against the plain way to say the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.engines.indexing import ascending, count_down, count_up, distinct, in_order, stable_order

KEYS = st.lists(st.one_of(st.integers(0, 9), st.integers(0, 2**62)), max_size=40).map(
    lambda keys: np.array(keys, dtype=np.int64)
)
"""Few and many bits: with large ones there is no room for a place behind the key."""


@given(KEYS)
def test_keys_in_order_keep_equal_ones_as_they_stand(keys: np.ndarray) -> None:
    ordered, order = in_order(keys)
    assert order.tolist() == sorted(range(len(keys)), key=lambda place: keys[place])
    assert ordered.tolist() == sorted(keys.tolist())
    assert stable_order(keys).tolist() == order.tolist()


@given(KEYS)
def test_distinct_keys_stand_once(keys: np.ndarray) -> None:
    values, number = distinct(keys)
    assert ascending(keys).tolist() == values.tolist() == sorted(set(keys.tolist()))
    assert values[number].tolist() == keys.tolist()


@pytest.mark.parametrize("index", [[], [2], [2, 0, 2]])
def test_what_is_given_twice_counts_twice(index: list[int]) -> None:
    counts = np.zeros(3, dtype=np.int32)
    count_up(counts, np.array(index, dtype=np.int64))
    assert counts.tolist() == [index.count(place) for place in range(3)]
    count_down(counts, np.array(index, dtype=np.int64))
    assert not counts.any()
