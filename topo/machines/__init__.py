"""Well-known machines, built from facts: `parts` are what they are made of, `build` puts them together.

The families (`nvlink`, `grace`, `cloud`, `pcie`) are tables of `Machine` values; `topo.presets` offers them by name.
"""

from __future__ import annotations
