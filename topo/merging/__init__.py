"""Several captures of one machine -> one topology: `merge` is the way in."""

from __future__ import annotations

from topo.merging.merge import merge, with_one_matrix

__all__ = ["merge", "with_one_matrix"]
