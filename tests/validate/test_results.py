"""Results are taken in as they are written, also while a line is only half there."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.workload import Workload
from topo.errors import MeasurementError
from topo.jsonio import to_plain
from validate.measurement import Measurement
from validate.results import Results

ROW = Measurement(Workload("all_reduce", 8), 2, "gloo", "builtin", "builtin", (1.0,))


def lines() -> str:
    rows = [
        {"job": 0, "measurement": to_plain(ROW)},
        {"job": 1, "not_run": "too large"},
        {"job": 2, "measurement": to_plain(ROW), "values": [[1.0], [2.0]]},
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@given(st.lists(st.integers(0, len(lines())), max_size=5))
def test_however_the_text_arrives_the_results_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    path: Path = tmp_path_factory.mktemp("run") / "results.jsonl"
    told: list[int] = []
    results = Results(path, lambda job, _: told.append(job))
    results.poll()
    text = lines()
    edges = [0, *sorted(cuts), len(text)]
    for first, last in pairwise(edges):
        with path.open("a") as stream:
            stream.write(text[first:last])
        results.poll()
    assert told == [0, 2]
    assert results.measurements == {0: ROW, 2: ROW}
    assert (results.not_run, results.values) == ({1: "too large"}, {2: ((1.0,), (2.0,))})


def test_a_last_line_that_stays_cut_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(lines()[:-20])
    results = Results(path)
    results.poll()
    assert list(results.measurements) == [0]


def test_a_whole_line_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"job": 0, "measurement": {"samples_s": []}}\n')
    with pytest.raises(MeasurementError, match="a result that cannot be read"):
        Results(path).poll()
