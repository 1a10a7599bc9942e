"""The language of changes: a verb and the words behind it, read into the values of `topo.changes`.

A text is one change or several with `;` between them. VERBS is the one table: how each is written, and what reads it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from topo.changes import (
    AddNic,
    Break,
    Change,
    JoinBy,
    Lanes,
    Late,
    Nodes,
    PeerToPeer,
    Put,
    ReplaceGpu,
    Scale,
    ServeFrom,
    SetVariable,
    naming,
    require_consistent,
)
from topo.errors import ChangeError, NameChoiceError, UnitError
from topo.fabric import parse_fabric
from topo.units import parse_duration, parse_rate

MOST_NODES = 1_000_000
_MOST_COUNTS = 1_000
"""Of numbers of nodes in one change, each of which is a machine to plan and to simulate."""

_MOST_FACTOR = 1e6
_MOST_ADDED = 64
MOST_S = 86_400.0
"""The longest duration that is taken, in seconds: a day; what is longer is a slip of the keyboard."""
_TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: how it is written, what it is for, and what reads the words behind it (None: not these words)."""

    usage: str
    summary: str
    example: str
    read: Callable[[str], tuple[Change, ...] | None]


def parse_changes(text: str) -> tuple[Change, ...]:
    """The changes of a text such as `break GPU0-GPU1; p2p off`, in order.

    ChangeError with the part that cannot be read and what was expected there, or where two contradict each other.
    """
    return tuple(change for _, change in named_changes(text))


def named_changes(text: str) -> tuple[tuple[str, Change], ...]:
    """The same, each beside the words that it was read from."""
    found: list[tuple[str, Change]] = []
    for part in text.split(";"):
        words = " ".join(part.split())
        if not words:
            raise ChangeError(text, f"an empty change; write one such as {VERBS['break'].example!r}")
        with naming(words):
            found += [(words, change) for change in _parse(words)]
    require_consistent(text, [change for _, change in found])
    return tuple(found)


def _parse(words: str) -> tuple[Change, ...]:
    name, _, rest = words.partition(" ")
    if name.lower() not in VERBS:
        raise NameChoiceError("verb", name, VERBS)
    verb = VERBS[name.lower()]
    found = verb.read(rest)
    if found is None:
        raise ChangeError(words, f"expected `{verb.usage}`, such as {verb.example!r}, found {rest!r} behind {name}")
    return found


def _break(rest: str) -> tuple[Change, ...] | None:
    return (Break(rest),) if rest else None


def _lanes(rest: str) -> tuple[Change, ...] | None:
    match = re.fullmatch(r"(\S.*?) ?= ?(\d{1,4})", rest)
    if match is None:
        return None
    if int(match[2]) < 1:
        raise UnitError(f"{match[2]} lanes are none: write `break {match[1]}`")
    return (Lanes(match[1], int(match[2])),)


def _scale(rest: str) -> tuple[Change, ...] | None:
    match = re.fullmatch(rf"(\S.*?) (\S+) [x{_TIMES}] ?(\S+)", rest)
    if match is None:
        return None
    if match[2] not in ("bandwidth", "latency"):
        raise NameChoiceError(f"quantity of {match[1]}", match[2], ("bandwidth", "latency"))
    return (Scale(match[1], match[2], _factor(match[3])),)


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _MOST_FACTOR:
        raise UnitError(f"x{text}: expected a factor from more than 0 to {_MOST_FACTOR:g}, such as x0.5")
    return value


def duration_s(text: str) -> float:
    """Seconds of a duration such as `2ms`; UnitError where it cannot be read or is longer than a day."""
    value = parse_duration(text)
    if value > MOST_S:
        raise UnitError(f"{text}: expected at most a day, {MOST_S:.0f}s")
    return value


_QUANTITIES: Mapping[str, Callable[[str], float]] = {
    "bandwidth": parse_rate,
    "rate": parse_rate,
    "latency": duration_s,
    "generation": lambda text: _whole("generation", text),
    "width": lambda text: _whole("width", text),
    "lanes": lambda text: _whole("lanes", text),
}


def _whole(what: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,7}", text) or int(text) < 1:
        raise UnitError(f"{what}={text}: expected a whole number from 1")
    return int(text)


def _set(rest: str) -> tuple[Change, ...] | None:
    match = re.fullmatch(r"(\S.*?) (\S+ ?= ?.+)", rest)
    if match is None:
        return None
    settings = re.findall(r"([^\s=]+) ?= ?(\S+)", match[2])
    if " ".join(f"{key}={value}" for key, value in settings) != re.sub(r" ?= ?", "=", match[2]):
        return None
    found = []
    for key, value in settings:
        if key not in _QUANTITIES:
            raise NameChoiceError(f"quantity of {match[1]}", key, _QUANTITIES)
        found.append(Put(match[1], "bandwidth" if key == "rate" else key, _QUANTITIES[key](value)))
    return tuple(found)


def _add(rest: str) -> tuple[Change, ...] | None:
    match = re.fullmatch(r"nic to (\S+) rate ?= ?(\S+)(?: count ?= ?(\S+))?", rest, re.IGNORECASE)
    if match is None:
        return None
    count = _whole("count", match[3]) if match[3] else 1
    if count > _MOST_ADDED:
        raise UnitError(f"count={count}: expected at most {_MOST_ADDED} NICs")
    return (AddNic(match[1], parse_rate(match[2]), count),)


def _replace(rest: str) -> tuple[Change, ...] | None:
    match = re.fullmatch(r"gpus? with (\S.*)", rest, re.IGNORECASE)
    return (ReplaceGpu(match[1]),) if match else None


def _nodes(rest: str) -> tuple[Change, ...] | None:
    counts = [part.strip() for part in rest.split(",")]
    if not all(counts):
        return None
    runs = [_counts(part) for part in counts]
    if max(run[-1] for run in runs) > MOST_NODES:
        raise UnitError(f"nodes {max(run[-1] for run in runs)}: expected at most {MOST_NODES}")
    number = sum(map(len, runs))
    if number > _MOST_COUNTS:
        raise UnitError(f"nodes {rest}: {number:,} counts, expected at most {_MOST_COUNTS:,}: topo sweep takes more")
    found = tuple(count for run in runs for count in run)
    twice = next((count for place, count in enumerate(found) if count in found[:place]), None)
    if twice is not None:
        raise UnitError(f"nodes {rest}: {twice} stands twice: give each count once")
    return (Nodes(found),)


def _counts(text: str) -> range:
    """One count, or those of a range such as 1-4."""
    match = re.fullmatch(r"(\d{1,7}) ?- ?(\d{1,7})", text)
    if match is None:
        count = _whole("nodes", text)
        return range(count, count + 1)
    first, last = (_whole("nodes", end) for end in match.groups())
    if last < first:
        raise UnitError(f"nodes {text} runs backwards: write {last}-{first}")
    return range(first, last + 1)


def _fabric(rest: str) -> tuple[Change, ...] | None:
    return (JoinBy(parse_fabric(rest)),) if rest else None


def _late(rest: str) -> tuple[Change, ...] | None:
    match = re.fullmatch(r"(\S.*?) by (.+)", rest, re.IGNORECASE)
    return (Late(match[1], duration_s(match[2])),) if match else None


def _env(rest: str) -> tuple[Change, ...] | None:
    name, equals, value = (part.strip() for part in rest.partition("="))
    if not equals or not name:
        return None
    if not name.startswith("NCCL_"):
        raise UnitError(f"{name}: only NCCL's own variables are read, whose names begin with NCCL_")
    return (SetVariable(name, value),)


def _p2p(rest: str) -> tuple[Change, ...] | None:
    return (PeerToPeer(rest.lower() == "on"),) if rest.lower() in ("on", "off") else None


def _server(rest: str) -> tuple[Change, ...] | None:
    return (ServeFrom(rest.replace(" ", "")),) if rest else None


VERBS: Mapping[str, Verb] = {
    "break": Verb("break PART", "links that carry nothing any more", "break GPU0-GPU1", _break),
    "remove": Verb("remove PART", "the same: a NIC, say, that is not there", "remove mlx5_1", _break),
    "lanes": Verb("lanes PART=N", "so many lanes, each as fast as before", "lanes GPU3-NVS0=11", _lanes),
    "scale": Verb(
        "scale PART bandwidth|latency xFACTOR", "faster or slower links", "scale nvlink bandwidth x0.5", _scale
    ),
    "set": Verb("set PART bandwidth|latency|generation|width|lanes=VALUE", "a quantity", "set pcie generation=5", _set),
    "add": Verb("add nic to PLACE rate=RATE [count=N]", "more NICs", "add nic to node0 rate=400Gb/s", _add),
    "replace": Verb("replace gpu with MODEL", "other GPUs", "replace gpu with b200", _replace),
    "nodes": Verb("nodes N[-M][,...]", "so many nodes, or several counts to compare", "nodes 1-4,8,16", _nodes),
    "fabric": Verb("fabric NAME[:RATIO][,KEY=VALUE...]", "what joins the nodes", "fabric fat-tree:2", _fabric),
    "late": Verb("late PART by DURATION", "ranks that start later", "late GPU5 by 2ms", _late),
    "env": Verb("env NAME=VALUE", "what NCCL reads", "env NCCL_ALGO=Ring", _env),
    "p2p": Verb("p2p on|off", "whether GPUs reach each other's memory", "p2p off", _p2p),
    "server": Verb("server host|GPU[,GPU...]", "a parameter server, and where", "server host", _server),
}
"""The verbs by name."""
