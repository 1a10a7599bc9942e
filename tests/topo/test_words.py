"""Numbers with their nouns, and names without what a terminal would obey."""

from __future__ import annotations

import doctest
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo.words
from topo.words import counted, plural, printable


def test_the_examples_hold() -> None:
    assert doctest.testmod(topo.words).failed == 0


@pytest.mark.parametrize(
    ("word", "several"), [("rank", "ranks"), ("switch", "switches"), ("bus", "buses"), ("copy", "copies")]
)
def test_one_stands_alone(word: str, several: str) -> None:
    assert [plural(word, count) for count in (0, 1, 2)] == [several, word, several]
    assert counted(1, word) == f"1 {word}"


@given(st.text())
def test_nothing_unseen_is_left(text: str) -> None:
    shown = printable(text)
    assert not {unicodedata.category(sign) for sign in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    shown.encode()


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_what_can_be_seen_stays(text: str) -> None:
    assert printable(text) == text


def test_directions_of_text_are_written_out() -> None:
    assert printable("a\u202eb\x9b31m\udcff") == "a\\u202eb\\x9b31m\\udcff"
