"""Further sources of a live capture, which packages above offer: entry points of the group `toposcope.sources`.

Each leads to a function that takes nothing and returns a `RawText`. It is called only where this machine is captured,
so that what it needs (torch, for NCCL's own dump) costs nothing elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from topo.commands import RawText
from topo.installed import EntryPoint, installed

ENTRY_POINT_GROUP = "toposcope.sources"

Source = Callable[[], RawText]


def installed_sources(found: Iterable[EntryPoint] | None = None) -> tuple[Source, ...]:
    """All installed sources, by name, none of them imported yet; `found` stands in for the entry points in tests."""
    return tuple(_guarded(row) for row in (installed(ENTRY_POINT_GROUP) if found is None else found))


def _guarded(row: EntryPoint) -> Source:
    def ask() -> RawText:
        """What the source gives; whatever it raises is recorded, since others wrote it."""
        try:
            raw = row.load()()
        except Exception as error:
            words = " ".join(f"{type(error).__name__}: {error}".split())
            return RawText(f"{row.name}.txt", (row.value,), problem=f"raised {words}")
        if not isinstance(raw, RawText):
            return RawText(f"{row.name}.txt", (row.value,), problem=f"gave a {type(raw).__name__}, not a RawText")
        return raw

    return ask
