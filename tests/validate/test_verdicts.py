"""Verdicts on published runs: healthy machines are called LOW in few rows, whoever measured them and however."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support import examples
from topo.cli import main
from validate.published.runs import shipped_runs
from validate.verdicts import Judged, counts, judge, sentences

MOST_FALSE_LOW = 0.03
EVERY = 4
"""At a desk every so many runs are judged, in CI all."""

CAUSES = {
    "050": "sockets in place of RDMA",
    "061": "sockets in place of RDMA",
    "170": "GPUs do not reach each other directly",
    "227": "NCCL_P2P_DISABLE=1",
    "236": "NCCL_P2P_DISABLE=1",
    "238": "NCCL_P2P_DISABLE=1",
}
"""What degraded runs with LOW rows are suspected of first, by number of the run."""

NOT_LOW = {
    "169": "NCCL_P2P_LEVEL=SYS",
    "225": "NCCL_PROTO=LL",
    "229": "NCCL_P2P_DISABLE=1 sends what GPUs have for each other through host memory: no row is LOW for it",
}
"""Degraded runs that do what NCCL's own choice allows, and what is said to cost them speed."""


@pytest.fixture(scope="module")
def judged() -> tuple[Judged, ...]:
    """Every so many of the runs that come with the package."""
    step = max(1, EVERY // examples(1))
    return tuple(judge(run for run in shipped_runs()[::step] if run.quality == "healthy"))


def test_healthy_machines_are_called_low_in_few_rows(judged: tuple[Judged, ...]) -> None:
    found = counts(judged)
    assert all(row.num_rows == row.ok + row.low + row.high > 100 for row in found)
    assert sum(row.low for row in found) <= MOST_FALSE_LOW * sum(row.num_rows for row in found), sentences(judged)


def of_number(number: str) -> Judged:
    (found,) = judge(run for run in shipped_runs() if run.id == number)
    return found


@pytest.mark.parametrize("number", CAUSES)
def test_degraded_runs_are_low_and_the_first_suspect_is_what_their_source_names(number: str) -> None:
    found = of_number(number)
    assert found.count("LOW")
    assert CAUSES[number] in found.suspects[0]
    (sentence,) = sentences([found])
    assert sentence.startswith(f"degraded: {found.name}, {found.count('LOW')} of {len(found.rows)} rows LOW: suspect")


@pytest.mark.parametrize("number", NOT_LOW)
def test_what_costs_a_degraded_run_its_speed_is_named_though_no_row_is_low(number: str) -> None:
    found = of_number(number)
    assert not found.count("LOW")
    assert NOT_LOW[number] in found.suspects[0]


def test_verdicts_of_a_folder_of_runs_are_counted(tmp_path: Path) -> None:
    for run in shipped_runs():
        if run.id in ("001", "238"):
            (tmp_path / f"{run.id}.json").write_text(_document_of(run.id))
    command = ["validate", "verdicts", "--data", str(tmp_path), "--format", "json"]
    result = CliRunner().invoke(main, command, prog_name="topo", catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["schema"] == "validate-verdicts/1"
    assert [(row["quality"], row["num_runs"]) for row in document["summary"]] == [("degraded", 1), ("healthy", 1)]
    assert [len(row["low_bytes"]) for row in document["rows"]] == [0, 4]
    assert "degraded: 238-dgxa100-4g-p2poff, 4 of 4 rows LOW: suspect: NCCL_P2P_DISABLE=1" in result.stderr


def _document_of(number: str) -> str:
    """The shipped document as it stands."""
    from validate.published.runs import SHIPPED

    lines = SHIPPED.read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if json.loads(line)["id"] == number)
