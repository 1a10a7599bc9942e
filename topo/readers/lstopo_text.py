"""lstopo's text (`lstopo --of console`, with or without `-v`): the same objects as in its XML, known by indentation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from topo.errors import CaptureError
from topo.readers.hwloc_objects import HwlocFacts, HwlocObject, Kind
from topo.readers.pci_address import ADDRESS, canonical
from topo.readers.plain_text import Line, cleaned_lines

FORMAT = "lstopo"

_KINDS: Mapping[str, Kind] = {
    "Machine": "machine",
    "System": "machine",
    "Package": "package",
    "Socket": "package",
    "NUMANode": "numa",
    "HostBridge": "host_bridge",
    "Bridge Host->PCI": "host_bridge",
    "PCIBridge": "pci_bridge",
    "Bridge PCI->PCI": "pci_bridge",
    "PCI": "pci",
    "Net": "os",
    "Network": "os",
    "OpenFabrics": "os",
    "GPU": "os",
    "CoProc": "os",
    "Co-Processor": "os",
}
_OTHERS = r"Group\d*|Die|Cluster|MemCache|L\d[id]?(?:Cache)?|Core|PU|Block|DMA|OmniPath|Misc|Memory"
_SOFTWARE = {"Net": "network", "Network": "network", "OpenFabrics": "openfabrics", "GPU": "gpu"}
_OBJECT = re.compile(
    rf"(?:^|[\s:>\]])(?P<type>{'|'.join(map(re.escape, _KINDS))}|{_OTHERS})"
    r"(?:\((?P<subtype>[^()]*)\))?"
    rf"(?:\s+(?P<address>{ADDRESS})|\s+(?P<ids>[0-9a-f]{{4}}:[0-9a-f]{{4}}))?"
    r"(?:\s+L#\d+)?(?:\s+P#(?P<number>\d+))?"
    r"(?:\s*\((?P<said>.*)\))?(?:\s*\"(?P<name>[^\"]*)\")?\s*(?:\+\s.*)?$"
)
_MAY_BE = re.compile(r"\b(?:Package|Socket|NUMANode) (?:L|P)#\d|\bHostBridge\b|\bBridge Host->PCI\b")
_END = re.compile(r"\bdepth\s+-?\d+:\s+\d+ [A-Z]|\bTopology infos:|\bRelative latency matrix\b")
_ATTRIBUTE = re.compile(r"([A-Za-z]\w*)=(?:\"([^\"]*)\"|(\S+))")
_CLASS = re.compile(r"([0-9a-f]{4})\b", re.IGNORECASE)
_RATE = re.compile(r"(\d+(?:\.\d+)?)GB/s")


def sniff(text: str) -> bool:
    """Whether the text is a tree of objects as lstopo prints it, with packages, NUMA nodes or host bridges in it."""
    if not _MAY_BE.search(text):
        return False
    try:
        return _is_tree(_items(cleaned_lines(text)))
    except CaptureError:
        return False


def read(text: str, source: str = "") -> HwlocFacts:
    """The machine's objects; CaptureError where the text holds no tree of lstopo."""
    lines = cleaned_lines(text, source)
    items = _items(lines)
    if not _is_tree(items):
        raise CaptureError(
            f"no tree of {FORMAT}: expected Machine (...) and below it packages, NUMA nodes and bridges",
            source=source,
            line=1,
        )
    said = {key: words for _, item in items if item.kind == "machine" for key, words in item.said.items()}
    top = _Node(-1, HwlocObject("machine", items[0][1].line, said={**said, **_said_below(lines)}))
    path = [top]
    for indent, item in items:
        if item.kind == "machine":
            continue
        while path[-1].indent >= indent and not _is_beside_its_function(path[-1], indent, item):
            path.pop()
        node = _Node(indent, item)
        path[-1].children.append(node)
        if item.kind != "os":
            path.append(node)
    return HwlocFacts(top.finished(), FORMAT, source)


@dataclass(slots=True)
class _Node:
    """An object while its children are still being read, and how far right it stands."""

    indent: int
    item: HwlocObject
    children: list[_Node] = field(default_factory=list)

    def finished(self) -> HwlocObject:
        return replace(self.item, children=tuple(child.finished() for child in self.children))


def _items(lines: Iterable[Line]) -> list[tuple[int, HwlocObject]]:
    """The objects with how far right they stand, up to the summary that -v prints below the tree."""
    found: list[tuple[int, HwlocObject]] = []
    for line in lines:
        if found and _END.search(line.text):
            break
        match = _OBJECT.search(line.text.expandtabs())
        if match is not None:
            found.append((match.start("type"), _made(match, line.number)))
    return found


def _is_tree(items: Sequence[tuple[int, HwlocObject]]) -> bool:
    return len(items) > 2 and not {"package", "numa", "host_bridge"}.isdisjoint(item.kind for _, item in items)


def _is_beside_its_function(above: _Node, indent: int, item: HwlocObject) -> bool:
    """Whether a software device stands as far right as its PCI function, as in texts that somebody indented anew."""
    return item.kind == "os" and above.item.kind == "pci" and above.indent == indent


def _made(match: re.Match[str], line: int) -> HwlocObject:
    kind, words = _KINDS.get(match["type"], "other"), match["said"] or ""
    said = {name: quoted or plain for name, quoted, plain in _ATTRIBUTE.findall(words)}
    vendor_id, device_id = _ids(match["ids"] or said.get("id") or "")
    number = match["number"] or next(iter(re.findall(r"^P#(\d+)", words)), "")
    rate = _RATE.fullmatch(said.get("link", ""))
    return HwlocObject(
        kind,
        line,
        number=int(number) if number and len(number) < 8 else None,
        name=match["name"] or "",
        subtype=_SOFTWARE.get(match["type"], "coproc") if kind == "os" else match["subtype"] or "",
        address=canonical(match["address"] or said.get("busid", "")),
        class_code=_class_code(kind, words, said),
        vendor_id=vendor_id,
        device_id=device_id,
        bytes_per_s=float(rate[1]) * 1e9 if rate and float(rate[1]) else None,
        said=said,
    )


def _ids(words: str) -> tuple[str | None, str | None]:
    """Vendor and device id of `10de:1db1`; None for zeros, which stand for not told."""
    vendor_id, _, device_id = words.lower().partition(":")
    told = [digits if digits.strip("0") else None for digits in (vendor_id, device_id)]
    return told[0], told[1]


def _class_code(kind: Kind, words: str, said: Mapping[str, str]) -> str:
    """The class of a PCI function: digits where -v prints them, else the word in brackets."""
    if kind != "pci":
        return ""
    digits = _CLASS.match(said.get("class", ""))
    return digits[1].lower() if digits else words.strip()


def _said_below(lines: Iterable[Line]) -> dict[str, str]:
    """What stands below the tree about the machine as a whole (`Topology infos: Architecture=x86_64 ...`)."""
    infos = (line.text for line in lines if "Topology infos:" in line.text)
    return {name: quoted or plain for text in infos for name, quoted, plain in _ATTRIBUTE.findall(text)}
