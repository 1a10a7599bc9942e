"""The objects of an hwloc topology, alike whether they come from XML or from lstopo's text, and what they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["machine", "package", "numa", "host_bridge", "pci_bridge", "pci", "os", "other"]
"""What an object is to us; caches, cores and all that merely holds others is `other`."""

VENDORS = {"10de": "nvidia", "1002": "amd", "15b3": "mellanox"}
"""Vendors by their PCI number, as far as a topology names them."""

_GPU_VENDORS = frozenset({"10de", "1002"})
_GPU_SOFTWARE = re.compile(r"(?:cuda|nvml|rsmi|ze)\d+(?:\.\d+)?")
_INDEX = re.compile(r"(nvml|rsmi|cuda)(\d+)")


@dataclass(frozen=True, slots=True, eq=False)
class HwlocObject:
    """One object with its children; compared by identity.

    `number` is the operating system's (`P#`), `address` Linux' form of a PCI function's address, `class_code` four
    hexadecimal digits (or the word that lstopo prints), `bytes_per_s` the rate of a PCI link as hwloc states it,
    `cpuset` the set of CPUs in Linux' form, `said` further attributes by name.
    """

    kind: Kind
    line: int
    number: int | None = None
    name: str = ""
    subtype: str = ""
    address: str | None = None
    class_code: str = ""
    vendor_id: str | None = None
    device_id: str | None = None
    bytes_per_s: float | None = None
    cpuset: str | None = None
    said: Mapping[str, str] = field(default_factory=dict)
    children: tuple[HwlocObject, ...] = ()

    def walk(self) -> Iterator[HwlocObject]:
        """This object and all below it, in the order of the source."""
        todo = [self]
        while todo:
            found = todo.pop()
            yield found
            todo.extend(reversed(found.children))

    @property
    def software(self) -> tuple[HwlocObject, ...]:
        """What the operating system and its libraries call a PCI function: `eth0`, `mlx5_0`, `cuda0`."""
        return tuple(child for child in self.children if child.kind == "os")

    @property
    def is_gpu(self) -> bool:
        """Whether a PCI function is a GPU: by its class and its vendor, else by what drives it, else by class 3D.

        A display's function of unknown vendor is none: servers have one for their console.
        """
        if any(_GPU_SOFTWARE.fullmatch(row.name) for row in self.software):
            return True
        code = self.class_code
        if self.vendor_id is not None:
            return self.vendor_id in _GPU_VENDORS and code[:2] in ("03", "12", "VG", "3D", "Di", "Pr")
        return code in ("0302", "3D")

    @property
    def is_display(self) -> bool:
        """Whether a PCI function is of a display's class."""
        return self.class_code.startswith("03") or self.class_code in ("VGA", "3D", "Display")

    @property
    def is_nic(self) -> bool:
        """Whether a PCI function is a network card."""
        network = any(row.subtype in ("network", "openfabrics") for row in self.software)
        return network or self.class_code.startswith("02") or self.class_code in ("Ethernet", "InfiniBand", "Ether")

    @property
    def driver_vendor(self) -> str | None:
        """Whose library drives a GPU, None where none is named."""
        vendors = {"cuda": "nvidia", "nvml": "nvidia", "rsmi": "amd"}
        names = (_INDEX.fullmatch(row.name) for row in self.software)
        return next((vendors[match[1]] for match in names if match), None)

    def index_by(self, software: str) -> int | None:
        """The number that a library gives a GPU: 2 for `index_by("nvml")` where it is `nvml2`."""
        names = (_INDEX.fullmatch(row.name) for row in self.software)
        return next((int(match[2]) for match in names if match and match[1] == software), None)


@dataclass(frozen=True, slots=True)
class HwlocFacts:
    """The root of a machine's objects, and what the text was: lstopo's XML or its text."""

    machine: HwlocObject
    form: str
    source: str = ""
