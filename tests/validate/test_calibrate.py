"""Calibrating a machine: what its rows tell is learned, what they do not stays as shipped, and says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from sim.predict import Simulator
from sim.profile import Profile, fitted, load_profile
from sim.workload import Workload
from topo.cli import main
from topo.errors import MeasurementError
from topo.jsonio import encode
from topo.load import load_topology
from validate.calibrate import calibrate
from validate.measurement import Measurement
from validate.measurement_set import MeasurementSet

H100 = load_topology("dgx-h100")
SIZES = tuple(1 << power for power in range(10, 33, 2))


def slower(share: float) -> Profile:
    """The shipped profile of a machine whose LL hops are longer by this factor."""
    whole = fitted(H100)
    assert whole.kernels is not None
    terms = tuple(
        replace(term, value=term.value * share) if term.name == "ll_hop.hopper" else term
        for term in whole.kernels.terms
    )
    return replace(whole, kernels=replace(whole.kernels, terms=terms))


def measured(profile: Profile, sizes: tuple[int, ...] = SIZES, noise: float = 0.01) -> MeasurementSet:
    simulator = Simulator(H100, profile)
    chance = np.random.default_rng(1)
    rows = []
    for num_bytes in sizes:
        work = Workload("all_reduce", num_bytes)
        time_s = simulator.run(work).duration_s * float(np.exp(chance.normal(0, noise)))
        rows.append(Measurement(work, 8, "nccl-tests", "builtin", "builtin", (time_s,)))
    return MeasurementSet("run", tuple(rows))


def test_a_machine_that_is_different_is_learned() -> None:
    found = calibrate([measured(slower(1.25))], H100, "mine")
    learned = {term.name: term for term in found.terms}
    assert found.profile.kernels is not None
    hop = learned["ll_hop.hopper"]
    assert 1.05 < hop.low / hop.shipped < hop.value / hop.shipped < 1.3, "the launch takes some of it, too"
    assert hop.low <= hop.value <= hop.high
    for num_bytes in (1 << 11, 1 << 15, 1 << 19):
        now, truth = (
            Simulator(H100, profile).run(Workload("all_reduce", num_bytes)).duration_s
            for profile in (found.profile, slower(1.25))
        )
        assert now == pytest.approx(truth, rel=0.03)
    assert found.median_abs_error < 0.03
    assert not [name for name in learned if name.endswith((".volta", ".infiniband"))]
    assert found.profile.kernels.value("ll_hop.volta") == fitted(H100).kernels.value("ll_hop.volta")  # type: ignore[union-attr]


@pytest.mark.parametrize("share", [0.75, 1.3, 1.6])
@pytest.mark.parametrize("from_bytes", [0, 1 << 25])
def test_a_machine_unlike_all_others_is_followed_and_said_to_be(share: float, from_bytes: int) -> None:
    """Rows that agree with each other are no outliers; what is predicted lies in its own range."""
    healthy = measured(fitted(H100), tuple(1 << power for power in range(10, 33)))
    rows = tuple(
        replace(row, samples_s=tuple(share * time for time in row.samples_s))
        if row.workload.num_bytes >= from_bytes
        else row
        for row in healthy.measurements
    )
    found = calibrate([MeasurementSet("run", rows)], H100, "mine")
    assert [remark for remark in found.remarks if "rates decide" in remark]
    simulator = Simulator(H100, found.profile)
    for row in rows[-4:]:
        run = simulator.run(row.workload)
        assert run.duration_s == pytest.approx(row.median_s, rel=0.06)
        assert run.low_s is not None
        assert run.high_s is not None
        assert run.low_s <= run.duration_s <= run.high_s


def test_three_sizes_are_enough_and_the_same_rows_give_the_same() -> None:
    rows = measured(slower(1.2), (1 << 10, 1 << 20, 1 << 32))
    once, again = (calibrate([rows], H100, "mine") for _ in range(2))
    assert once == again
    large = Simulator(H100, once.profile).run(Workload("all_reduce", 1 << 12))
    truth = Simulator(H100, slower(1.2)).run(Workload("all_reduce", 1 << 12))
    assert large.duration_s == pytest.approx(truth.duration_s, rel=0.05)


def test_an_outlier_is_named_and_does_not_spoil_the_rest() -> None:
    rows = measured(slower(1.0))
    worse = replace(rows.measurements[5], samples_s=(rows.measurements[5].median_s * 3,))
    found = calibrate([replace(rows, measurements=(*rows.measurements[:5], worse, *rows.measurements[6:]))], H100, "x")
    assert [row.num_bytes for row in found.outliers] == [worse.workload.num_bytes]
    assert any("took 3." in sentence or "took 2.9" in sentence for sentence in found.remarks)
    assert found.median_abs_error < 0.03


@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        ((1 << 20,), "1 size measured: 3 are needed"),
        ((1 << 25, 1 << 28, 1 << 30), "launch and hop latencies are not identified"),
        ((1 << 10, 1 << 12, 1 << 20), "shares of links and networks are not identified"),
    ],
)
def test_what_identifies_nothing_is_refused(sizes: tuple[int, ...], complaint: str) -> None:
    with pytest.raises(MeasurementError, match=complaint):
        calibrate([measured(slower(1.0), sizes)], H100, "mine")


@pytest.mark.parametrize(("said_to_be", "doubted"), [("dgx-h100", False), ("dgx-b200", True)])
def test_times_of_another_generation_are_doubted(said_to_be: str, doubted: bool) -> None:
    found = calibrate([measured(fitted(H100))], load_topology(said_to_be), "mine")
    said = [sentence for sentence in found.remarks if "look like those of hopper GPUs" in sentence]
    assert bool(said) == doubted
    assert all(f"is {said_to_be} the right --topology?" in sentence for sentence in said)


def test_what_was_calibrated_is_no_extrapolation() -> None:
    rows = measured(fitted(H100))
    reduced = tuple(replace(row, workload=Workload("reduce", row.workload.num_bytes)) for row in rows.measurements)
    found = calibrate([replace(rows, measurements=reduced)], H100, "mine")
    work = Workload("reduce", 1 << 12)
    assert [Simulator(H100, profile).run(work).extrapolated for profile in (fitted(H100), found.profile)] == [
        True,
        False,
    ]


def test_other_ranks_and_other_executors() -> None:
    rows = measured(slower(1.0))
    few = replace(rows, measurements=tuple(replace(row, num_ranks=4) for row in rows.measurements))
    with pytest.raises(MeasurementError, match="measured with 4 ranks, dgx-h100 has 8"):
        calibrate([few], H100, "mine")
    strange = replace(rows.measurements[0], backend="gloo")
    found = calibrate([replace(rows, measurements=(*rows.measurements, strange))], H100, "mine")
    assert len(found.rows) == len(rows.measurements)
    assert any("set aside" in sentence for sentence in found.remarks)


def command(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["calibrate", *arguments])


def test_the_command_writes_a_profile_that_simulate_takes(tmp_path: Path) -> None:
    source, target = tmp_path / "run.json", tmp_path / "mine.json"
    source.write_text(encode(measured(slower(1.2)), "measurements/1"))
    done = command(str(source), "--topology", "dgx-h100", "-o", str(target), "--format", "json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "calibration/1"
    assert "ll_hop.hopper" in [term["name"] for term in document["terms"]]
    profile = load_profile(str(target), H100)
    assert profile.name == "mine"
    run = Simulator(H100, profile).run(Workload("all_reduce", 1 << 12))
    assert (run.profile, run.engine) == ("mine", "kernels")
    bad = command(str(source), "--topology", "dgx-a10", "-o", str(target))
    assert bad.exit_code == 2
    assert "dgx-a100" in bad.stderr


def test_rows_of_another_machine_or_unit_are_refused() -> None:
    rows = measured(slower(1.0))
    strange = tuple(replace(row, samples_s=(1000 * row.median_s,)) for row in rows.measurements)
    with pytest.raises(MeasurementError, match=r"explains nothing: .* measured on dgx-h100 of this size"):
        calibrate([replace(rows, measurements=strange)], H100, "mine")


def test_rows_count_once() -> None:
    rows = measured(slower(1.0))
    # The same run as text and as JSON: other facts beside it, another rounding.
    copied = tuple(
        replace(row, provenance="copied", software=(), num_warmups=5, samples_s=(float(f"{row.median_s:.4g}"),))
        for row in rows.measurements
    )
    elsewhere = replace(rows, name="copy", measurements=copied)
    with pytest.raises(MeasurementError, match="12 rows of copy stand in run as well"):
        calibrate([rows, elsewhere], H100, "mine")
    with pytest.raises(MeasurementError, match="run holds 12 rows twice"):
        calibrate([replace(rows, measurements=rows.measurements + copied)], H100, "mine")


def test_two_runs_may_agree_in_a_row_by_chance() -> None:
    rows = measured(slower(1.0), (1 << 10, 1 << 20, 1 << 32))
    first, *others = rows.measurements
    again = tuple(replace(row, samples_s=(1.01 * row.median_s,)) for row in others)
    found = calibrate([rows, replace(rows, name="again", measurements=(first, *again))], H100, "mine")
    assert len(found.rows) == 6


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    path.write_text(encode(measured(slower(1.0), (1 << 10, 1 << 20, 1 << 32)), "measurements/1"))
    return path


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("run.json", "../{folder}/run.json", "-o", "mine.json"), "is given twice"),
        (("run.json", "-o", "run.json"), "-o run.json: is one of the files that are read"),
        (("run.json", "-o", "mine.json", "--plot", "fit.pdf"), "suffix of a plot"),
        (("run.json", "-o", "mine.json", "--plot", "none/fit.png"), "there is no folder none"),
        (("run.json", "-o", "fit.svg", "--plot", "fit.svg"), "the profile is written there"),
        (("run.json", "-o", "none/mine.json", "--plot", "fit.svg"), "there is no folder none"),
        (("run.json", "-o", "mine.json", "--name", "nccl-fitted"), "a built-in profile is called so"),
        (("run.json", "-o", "auto.json"), "--name auto (from -o auto.json)"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(
    source: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], complaint: str
) -> None:
    monkeypatch.chdir(source.parent)
    before = source.read_text()
    done = command(*(text.format(folder=source.parent.name) for text in arguments), "--topology", "dgx-h100")
    assert done.exit_code == 2
    assert complaint in done.stderr
    assert [path.name for path in source.parent.iterdir()] == ["run.json"]
    assert source.read_text() == before


def test_a_fit_that_explains_nothing_is_not_written(tmp_path: Path) -> None:
    rows = measured(slower(1.0), (1 << 10, 1 << 20, 1 << 32))
    strange = tuple(replace(row, samples_s=(row.median_s / 1000,)) for row in rows.measurements)
    (tmp_path / "run.json").write_text(encode(replace(rows, measurements=strange), "measurements/1"))
    target = tmp_path / "mine.json"
    done = command(str(tmp_path / "run.json"), "--topology", "dgx-h100", "-o", str(target))
    assert done.exit_code == 2
    assert "explains nothing" in done.stderr
    assert not target.exists()


@pytest.mark.parametrize("time_us", ["0.00", "-3.50"])
def test_a_time_that_is_none_is_set_aside_with_its_file_and_line(tmp_path: Path, time_us: str) -> None:
    lines = ["#       size         count    type   redop    root     time   algbw   busbw #wrong"]
    for row in measured(slower(1.0), (1 << 10, 1 << 12, 1 << 20, 1 << 32)).measurements:
        num_bytes, algbw = row.workload.num_bytes, row.workload.num_bytes / row.median_s / 1e9
        shown = time_us if num_bytes == 1 << 12 else f"{row.median_s * 1e6:.2f}"
        lines.append(f"{num_bytes} {num_bytes // 4} float sum -1 {shown} {algbw:.2f} {algbw * 1.75:.2f} 0")
    path = tmp_path / "slow.txt"
    path.write_text("\n".join(lines) + "\n")
    common = (str(path), "--topology", "dgx-h100", "--collective", "all_reduce")
    done = command(*common, "-o", str(tmp_path / "mine.json"))
    assert done.exit_code == 0, done.stderr
    assert f"{path}, line 3: 4096 bytes: " in done.stderr
    assert "the row is set aside" in done.stderr


def test_the_user_names_the_collective_where_a_file_does_not(tmp_path: Path) -> None:
    lines = ["#       size         count    type   redop    root     time   algbw   busbw #wrong"]
    for row in measured(slower(1.0), (1 << 10, 1 << 20, 1 << 32)).measurements:
        num_bytes, time_s = row.workload.num_bytes, row.median_s
        algbw = num_bytes / time_s / 1e9
        lines.append(f"{num_bytes} {num_bytes // 4} float sum -1 {time_s * 1e6:.2f} {algbw:.2f} {algbw * 1.75:.2f} 0")
    path, target = tmp_path / "slow.txt", tmp_path / "mine.json"
    path.write_text("\n".join(lines) + "\n")
    common = (str(path), "--topology", "dgx-h100", "-o", str(target))
    done = command(*common, "--collective", "all_reduce")
    assert done.exit_code == 0, done.stderr
    assert command(*common, "--collective", "all_redcue").exit_code == 2


def test_the_collective_of_a_slow_run_is_asked_for_by_an_option_that_exists(tmp_path: Path) -> None:
    path, target = tmp_path / "slow.txt", tmp_path / "mine.json"
    head = "#       size         count    type   redop    root     time   algbw   busbw #wrong\n"
    sizes = (1 << 10, 1 << 20, 1 << 26)
    path.write_text(head + "".join(f"{size} {size // 4} float sum -1 9e10 0.00 0.00 0\n" for size in sizes))
    common = (str(path), "--topology", "dgx-h100", "-o", str(target))
    assert "add --collective NAME" in command(*common).stderr
    assert "explains nothing" in command(*common, "--collective", "all_reduce").stderr
    assert not target.exists()
