"""Well-known machines by name.

A preset is what one would capture on the real box, so that a planner can build NCCL's system graph from it: PCIe
facts, compute capability, NIC ports, and each processor's family and model. Rates are nominal, from `topo.catalog`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from topo.errors import NameChoiceError
from topo.synthetic import SHAPES, is_synthetic, synthetic

if TYPE_CHECKING:
    from topo.machines.machine import Machine
    from topo.topology import Topology

__all__ = ["LISTING", "PRESETS", "SHAPES", "Preset", "is_synthetic", "preset", "synthetic"]


@dataclass(frozen=True)
class Preset:
    """A machine by name, with one line that describes it."""

    name: str
    description: str
    machine: Machine

    @property
    def num_ranks(self) -> int:
        """How many ranks it offers."""
        return self.machine.num_ranks

    def build(self) -> Topology:
        """The machine as a topology."""
        from topo.machines.build import build

        return build(self.name, self.machine)


class _Presets(Mapping[str, Preset]):
    """All machines, in families; their tables are read when the first one is asked for."""

    @cached_property
    def _by_name(self) -> Mapping[str, Preset]:
        from topo.machines import cloud, grace, nvlink, pcie

        rows = (row for family in (nvlink, grace, cloud, pcie) for row in family.ROWS)
        return {name: Preset(name, description, machine) for name, description, machine in rows}

    def __getitem__(self, name: str) -> Preset:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


PRESETS: Mapping[str, Preset] = _Presets()
"""All machines by name."""

LISTING = "topo presets"
"""The command that lists them."""


def preset(name: str) -> Topology:
    """The machine of that name; NameChoiceError with the nearest one where there is none."""
    if name not in PRESETS:
        raise NameChoiceError("preset", name, PRESETS, listing=LISTING)
    return PRESETS[name].build()
