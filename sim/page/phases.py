"""What the two halves of a collective are called, and what every agent does in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sim.playback import Playback
from sim.schedule import COPY, REDUCE

Words = tuple[str, str]

_PASS_ON: Mapping[int, str] = {REDUCE: "receive, reduce, send", COPY: "receive, copy, send"}

_NAMES: Mapping[str, Mapping[int, Words]] = {
    "ring": {REDUCE: ("reduce-scatter", _PASS_ON[REDUCE]), COPY: ("all-gather", _PASS_ON[COPY])},
    "tree": {REDUCE: ("reduce, up the tree", _PASS_ON[REDUCE]), COPY: ("broadcast, down the tree", _PASS_ON[COPY])},
    "parameter-server": {
        REDUCE: ("push", "all send, the server reduces"),
        COPY: ("pull", "the server sends, all copy"),
    },
    "halving-doubling": {
        REDUCE: ("reduce-scatter, by halves", "exchange halves, reduce"),
        COPY: ("all-gather, by doubling", "exchange all there is, copy"),
    },
    "hierarchical": {
        REDUCE: ("reduce-scatter, in nodes then across", _PASS_ON[REDUCE]),
        COPY: ("all-gather, across then in nodes", _PASS_ON[COPY]),
    },
    "nvls": {
        REDUCE: ("reduce, in the switch", "all send, the switch reduces"),
        COPY: ("multicast, by the switch", "the switch sends, all copy"),
    },
    "nvls-tree": {
        REDUCE: ("reduce, in switches then up the tree", "all send, switches reduce"),
        COPY: ("multicast, down the tree then by switches", "switches send, all copy"),
    },
    "collnet-direct": {
        REDUCE: ("reduce, in nodes then in the network", "all send, heads and the switch reduce"),
        COPY: ("multicast, by the network then in nodes", "the switch and heads send, all copy"),
    },
    "direct": {COPY: ("exchange", "all send, all copy")},
}
_OTHERWISE: Mapping[int, Words] = {REDUCE: ("reduce", _PASS_ON[REDUCE]), COPY: ("copy", _PASS_ON[COPY])}


@dataclass(frozen=True, slots=True)
class Phase:
    """One half: its name, what each agent does, and from when to when transfers of it are under way."""

    op: int
    name: str
    action: str
    start_s: float
    end_s: float


def phases(played: Playback) -> tuple[Phase, ...]:
    """The halves of a run in the order in which they begin; those of a pipeline overlap."""
    found = []
    for op in (REDUCE, COPY):
        here = played.rows.op == op
        if here.any():
            name, action = phase_words(played.plan.algorithm, played.plan.collective, op)
            found.append(Phase(op, name, action, float(played.start_s[here].min()), float(played.landed_s[here].max())))
    return tuple(sorted(found, key=lambda phase: phase.start_s))


def phase_words(algorithm: str, collective: str, op: int) -> Words:
    """The name of the half of an algorithm whose rows do `op`, and what every agent does in it."""
    name, action = _NAMES.get(algorithm, _OTHERWISE).get(op, _OTHERWISE[op])
    is_whole = collective in ("broadcast", "reduce")
    return (collective if is_whole else name), action
