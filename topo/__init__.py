"""Discover a machine's topology and hold it as a checked graph. Names are loaded when first used (PEP 562)."""

from __future__ import annotations

from typing import Any

_PUBLIC = {
    "Device": "topo.topology",
    "Link": "topo.topology",
    "Topology": "topo.topology",
    "Cluster": "topo.cluster",
    "TopoError": "topo.errors",
    "load_topology": "topo.load",
}

__all__ = ["Cluster", "Device", "Link", "TopoError", "Topology", "load_topology"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'topo' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)
