"""Whole runs on recorded times: an NCCL machine without a GPU, health gates, and runs that are cut short."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sim.workload import Workload
from tests.validate.test_gpu_state import nvidia_smi
from tests.validate.test_library_files import CHOICES
from topo.cli import main
from topo.load import load_topology
from validate import arguments, launch
from validate.backends import gpus
from validate.jobs import Job
from validate.library_files import GRAPHS, LOG
from validate.recorded_launch import RecordedLaunch
from validate.request import Request
from validate.session import Session, run_session

__all__ = ["nvidia_smi"]

STAR = load_topology("switch:4,bandwidth=100GB/s,latency=1us")
SIZES = (1 << 20, 1 << 24)


def request(*algorithms: str, **more: object) -> Request:
    workloads = tuple(Workload("all_reduce", num_bytes) for num_bytes in SIZES)
    return Request("nccl", 4, workloads, algorithms or ("builtin",), num_iterations=3, num_warmups=1, **more)


def ideal_s(job: Job) -> float:
    """What a flat ring over the star takes."""
    return 6 * (1e-6 + job.workload.num_bytes / 4 / 100e9)


def recorded(factor: float = 1.0, **more: object) -> RecordedLaunch:
    return RecordedLaunch(lambda job: [factor * ideal_s(job)], **more)


def test_a_run_is_predicted_and_judged_row_by_row() -> None:
    session = run_session(request("ring", "parameter-server"), STAR, launcher=recorded())
    names = [(row.workload.num_bytes, row.algorithm, row.executor) for row in session.found.measurements]
    assert names == [
        (num_bytes, *way)
        for num_bytes in SIZES
        for way in (("ring", "builtin"), ("parameter-server", "point-to-point"))
    ]
    ring = [row for row in session.comparisons if row is not None and row.measurement.algorithm == "ring"]
    assert [row.verdict for row in ring] == ["OK", "OK"]
    assert all(row is not None and row.verdict == "HIGH" for row in session.comparisons[1::2])


def test_what_nccl_chose_and_expected_stands_beside_the_measurement() -> None:
    texts = {LOG: CHOICES, GRAPHS: "<graphs/>"}
    session = run_session(request("ring"), STAR, launcher=recorded(texts=texts, estimate_s=5e-5))
    first, second = session.found.measurements
    assert first.choice is not None
    assert (first.choice.algorithm, first.choice.protocol, first.choice.estimate_s) == ("ring", "ll", 5e-5)
    assert second.choice is not None
    assert (second.choice.algorithm, second.choice.estimate_s) == (None, 5e-5)
    assert [row.name for row in session.found.library_texts] == [LOG, GRAPHS]


def test_what_cannot_run_is_a_finding_and_the_rest_is_measured() -> None:
    times = lambda job: None if job.algorithm == "nvls" else [ideal_s(job)]  # noqa: E731
    session = run_session(request("builtin", "nvls"), STAR, launcher=RecordedLaunch(times))
    assert [row.algorithm for row in session.found.measurements] == ["builtin", "builtin"]
    assert len(session.found.findings) == 2
    assert session.found.findings[0] == "nvls all_reduce sum 1048576 bytes was not run: as recorded"


class Flaky:
    """A machine that is slow for its first attempts, at the larger size."""

    def __init__(self, num_slow: int) -> None:
        self.num_slow = num_slow
        self.asked: list[int] = []

    def __call__(self, job: Job) -> list[float]:
        self.asked.append(job.workload.num_bytes)
        slow = job.workload.num_bytes == SIZES[1] and self.asked.count(SIZES[1]) <= self.num_slow
        return [ideal_s(job) * (2 if slow else 1)]


@pytest.mark.parametrize(
    ("num_slow", "retries", "verdict", "num_asked"),
    [(1, 3, "OK", 2), (2, 3, "OK", 3), (9, 3, "LOW", 4), (1, 0, "LOW", 1)],
)
def test_a_gate_measures_low_rows_again_and_only_these(
    num_slow: int, retries: int, verdict: str, num_asked: int
) -> None:
    times = Flaky(num_slow)
    session = run_session(request(min_ratio=0.9, retries=retries), STAR, launcher=RecordedLaunch(times))
    assert [row.verdict for row in session.comparisons if row] == ["OK", verdict]
    assert (times.asked.count(SIZES[0]), times.asked.count(SIZES[1])) == (1, num_asked)
    assert len(session.found.remarks) == num_asked - 1


def test_every_size_is_saved_as_soon_as_it_is_there_and_kept_when_interrupted() -> None:
    saved: list[int] = []

    def times(job: Job) -> list[float]:
        if job.workload.num_bytes == SIZES[1]:
            raise KeyboardInterrupt
        return [ideal_s(job)]

    def save(session: Session) -> None:
        saved.append(len(session.found.measurements))

    session = run_session(request("ring", "parameter-server"), STAR, save=save, launcher=RecordedLaunch(times))
    assert saved == [2]
    assert session.found.failure == "interrupted from the keyboard"
    assert [row.verdict for row in session.comparisons if row] == ["OK", "HIGH"]


def test_a_launch_that_ends_early_is_not_measured_again() -> None:
    times = Flaky(9)
    launcher = RecordedLaunch(times, failure="rank 1 died")
    session = run_session(request(min_ratio=0.9, retries=3), STAR, launcher=launcher)
    assert session.found.failure == "rank 1 died"
    assert times.asked.count(SIZES[1]) == 1


def test_one_rank_is_measured_and_nothing_is_predicted() -> None:
    alone = Request("nccl", 1, (Workload("all_reduce", 8),), num_iterations=2)
    session = run_session(alone, launcher=RecordedLaunch(lambda _: [1e-6]))
    assert session.comparisons == (None,)
    assert session.found.measurements[0].busbw_bytes_per_s == 0.0


Run = Callable[..., Result]


@pytest.fixture
def on_8_gpus(nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`topo validate run` where torch would see 8 GPUs, and every job takes what a star's ring does."""

    def run(*options: str, factor: float = 1.0, num_gpus: int = 8, nccl: tuple[int, ...] = (2, 27, 3)) -> Result:
        def start(*args: object, environment: dict[str, str], **more: object):
            assert environment == ({} if num_gpus > 1 else environment)
            return recorded(factor, texts={LOG: CHOICES}, estimate_s=1e-4)(*args, **more)

        monkeypatch.setattr(gpus, "num_gpus", lambda: num_gpus)
        monkeypatch.setattr(gpus, "nccl_version", lambda: nccl)
        monkeypatch.setattr(launch, "launch", start)
        return CliRunner().invoke(main, ["validate", "run", *options], prog_name="topo")

    return run


EIGHT = "switch:8,bandwidth=100GB/s,latency=1us"


def test_an_nccl_run_as_json_holds_all_that_was_noted(on_8_gpus: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    options = ["--algorithm", "builtin,ring,parameter-server", "--protocol", "simple", "--size", "1M", "-n", "3"]
    result = on_8_gpus(EIGHT, *options, "--tolerance", "9", "--format", "json", "-o", str(path))
    assert result.exit_code == 1, result.stderr
    document = json.loads(path.read_text())
    assert (document["backend"], document["num_ranks"]) == ("nccl", 8)
    ways = [(row["algorithm"], row["executor"], row["protocol"]) for row in document["rows"]]
    assert ways == [
        ("builtin", "builtin", "simple"),
        ("ring", "builtin", "simple"),
        ("parameter-server", "point-to-point", None),
    ]
    assert document["rows"][0]["library_algorithm"] == "nvls"
    assert document["rows"][1]["library_estimate_s"] == 1e-4
    assert {row["moment"] for row in document["gpus"]} == {"before", "after"}
    assert [row["name"] for row in document["library_texts"]] == [LOG]
    assert "GPU 1 is slowed down by hardware thermal slowdown" in result.stderr
    compared = CliRunner().invoke(main, ["validate", "compare", str(path), str(path)], prog_name="topo")
    assert "SAME" in compared.stdout


def test_a_gate_that_fails_is_a_finding_with_what_was_expected(on_8_gpus: Run, nvidia_smi: Path) -> None:
    (nvidia_smi / "gpus").write_text("")
    options = [EIGHT, "--algorithm", "ring", "--size", "16M", "--min-ratio", "0.9", "--retries", "2"]
    good, bad = on_8_gpus(*options, factor=7 / 6), on_8_gpus(*options, factor=2.0)
    assert (good.exit_code, bad.exit_code) == (0, 1), bad.stderr
    assert "LOW: " in bad.stderr
    assert "of busbw (at least 90% asked), measured" in bad.stderr
    assert "attempt 3: 1 LOW row measured again, 1 of them still LOW" in bad.stderr


def test_a_second_user_on_the_gpus_is_a_finding(on_8_gpus: Run, nvidia_smi: Path) -> None:
    (nvidia_smi / "gpus").write_text("0, GPU-aaaa, NVIDIA H100, 1980, 2619, 1980, 41, 302.5, 99, 0x0\n")
    options = [EIGHT, "--algorithm", "ring", "--size", "16M", "--tolerance", "9"]
    assert on_8_gpus(*options).exit_code == 0
    (nvidia_smi / "apps").write_text("GPU-aaaa, 4242, 512 MiB\n")
    shared = on_8_gpus(*options)
    assert shared.exit_code == 1
    assert "GPU 0 was in use when the run began, by process 4242" in shared.stderr


@pytest.mark.parametrize(
    ("nccl", "ranks", "status", "words"),
    [
        ((2, 30, 7), None, 0, "one GPU: two ranks share it"),
        ((2, 27, 3), None, 0, "one GPU, one rank: several ranks on one GPU need NCCL 2.30 or later"),
        ((2, 27, 3), "2", 3, "2 ranks on 1 GPU: several ranks on one GPU need NCCL 2.30"),
        ((2, 30, 7), "1", 0, ""),
    ],
)
def test_one_gpu_runs_one_rank_or_two_or_says_why_not(
    on_8_gpus: Run,
    nvidia_smi: Path,
    monkeypatch: pytest.MonkeyPatch,
    nccl: tuple[int, ...],
    ranks: str | None,
    status: int,
    words: str,
) -> None:
    (nvidia_smi / "gpus").write_text("")
    monkeypatch.setattr(arguments, "_this_machine", lambda note: None)
    more = [] if ranks is None else ["--ranks", ranks]
    options = ["--backend", "nccl", "--algorithm", "builtin", "--size", "1K", *more]
    result = on_8_gpus(*options, num_gpus=1, nccl=nccl)
    assert result.exit_code == status, result.stderr
    assert words in result.stderr


def test_many_nodes_need_a_launcher(on_8_gpus: Run) -> None:
    result = on_8_gpus("dgx-h100", "--nodes", "2", "--backend", "nccl")
    assert result.exit_code == 3
    assert "--nodes 2 is measured by processes on all of them" in result.stderr


def test_a_dry_run_shows_the_variables_too(on_8_gpus: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "_this_machine", lambda note: None)
    options = ["--backend", "nccl", "--algorithm", "builtin", "--ranks", "4", "--dry-run"]
    result = on_8_gpus(*options, num_gpus=1, nccl=(2, 30, 7))
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=16 ")
    assert "--nproc-per-node 4" in result.stdout
