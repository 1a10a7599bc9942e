"""How long NCCL's kernels take: a fitted closed form over sizes and over parameter vectors.

The planner says what NCCL runs (algorithm, protocol, channels, chunks); `times_s` says how long that lasts, from terms
with a physical meaning, each with a start value, a spread and a source. `facts_of` reads from a plan what the terms
are counted by. Nothing here knows a machine by its name.
"""

from __future__ import annotations

from typing import Any

_PUBLIC = {
    "Facts": "facts",
    "Jobs": "jobs",
    "KernelProfile": "profile",
    "TERMS": "terms",
    "facts_of": "facts",
    "jobs_of": "jobs",
    "times_s": "kernels",
}

__all__ = ["TERMS", "Facts", "Jobs", "KernelProfile", "facts_of", "jobs_of", "times_s"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'sim.clock' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
