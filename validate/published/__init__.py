"""Runs that others published, shipped with their sources (`runs.jsonl`), and each as a case to predict.

`shipped_runs()` reads them, `cases_of(runs)` joins each with its machine and with what NCCL 2.30 would do there.
"""

from __future__ import annotations

from typing import Any

_PUBLIC = {
    "Case": "cases",
    "Cases": "cases",
    "Published": "document",
    "SetAside": "runs",
    "cases_of": "cases",
    "runs_in": "runs",
    "shipped_runs": "runs",
}

__all__ = ["Case", "Cases", "Published", "SetAside", "cases_of", "runs_in", "shipped_runs"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'validate.published' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
