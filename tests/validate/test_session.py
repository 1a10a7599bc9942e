"""What a run is made of before anything starts: which algorithms, which sizes."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.algorithms import ALGORITHMS
from sim.collective import COLLECTIVES
from sim.workload import ELEMENT_BYTES, Workload
from topo.errors import MeasurementError
from validate.backends import BUILTIN_IN_PARTS
from validate.session import BUILTIN, Request, algorithms_for, workloads_of


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_what_runs_a_collective_is_accepted_for_it_and_nothing_else_is(collective: str) -> None:
    workloads = workloads_of(collective, [4096], "float32", "sum", 4)
    names = algorithms_for(collective)
    assert (BUILTIN in names) == (collective in BUILTIN_IN_PARTS)
    assert [name for name in names if name != BUILTIN] == [
        name for name, row in ALGORITHMS.items() if collective in row.collectives and not row.in_switch
    ]
    for name in (BUILTIN, *ALGORITHMS):
        if name in names:
            Request("gloo", 4, workloads, (name,))
        else:
            with pytest.raises(MeasurementError, match=f"{collective}|inside a switch"):
                Request("gloo", 4, workloads, (name,))


def test_a_run_of_no_algorithm_is_none() -> None:
    with pytest.raises(MeasurementError, match="no algorithm is to be measured"):
        Request("gloo", 2, (Workload("all_reduce", 8),), ())


@given(
    st.sampled_from(sorted(COLLECTIVES)),
    st.lists(st.integers(1, 10**6), min_size=1, max_size=5, unique=True),
    st.sampled_from(sorted(ELEMENT_BYTES)),
    st.integers(2, 130),
)
def test_sizes_are_whole_parts_where_ranks_own_parts_and_as_given_elsewhere(
    collective: str, elements: list[int], dtype: str, num_ranks: int
) -> None:
    sizes = [count * ELEMENT_BYTES[dtype] for count in elements]
    found = [workload.num_bytes for workload in workloads_of(collective, sizes, dtype, "sum", num_ranks)]
    if not BUILTIN_IN_PARTS.get(collective, False):
        assert found == sizes
        return
    part = num_ranks * ELEMENT_BYTES[dtype]
    assert len(set(found)) == len(found)
    for num_bytes in found:
        assert num_bytes % part == 0
        assert any(num_bytes <= size < num_bytes + part or size < part == num_bytes for size in sizes)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_every_built_in_collective_has_its_call() -> None:
    from validate.backends.torch_builtin import BUILTIN as CALLS

    assert list(CALLS) == list(BUILTIN_IN_PARTS)
