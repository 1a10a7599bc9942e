"""Sentences of errors: the nearest names of many, all of a few."""

from __future__ import annotations

import pytest

from topo.errors import MOST_LISTED, NameChoiceError, nearest
from topo.presets import PRESETS, preset

MANY = [f"machine-{number}" for number in range(MOST_LISTED + 1)]


def test_a_few_names_are_all_given() -> None:
    assert str(NameChoiceError("fabric", "rial", ["rail", "flat"])) == (
        "unknown fabric 'rial': did you mean 'rail'? known are flat, rail"
    )
    assert str(NameChoiceError("fabric", "x", ["rail", "flat"])) == "unknown fabric 'x': known are flat, rail"
    assert MANY[-2] in str(NameChoiceError("machine", "x", MANY[:-1]))


def test_of_many_names_the_nearest_are_given() -> None:
    said = str(NameChoiceError("machine", "machine-11x", MANY, listing="topo machines"))
    assert said.startswith("unknown machine 'machine-11x': did you mean 'machine-11'? also near are ")
    assert said.endswith("; topo machines lists all 13")
    assert said.count("machine-") == 1 + 5
    assert str(NameChoiceError("machine", "?", MANY)) == "unknown machine '?': none that is known is near; 13 are known"


@pytest.mark.parametrize("name", PRESETS)
def test_a_slip_in_a_name_is_understood(name: str) -> None:
    for slip in (name.upper(), name[:-1] + "_", name.replace("-", ""), f" {name}"):
        assert nearest(slip, PRESETS)[0] in (name, slip.strip().lower())


@pytest.mark.parametrize("part", ["h100", "gb200", "rtxpro"])
def test_a_part_of_a_name_gives_names_with_it(part: str) -> None:
    assert all(part in name for name in nearest(part, PRESETS)[:3])


def test_an_unknown_preset_is_one_short_sentence() -> None:
    with pytest.raises(ValueError, match=r"did you mean 'dgx-h100'.*; topo presets lists all 58$") as refused:
        preset("dgx-h10")
    assert len(str(refused.value)) < 200
