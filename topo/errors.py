"""Every error that toposcope raises on purpose, drawn as a tree.

    TopoError                 exit 2: bad usage or bad input
    ├── UnitError             a size, rate or duration that cannot be read
    ├── TopologyError         a topology that breaks a structural rule
    ├── CaptureError          text of a machine that cannot be read or trusted
    ├── NameChoiceError       a name that is none of the known ones (says the nearest)
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
    """A name that is none of the known ones; the message holds the nearest valid spelling."""

    def __init__(self, what: str, given: str, known: Iterable[str]) -> None:
        import difflib

        choices = sorted(known)
        near = difflib.get_close_matches(given, choices, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        super().__init__(f"unknown {what} {given!r}: {hint}known are {', '.join(choices)}")


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
