"""NCCL_ALGO and NCCL_PROTO: which names each collective may use (parseList in src/graph/tuning.cc of NCCL 2.30.7)."""

from __future__ import annotations

from collections.abc import Mapping

from topo.errors import NameChoiceError

Allowed = tuple[tuple[str, frozenset[str]], ...]
"""Per collective that is mentioned, the names that it may use; empty: nothing was said."""

COLLECTIVES = ("broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce")
"""The collectives of NCCL's tuner, in its order."""
_COLLECTIVE_TOKENS = {name.replace("_", ""): name for name in COLLECTIVES}


def parse_allowed(variable: str, text: str, what: str, tokens: Mapping[str, str]) -> Allowed:
    """What `[collective:]name,name;collective:^name` allows; `tokens` maps NCCL's lower-case names to ours.

    Only the first list may do without a collective, and then stands for all; `^` turns a list round. NameChoiceError
    for a word that NCCL does not know.
    """
    allowed: dict[str, frozenset[str]] = {}
    for position, entry in enumerate(part for part in text.split(";") if part.strip()):
        prefix, colon, names = entry.rpartition(":")
        if colon:
            collectives: tuple[str, ...] = (_token(f"collective in {variable}", prefix, _COLLECTIVE_TOKENS),)
        elif position == 0:
            collectives = COLLECTIVES
        else:
            raise NameChoiceError(
                f"list in {variable} (only the first may lack a collective)", entry, _COLLECTIVE_TOKENS
            )
        listed = _names(variable, names.strip(), what, tokens)
        allowed.update(dict.fromkeys(collectives, listed))
    return tuple(allowed.items())


def _names(variable: str, text: str, what: str, tokens: Mapping[str, str]) -> frozenset[str]:
    turned = text.startswith("^")
    words = text.removeprefix("^").split(",")
    listed = frozenset(_token(f"{what} in {variable}", word, tokens) for word in words if word.strip())
    return frozenset(tokens.values()) - listed if turned else listed


def _token(what: str, word: str, tokens: Mapping[str, str]) -> str:
    found = tokens.get(word.strip().lower())
    if found is None:
        raise NameChoiceError(what, word.strip(), tokens)
    return found
