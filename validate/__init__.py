"""Measure the same collectives on real processes and hold predictions against them. Names load lazily (PEP 562)."""

from __future__ import annotations

from typing import Any

_PUBLIC = {
    "Comparison": "validate.compare",
    "Job": "validate.jobs",
    "Measurement": "validate.measurement",
    "Run": "validate.jobs",
    "measure": "validate.harness",
}

__all__ = ["Comparison", "Job", "Measurement", "Run", "measure"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'validate' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)
