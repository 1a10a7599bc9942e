"""`topo validate published`: documents, tables, and what becomes of data that cannot be trusted."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.validate.published_documents import document
from topo.cli import main
from validate.published.runs import SHIPPED

SIZES = (8, 1024, 1 << 16, 1 << 18, 1 << 20, 1 << 24, 1 << 26, 1 << 30)


def call(*words: str) -> Result:
    return CliRunner().invoke(main, ["validate", "published", *words], prog_name="topo")


def documents() -> list[dict[str, Any]]:
    samples = [{"num_bytes": size, "time_s": 2e-5 + size / 200e9} for size in SIZES]
    rows: list[dict[str, Any]] = [
        {"name": "reduce", "samples": samples},
        {"name": "gather", "samples": samples, "collective": "all_gather", "reduction": None},
        {"name": "exchange", "samples": samples[4:], "collective": "alltoall"},
        {"name": "one-size", "samples": samples[-1:]},
        {"name": "slow", "samples": samples, "quality": "degraded"},
    ]
    return [document(**row) for row in rows]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "runs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents()))
    return folder


@pytest.mark.parametrize(("fit", "num_fitted"), [("none", 0), ("overhead", 3), ("three", 9)])
def test_the_document_s_summary_follows_from_its_rows(data: Path, fit: str, num_fitted: int) -> None:
    result = call("--data", str(data), "--fit", fit, "--format", "json", "--model", "textbook")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["schema"], found["fit"], found["quality"]) == ("published/1", fit, "healthy")
    assert set(found["summary"]) == {"all", "all_reduce", "all_gather", "all_to_all"}
    rows = [row for dataset in found["datasets"] for row in dataset["rows"]]
    assert sum(row["fitted"] for row in rows) == num_fitted
    errors: dict[str, list[float]] = {"latency": [], "knee": [], "bandwidth": []}
    for row in rows:
        assert row["relative_error"] == pytest.approx(row["predicted_s"] / row["measured_s"] - 1)
        if not row["fitted"]:
            size = row["num_bytes"]
            regime = "latency" if size <= 1 << 16 else "knee" if size <= 1 << 24 else "bandwidth"
            errors[regime].append(abs(row["relative_error"]))
    for regime, group in errors.items():
        stated = found["summary"]["all"][regime]
        assert stated["num_rows"] == len(group)
        assert stated["median_abs_error"] == pytest.approx(np.median(group))
        assert stated["p90_abs_error"] == pytest.approx(np.quantile(group, 0.9))
    assert set(found["baselines"]) == {"nccl", "textbook"}
    assert found["machine_classes"]["A100-test"] == found["summary"]["all"]
    assert found["set_aside"] == []


@pytest.mark.parametrize(("quality", "names"), [("degraded", {"slow"}), ("all", {"slow", "reduce"})])
def test_quality_picks_the_runs(data: Path, quality: str, names: set[str]) -> None:
    result = call("--data", str(data), "--quality", quality, "--format", "json")
    assert names <= {row["name"] for row in json.loads(result.stdout)["datasets"]}
    assert result.exit_code == 0


def test_a_run_set_aside_is_listed_and_is_a_finding(data: Path) -> None:
    bad = document(name="bad", num_ranks=8, id="901")
    (data / "zbad.json").write_text(json.dumps(bad))
    result = call("--data", str(data), "--format", "json")
    assert result.exit_code == 1
    assert "topo: set aside: 901-bad: 8 ranks are stated" in result.stderr
    (listed,) = json.loads(result.stdout)["set_aside"]
    assert (listed["run"], listed["num_rows"]) == ("901-bad", 2)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--data", "nowhere"), "nowhere is no folder"),
        (("--fit", "tow"), "'tow' is not one of"),
        (("--model", "ncl"), "did you mean 'nccl'"),
        (("--quality", "unknown"), "none is unknown"),
    ],
)
def test_bad_usage_is_one_sentence(data: Path, words: tuple[str, ...], says: str) -> None:
    given = words if "--data" in words else ("--data", str(data), *words)
    result = call(*given)
    assert result.exit_code == 2
    assert says in result.stderr


def test_the_tables_name_every_model_beside_the_rows(data: Path) -> None:
    result = call("--data", str(data), "--fit", "overhead")
    assert result.exit_code == 0
    assert "absolute error of time in %, 4 runs, 18 rows that no model was fitted to; fit: overhead" in (
        " ".join(result.stdout.split())
    )
    for word in ("collective", "machine", "class", "textbook", "A100-test", "worst runs"):
        assert word in result.stdout


def test_markdown_holds_all_three_tables(data: Path) -> None:
    result = call("--data", str(data), "--format", "md")
    assert result.stdout.count("| ---") >= 3
    assert "| all_to_all | bandwidth |" in result.stdout


def test_csv_holds_every_row(data: Path) -> None:
    result = call("--data", str(data), "--format", "csv", "--fit", "three")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert len(rows) == 2 * len(SIZES) + 4 + 1
    assert sum(row["fitted"] == "yes" for row in rows) == 9
    assert float(rows[0]["measured_us"]) == pytest.approx(20, rel=1e-3)


def test_the_plot_is_written(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "errors.svg"
    result = call("--data", str(data), "--plot", str(target))
    assert result.exit_code == 0, result.output
    assert target.read_text().startswith("<svg")


@pytest.mark.parametrize("name", ["errors.png", "errors", "errors.svg.gz"])
def test_a_plot_of_another_form_is_refused(data: Path, tmp_path: Path, name: str) -> None:
    result = call("--data", str(data), "--plot", str(tmp_path / name))
    assert result.exit_code == 2
    assert f"--plot {tmp_path / name}: the picture is written as SVG" in result.stderr
    assert not (tmp_path / name).exists()


def test_a_plot_that_cannot_be_written_names_its_option(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = tmp_path / "nowhere" / "errors.svg"
    assert f"--plot {nowhere}: there is no folder" in call("--data", str(data), "--plot", str(nowhere)).stderr

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    result = call("--data", str(data), "--model", "textbook", "--plot", str(tmp_path / "errors.svg"))
    assert result.exit_code == 2
    assert "--plot" in result.stderr
    assert "cannot be written (No space left on device)" in result.stderr


def test_numbers_at_the_edge_are_set_aside_without_a_warning(data: Path) -> None:
    samples = [{"num_bytes": 8, "time_s": time_s} for time_s in (5e-324, 1e300, 1e-5)]
    (data / "edge.json").write_text(json.dumps(document(id="902", name="edge", samples=samples)))
    result = call("--data", str(data), "--format", "json", "--model", "textbook")
    assert result.exit_code == 1, result.output
    (listed,) = json.loads(result.stdout)["set_aside"]
    assert (listed["run"], listed["num_rows"]) == ("902-edge", 2)


def test_a_folder_of_a_document_without_a_machine_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({**document(), "machine": None}))
    result = call("--data", str(tmp_path))
    assert result.exit_code == 2
    assert f"{tmp_path / 'a.json'}: $.machine: expected `object`" in result.stderr


def test_one_class_alone_has_nothing_to_learn_from(data: Path) -> None:
    result = call("--data", str(data), "--cross-validate")
    assert result.exit_code == 2
    assert "all runs are of class A100-test" in result.stderr
    (data / "other.json").write_text(json.dumps(document(name="other", machine={"class": "A100-other"})))
    result = call("--data", str(data), "--cross-validate", "--model", "nccl", "--format", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["cross_validated"] is True


def test_a_model_that_knows_the_runs_says_so(tmp_path: Path) -> None:
    first = shipped_lines()[0]
    (tmp_path / "one.json").write_text(first)
    (tmp_path / "two.json").write_text(json.dumps(document()))
    assert "clock was fitted to 1 of these 2 runs" in call("--data", str(tmp_path)).stderr
    assert "was fitted" not in call("--data", str(tmp_path), "--model", "nccl").stderr


def shipped_lines() -> list[str]:
    return SHIPPED.read_text().split("\n")
