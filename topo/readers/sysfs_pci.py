"""The PCI functions of a snapshot of /sys: what each is, its link now and at best, and the bridges above it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from topo import catalog
from topo.errors import UnitError

GPU_VENDORS = {"0x10de": "nvidia", "0x1002": "amd"}
GPU_CLASSES = ("0x0300", "0x0302", "0x1200")
BRIDGE_CLASS = "0x0604"

_FILE = re.compile(r"sys/bus/pci/devices/([^/]+)/class")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True, slots=True)
class SysfsLink:
    """A PCIe link in Linux' words: generation and lanes, None where Linux knows neither."""

    generation: int | None
    width: int | None

    @property
    def bytes_per_s(self) -> float | None:
        """Nominal bytes per second in one direction."""
        if self.generation is None or self.width is None:
            return None
        return catalog.pcie_bytes_per_s(self.generation, self.width)


@dataclass(frozen=True, slots=True)
class SysfsFunction:
    """One PCI function: `above` are the addresses of the bridges over it, the root port first."""

    address: str
    device_class: str
    vendor_id: str
    numa_node: int | None
    current: SysfsLink
    best: SysfsLink
    above: tuple[str, ...]

    @property
    def is_gpu(self) -> bool:
        """Whether it is a display controller or accelerator of a vendor that makes GPUs for computing."""
        return self.device_class.startswith(GPU_CLASSES) and self.vendor_id in GPU_VENDORS

    @property
    def is_bridge(self) -> bool:
        """Whether it is a root port, or a port of a switch."""
        return self.device_class.startswith(BRIDGE_CLASS)


class PciTree:
    """All PCI functions of a snapshot by address."""

    def __init__(self, files: Mapping[str, str], links: Mapping[str, str]) -> None:
        self._files = files
        self._links = links

    @cached_property
    def functions(self) -> Mapping[str, SysfsFunction]:
        """Every function whose class the snapshot has, by address."""
        matches = (_FILE.fullmatch(path) for path in self._files)
        return {match[1]: self._function(match[1]) for match in matches if match}

    @cached_property
    def gpus(self) -> tuple[SysfsFunction, ...]:
        """The GPUs, in order of their addresses."""
        return tuple(row for _, row in sorted(self.functions.items()) if row.is_gpu)

    def uplink_of(self, addresses: Iterable[str]) -> SysfsFunction | None:
        """The upstream port of the switch that all these functions hang on: their nearest common bridge.

        None where they have none, or only a root port, which is no switch.
        """
        chains = [self.functions[address].above if address in self.functions else () for address in addresses]
        common = [bridges[0] for bridges in zip(*chains, strict=False) if len(set(bridges)) == 1]
        return self.functions.get(common[-1]) if len(chains) > 1 and len(common) > 1 else None

    def iommu_group(self, address: str) -> str | None:
        """The number of a function's IOMMU group, None where there is no IOMMU or the snapshot does not tell."""
        return self._links.get(f"sys/bus/pci/devices/{address}/iommu_group", "").rpartition("/")[2] or None

    def iommu_type(self, group: str) -> str | None:
        """What Linux does with the addresses of an IOMMU group: `DMA` and `DMA-FQ` are translated, `identity` not."""
        return self._files.get(f"sys/kernel/iommu_groups/{group}/type")

    def _function(self, address: str) -> SysfsFunction:
        target = self._links.get(f"sys/bus/pci/devices/{address}", "")
        above = tuple(found for found in _ADDRESS.findall(target) if found != address)
        node = _whole(self._said(address, "numa_node"))
        return SysfsFunction(
            address,
            self._said(address, "class"),
            self._said(address, "vendor"),
            None if node is None or node < 0 else node,
            self._link(address, "current"),
            self._link(address, "max"),
            above,
        )

    def _link(self, address: str, which: str) -> SysfsLink:
        width = _whole(self._said(address, f"{which}_link_width"))
        try:
            generation = catalog.pcie_generation(self._said(address, f"{which}_link_speed"))
        except UnitError:
            generation = None
        return SysfsLink(generation, width if width and 1 <= width <= 32 else None)

    def _said(self, address: str, name: str) -> str:
        return self._files.get(f"sys/bus/pci/devices/{address}/{name}", "")


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else None
