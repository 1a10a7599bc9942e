"""Real processes on this machine: exact results of every algorithm, and what happens when a rank dies or hangs.

Starting processes costs seconds, so that each launch runs many jobs.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from sim.algorithms import ALGORITHMS
from sim.plan import in_order
from sim.schedule import Block, Schedule
from sim.workload import REDUCTIONS, Workload
from tests.sim.ways import WAYS, natural
from tests.support import ROOT
from tests.validate.schedules import all_gather, recursive_doubling, reduce_scatter, rotation
from topo.errors import EnvironmentMissing, MeasurementError
from validate import blame
from validate import launch as launch_module
from validate.faults import Fault
from validate.jobs import Job, Run, run_from_plain, run_to_plain
from validate.launch import Outcome, launch
from validate.measurement import Setting
from validate.progress import RUNNING, Report

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: no processes are started")
ALL_REDUCE = [name for name, row in ALGORITHMS.items() if "all_reduce" in row.collectives]
OTHER_WAYS = [way for way in WAYS if way[1] != "all_reduce"]
SIZES = (8, 4 * 1001, 256 * 1024)
"""Fewer elements than ranks; a prime number of chunks' worth; large enough for gloo's large-message path."""

TIMEOUT_S = 600.0
"""Only a hang takes so long, on however busy a machine."""


def schedules(num_ranks: int) -> dict[str, Schedule]:
    """Every algorithm, plain and with several channels, chunks and a server that is no rank."""
    found = {name: natural((name, "all_reduce"), num_ranks).schedule() for name in ALL_REDUCE}
    for name in ALL_REDUCE:
        plan = natural((name, "all_reduce"), num_ranks, 2, 3)
        found[f"{name}, pipelined"] = plan.schedule()
    server = replace(in_order("parameter-server", num_ranks, num_chunks=2), servers=(0, num_ranks), helpers=("host",))
    found["parameter-server, helper"] = server.schedule()
    return found


def backwards(way: tuple[str, str], num_ranks: int) -> Schedule:
    """Over ranks against their order, beginning at the last but one."""
    order = tuple((num_ranks - 2 - place) % num_ranks for place in range(num_ranks))
    return replace(natural(way, num_ranks), rings=(order,)).schedule()


def quick(workload: Workload, name: str, schedule: Schedule | None, **more: object) -> Job:
    return Job(workload, name, schedule, num_iterations=1, num_warmups=0, **more)


@pytest.mark.parametrize("num_ranks", [2, 3, 4, 5])
def test_every_algorithm_gives_exact_results(num_ranks: int) -> None:
    jobs = [
        quick(Workload("all_reduce", num_bytes, reduction=reduction), name, schedule)
        for name, schedule in {"builtin": None, **schedules(num_ranks)}.items()
        for reduction in REDUCTIONS
        for num_bytes in SIZES
    ]
    jobs += [
        quick(Workload("all_reduce", 1000, dtype, "avg"), "ring", in_order("ring", num_ranks).schedule())
        for dtype in ("int8", "uint8", "float16", "bfloat16", "int64", "float64")
    ]
    jobs += [
        quick(Workload(way[1], num_bytes, reduction=reduction), " ".join(way), natural(way, num_ranks, 2, 3).schedule())
        for way in OTHER_WAYS
        for reduction in ("avg", "max")
        for num_bytes in SIZES
    ]
    jobs += [quick(Workload(way[1], 4096), f"{way[0]} backwards", backwards(way, num_ranks)) for way in OTHER_WAYS]
    gradients = [quick(*job, contributions=gradients_of(num_ranks)) for job in averages(num_ranks)]
    outcome = launch(Run("gloo", num_ranks, (*jobs, *gradients)), timeout_s=TIMEOUT_S)
    assert outcome.failure is None
    assert sorted(outcome.measurements) == list(range(len(jobs) + len(gradients)))
    jobs += gradients
    wrong = [jobs[index].label for index, found in outcome.measurements.items() if not found.correct]
    assert not wrong
    found = outcome.measurements[0]
    assert (found.backend, found.executor, found.num_ranks) == ("gloo", "builtin", num_ranks)
    assert [row.name for row in found.software] == ["torch"]
    assert outcome.measurements[len(jobs) - 1].executor == "point-to-point"
    average = {2: 3.5, 3: 3.5, 4: 3.5, 5: 4.2}[num_ranks]
    assert len(outcome.values) == len(gradients)
    for held in outcome.values.values():
        np.testing.assert_allclose(held, average, rtol=1e-7 if num_ranks == 5 else 0)


def gradients_of(num_ranks: int) -> tuple[tuple[float, ...], ...]:
    """Gradients 0 and 7 in turn, so that two ranks must end with 3.5; a third rank holds the average already."""
    return tuple(((0.0, 7.0, 3.5, 3.5, 7.0)[rank],) * 3 for rank in range(num_ranks))


def averages(num_ranks: int) -> list[tuple[Workload, str, Schedule | None]]:
    workload = Workload("all_reduce", 12, reduction="avg")
    return [(workload, name, schedule) for name, schedule in {"builtin": None, **schedules(num_ranks)}.items()]


ByHand = tuple[list[Job], Outcome, list[str]]
"""The jobs of one launch, what it brought, and what it told of its progress."""


@pytest.fixture(scope="module")
def by_hand() -> ByHand:
    """One launch of four ranks with schedules by hand, wrong ones, and contributions of the caller's own."""
    ring = in_order("ring", 4).schedule()
    rows = ring.rows()
    broken = replace(ring, blocks=(Block(rows.take(np.arange(len(rows) - 1))),))
    gradients = ((0.0,) * 3, (7.0,) * 3, (1.0,) * 3, (2.0,) * 3)
    jobs = [
        quick(Workload("all_reduce", 4096), "recursive doubling", recursive_doubling(4)),
        quick(Workload("all_gather", 4096), "all-gather", all_gather(4)),
        quick(Workload("reduce_scatter", 4096, reduction="avg"), "reduce-scatter", reduce_scatter(4)),
        quick(Workload("broadcast", 4096), "builtin", None),
        quick(Workload("reduce", 4096, reduction="avg"), "builtin", None),
        quick(Workload("all_gather", 4096), "builtin", None),
        quick(Workload("reduce_scatter", 4096, reduction="avg"), "builtin", None),
        quick(Workload("all_reduce", 4096), "broken ring", broken),
        quick(Workload("all_reduce", 4096), "rotation", rotation(4)),
        quick(Workload("all_reduce", 12), "rotation", rotation(4), check=False, contributions=gradients),
        quick(
            Workload("all_reduce", 12, reduction="avg"), "tree", in_order("tree", 4).schedule(), contributions=gradients
        ),
        quick(Workload("all_to_all", 4096), "builtin", None),
        quick(Workload("all_reduce", 4096), "builtin", None, settings=(Setting("NCCL_ALGO", "Ring"),)),
    ]
    told: list[str] = []
    return jobs, launch(Run("gloo", 4, tuple(jobs)), timeout_s=TIMEOUT_S, tell=told.append), told


def test_schedules_by_hand_are_exact_and_wrong_ones_are_found_out(by_hand: ByHand) -> None:
    jobs, outcome, _ = by_hand
    assert outcome.failure is None
    verdicts = [outcome.measurements[index].correct for index in range(len(jobs))]
    assert verdicts == [True] * 7 + [False, False, None, True, True, True]


def test_a_message_carries_what_its_sender_held_at_the_start_of_the_step(by_hand: ByHand) -> None:
    _, outcome, _ = by_hand
    assert outcome.values[9] == ((2.0,) * 3, (0.0,) * 3, (7.0,) * 3, (1.0,) * 3)
    assert outcome.values[10] == ((2.5,) * 3,) * 4


@pytest.mark.parametrize("name", ALL_REDUCE)
def test_a_run_survives_the_way_to_the_processes(name: str) -> None:
    job = Job(Workload("all_reduce", 8), name, in_order(name, 2).schedule(), contributions=((0.0, 0.0), (7.0, 7.0)))
    plain = run_to_plain(Run("gloo", 2, (job, Job(Workload("reduce", 16, "int8", "max"), "builtin"))))
    assert run_to_plain(run_from_plain(plain)) == plain


STALL_S = 20.0
"""What stands still for so long hangs, on however busy a machine."""


FAULTS = [
    ("kill:2:after=1", "rank 2 died without a word", 2, 1),
    ("hang:1:after=2", "rank 1 hangs", 1, 2),
    ("freeze:0:after=1", "rank 0 does not answer", 0, 1),
    ("fail:1:after=1", "rank 1 failed", 1, 1),
    ("nccl:2:after=1", "rank 2 failed, last seen in ring all_reduce sum 1024 bytes: RuntimeError: NCCL error", 2, 1),
    ("disk:0:after=2", "No space left on device (no space is left in ", 0, 2),
]
"""What befalls a rank, what is said of it, who is blamed, and how many results are kept."""


@dataclass(frozen=True)
class Faulty:
    """Launches with one fault each: outcome and seconds; and what all of them left in the folder for temporaries."""

    outcomes: dict[str, tuple[Outcome, float]]
    folder: Path
    left: list[str]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Faulty:
    """Launches side by side, since each waits most of its time."""

    def one(fault: str) -> tuple[Outcome, float]:
        ring = in_order("ring", 3).schedule()
        jobs = tuple(Job(Workload("all_reduce", num_bytes), "ring", ring, 3, 1) for num_bytes in (8, 1024, 4096))
        started = time.monotonic()
        environment = {"TOPOSCOPE_FAULT": fault}
        outcome = launch(Run("gloo", 3, jobs), timeout_s=TIMEOUT_S, stall_s=STALL_S, environment=environment)
        return outcome, time.monotonic() - started

    faults = [fault for fault, *_ in FAULTS]
    folder = tmp_path_factory.mktemp("faulty")
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(4) as pool:
        patch.setattr(tempfile, "tempdir", str(folder))
        outcomes = dict(zip(faults, pool.map(one, faults), strict=True))
    return Faulty(outcomes, folder, [path.name for path in folder.iterdir()])


@pytest.mark.parametrize(("fault", "words", "culprit", "num_kept"), FAULTS)
def test_a_fault_ends_in_time_with_the_rank_named_and_results_kept(
    faulty: Faulty, fault: str, words: str, culprit: int, num_kept: int
) -> None:
    outcome, took_s = faulty.outcomes[fault]
    assert outcome.failure is not None
    assert words in outcome.failure
    others = ", ".join(str(rank) for rank in range(3) if rank != culprit)
    assert outcome.failure.endswith(f"ranks {others} answered")
    assert outcome.culprits == (culprit,)
    assert sorted(outcome.measurements) == list(range(num_kept))
    assert took_s < TIMEOUT_S


def test_what_goes_wrong_inside_a_job_ends_that_job_alone() -> None:
    ring = in_order("ring", 2).schedule()
    jobs = tuple(Job(Workload("all_reduce", num_bytes), "ring", ring, 1, 0) for num_bytes in (8, 1024, 4096))
    arrived: list[int] = []
    faults = {"memory:1:after=1": (True, None, True), "wrong:0:after=1": (True, False, True)}
    for fault, verdicts in faults.items():
        outcome = launch(
            Run("gloo", 2, jobs),
            timeout_s=TIMEOUT_S,
            environment={"TOPOSCOPE_FAULT": fault},
            arrived=lambda index, _: arrived.append(index),
        )
        assert outcome.failure is None
        found = [outcome.measurements[index].correct if index in outcome.measurements else None for index in range(3)]
        assert tuple(found) == verdicts
        if fault.startswith("memory"):
            words = "ring all_reduce sum 1024 bytes was not run: MemoryError: out of memory (on process 1)"
            assert outcome.not_run == {1: words}
    assert arrived == [0, 2, 0, 1, 2]


def test_ranks_of_other_software_are_told_apart_before_anything_is_measured() -> None:
    run = Run("gloo", 3, (Job(Workload("all_reduce", 8), "builtin"),))
    outcome = launch(run, timeout_s=TIMEOUT_S, environment={"TOPOSCOPE_FAULT": "version:2:after=0"})
    assert outcome.failure is not None
    assert "the ranks run different software: torch " in outcome.failure
    assert " on 0, 1 (" in outcome.failure
    assert "(another) on 2 (" in outcome.failure
    assert not outcome.measurements


def test_a_fault_that_is_none_is_refused() -> None:
    with pytest.raises(MeasurementError, match="expected KIND:RANK:after=JOBS"):
        Fault.parse("explode:1:after=0")


def test_a_clock_that_is_set_freezes_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("gloo", 2, (Job(Workload("all_reduce", 8), "builtin"),))
    reports = {rank: Report(rank, os.getpid(), RUNNING, 3, "x", 1, at_s=time.monotonic()) for rank in range(2)}
    real = time.time
    monkeypatch.setattr(blame.time, "time", lambda: real() + 3600)
    words, culprits = blame.timed_out(run, reports, "no end after 1 s")
    assert culprits == ()
    assert "all ranks are at work" in words


def test_a_full_folder_for_temporary_files_is_something_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(launch_module.tempfile, "TemporaryDirectory", full)
    with pytest.raises(
        EnvironmentMissing, match=r"no space is left for temporary files in .*: free some, or set TMPDIR"
    ):
        launch(Run("gloo", 2, (Job(Workload("all_reduce", 8), "builtin"),)))


def test_the_time_for_all_is_kept_even_while_processes_start() -> None:
    run = Run("gloo", 2, (Job(Workload("all_reduce", 8), "builtin"),))
    started = time.monotonic()
    told: list[str] = []
    outcome = launch(run, timeout_s=0.5, tell=told.append)
    assert time.monotonic() - started < TIMEOUT_S
    assert outcome.failure is not None
    assert outcome.failure.startswith("no end after 0.5 s: ranks 0, 1 never began (2 of 2 processes: starting them may")
    assert set(told) == {"starting processes: 0 of 2"}
    assert not outcome.measurements


def test_no_file_and_no_process_is_left_behind(faulty: Faulty) -> None:
    assert not faulty.left
    assert not running(faulty.folder)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_without_torch_the_message_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_module.importlib.util, "find_spec", lambda name: None)
    run = Run("gloo", 2, (Job(Workload("all_reduce", 8), "builtin"),))
    with pytest.raises(EnvironmentMissing, match=r"pip install 'toposcope\[validate\]'") as caught:
        launch(run)
    assert caught.value.exit_code == 3


def test_a_torch_that_does_not_work_is_something_missing(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('libcudart.so.12 is missing')\n")
    run = Run("gloo", 2, (Job(Workload("all_reduce", 8), "builtin"),))
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    with pytest.raises(EnvironmentMissing, match=r"could not start a process: .*libcudart\.so\.12 is missing"):
        launch(run, environment={"PYTHONPATH": path})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_launch_that_is_told_to_end_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    process = long_launch(tmp_path)
    process.send_signal(number)
    time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(timeout=TIMEOUT_S) == (-number if number == signal.SIGINT else 128 + number)
    assert not list(tmp_path.iterdir())
    assert not running(tmp_path)


def test_a_launch_that_is_told_to_end_while_it_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    process = long_launch(tmp_path, until="toposcope-*")
    process.terminate()
    assert process.wait(timeout=TIMEOUT_S) == 128 + signal.SIGTERM
    assert not list(tmp_path.iterdir())
    wait_until(lambda: not running(tmp_path))


@pytest.mark.parametrize("until", ["toposcope-*/jobs.json", "toposcope-*/progress-1.json"])
def test_processes_end_by_themselves_and_clean_up_when_their_launch_is_killed(tmp_path: Path, until: str) -> None:
    process = long_launch(tmp_path, until)
    if until.endswith("jobs.json"):
        wait_until(lambda: len(running(tmp_path)) > 0)
    process.kill()
    process.wait()
    wait_until(lambda: not running(tmp_path))
    assert not list(tmp_path.iterdir())


def long_launch(folder: Path, until: str = "toposcope-*/progress-1.json") -> subprocess.Popen[bytes]:
    """A launch in a program of its own, begun up to a file, with `folder` for its temporary files.

    Tests may run where SIGHUP is ignored (nohup), which a program hands down.
    """
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL);"
        "from sim.workload import Workload; from validate.jobs import Job, Run; from validate.launch import launch;"
        "launch(Run('gloo', 2, (Job(Workload('all_reduce', 8), 'builtin', num_iterations=10**6),)))"
    )
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL)
    wait_until(lambda: bool(list(folder.glob(until))))
    return process


def running(folder: Path) -> list[Path]:
    """Processes of a launch: each has the launch's folder among its arguments."""
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(folder).encode() in _read(path)]


def wait_until(true: Callable[[], bool], within_s: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, "it has not come in time"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (Job(Workload("all_reduce", 8), "ring", in_order("ring", 3).schedule()), "a schedule of 3 ranks among 2 ranks"),
        (Job(Workload("all_reduce", 8), "builtin", num_iterations=0), "at least 1 iteration"),
        (Job(Workload("all_reduce", 8), "builtin", contributions=((1.0,),)), "must be 2 rows of 2 values"),
    ],
)
def test_jobs_that_cannot_run_are_refused_before_anything_starts(job: Job, words: str) -> None:
    with pytest.raises(MeasurementError, match=words):
        Run("gloo", 2, (job,))


TORCHRUN_LOG = """\
Traceback (most recent call last):
  File "worker.py", line 3, in <module>
RuntimeError: connectFullMesh failed with [../third_party/gloo] Connection refused
E1130 02:22:01 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1) local_rank: 2 (pid: 41)
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
worker.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  rank      : 2 (local_rank: 2)
  exitcode  : 1 (pid: 41)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def test_why_torchrun_gave_up_is_what_a_process_said_last(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(TORCHRUN_LOG, encoding="utf-8")
    work = Workload("all_reduce", 8)
    run = Run("gloo", 4, (Job(work, "builtin"),))
    sentence = blame.ended_early(log, {0: Report(0, 1, RUNNING)}, run)
    assert sentence.startswith("torchrun ended early, 1 of 4 processes had begun: rank 2 ended first, with status 1: ")
    assert sentence.endswith("Connection refused")
    with pytest.raises(EnvironmentMissing, match="connectFullMesh"):
        blame.ended_early(log, {}, run)
