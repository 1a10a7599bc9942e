"""Every error that toposcope raises on purpose, drawn as a tree.

    TopoError                 exit 2: bad usage or bad input
    ├── UnitError             a size, rate or duration that cannot be read
    ├── TopologyError         a topology that breaks a structural rule
    ├── CaptureError          text of a machine that cannot be read or trusted
    ├── NameChoiceError       a name that is none of the known ones (says the nearest)
    ├── ChangeError           a change to a machine that cannot be read or made
    ├── RouteError            two devices that no path joins
    ├── ScheduleError         a schedule that is malformed or is not the collective it claims to be
    ├── MeasurementError      a measurement that cannot be read or trusted
    └── EnvironmentMissing    exit 3: the environment lacks something (torch, a GPU, a command)

    Deadlock (TopoError)      transfers that can never finish: no time is given

A message is one sentence that names the ids (or file and line), says what was expected, what was found and what
to do next. The command line prints it and exits with `exit_code`; nothing here ever prints.
"""

from __future__ import annotations

from collections.abc import Iterable


class TopoError(Exception):
    """Base of all errors raised on purpose; `exit_code` is what the command line exits with."""

    exit_code = 2


class UnitError(TopoError, ValueError):
    """A size, rate or duration that cannot be read."""


class TopologyError(TopoError, ValueError):
    """A topology that breaks a structural rule."""


class CaptureError(TopoError, ValueError):
    """Captured text that cannot be read or trusted; names file and line where they are known."""

    def __init__(self, message: str, *, source: str = "", line: int | None = None) -> None:
        self.source = source
        self.line = line
        where = source + (f", line {line}" if line is not None else "")
        super().__init__(f"{where}: {message}" if where else message)


class NameChoiceError(TopoError, ValueError):
    """A name that is none of the known ones; the message holds the nearest valid spelling.

    A few known names are all given. Of many, only the nearest are, with `listing`, the command that lists them all.
    """

    def __init__(self, what: str, given: str, known: Iterable[str], *, listing: str = "") -> None:
        choices = sorted(known)
        near = nearest(given, choices)
        hint = f"did you mean {near[0]!r}? " if near else ""
        says = f"known are {', '.join(choices)}"
        if len(choices) > MOST_LISTED:
            others = f"also near are {', '.join(near[1:])}; " if near[1:] else ""
            none_near = "" if near else "none that is known is near; "
            where = f"{listing} lists all {len(choices)}" if listing else f"{len(choices)} are known"
            says = f"{none_near}{others}{where}"
        super().__init__(f"unknown {what} {given!r}: {hint}{says}")


MOST_LISTED = 12
"""So many known names are given in full where one is unknown; of more, only the nearest."""

_MOST_NEAR = 5
_LEAST_ALIKE = 0.5
_FOR_A_PART = 0.25


def nearest(given: str, known: Iterable[str]) -> list[str]:
    """The known names that `given` may mean, likeliest first, at most 5: alike (in either case), or holding it.

    >>> nearest("h100", ["dgx-a100", "dgx-h100", "t4"])
    ['dgx-h100', 'dgx-a100']
    """
    import difflib

    word = given.strip().lower()
    scores: dict[str, float] = {}
    for name in known:
        matcher = difflib.SequenceMatcher(None, name.lower(), word)
        part = _FOR_A_PART if len(word) > 1 and word in name.lower() else 0.0
        if (score := matcher.ratio() + part) >= _LEAST_ALIKE:
            scores[name] = score
    return sorted(scores, key=lambda name: -scores[name])[:_MOST_NEAR]


class ChangeError(TopoError, ValueError):
    """A change to a machine or a run that cannot be read or made: names the part of it that fails."""

    def __init__(self, change: str, problem: str) -> None:
        self.change = change
        super().__init__(f"change {change!r}: {problem}")


class RouteError(TopoError):
    """Two devices that no path joins."""


class ScheduleError(TopoError, ValueError):
    """A schedule that is malformed, or is not the collective it claims to be."""


class MeasurementError(TopoError, ValueError):
    """A measurement that cannot be read or trusted."""


class EnvironmentMissing(TopoError):
    """The environment lacks something that was asked for: torch, a GPU, a command, a permission."""

    exit_code = 3


class Deadlock(TopoError):
    """Transfers that can never finish; the message names them, and no time is given."""
