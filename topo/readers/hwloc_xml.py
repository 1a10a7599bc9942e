"""`lstopo --of xml`: what hwloc (1.x, 2.x, 3.x) knows of a machine's NUMA nodes, bridges, GPUs and NICs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from topo.errors import CaptureError
from topo.readers.hwloc_objects import HwlocFacts, HwlocObject, Kind
from topo.readers.pci_address import canonical
from topo.readers.xml_tree import Element, parse

FORMAT = "lstopo --of xml"

_ROOT = re.compile(r"<topology[\s>]")
_OBJECT = re.compile(r"<object\s[^>]*\btype=")
_BEFORE_ROOT = re.compile(r"(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*>|\s+)*", re.DOTALL)
_DOCTYPE = re.compile(r"<!DOCTYPE\s+topology\s+SYSTEM\s+\"hwloc\d?\.dtd\"\s*>")
_PCI_TYPE = re.compile(r"\s*([0-9a-f]{4})\s*\[([0-9a-f]{4}):([0-9a-f]{4})\]", re.IGNORECASE)

_KINDS: Mapping[str, Kind] = {
    "Machine": "machine",
    "System": "machine",
    "Package": "package",
    "Socket": "package",
    "NUMANode": "numa",
    "PCIDev": "pci",
    "OSDev": "os",
}
_SOFTWARE: Mapping[str, Mapping[str, str]] = {
    "3": {"4": "gpu", "8": "coproc", "16": "network", "32": "openfabrics"},
    "": {"1": "gpu", "2": "network", "3": "openfabrics", "5": "coproc"},
}
"""The numbers of kinds of software devices in hwloc 3 (bits), and before it."""

_RDMA = re.compile(r"mlx\d_\w+|bnxt_re\d+|hfi\d_\d+|irdma\d+|efa_\d+")
"""Names that only RDMA devices have; early versions number them like networks."""


def sniff(text: str) -> bool:
    """Whether the text opens like hwloc's XML: its first element is a topology, made of objects."""
    body = text.removeprefix("\ufeff")
    opening = _BEFORE_ROOT.match(body)
    return opening is not None and _ROOT.match(body, opening.end()) is not None and _OBJECT.search(body) is not None


def read(text: str, source: str = "") -> HwlocFacts:
    """The machine's objects; CaptureError with file and line where the XML is cut off or another program's."""
    root = parse(_DOCTYPE.sub("", text), source)
    objects = root.of("object")
    if root.tag != "topology" or len(objects) != 1:
        raise CaptureError(
            f"the root is <{root.tag}> with {len(objects)} objects, expected hwloc's <topology> with one <object>",
            source=source,
            line=root.line,
        )
    # hwloc 3 says beside the machine's object what earlier versions say in it.
    software = _SOFTWARE["3" if root.attributes.get("version", "").startswith("3") else ""]
    return HwlocFacts(_object(objects[0], _infos(root), software, source), FORMAT, source)


def _object(element: Element, infos: Mapping[str, str], software: Mapping[str, str], source: str) -> HwlocObject:
    said = element.attributes
    kind = _kind(said)
    pci = _PCI_TYPE.match(said.get("pci_type", ""))
    number = said.get("os_index", "")
    return HwlocObject(
        kind,
        element.line,
        number=int(number) if number.isdecimal() and len(number) < 8 else None,
        name=said.get("name", ""),
        subtype=_subtype(kind, said, software),
        address=canonical(said.get("pci_busid", "")),
        class_code=pci[1].lower() if pci else "",
        vendor_id=_id(pci[2]) if pci else None,
        device_id=_id(pci[3]) if pci else None,
        bytes_per_s=_rate(said.get("pci_link_speed", ""), source, element.line),
        cpuset=_linux_cpuset(said.get("cpuset", "")),
        said={**infos, **_infos(element)},
        children=tuple(_object(child, {}, software, source) for child in element.of("object")),
    )


def _kind(said: Mapping[str, str]) -> Kind:
    tag = said.get("type", "")
    if tag == "Bridge":
        return "host_bridge" if said.get("bridge_type", "").startswith("0") else "pci_bridge"
    return _KINDS.get(tag, "other")


def _subtype(kind: Kind, said: Mapping[str, str], software: Mapping[str, str]) -> str:
    if kind != "os":
        return said.get("subtype", "")
    return "openfabrics" if _RDMA.fullmatch(said.get("name", "")) else software.get(said.get("osdev_type", ""), "")


def _infos(element: Element) -> dict[str, str]:
    return {info.attributes.get("name", ""): info.attributes.get("value", "") for info in element.of("info")}


def _linux_cpuset(words: str) -> str | None:
    """hwloc's `0x000000ff,0xffffffff` as Linux and NCCL write it: groups of eight digits; None where it is none."""
    groups = [group.removeprefix("0x") for group in words.split(",")]
    if not words or not all(re.fullmatch(r"[0-9a-f]{0,8}", group) for group in groups):
        return None
    return ",".join(group.zfill(8) for group in groups)


def _id(digits: str) -> str | None:
    return None if digits == "0000" else digits.lower()


def _rate(words: str, source: str, line: int) -> float | None:
    """Bytes per second of a link (GB/s in the file, with a comma in some languages), None where it is 0: not known."""
    if not words:
        return None
    try:
        rate = float(words.replace(",", "."))
    except ValueError:
        rate = -1.0
    if not 0 <= rate < 1e4:
        raise CaptureError(f'pci_link_speed="{words[:40]}": expected GB/s, 0 or more', source=source, line=line)
    return rate * 1e9 or None
