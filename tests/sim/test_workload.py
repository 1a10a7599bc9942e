"""Sizes that a workload refuses, and what it then proposes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.workload import ELEMENT_BYTES, Workload
from topo.errors import UnitError


@pytest.mark.parametrize(
    ("num_bytes", "dtype", "proposed"),
    [
        (3, "float32", "use 4, or another --dtype"),
        (1, "float64", "use 8, or another --dtype"),
        (5, "float32", "use 4 or 8, or another --dtype"),
        (1023, "float16", "use 1022 or 1024, or another --dtype"),
    ],
)
def test_the_nearest_whole_sizes_are_proposed_each_once(num_bytes: int, dtype: str, proposed: str) -> None:
    with pytest.raises(UnitError) as caught:
        Workload("all_reduce", num_bytes, dtype)
    assert str(caught.value).endswith(proposed)


@given(st.integers(1, 10**12), st.sampled_from(sorted(ELEMENT_BYTES)), st.integers(1, 300))
def test_chunks_are_whole_elements_that_add_up_and_differ_by_one_at_most(
    num_elements: int, dtype: str, num_chunks: int
) -> None:
    element_bytes = ELEMENT_BYTES[dtype]
    chunks = Workload("all_reduce", num_elements * element_bytes, dtype).chunk_bytes(num_chunks)
    assert int(chunks.sum()) == num_elements * element_bytes
    assert set((chunks % element_bytes).tolist()) == {0}
    assert int(chunks.max() - chunks.min()) in (0, element_bytes)
