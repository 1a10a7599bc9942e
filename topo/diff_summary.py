"""The differences of two topologies in one line: how many of what, as people would say it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from topo.words import plural
from topo.writers.text import KIND_WORDS

if TYPE_CHECKING:
    from topo.diff import Change

_LINKS: Mapping[str, str] = {
    "nvlink": "NVLink",
    "xgmi": "xGMI link",
    "c2c": "NVLink-C2C link",
    "pcie": "PCIe link",
    "cpu": "link between processors",
    "network": "network link",
    "local": "link on one chip or host",
}
_MOST_LETTERS = 3
_DID: Mapping[str, str] = {"model": "changed model", "numa_node": "on another NUMA node", "latency": "of other latency"}


def summary(changes: Iterable[Change]) -> str:
    """Such as "8 GPUs changed model, 15 PCIe links slower, 28 pairs with other letters (NV18 -> NV12)"."""
    changes = tuple(changes)
    groups = Counter(_did(change) for change in changes if change.part != "letters")
    parts = [f"{count} {_several(what, count)} {did}" for (what, did), count in groups.items()]
    letters = Counter(f"{change.before} -> {change.after}" for change in changes if change.part == "letters")
    if letters:
        count = letters.total()
        most = ", ".join(f"{words}: {number}" for words, number in letters.most_common(_MOST_LETTERS))
        most = next(iter(letters)) if len(letters) == 1 else most
        more = ", ..." if len(letters) > _MOST_LETTERS else ""
        parts.append(f"{count} {plural('pair', count)} with other letters ({most}{more})")
    return ", ".join(parts)


def _did(change: Change) -> tuple[str, str]:
    """What the change is about, and what happened to it."""
    words = _LINKS if change.part == "link" else KIND_WORDS
    return words[str(change.kind)], _DID.get(str(change.aspect), change.change)


def _several(what: str, count: int) -> str:
    if what.startswith("link "):
        return f"{plural('link', count)} {what.removeprefix('link ')}"
    return plural(what, count)
