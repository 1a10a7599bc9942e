"""How a process of `topo` begins."""

from __future__ import annotations

import pytest

from topo.start import BLAS_THREADS, _one_blas_thread


def test_matrices_are_left_to_one_thread() -> None:
    environment = {"HOME": "/root"}
    _one_blas_thread(environment)
    assert environment == {"HOME": "/root", "OPENBLAS_NUM_THREADS": "1"}


@pytest.mark.parametrize("name", BLAS_THREADS)
def test_what_the_user_says_of_threads_stands(name: str) -> None:
    environment = {name: "8"}
    _one_blas_thread(environment)
    assert environment == {name: "8"}
