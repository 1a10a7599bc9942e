"""Terms without one class of machines: shipped for all of them, and those of the clock and the runs as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim.clock.fit import starting_values
from tests.validate.published_documents import cases_from, document
from topo.jsonio import encode
from validate.clocked import Clocked
from validate.scoring import clock_model
from validate.scoring.left_out import SCHEMA, SHIPPED, digest_of, fitted, remembered


def test_what_is_remembered_is_not_fitted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = cases_from(tmp_path, document(), document(name="other", machine={"class": "other"})).cases
    target = tmp_path / "left_out.out"
    target.write_text(encode(fitted(made, starting_values()), SCHEMA))
    rows = json.loads(target.read_text())["rows"]
    assert [row["machine_class"] for row in rows] == ["A100-test", "other"]
    assert rows[1]["digest"] == digest_of([made[0]]) != digest_of([made[1]])
    expected = remembered(target)[digest_of([made[0]])]
    again = clock_model.trained_clock_model([made[0]])
    assert again.values.tolist() == pytest.approx(expected, rel=1e-4)
    monkeypatch.setattr(clock_model, "remembered", lambda: remembered(target))
    monkeypatch.setattr(clock_model, "train", None)
    assert clock_model.trained_clock_model([made[0]]).values.tolist() == list(expected)


def test_a_digest_hangs_on_times_and_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = cases_from(tmp_path, document()).cases
    before = digest_of([one])
    assert digest_of([one.only([0])]) != before == digest_of([one])
    monkeypatch.setattr(Clocked, "times_s", lambda self, case: 2 * case.measured_s)
    assert digest_of([one]) != before


def test_without_the_file_nothing_is_remembered(tmp_path: Path) -> None:
    assert remembered(tmp_path / "none.json") == {}
    assert SHIPPED.exists()
