"""The formats that are read, and which of them a text is in: READERS is the one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from topo.errors import CaptureError

if TYPE_CHECKING:
    from topo.topology import Topology


@dataclass(frozen=True, slots=True)
class Reader:
    """One format: `module` has `sniff(text)` and `read(text, source)`, and is imported when first used.

    `finish` names the function that makes a topology of what `read` returns, where that is not one already. A
    `supporting` format tells facts about a machine (which links are down, which pairs refuse peer access) from which
    no topology follows: they are held against the topology of another text. Of a format `in_parts` several texts are
    one: NCCL writes a log per process where NCCL_DEBUG_FILE asks for it.
    """

    name: str
    title: str
    module: str
    finish: str = ""
    supporting: bool = False
    in_parts: bool = False

    def sniff(self, text: str) -> bool:
        """Whether the text holds this format; a file in which several outputs were kept holds several."""
        return bool(import_module(self.module).sniff(text))

    def read(self, text: str, source: str = "") -> Any:
        """The facts in the text, frozen, of the type that the format's module declares; CaptureError where they are
        cut, shifted or contradict themselves."""
        return import_module(self.module).read(text, source)

    def topology(self, text: str, source: str = "") -> Topology:
        """The topology that the text describes; CaptureError where it cannot be read, or the format gives none."""
        if self.supporting:
            raise self.no_topology(source)
        return self.build(self.read(text, source))

    def no_topology(self, source: str) -> CaptureError:
        """The error that this format alone gives no topology."""
        return CaptureError(
            f"the output of {self.title} tells facts about a machine, but not how it is built: give its topology as "
            f"well, in one of {titles()}",
            source=source,
        )

    def build(self, facts: Any) -> Topology:
        """The topology that facts of this format (what `read` returns) describe."""
        if self.finish:
            module, _, function = self.finish.partition(":")
            facts = getattr(import_module(module), function)(facts)
        topology: Topology = facts
        return topology


def _supporting(name: str, title: str, module: str) -> Reader:
    return Reader(name, title, module, supporting=True)


READERS: Mapping[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader("nccl-xml", "NCCL topology XML", "topo.readers.nccl_xml"),
        Reader("topology-json", "topology/1 JSON", "topo.readers.topology_json"),
        Reader("nvidia-smi-topo", "nvidia-smi topo -m", "topo.readers.nvidia_smi_topo", "topo.merge:from_matrix"),
        Reader("rocm-smi", "rocm-smi --showtopo", "topo.readers.rocm_smi", "topo.readers.rocm_topology:to_topology"),
        Reader("hwloc-xml", "lstopo --of xml", "topo.readers.hwloc_xml", "topo.readers.hwloc_topology:to_topology"),
        Reader("lstopo", "lstopo", "topo.readers.lstopo_text", "topo.readers.hwloc_topology:to_topology"),
        Reader("nccl-log", "NCCL log", "topo.readers.nccl_log", "topo.merge_log:from_log", in_parts=True),
        Reader("sysfs", "sysfs/1 JSON", "topo.readers.sysfs"),
        _supporting("nvidia-smi-p2p", "nvidia-smi topo -p2p", "topo.readers.nvidia_smi_p2p"),
        _supporting("nvlink-status", "nvidia-smi nvlink -s", "topo.readers.nvlink_status"),
        _supporting("nvlink-remote", "nvidia-smi nvlink -R", "topo.readers.nvlink_remote"),
        _supporting("nvlink-capabilities", "nvidia-smi nvlink -c", "topo.readers.nvlink_capabilities"),
        _supporting("nvlink-errors", "nvidia-smi nvlink -e", "topo.readers.nvlink_errors"),
        _supporting("nvidia-smi-list", "nvidia-smi -L", "topo.readers.nvidia_smi_list"),
        _supporting("nvidia-smi-query", "nvidia-smi --query-gpu", "topo.readers.nvidia_smi_query"),
        _supporting("lspci", "lspci -vv", "topo.readers.lspci"),
        _supporting("nvbandwidth", "nvbandwidth", "topo.readers.nvbandwidth"),
        _supporting("nccl-graph", "NCCL graph XML", "topo.readers.nccl_graph"),
        _supporting("nvml", "NVML", "topo.readers.nvml"),
    )
}
"""All formats: those of a topology first, the one that says the most of a machine before the others."""


def sniff(text: str) -> Reader | None:
    """The first format that the text holds, None where it holds none."""
    return next((reader for reader in READERS.values() if reader.sniff(text)), None)


def sniff_all(text: str) -> tuple[Reader, ...]:
    """All formats that the text holds, in the order of READERS: several where several outputs were kept in one file."""
    return tuple(reader for reader in READERS.values() if reader.sniff(text))


def titles() -> str:
    """The formats of topologies for a message: "NCCL topology XML, topology/1 JSON, ..."."""
    return ", ".join(reader.title for reader in READERS.values() if not reader.supporting)
