"""Several captures of one machine -> one topology: `merge` is the way in."""

from __future__ import annotations

from topo.merging.merge import merge

__all__ = ["merge"]
