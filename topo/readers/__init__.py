"""The formats that are read, and which of them a text is in: READERS is the one table."""

from __future__ import annotations

import re
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
    one: NCCL writes a log per process where NCCL_DEBUG_FILE asks for it. `mark` is a regular expression that every
    text in this format matches somewhere: others are told apart without importing the module.
    """

    name: str
    title: str
    module: str
    finish: str = ""
    supporting: bool = False
    in_parts: bool = False
    mark: str = ""

    def sniff(self, text: str) -> bool:
        """Whether the text holds this format; a file in which several outputs were kept holds several."""
        return re.search(self.mark, text) is not None and bool(import_module(self.module).sniff(text))

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


def _supporting(name: str, title: str, module: str, mark: str) -> Reader:
    return Reader(name, title, module, supporting=True, mark=mark)


_A_GPU = r"GPU"
_A_LINK = r"[Ll]ink\s*\d|[Nn][Vv][Ll]ink"

READERS: Mapping[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader("nccl-xml", "NCCL topology XML", "topo.readers.nccl_xml", mark="<system"),
        Reader("topology-json", "topology/1 JSON", "topo.readers.topology_json", mark='"topology/'),
        Reader(
            "nvidia-smi-topo",
            "nvidia-smi topo -m",
            "topo.readers.nvidia_smi_topo",
            "topo.merge:from_matrix",
            mark=_A_GPU,
        ),
        Reader(
            "rocm-smi",
            "rocm-smi --showtopo",
            "topo.readers.rocm_smi",
            "topo.readers.rocm_topology:to_topology",
            mark=r"XGMI|PCIE|XXXX|between\s+two\s+GPUs|\(Topology\)|between DRM devices",
        ),
        Reader(
            "hwloc-xml",
            "lstopo --of xml",
            "topo.readers.hwloc_xml",
            "topo.readers.hwloc_topology:to_topology",
            mark="<topology",
        ),
        Reader(
            "lstopo",
            "lstopo",
            "topo.readers.lstopo_text",
            "topo.readers.hwloc_topology:to_topology",
            mark=r"[LP]#\d|HostBridge|Bridge Host->PCI",
        ),
        Reader("nccl-log", "NCCL log", "topo.readers.nccl_log", "topo.merge_log:from_log", in_parts=True),
        Reader("sysfs", "sysfs/1 JSON", "topo.readers.sysfs", mark='"sysfs/'),
        _supporting("nvidia-smi-p2p", "nvidia-smi topo -p2p", "topo.readers.nvidia_smi_p2p", _A_GPU),
        _supporting("nvlink-status", "nvidia-smi nvlink -s", "topo.readers.nvlink_status", f"{_A_LINK}|(?i:all links)"),
        _supporting("nvlink-remote", "nvidia-smi nvlink -R", "topo.readers.nvlink_remote", _A_LINK),
        _supporting("nvlink-capabilities", "nvidia-smi nvlink -c", "topo.readers.nvlink_capabilities", _A_LINK),
        _supporting("nvlink-errors", "nvidia-smi nvlink -e", "topo.readers.nvlink_errors", _A_LINK),
        _supporting("nvidia-smi-list", "nvidia-smi -L", "topo.readers.nvidia_smi_list", "UUID"),
        _supporting("nvidia-smi-query", "nvidia-smi --query-gpu", "topo.readers.nvidia_smi_query", ","),
        _supporting(
            "lspci", "lspci -vv", "topo.readers.lspci", r"ACSCtl|Lnk(?:Cap|Sta)|[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
        ),
        _supporting("nvbandwidth", "nvbandwidth", "topo.readers.nvbandwidth", r"nvbandwidth|\((?:row|column)s?\)"),
        _supporting("nccl-graph", "NCCL graph XML", "topo.readers.nccl_graph", "<graph"),
        _supporting("nvml", "NVML", "topo.readers.nvml", '"nvml/'),
    )
}
"""All formats: those of a topology first, the one that says the most of a machine before the others."""


def sniff(text: str) -> Reader | None:
    """The first format that the text holds, None where it holds none."""
    return next((reader for reader in READERS.values() if reader.sniff(text)), None)


def sniff_all(text: str) -> tuple[Reader, ...]:
    """All formats that the text holds, in the order of READERS: several where several outputs were kept in one file."""
    is_there = {mark: re.search(mark, text) is not None for mark in {reader.mark for reader in READERS.values()}}
    return tuple(reader for reader in READERS.values() if is_there[reader.mark] and reader.sniff(text))


def titles() -> str:
    """The formats of topologies for a message: "NCCL topology XML, topology/1 JSON, ..."."""
    return ", ".join(reader.title for reader in READERS.values() if not reader.supporting)
