"""NCCL 2.30.7's decisions, rebuilt: paths, graph search, channels, tuner and chunks.

`plan_nccl(spec_from_topology(topology), num_copies=2).choose("all_reduce", 1 << 20)`. The steps are functions on plain
values (`wire` builds, `tune` costs), so that another cost model can take the place of this one.
"""

from __future__ import annotations

from typing import Any

_PUBLIC = {
    "Choice": "planner",
    "NcclOptions": "options",
    "NcclPlan": "planner",
    "SystemSpec": "spec",
    "Wiring": "wiring",
    "plan_nccl": "planner",
    "spec_from_topology": "from_topology",
    "wire": "wiring",
}

__all__ = [
    "Choice",
    "NcclOptions",
    "NcclPlan",
    "SystemSpec",
    "Wiring",
    "plan_nccl",
    "spec_from_topology",
    "wire",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'sim.planners.nccl_2_30' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
