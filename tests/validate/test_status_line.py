"""The line on stderr that says how far a run is: on a terminal only, after two seconds only, and gone at the end."""

from __future__ import annotations

import io
import sys

import pytest

from validate import status_line as module
from validate.status_line import status_line


class Screen(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, at_s: list[float], words: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What is written where each of the words is told at its time after the beginning."""
    clock = iter([0.0, *at_s])
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    with status_line() as line:
        for word in words:
            line.tell(word)
    return stream.getvalue()


def test_after_two_seconds_the_last_words_stand_on_a_terminal_and_are_wiped_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = shown(Screen(), [1.9, 2.1, 2.2, 2.3], ["job 1", "job 2", "job 2", "job 3"], monkeypatch)
    assert text == "\r\033[Kjob 2\r\033[Kjob 3\r\033[K"


def test_words_are_cut_to_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(Screen(), [3.0], ["x" * 200], monkeypatch) == "\r\033[K" + "x" * 79 + "\r\033[K"


def test_a_short_run_and_a_pipe_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(Screen(), [1.0], ["job 1"], monkeypatch) == ""
    assert shown(io.StringIO(), [9.0], ["job 1"], monkeypatch) == ""


def test_an_error_wipes_the_line_away_too(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    clock = iter([0.0, 5.0])
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))

    def interrupted() -> None:
        with status_line() as line:
            line.tell("job 1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert screen.getvalue().endswith("\r\033[K")
