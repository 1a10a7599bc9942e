"""What a sweep asks for: axes with their values, and the points of the grid that they span, told by number.

A spec is TOML; AXES is the one table of what it may say. Points are counted with the last axis fastest and none is
written out, so that a grid of any size costs nothing until it is walked. Axes that make another machine or another
plan come first: points beside each other share both.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from topo.change_verbs import duration_s, parse_changes
from topo.changes import Nodes
from topo.errors import CaptureError, NameChoiceError, TopoError, UnitError
from topo.fabric import parse_fabric
from topo.units import parse_size, size_sweep

Value = str | int | None
Read = TypeVar("Read")
MOST_NODES = 1_000_000
AUTO, EVERY = "auto", "all"
"""What is left to the planner, and the algorithm that stands for all that a point's machine can run."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: a line for the documentation, what reads one of its values, and what stands where it is left out."""

    summary: str
    read: Callable[[Any], Value]
    default: Value = None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise UnitError(f"{value!r} is no text: write it in quotes")
    return value.strip()


def _name(value: object) -> str:
    text = _text(value)
    if not text:
        raise UnitError("an empty name: leave the axis out for its default")
    return text


def _one_of(what: str, known: Callable[[], Collection[str]]) -> Callable[[object], str]:
    """What reads one of the known names, which are looked up when a spec is read."""

    def read(value: object) -> str:
        name = _name(value)
        if name not in known():
            raise NameChoiceError(what, name, known())
        return name

    return read


def _algorithm(value: object) -> str:
    name = _name(value)
    if "," in name or name == EVERY:
        raise UnitError(f"{name!r} is more than one algorithm: write {EVERY!r} alone, or a list of names")
    return _one_of("algorithm", lambda: (AUTO, *_every_algorithm()))(name)


def _collectives() -> Collection[str]:
    from sim.collective import COLLECTIVES

    return COLLECTIVES.keys()


def _planners() -> Collection[str]:
    from sim.planners import PLANNERS

    return (AUTO, *PLANNERS)


def _engines() -> Collection[str]:
    from sim.engines import ENGINES, KERNELS

    return (AUTO, *ENGINES, KERNELS)


def _protocols() -> Collection[str]:
    from sim.planners.nccl_2_30.options import PROTOCOLS

    return PROTOCOLS


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnitError(f"{value!r} is no whole number")
    return value


def _count(value: object) -> int:
    number = _whole(value)
    if not 1 <= number <= MOST_NODES:
        raise UnitError(f"{number}: a whole number from 1 to {MOST_NODES} is needed")
    return number


def _size(value: object) -> int:
    num_bytes = parse_size(value) if isinstance(value, str) else _whole(value)
    if num_bytes < 1:
        raise UnitError(f"size {num_bytes}: at least 1 byte is needed")
    return num_bytes


def _changes(value: object) -> str:
    text = _text(value)
    for change in parse_changes(text) if text else ():
        if isinstance(change, Nodes) and len(change.counts) > 1:
            raise UnitError(f"{text!r} counts several machines: use the axis nodes")
    return text


def _fabric(value: object) -> str:
    text = _text(value)
    if text:
        parse_fabric(text)
    return text


def _environment(value: object) -> str:
    """`NAME=VALUE` pairs with blanks between them, each checked for its form."""
    text = _text(value)
    for pair in text.split():
        name, equals, _ = pair.partition("=")
        if not equals or not name.startswith("NCCL_"):
            raise UnitError(f"{pair!r}: expected NAME=VALUE with a name that begins with NCCL_")
    return text


AXES: Mapping[str, Axis] = {
    "topology": Axis("a TOPOLOGY: a preset, a file or folder of captures, a description", _name),
    "gpus": Axis("GPUs that take part, such as 0-3", _text, ""),
    "changes": Axis("changes of the machine or the run, as in topo what-if", _changes, ""),
    "env": Axis("what NCCL reads, NAME=VALUE with blanks between", _environment, ""),
    "profile": Axis("auto, ideal, nccl-constants, nccl-fitted or a file", _name, "auto"),
    "planner": Axis("auto, nccl-2.30 or topology", _one_of("planner", _planners), AUTO),
    "engine": Axis("auto, event, steady or kernels", _one_of("engine", _engines), AUTO),
    "protocol": Axis("ll, ll128 or simple (left out: NCCL's choice)", _one_of("protocol", _protocols)),
    "channels": Axis("how many channels (left out: the planner's choice)", _count),
    "fabric": Axis("what joins the nodes", _fabric, ""),
    "nodes": Axis("how often the node stands", _count, 1),
    "seed": Axis("seeds for jitter and late_ranks", _whole),
    "collective": Axis("which collective", _one_of("collective", _collectives), "all_reduce"),
    "algorithm": Axis("auto, names, or all that a machine can run", _algorithm, AUTO),
    "size": Axis("sizes, or a table of begin, end and factor", _size, 2**30),
}
"""The axes by name, slowest first: counts of one node stand side by side, so that its graphs are searched once."""

SHARING = tuple(AXES)[: tuple(AXES).index("collective")]
"""The axes of which each combination is one machine with one set of plans."""

SETTINGS = ("jitter", "late_ranks", "late_by")
"""What a spec says beside its axes: how far starts are spread, how many ranks are late, and by how much."""

_RANGE = re.compile(r"([0-9]+)-([0-9]+)")
_MOST_DIGITS = 18
"""Of a number in a range: more are beyond 64 bits."""

_NO_TOPOLOGY = 'no topology: add one, such as topology = "dgx-h100"'
_SHORT_BYTES = 4096
"""A file below this size may be all blanks, which is no spec rather than a capture that failed."""
_STEPS = ("begin", "end", "factor")


@dataclass(frozen=True, slots=True)
class Spec:
    """A grid: the values of every axis in AXES' order (a range stays one), and how starts are spread."""

    values: tuple[Sequence[Value], ...]
    jitter_s: float = 0.0
    late_ranks: int = 0
    late_by_s: float = 0.0
    every_algorithm: bool = False
    """Whether `all` algorithms were asked for: what a machine cannot run is left out there, and no failure."""

    @property
    def num_points(self) -> int:
        """How many points the grid has."""
        return math.prod(map(len, self.values))

    @property
    def num_sharing(self) -> int:
        """How many points beside each other share one machine and its plans."""
        return math.prod(map(len, self.values[len(SHARING) :]))

    @property
    def id(self) -> str:
        """Twelve digits that tell this grid from others."""
        import msgspec

        return hashlib.sha256(msgspec.json.encode(self, enc_hook=str)).hexdigest()[:12]

    def point(self, number: int) -> dict[str, Value]:
        """The values of a point by axis."""
        found: dict[str, Value] = {}
        for name, values in zip(reversed(tuple(AXES)), reversed(self.values), strict=True):
            number, place = divmod(number, len(values))
            found[name] = values[place]
        return {name: found[name] for name in AXES}


def read_spec(path: Path) -> Spec:
    """The grid that a TOML file asks for; CaptureError with the file and the axis where it cannot be."""
    from topo.textfile import read_file

    if _is_blank(path):
        raise CaptureError(_NO_TOPOLOGY, source=str(path))
    return parse_spec(read_file(path), str(path))


def _is_blank(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size < _SHORT_BYTES and not path.read_bytes().strip()
    except OSError:
        return False


def parse_spec(text: str, source: str = "") -> Spec:
    """The grid of a TOML text: `AXIS = VALUE` or `AXIS = [VALUES]`, and SETTINGS."""
    from topo.tomltext import parse_toml

    plain = parse_toml(text, source)
    for key in plain:
        if key not in AXES and key not in SETTINGS:
            raise CaptureError(str(NameChoiceError("axis", key, (*AXES, *SETTINGS))), source=source)
    if "topology" not in plain:
        raise CaptureError(_NO_TOPOLOGY, source=source)
    values = tuple(_in_axis(name, source, partial(_values, name, plain)) for name in AXES)
    jitter_s = _in_axis("jitter", source, partial(_duration, plain.get("jitter")))
    late_by_s = _in_axis("late_by", source, partial(_duration, plain.get("late_by")))
    late_ranks = _in_axis("late_ranks", source, partial(_count, plain["late_ranks"])) if "late_ranks" in plain else 0
    seeded = jitter_s > 0 or late_ranks > 0
    if bool(late_ranks) != (late_by_s > 0):
        raise CaptureError('late_ranks and late_by go together: late_ranks = 1 and late_by = "2ms"', source=source)
    if "seed" in plain and not seeded:
        raise CaptureError('seeds change nothing without jitter = "20us" or late_ranks = 1: add one', source=source)
    if seeded and "seed" not in plain:
        place = tuple(AXES).index("seed")
        values = (*values[:place], (0,), *values[place + 1 :])
    return Spec(values, jitter_s, late_ranks, late_by_s, plain.get("algorithm") in (EVERY, [EVERY]))


def _in_axis(name: str, source: str, read: Callable[[], Read]) -> Read:
    """What `read` gives; its error names file and axis."""
    try:
        return read()
    except TopoError as error:
        raise CaptureError(f"{name}: {error}", source=source) from None


def _values(name: str, plain: Mapping[str, Any]) -> Sequence[Value]:
    axis, given = AXES[name], plain.get(name)
    if given is None:
        return (axis.default,)
    if name == "algorithm" and given in (EVERY, [EVERY]):
        return _every_algorithm()
    if isinstance(given, str) and name in ("nodes", "seed") and (match := _RANGE.fullmatch(given.strip())):
        return _range(axis, match)
    found = tuple(axis.read(item) for item in _listed(name, given))
    if not found:
        raise UnitError("no value: give one, or leave the axis out")
    if len(set(found)) < len(found):
        twice = next(value for place, value in enumerate(found) if value in found[:place])
        raise UnitError(f"{twice!r} stands twice: give each value once")
    return found


def _listed(name: str, given: object) -> Iterator[object]:
    """The values one by one: of a list, of a table of steps, or the one that stands there."""
    if isinstance(given, list):
        yield from given
    elif isinstance(given, dict) and name in ("size", "nodes"):
        yield from _stepped(AXES[name].read, given)
    else:
        yield given


def _every_algorithm() -> tuple[str, ...]:
    from sim.algorithms import ALGORITHMS
    from sim.planners import NCCL, PLANNERS

    return tuple(dict.fromkeys((*ALGORITHMS, *PLANNERS[NCCL].algorithms)))


def _range(axis: Axis, match: re.Match[str]) -> range:
    """The whole numbers of `1-64`, not written out: there may be very many."""
    if max(len(match[1]), len(match[2])) > _MOST_DIGITS:
        raise UnitError(f"the range {match[0][:50]} reaches too far: give numbers of at most {_MOST_DIGITS} digits")
    first, last = axis.read(int(match[1])), axis.read(int(match[2]))
    assert isinstance(first, int)
    assert isinstance(last, int)
    if last < first:
        raise UnitError(f"the range {match[0]} runs backwards: write {last}-{first}")
    return range(first, last + 1)


def _stepped(read: Callable[[Any], Value], table: Mapping[str, Any]) -> Iterator[int]:
    for key in table:
        if key not in _STEPS:
            raise NameChoiceError("key", key, _STEPS)
    if "begin" not in table or "end" not in table:
        raise UnitError('a table of steps needs begin and end, such as { begin = "1K", end = "1G", factor = 2 }')
    begin, end = read(table["begin"]), read(table["end"])
    assert isinstance(begin, int)
    assert isinstance(end, int)
    factor = _whole(table.get("factor", 2))
    if end < begin:
        raise UnitError(f"steps from begin = {begin} to end = {end} are none: let end be at least begin")
    if factor < 2:
        raise UnitError(f"steps with factor = {factor} never end: give a factor of at least 2")
    yield from size_sweep(begin, end, factor)


def _duration(value: object) -> float:
    return 0.0 if value is None else duration_s(_text(value))
