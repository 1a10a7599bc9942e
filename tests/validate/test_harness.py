"""The harness on recorded times: what is called in which order, and what a measurement says."""

from __future__ import annotations

import numpy as np
import pytest

from sim.collective import collective
from sim.workload import ELEMENT_BYTES, REDUCTIONS, Workload
from topo.errors import MeasurementError
from validate.backends.recorded import Recorded
from validate.backends.steps import chunk_bounds
from validate.harness import measure
from validate.inputs import EXACT_UP_TO, contribution, expected
from validate.measurement import Measurement, kept_environment


def test_warmups_come_first_and_are_not_counted_and_correctness_is_a_pass_of_its_own() -> None:
    backend = Recorded(8, {1024: [9.0, 1.0, 3.0, 2.0]})
    found = measure(backend, Workload("all_reduce", 1024), num_iterations=3, num_warmups=1)
    assert backend.calls == ["load 1024", "run", "run", "run", "run", "check"]
    assert found.samples_s == (1.0, 3.0, 2.0)
    assert (found.num_warmups, found.correct, found.backend, found.num_ranks) == (1, True, "recorded", 8)
    assert (found.median_s, found.min_s) == (2.0, 1.0)
    assert found.algbw_bytes_per_s == 512.0
    assert found.busbw_bytes_per_s == 512.0 * 2 * 7 / 8


def test_no_check_leaves_correctness_open() -> None:
    backend = Recorded(2, {8: [1.0]})
    assert measure(backend, Workload("all_reduce", 8), check=False).correct is None
    assert "check" not in backend.calls


def test_a_size_without_times_is_refused() -> None:
    with pytest.raises(MeasurementError, match="no recorded times of 16 bytes: there are those of 8"):
        measure(Recorded(2, {8: [1.0]}), Workload("all_reduce", 16))


@pytest.mark.parametrize("sample", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(sample: float) -> None:
    with pytest.raises(MeasurementError, match="positive, finite time"):
        Measurement(Workload("all_reduce", 8), 2, "recorded", "builtin", "builtin", (sample,))


def test_secrets_of_the_environment_are_dropped() -> None:
    kept = kept_environment({"NCCL_ALGO": "Ring", "HF_TOKEN": "secret", "CUDA_VISIBLE_DEVICES": "0,1", "PATH": "/bin"})
    assert [(row.name, row.value) for row in kept] == [("CUDA_VISIBLE_DEVICES", "0,1"), ("NCCL_ALGO", "Ring")]


@pytest.mark.parametrize("num_ranks", [1, 2, 5, 8, 40])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", ELEMENT_BYTES)
def test_inputs_reduce_exactly_in_their_dtype(dtype: str, reduction: str, num_ranks: int) -> None:
    workload = Workload("all_reduce", 64 * ELEMENT_BYTES[dtype], dtype, reduction)
    values = np.stack([contribution(workload, num_ranks, rank) for rank in range(num_ranks)]).astype(np.int64)
    combined = {"min": values.min(axis=0), "max": values.max(axis=0)}.get(reduction, values.sum(axis=0))
    assert np.abs(values.sum(axis=0) if reduction in ("sum", "avg") else combined).max() <= EXACT_UP_TO[dtype]
    assert values.min() >= (0 if dtype == "uint8" or reduction != "max" else -EXACT_UP_TO[dtype])
    if reduction == "avg":
        assert (combined % num_ranks == 0).all()
        combined = combined // num_ranks
    everyone = collective("all_reduce").before(num_ranks, 3)
    np.testing.assert_array_equal(expected(workload, num_ranks, everyone, chunk_bounds(workload, 3)), combined)
    assert len(np.unique(combined)) > 1 or num_ranks >= 8


@pytest.mark.parametrize("name", ["all_gather", "broadcast", "reduce_scatter"])
def test_each_chunk_is_reduced_over_its_own_contributors(name: str) -> None:
    workload = Workload(name, 24)
    before = collective(name).before(2, 2)
    bounds = chunk_bounds(workload, 2)
    found = expected(workload, 2, before, bounds)
    for chunk in range(2):
        part = slice(*bounds[chunk : chunk + 2])
        total = sum(contribution(workload, 2, rank)[part] for rank in range(2) if before[rank, chunk])
        np.testing.assert_array_equal(found[part], total)
