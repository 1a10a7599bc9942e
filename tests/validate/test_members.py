"""Runs over the processes of another launcher: each process is a rank, rank 0 prints, and everybody ends in time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import ROOT
from topo.errors import EnvironmentMissing
from validate import members
from validate.loopback import calibration_jobs
from validate.members import free_port
from validate.place import Place
from validate.progress import DONE, RUNNING, Report

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: no processes are started")
OPTIONS = ("--backend", "gloo", "--algorithm", "builtin,ring", "--size", "8,64K", "-n", "2", "-w", "0")
BEFORE = len(calibration_jobs(2))
"""Jobs that come before the first one that is asked for: messages alone."""
WITHIN_S = 600.0
"""A bound that only a hang would break."""


def start(folder: Path, num_ranks: int, ranks: Sequence[int], *more: str, **environment: str) -> list[subprocess.Popen]:
    """The command as mpirun would start it, once for each of these ranks."""
    port = environment.pop("port", None) or str(free_port())
    processes = []
    for rank in ranks:
        place = {
            "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_SIZE": str(num_ranks),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(num_ranks),
            "MASTER_PORT": port,
            "TMPDIR": str(folder),
        }
        with (folder / f"out.{rank}").open("w") as out, (folder / f"err.{rank}").open("w") as err:
            command = [sys.executable, "-m", "topo.start", "validate", "run", *OPTIONS, "--format", "json", *more]
            variables = {**os.environ, "PYTHONPATH": str(ROOT), **place, **environment}
            processes.append(subprocess.Popen(command, env=variables, stdout=out, stderr=err))
    return processes


def ended(processes: Sequence[subprocess.Popen]) -> list[int]:
    return [process.wait(timeout=WITHIN_S) for process in processes]


def left_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if not path.name.startswith(("out.", "err."))]


@needs_torch
def test_ranks_of_another_launcher_measure_together_and_rank_0_prints(tmp_path: Path) -> None:
    assert ended(start(tmp_path, 3, range(3))) == [0, 0, 0]
    document = json.loads((tmp_path / "out.0").read_text())
    assert [(row["num_bytes"], row["algorithm"], row["correct"]) for row in document["rows"]] == [
        (8, "builtin", True),
        (8, "ring", True),
        (65536, "builtin", True),
        (65536, "ring", True),
    ]
    assert document["point_to_point"]["num_ranks"] == 3
    assert [(tmp_path / f"out.{rank}").read_text() for rank in (1, 2)] == ["", ""]
    assert not left_in(tmp_path)


@needs_torch
@pytest.mark.parametrize(
    ("fault", "words", "num_kept"),
    [
        (f"kill:1:after={BEFORE + 2}", "rank 1 died without a word", 2),
        (f"fail:0:after={BEFORE + 1}", "rank 0 failed", 1),
        ("version:1:after=0", "the ranks run different software", 0),
    ],
)
def test_a_fault_ends_all_of_them_with_the_rank_named_and_results_kept(
    tmp_path: Path, fault: str, words: str, num_kept: int
) -> None:
    assert ended(start(tmp_path, 2, range(2), TOPOSCOPE_FAULT=fault)) == [1, 1]
    assert words in (tmp_path / "err.0").read_text()
    text = (tmp_path / "out.0").read_text()
    assert len(json.loads(text)["rows"]) == num_kept
    assert not left_in(tmp_path)


@needs_torch
def test_where_a_rank_never_comes_it_is_named_in_time(tmp_path: Path) -> None:
    assert ended(start(tmp_path, 2, [0], "--timeout", "8")) == [1]
    assert "no end after 8 s: rank 1 never began" in (tmp_path / "err.0").read_text()
    assert not left_in(tmp_path)


@needs_torch
def test_where_rank_0_is_not_reached_the_others_say_so(tmp_path: Path) -> None:
    assert ended(start(tmp_path, 2, [1], "--timeout", "3")) == [3]
    assert "cannot reach rank 0 at 127.0.0.1:" in (tmp_path / "err.1").read_text()
    assert not left_in(tmp_path)


@needs_torch
def test_told_to_end_they_keep_what_there_is_and_leave_nothing_behind(tmp_path: Path) -> None:
    processes = start(tmp_path, 2, range(2), "-n", "1000000", "--timeout", "100")
    deadline_s = time.monotonic() + WITHIN_S
    while not list(tmp_path.glob("toposcope-*/progress-0.json")):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    for process in processes:
        process.send_signal(signal.SIGINT)
    statuses = ended(processes)
    assert statuses[0] == 1
    assert statuses[1] in (1, 130, -signal.SIGINT)
    assert "interrupted from the keyboard; 0 results so far are kept" in (tmp_path / "err.0").read_text()
    assert not left_in(tmp_path)


class Alone:
    """A worker beside which nobody answers."""

    def __init__(self, state: str) -> None:
        self.state = state

    def report(self) -> Report:
        return Report(1, 0, self.state, 1, "job", 1, at_s=time.monotonic())


def test_a_rank_0_that_falls_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "SILENCE_S", 0.1)
    monkeypatch.setattr(members, "BEAT_S", 0.01)
    place = Place("srun", 1, 2, 1, "127.0.0.1", free_port())
    with pytest.raises(EnvironmentMissing, match="hears nothing from rank 0"):
        members._served(place, place.port, Alone(RUNNING))
    assert members._served(place, place.port, Alone(DONE)) == 0
