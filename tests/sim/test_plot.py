"""Plots: what is drawn, in both formats, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sim.measured import MeasuredRun
from sim.plot import plot
from sim.series import Chart, Point, Series, size_charts
from tests.sim.pages import GIB, MIB, STAR, simulated
from tests.support import NO_CORPUS, corpus_files
from topo.cli import main
from topo.errors import ScheduleError
from topo.load import load_topology

MEASURED = corpus_files("measurements/001-*.json")


def run_topo(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["simulate", *arguments])
    return result.exit_code, result.stderr


def charts_of(sizes: tuple[int, ...] = (MIB, GIB), measured: tuple[MeasuredRun, ...] = ()) -> tuple[Chart, ...]:
    _, predictions, names = simulated(load_topology(STAR), ("ring", "parameter-server"), sizes)
    return size_charts(predictions, measured, names)


def test_charts_hold_the_numbers_of_the_predictions() -> None:
    _, predictions, _ = simulated(load_topology(STAR), ("ring", "parameter-server"), (MIB, GIB))
    busbw, time = charts_of((GIB, MIB))
    assert [series.label for series in busbw.series] == ["ring, simulated", "parameter-server, simulated"]
    assert [point.x for point in time.series[0].points] == [MIB, GIB]
    drawn = {(series.label.partition(",")[0], point.x): point.y for series in time.series for point in series.points}
    assert drawn == {(run.algorithm, run.workload.num_bytes): run.duration_s for run in predictions}


def test_measured_points_carry_their_range() -> None:
    run = MeasuredRun("builtin", "all_reduce", MIB, 8, 20e-6, 18e-6, 25e-6)
    busbw, time = charts_of(measured=(run,))
    assert time.series[-1] == Series("builtin, measured", (Point(MIB, 20e-6, 18e-6, 25e-6),), is_measured=True)
    (point,) = busbw.series[-1].points
    assert point.low is not None
    assert point.high is not None
    assert point.low < point.y < point.high
    assert point.y == pytest.approx(MIB / 20e-6 * 1.75 / 1e9)


@pytest.mark.parametrize(("form", "head"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_plot_is_a_picture_that_is_the_same_each_time(form: str, head: bytes) -> None:
    picture = plot(charts_of(), "a title", form)
    assert picture.startswith(head)
    assert picture == plot(charts_of(), "a title", form)


def test_a_plot_says_what_its_lines_are() -> None:
    measured = (MeasuredRun("_$builtin$", "all_reduce", MIB, 8, 20e-6, 18e-6, 25e-6),)
    text = plot(charts_of(measured=measured), "all_reduce on <it> & $that$", "svg").decode()
    for word in ("ring, simulated", "parameter-server, simulated", "$builtin$, measured", "busbw GB/s", "1 MiB"):
        assert word in text
    assert "all_reduce on &lt;it&gt; &amp; $that$" in text


def test_nothing_to_plot_is_said() -> None:
    with pytest.raises(ScheduleError, match="nothing to plot"):
        plot((), "nothing", "svg")


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, said = run_topo(STAR, "--size", "1M", "--plot", str(tmp_path / "p.png"))
    assert status == 3
    assert "pip install 'toposcope[plot]'" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--plot", "p.jpg"], "unknown suffix of a plot '.jpg'"),
        (["--plot", "plot"], "unknown suffix of a plot 'plot'"),
        (["--plot", "no/such/p.png"], "there is no folder no/such"),
        (["--trace", "no/such/t.json"], "--trace no/such/t.json: there is no folder"),
        (["--page", "no/such/x.html"], "--page no/such/x.html: there is no folder"),
        (["--page", "."], "is a directory"),
        (["--page", "/dev/full"], "--page /dev/full: cannot be written (No space left on device)"),
        (["--measured", "no-such-file", "--page", "x.html"], "no-such-file"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(
    arguments: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, said = run_topo(STAR, "--size", "1M", *arguments)
    assert status == 2
    assert complaint in said
    assert said.strip().count("\n") <= 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["what-if", "dgx-h100", "--change", "nodes 1,2,4", "--size", "1M"],
            ["nodes", "busbw", "1 MiB, simulated"],
        ),
        (
            ["ddp", "dgx-h100", "--model", "resnet18", "--bucket-cap-mb", "1,25"],
            ["bucket cap", "exposed", "ddp auto"],
        ),
    ],
)
def test_other_commands_plot_too(arguments: list[str], words: list[str], tmp_path: Path) -> None:
    target = tmp_path / "p.svg"
    result = CliRunner().invoke(main, [*arguments, "--plot", str(target)])
    assert result.exit_code == 0, result.output
    text = target.read_text()
    assert not [word for word in words if word not in text]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["what-if", "dgx-h100", "--change", "scale nvlink bandwidth x0.5", "--size", "1M"],
            "give a change that counts them",
        ),
        (["ddp", "dgx-h100", "--model", "resnet18"], "give several, such as --bucket-cap-mb sweep"),
    ],
)
def test_one_point_is_no_line(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [*arguments, "--plot", str(tmp_path / "p.svg")])
    assert (result.exit_code, complaint in result.stderr) == (2, True), result.output


@pytest.mark.corpus
@pytest.mark.skipif(not MEASURED, reason=NO_CORPUS)
def test_real_measurements_are_drawn_beside(tmp_path: Path) -> None:
    target = tmp_path / "p.svg"
    beside = ("--size", "1M,1G", "--plot", str(target), "--measured", str(MEASURED[0]))
    status, said = run_topo("dgx-a100", *beside)
    assert status == 0, said
    assert "builtin, measured" in target.read_text()
    status, said = run_topo(
        "dgx-a100", "--gpus", "0-3", "--size", "1M", "--plot", str(target), "--measured", str(MEASURED[0])
    )
    assert status == 2
    assert "holds all_reduce on 8 ranks, and all_reduce on 4 ranks is simulated" in said


def test_measurements_alone_are_not_drawn(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text("{}")
    status, said = run_topo(STAR, "--size", "1M", "--measured", str(file))
    assert (status, "add --page or --plot" in said) == (2, True)
