"""The formats that are read, and which of them a text is in: READERS is the one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from topo.topology import Topology


@dataclass(frozen=True, slots=True)
class Reader:
    """One format: `module` has `sniff(text)` and `read(text, source)`, and is imported when first used.

    `finish` names the function that makes a topology of what `read` returns, where that is not one already.
    """

    name: str
    title: str
    module: str
    finish: str = ""

    def sniff(self, text: str) -> bool:
        """Whether the text is in this format."""
        return bool(import_module(self.module).sniff(text))

    def topology(self, text: str, source: str = "") -> Topology:
        """The topology that the text describes; CaptureError where it cannot be read."""
        found: Any = import_module(self.module).read(text, source)
        if self.finish:
            module, _, function = self.finish.partition(":")
            found = getattr(import_module(module), function)(found)
        topology: Topology = found
        return topology


READERS: Mapping[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader("nccl-xml", "NCCL topology XML", "topo.readers.nccl_xml"),
        Reader("topology-json", "topology/1 JSON", "topo.readers.topology_json"),
        Reader("nvidia-smi-topo", "nvidia-smi topo -m", "topo.readers.nvidia_smi_topo", "topo.merge:from_matrix"),
        Reader("sysfs", "sysfs/1 JSON", "topo.readers.sysfs"),
    )
}
"""All formats, those that say the most of a machine first."""


def sniff(text: str) -> Reader | None:
    """The first format that the text is in, None where it is in none."""
    return next((reader for reader in READERS.values() if reader.sniff(text)), None)


def titles() -> str:
    """The formats for a message: "NCCL topology XML, topology/1 JSON, ..."."""
    return ", ".join(reader.title for reader in READERS.values())
