"""What lspci tells of PCI functions: addresses, link states, what ACS redirects, and which bridges are above."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from topo import catalog
from topo.errors import UnitError


@dataclass(frozen=True, slots=True)
class PcieLink:
    """One end's word on its link: `speed` as printed (`16GT/s`), `width` in lanes; None where lspci knows neither."""

    speed: str | None
    width: int | None
    line: int

    @property
    def generation(self) -> int | None:
        """The PCIe generation of the speed."""
        try:
            return catalog.pcie_generation(self.speed or "")
        except UnitError:
            return None

    @property
    def bytes_per_s(self) -> float | None:
        """Nominal bytes per second in one direction, None where speed or width are unknown."""
        generation = self.generation
        if generation is None or not self.width or self.width > 32:
            return None
        return catalog.pcie_bytes_per_s(generation, self.width)


@dataclass(frozen=True, slots=True)
class Acs:
    """What Access Control Services of a function are set to do (`ACSCtl`), each flag on or off."""

    flags: tuple[tuple[str, bool], ...]
    line: int

    @property
    def on(self) -> tuple[str, ...]:
        """The flags that are on."""
        return tuple(name for name, is_on in self.flags if is_on)

    @property
    def redirects(self) -> bool:
        """Whether peer-to-peer requests or their answers are sent up to the root instead of straight across."""
        return not {"ReqRedir", "CmpltRedir"}.isdisjoint(self.on)


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One PCI function, None or empty for what the text does not show.

    `address` is Linux' form (None: an excerpt without addresses); `kind` is lspci's word for its class (`3D
    controller`) and `name` what stands behind; `capable` and `current` are what its link could be and is; `buses` are
    the secondary and subordinate bus of a bridge; `denied` says that lspci ran without the right to read the rest.
    """

    address: str | None
    kind: str
    name: str
    line: int
    class_code: str | None = None
    vendor_id: str | None = None
    device_id: str | None = None
    capable: PcieLink | None = None
    current: PcieLink | None = None
    acs: Acs | None = None
    buses: tuple[int, int] | None = None
    numa_node: int | None = None
    iommu_group: int | None = None
    driver: str | None = None
    denied: bool = False

    @property
    def is_bridge(self) -> bool:
        """Whether it is a bridge between PCI buses: a root port, or a port of a switch."""
        return self.buses is not None or self.class_code == "0604" or self.kind.lower().startswith("pci bridge")

    @property
    def is_gpu(self) -> bool:
        """Whether it is a display controller or an accelerator, and of a vendor of GPUs for computing."""
        of_class = self.kind.lower().startswith(("3d contr", "vga comp", "display contr", "processing acc"))
        by_code = (self.class_code or "")[:2] in ("03", "12")
        by_name = "nvidia" in self.name.lower() or "[amd" in self.name.lower()
        return (of_class or by_code) and (by_name or self.vendor_id in ("10de", "1002"))

    @property
    def is_narrowed(self) -> bool:
        """Whether its link has fewer lanes than the function has."""
        return bool(self.current and self.capable and (self.current.width or 99) < (self.capable.width or 0))

    @property
    def is_slowed(self) -> bool:
        """Whether its link runs slower than the function can; idle GPUs do, and speed up when used."""
        now, best = (link.generation if link else None for link in (self.current, self.capable))
        return now is not None and best is not None and now < best


@dataclass(frozen=True)
class LspciFacts:
    """The functions of one text, in its order. `excerpt` says that lines were picked out (`| grep ACSCtl`)."""

    functions: tuple[PciFunction, ...]
    excerpt: bool = False
    source: str = ""

    @cached_property
    def _by_address(self) -> dict[str, PciFunction]:
        return {function.address: function for function in self.functions if function.address}

    def function(self, address: str) -> PciFunction | None:
        """The function at an address (Linux' form), None where the text does not show it."""
        return self._by_address.get(address)

    def bridges_above(self, address: str) -> tuple[PciFunction, ...]:
        """The bridges between a function and its root, nearest first; () where the text shows none."""
        domain, bus, _ = address.split(":")
        number = int(bus, 16)
        above = [
            bridge
            for bridge in self.functions
            if bridge.buses and (bridge.address or "").startswith(f"{domain}:") and bridge.address != address
            if bridge.buses[0] <= number <= bridge.buses[1]
        ]
        return tuple(sorted(above, key=lambda bridge: -(bridge.buses or (0, 0))[0]))

    @property
    def gpus(self) -> tuple[str, ...]:
        """The addresses of GPUs for computing: display controllers and accelerators of NVIDIA and AMD."""
        return tuple(f.address for f in self.functions if f.address and f.is_gpu)

    @property
    def redirecting(self) -> tuple[PciFunction, ...]:
        """The functions whose ACS redirects peer-to-peer traffic."""
        return tuple(function for function in self.functions if function.acs and function.acs.redirects)
