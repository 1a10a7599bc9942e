"""`topo validate` as a user runs it: real gloo processes once, files otherwise."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sim.workload import Workload
from tests.support import NO_CORPUS, ROOT, corpus_files
from topo.cli import main
from topo.jsonio import encode
from validate import launch
from validate.loopback import trials
from validate.measurement import Measurement, Setting
from validate.measurement_set import MeasurementSet
from validate.request import algorithms_for

CALIBRATED = len(trials())
"""Jobs of a run over gloo before the first that was asked for."""

STAR = "switch:2,bandwidth=1GB/s,latency=1us"
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: no processes are started")
A100 = corpus_files("nccl-tests/001-*.txt")


def validate(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["validate", *arguments], prog_name="topo")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """One real run over two gloo processes, kept as JSON."""
    path = tmp_path_factory.mktemp("run") / "run.json"
    options = ["--backend", "gloo", "--ranks", "2", "--size", "8,64K", "-n", "3", "-w", "1", "--reduction", "avg"]
    return path, validate("run", *options, "--timeout", "600", "--format", "json", "-o", str(path))


@needs_torch
def test_a_run_over_gloo_prints_predicted_beside_measured(measured: tuple[Path, Result]) -> None:
    path, result = measured
    assert result.exit_code == 0, result.stderr
    assert "predicted from point-to-point messages alone" in result.stderr
    document = json.loads(path.read_text())
    assert (document["schema"], document["backend"], document["num_ranks"]) == ("measurements/1", "gloo", 2)
    assert document["collective"] == "all_reduce"
    names = [(row["num_bytes"], row["algorithm"]) for row in document["rows"]]
    assert names == [(num_bytes, name) for num_bytes in (8, 65536) for name in algorithms_for("all_reduce")]
    for row in document["rows"]:
        assert row["predicted_s"] > 0
        assert row["relative_error"] == pytest.approx(row["predicted_s"] / row["measured_s"] - 1)
        assert row["verdict"] in ("OK", "LOW", "HIGH")
        assert row["correct"] is True
    assert [row["executor"] for row in document["rows"][:2]] == ["builtin", "point-to-point"]
    assert all(len(row["samples_s"]) == 3 for row in document["measurements"])
    assert document["point_to_point"]["pair_bytes_per_s"] > 0
    assert [row["num_bytes"] for row in document["held_out"]] == [8, 65536]
    assert all(0 <= row["low"] <= row["high"] for row in document["held_out"])
    assert result.stderr.count("topo: held out, ") == 2


@needs_torch
def test_a_run_is_compared_with_a_topology_and_with_itself(measured: tuple[Path, Result]) -> None:
    path = str(measured[0])
    against = validate("compare", path, "--topology", STAR, "--format", "json")
    document = json.loads(against.stdout)
    assert against.exit_code == 1
    assert {row["verdict"] for row in document["rows"]} == {"LOW"}
    assert "LOW: " in against.stderr
    assert validate("compare", path, "--topology", STAR, "--tolerance", "10").exit_code == 0
    same = validate("compare", path, path, "--format", "json")
    assert same.exit_code == 0
    assert {row["verdict"] for row in json.loads(same.stdout)["rows"]} == {"SAME"}


@needs_torch
def test_a_rank_that_dies_ends_the_run_with_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPOSCOPE_FAULT", f"kill:1:after={CALIBRATED + 2}")
    options = ["--backend", "gloo", "--ranks", "2", "--size", "8", "-n", "2", "-w", "0", "--timeout", "600"]
    result = validate("run", *options, "--format", "csv")
    assert result.exit_code == 1
    assert "rank 1 died without a word" in result.stderr
    assert "rank 0 answered" in result.stderr
    assert "2 results so far are kept" in result.stderr
    assert [line.split(",")[1] for line in result.stdout.splitlines()] == ["algorithm", "builtin", "ring"]


@needs_torch
def test_a_collective_is_run_by_what_can_run_it_in_whole_parts() -> None:
    options = ["--backend", "gloo", "--ranks", "3", "-b", "8", "-e", "1K", "-f", "128", "-n", "1", "-w", "0"]
    result = validate("run", "--collective", "allgather", *options, "--timeout", "600", "--format", "json")
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)["rows"]
    assert all(row["predicted_s"] > 0 for row in rows)
    assert [(row["num_bytes"], row["algorithm"], row["correct"]) for row in rows] == [
        (num_bytes, name, True) for num_bytes in (12, 1020) for name in algorithms_for("all_gather")
    ]
    assert "rounded as by nccl-tests: 12 B, 1020 B" in result.stderr


@needs_torch
def test_of_many_ranks_that_come_too_late_a_few_are_named_and_no_empty_table_is_printed() -> None:
    result = validate("run", "--backend", "gloo", "--ranks", "12", "--size", "8", "--timeout", "1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4 more never began (12 of 12 processes" in result.stderr
    assert "0 results so far are kept" in result.stderr


def test_without_torch_the_exit_status_is_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None)
    result = validate("run")
    assert result.exit_code == 3
    assert "pip install 'toposcope[validate]'" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@needs_torch
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--backend", "gloo", "--algorithm", "rign"], "did you mean 'ring'?"),
        (
            ["--backend", "gloo", "--collective", "broadcast", "--algorithm", "tree"],
            "tree runs all_reduce, not broadcast",
        ),
        (["--backend", "gloo", "--algorithm", "direct"], "not all_reduce: that is run by builtin, ring, tree"),
        (["--backend", "gloo", "--collective", "allredcue"], "unknown collective"),
        (["--backend", "gloo", "--dtype", "float31"], "unknown dtype"),
        (["--backend", "gloo", "--reduction", "mean"], "unknown reduction"),
        (["--backend", "gloo", "--size", "10"], "no whole number of float32"),
        (["--backend", "gloo", "--ranks", "3", STAR], "has 2 ranks, 3 are to be measured"),
        (["--backend", "gloo", "--gpus", "0"], "--gpus picks GPUs of TOPOLOGY"),
        (["--backend", "gloo", "no-such-thing"], "no-such-thing"),
        (["--backend", "gloo", "--fabric", "flat"], "--nodes and --fabric repeat TOPOLOGY"),
        (["--backend", "gloo", "--profile", "ideal"], "--profile would change nothing here"),
        (["--backend", "gloo", "--algorithm", "builtin", "--chunks", "2"], "--chunks cuts schedules of ours"),
        (["--backend", "gloo", "--cuda-graph"], "CUDA graphs need GPUs"),
        (["--backend", "gloo", "--protocol", "ll"], "--protocol is for what NCCL executes"),
        (["--backend", "gloo", "--protocol", "l128"], "did you mean 'll128'?"),
        (["--backend", "gloo", "--executor", "builtin", "--algorithm", "ring"], "gloo has no ring"),
        (["--backend", "gloo", "--algorithm", "nvls"], "nvls runs inside a switch"),
        (["--backend", "gloo", "--retries", "3"], "give --min-ratio"),
        (["--backend", "gloo", "--min-ratio", "0"], "0.0 is not in the range"),
        (["--ranks", "0"], "0 is not in the range"),
        (["--backend", "gloo", "--ranks", "1", "--algorithm", "ring"], "ring over 1 rank sends nothing"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(
    arguments: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch.subprocess, "Popen", lambda *args, **kwargs: pytest.fail("a process was started"))
    result = validate("run", *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1


HEAD = "# all_reduce_perf\n#  Rank  0 on a\n#  Rank  1 on a\n# size count type redop root time algbw busbw #wrong\n"
GOOD = "1000000 250000 float sum -1 1000 1.00 1.00 0\n"
WRONG = "2000000 500000 float sum -1 1000 2.00 2.00 3\n"
EDITED = "2000000 500000 float sum -1 1000 2.00 3.00 0\n"


@pytest.fixture
def table(tmp_path: Path) -> Callable[[str, str], str]:
    """Writes a table of nccl-tests of two ranks with these rows; its path."""

    def write(name: str, rows: str) -> str:
        (tmp_path / name).write_text(HEAD + rows)
        return str(tmp_path / name)

    return write


@pytest.mark.parametrize(
    ("rows", "words", "num_kept"),
    [
        (GOOD + WRONG, "line 6: 2000000 bytes: 3 wrong results", 1),
        (GOOD + EDITED, "line 6: 2000000 bytes: busbw 3 GB/s and algbw 2 GB/s contradict each other", 1),
        (WRONG, "line 5: 2000000 bytes: 3 wrong results", 0),
    ],
)
def test_a_row_that_is_wrong_or_edited_is_a_finding(
    table: Callable[[str, str], str], rows: str, words: str, num_kept: int
) -> None:
    path = table("run.txt", rows)
    against = validate("compare", path, "--topology", STAR, "--tolerance", "10", "--format", "json")
    assert against.exit_code == 1
    assert f"topo: {path}, {words}" in against.stderr
    document = json.loads(against.stdout)
    assert (len(document["rows"]), len(document["findings"])) == (num_kept, 1)
    table_alone = validate("compare", path, "--topology", STAR, "--tolerance", "10")
    assert (table_alone.exit_code, bool(table_alone.stdout)) == (1, num_kept > 0)
    good = table("good.txt", GOOD)
    assert validate("compare", good, "--topology", STAR, "--tolerance", "10").exit_code == 0
    for pair in ((good, path), (path, good)):
        changed = validate("compare", *pair)
        assert changed.exit_code == 1
        assert f"topo: {path}, {words}" in changed.stderr


def test_a_wrong_result_in_our_own_document_is_a_finding(tmp_path: Path) -> None:
    row = Measurement(Workload("all_reduce", 8), 2, "gloo", "point-to-point", "ring", (1.0,), correct=False)
    path = tmp_path / "run.json"
    path.write_text(encode(MeasurementSet("x", (row,), failure="rank 1 died"), "measurements/1"))
    for more in (("--topology", STAR, "--tolerance", "1e6"), (str(path),)):
        result = validate("compare", str(path), *more)
        assert result.exit_code == 1
        assert f"{path}: WRONG result: ring all_reduce of 8 bytes" in result.stderr
        assert f"{path}: the run ended early: rank 1 died" in result.stderr
    assert "WRONG" in validate("compare", str(path), "--topology", STAR).stdout


def test_ranks_given_count_where_the_file_lists_fewer(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text(HEAD.replace("#  Rank  1 on a\n", "") + GOOD)
    silent = validate("compare", str(path), "--topology", STAR, "--tolerance", "10")
    assert silent.exit_code == 2
    assert "all_reduce over 1 rank has 0.000: check the number of ranks (--ranks" in silent.stderr
    given = validate("compare", str(path), "--topology", STAR, "--ranks", "2", "--tolerance", "10")
    assert given.exit_code == 0
    assert "it lists 1 rank; --ranks 2 is taken instead" in given.stderr


@pytest.mark.corpus
@pytest.mark.skipif(not A100, reason=NO_CORPUS)
def test_nccl_tests_output_is_held_against_a_machine() -> None:
    wide = validate("compare", str(A100[0]), "--topology", "dgx-a100", "--tolerance", "0.9", "--format", "json")
    assert wide.exit_code == 0, wide.stderr
    document = json.loads(wide.stdout)
    assert (document["schema"], document["num_ranks"]) == ("validate-compare/1", 8)
    assert document["rows"][0]["measured_s"] == 3.473e-05
    assert {row["verdict"] for row in document["rows"]} == {"OK"}
    strict = validate("compare", str(A100[0]), "--topology", "dgx-a100", "--min-ratio", "0.99")
    assert strict.exit_code == 1
    assert "LOW: " in strict.stderr


@pytest.mark.corpus
@pytest.mark.skipif(not A100, reason=NO_CORPUS)
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "give FILE with --topology TOPOLOGY, or two files"),
        ([str(path) for path in A100] + ["--topology", "dgx-a100", "--nodes", "2"], "with 8 ranks"),
        ([str(path) for path in A100] + ["--topology", "dgx-a100", "--algorithm", "rng"], "did you mean 'ring'"),
        (["nothing.txt", "--topology", "dgx-a100"], "nothing.txt"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_refused(arguments: list[str], complaint: str) -> None:
    result = validate("compare", *(arguments or [str(A100[0])]))
    assert result.exit_code == 2
    assert complaint in result.stderr


@needs_torch
def test_a_dry_run_prints_the_line_and_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.subprocess, "Popen", lambda *args, **kwargs: pytest.fail("a process was started"))
    result = validate("run", "--backend", "gloo", "--ranks", "3", "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "-m torch.distributed.run --standalone" in result.stdout
    assert "--nproc-per-node 3" in result.stdout
    assert result.stdout.count("\n") == 1


@pytest.mark.parametrize(
    "option", [["--nodes", "2"], ["--gpus", "0"], ["--fabric", "flat"], ["--profile", "ideal"], ["--algorithm", "ring"]]
)
def test_before_and_after_takes_no_option_of_a_prediction(table: Callable[[str, str], str], option: list[str]) -> None:
    path = table("run.txt", GOOD)
    result = validate("compare", path, path, *option)
    assert result.exit_code == 2
    assert f"{option[0]} would change nothing here: AFTER predicts nothing" in result.stderr


def test_what_differs_besides_the_times_is_told(tmp_path: Path) -> None:
    paths = []
    for number, (version, algorithm) in enumerate((("2.27.3", "Ring"), ("2.30.7", None))):
        environment = (Setting("NCCL_ALGO", algorithm),) if algorithm else ()
        row = Measurement(
            *(Workload("all_reduce", 8), 2, "nccl", "builtin", "builtin", (1.0, 1.1, 1.2)),
            software=(Setting("nccl", version),),
            environment=environment,
        )
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(encode(MeasurementSet("x", (row,)), "measurements/1"))
    result = validate("compare", *map(str, paths), "--format", "json")
    assert result.exit_code == 0
    assert "nccl was 2.27.3, now it is 2.30.7, NCCL_ALGO was Ring and is no longer set" in result.stderr
    assert [row["name"] for row in json.loads(result.stdout)["differences"]] == ["nccl", "NCCL_ALGO"]


def test_a_gate_is_by_ratio_and_per_size(table: Callable[[str, str], str]) -> None:
    path = table("run.txt", "1000000 250000 float sum -1 2000 0.50 0.50 0\n")
    passed, failed = (
        validate("compare", path, "--topology", STAR, "--min-ratio", ratio, "--format", "json")
        for ratio in ("40%", "0.9")
    )
    assert (passed.exit_code, failed.exit_code) == (0, 1)
    (row,) = json.loads(failed.stdout)["rows"]
    assert row["verdict"] == "LOW"
    assert row["ratio"] == pytest.approx(1 + row["relative_error"])
    assert row["expected_low_busbw_bytes_per_s"] == pytest.approx(0.9 * row["predicted_busbw_bytes_per_s"])
    assert "(at least 90% asked), measured 0.5 GB/s: limited by GPU" in failed.stderr


@needs_torch
def test_ctrl_c_keeps_in_the_file_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    options = ["--backend", "gloo", "--ranks", "2", "--algorithm", "builtin", "--size", "8,64K", "-n", "2", "-w", "0"]
    fault = f"hang:1:after={CALIBRATED + 1}"
    # Where tests run in the background SIGINT is ignored: there too it must reach the command.
    start = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from topo.start import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", start, "validate", "run", *options, "--format", "json", "-o", str(path)],
        env={
            **os.environ,
            "TOPOSCOPE_FAULT": fault,
            "TMPDIR": str(tmp_path),
            "PYTHONPATH": str(ROOT),
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline_s = time.monotonic() + 600
    while not path.exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    assert json.loads(path.read_text())["failure"] == "it had not ended when this was written"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "interrupted from the keyboard; 1 result so far is kept" in said
    document = json.loads(path.read_text())
    assert document["failure"] == "interrupted from the keyboard"
    assert [(row["num_bytes"], row["predicted_s"] > 0) for row in document["rows"]] == [(8, True)]
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]
