"""Simulate collectives on a topology. Names are loaded when first used (PEP 562)."""

from __future__ import annotations

from typing import Any

_PUBLIC = {
    "ALGORITHMS": "sim.algorithms",
    "COLLECTIVES": "sim.collective",
    "PLANNERS": "sim.planners",
    "Plan": "sim.plan",
    "Prediction": "sim.prediction",
    "Profile": "sim.profile",
    "Schedule": "sim.schedule",
    "Simulator": "sim.predict",
    "Workload": "sim.workload",
}

__all__ = [
    "ALGORITHMS",
    "COLLECTIVES",
    "PLANNERS",
    "Plan",
    "Prediction",
    "Profile",
    "Schedule",
    "Simulator",
    "Workload",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'sim' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)
