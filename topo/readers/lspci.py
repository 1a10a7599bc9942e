"""`lspci -vv` (and `-vvv`, `-nn`, `-D`, `-n`), whole or as the lines that somebody picked out of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from topo.errors import CaptureError
from topo.readers.lspci_facts import Acs, LspciFacts, PcieLink, PciFunction
from topo.readers.pci_address import ADDRESS, canonical
from topo.readers.plain_text import Line, cleaned_lines, lines_with

FORMAT = "lspci -vv"

_KINDS = (
    r"bridge|controller|accelerators?|peripheral|device|SMBus|Co-?processor|IOMMU|PIC|instrumentation|counters|class"
)
_HEAD = re.compile(
    rf"(?:^|\s)({ADDRESS})\s+((?:\w[\w/.&()+-]*\s){{0,6}}?[\w/-]*(?:{_KINDS})[^:\[\]]{{0,40}}?)\s*"
    rf"(?:\[([0-9a-f]{{4}})\])?:\s+(\S.*?)\s*$",
    re.IGNORECASE,
)
_NUMERIC_HEAD = re.compile(
    rf"(?:^|\s)({ADDRESS})\s+(?:Class\s+)?([0-9a-f]{{4}}):\s+(?:Device\s+)?(([0-9a-f]{{4}}):([0-9a-f]{{4}}).*?)\s*$"
)
_ANY_ADDRESS = re.compile(r"[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_BARE_HEAD = re.compile(rf"^\W*({ADDRESS})\W*$")
_MAY_BE = re.compile(rf"ACSCtl|Lnk(?:Cap|Sta)|(?:^|[\s:])(?:{ADDRESS})\s+\S", re.MULTILINE)
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_LINK = re.compile(r"\bLnk(Cap|Sta):.*?\bSpeed\s+([\d.]+\s?GT/s|unknown)[^,]*,\s*Width\s+x(\d{1,2})\b")
_ACS = re.compile(r"\bACSCtl:\s*((?:[A-Za-z]+[+-][\s,]*){2,})")
_FLAG = re.compile(r"([A-Za-z]+)([+-])")
_BUSES = re.compile(r"\bBus:\s*primary=[0-9a-f]{2}, secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})")
_NUMA = re.compile(r"\bNUMA node:\s*(\d+)")
_GROUP = re.compile(r"\bIOMMU group:\s*(\d+)")
_DRIVER = re.compile(r"\bKernel driver in use:\s*(\S+)")
_DENIED = re.compile(r"\bCapabilities: <access denied>")
_DETAILS = (
    ("acs", "ACSCtl", _ACS),
    ("buses", "Bus: ", _BUSES),
    ("numa", "NUMA", _NUMA),
    ("group", "IOMMU", _GROUP),
    ("driver", "Kernel", _DRIVER),
    ("denied", "denied", _DENIED),
)
"""What is told of a function: a word that is quickly looked for, and the pattern that reads it."""

_WHOLE = re.compile(r"^\s*(?:Control: I/O|Flags: |Capabilities: [\[<])")


def sniff(text: str) -> bool:
    """Whether the text holds lines of lspci: functions with their addresses, link states, or ACS flags."""
    return any(_names_a_kind(line) or _says_its_own(line) for line in lines_with(text, _MAY_BE))


def read(text: str, source: str = "") -> LspciFacts:
    """The facts of the text, one function per address that it shows.

    CaptureError, with file and line, where it holds no line of lspci, or two functions at one address that differ.
    """
    lines = cleaned_lines(text, source, _tells)
    drafts = list(_drafts(lines))
    if not drafts:
        raise CaptureError(
            f"no PCI functions: expected the output of {FORMAT}, such as 18:00.0 3D controller: ... and below it "
            "LnkSta: and ACSCtl:",
            source=source,
            line=1,
        )
    whole = any(_WHOLE.match(line.text) for line in lines)
    functions = [_function(draft) for draft in drafts]
    return LspciFacts(_once(functions, source), excerpt=not whole, source=source)


def _tells(line: str) -> bool:
    """Whether a line may be one that is looked at: `lspci -vvv` prints ten times as many.

    Spelt out, since a loop over the words takes five times as long, and this is asked of every line.
    """
    return (
        "Lnk" in line
        or "ACSCtl" in line
        or "Bus: " in line
        or "NUMA" in line
        or "IOMMU" in line
        or "Kernel" in line
        or "Capabilities: " in line
        or "Control: I/O" in line
        or "Flags: " in line
        or (":" in line and "." in line and _ANY_ADDRESS.search(line) is not None)
    )


@dataclass(slots=True)
class _Draft:
    """A function's lines, while they are read; `head` is None for lines before any address."""

    head: re.Match[str] | None
    line: int
    details: dict[str, tuple[re.Match[str], int]] = field(default_factory=dict)


def _drafts(lines: Iterable[Line]) -> Iterator[_Draft]:
    """The functions in order. A detail that its function has already opens another, without an address."""
    draft: _Draft | None = None
    for line in lines:
        head = _head(line)
        found = None if head else _detail(line)
        if not (head or found):
            continue
        if draft is None or head or (found and found[0] in draft.details):
            if draft is not None:
                yield draft
            draft = _Draft(head, line.number)
        if found:
            draft.details[found[0]] = (found[1], line.number)
    if draft is not None:
        yield draft


def _head(line: Line) -> re.Match[str] | None:
    if not _ANY_ADDRESS.search(line.text):
        return None
    return _NUMERIC_HEAD.search(line.text) or _HEAD.search(line.text) or _BARE_HEAD.match(line.text)


def _names_a_kind(line: str) -> bool:
    """Whether the line is a function's head by more than its address."""
    return bool(_HEAD.search(line) or _NUMERIC_HEAD.search(line))


def _says_its_own(line: str) -> bool:
    """Whether the line is one that no other command prints."""
    return bool(_LINK.search(line) or _ACS.search(line))


def _detail(line: Line) -> tuple[str, re.Match[str]] | None:
    if link := _LINK.search(line.text):
        return link[1], link
    found = ((key, pattern.search(line.text)) for key, words, pattern in _DETAILS if words in line.text)
    return next(((key, match) for key, match in found if match), None)


def _function(draft: _Draft) -> PciFunction:
    said = {key: match for key, (match, _) in draft.details.items()}
    kind, name, class_code, ids = _words(draft.head)
    buses = said.get("buses")
    numbers = {key: int(said[key][1]) for key in ("numa", "group") if key in said}
    return PciFunction(
        address=canonical(draft.head[1]) if draft.head else None,
        kind=kind,
        name=name,
        line=draft.line,
        class_code=class_code,
        vendor_id=ids[0] if ids else None,
        device_id=ids[1] if ids else None,
        capable=_link(draft, "Cap"),
        current=_link(draft, "Sta"),
        acs=_acs(draft),
        buses=(int(buses[1], 16), int(buses[2], 16)) if buses else None,
        numa_node=numbers.get("numa"),
        iommu_group=numbers.get("group"),
        driver=said["driver"][1] if "driver" in said else None,
        denied="denied" in said,
    )


def _words(head: re.Match[str] | None) -> tuple[str, str, str | None, Sequence[str]]:
    """Kind, name, class code, and vendor and device id of a head line, as far as it states them."""
    if head is None or head.re is _BARE_HEAD:
        return "", "", None, ()
    if head.re is _NUMERIC_HEAD:
        return "", head[3], head[2].lower(), (head[4].lower(), head[5].lower())
    ids = _IDS.findall(head[4].lower())
    return head[2].strip(), head[4], head[3].lower() if head[3] else None, ids[-1] if ids else ()


def _link(draft: _Draft, key: str) -> PcieLink | None:
    if key not in draft.details:
        return None
    match, line = draft.details[key]
    speed = None if match[2].lower() == "unknown" else match[2]
    return PcieLink(speed, int(match[3]) or None, line)


def _acs(draft: _Draft) -> Acs | None:
    if "acs" not in draft.details:
        return None
    match, line = draft.details["acs"]
    return Acs(tuple((name, sign == "+") for name, sign in _FLAG.findall(match[1])), line)


def _once(functions: Sequence[PciFunction], source: str) -> tuple[PciFunction, ...]:
    """Each address once: a listing beside its verbose form says the same with more; CaptureError where they differ."""
    kept: dict[str | int, PciFunction] = {}
    for place, function in enumerate(functions):
        key = function.address or place
        other = kept.get(key)
        if other is None or _says_no_more(other):
            kept[key] = function
        elif not _says_no_more(function) and (other.kind, other.name) != (function.kind, function.name):
            raise CaptureError(
                f"{function.address} is {other.name!r} in line {other.line} and {function.name!r} here: expected one "
                "machine, give one file for each",
                source=source,
                line=function.line,
            )
    return tuple(kept.values())


def _says_no_more(function: PciFunction) -> bool:
    """Whether there is nothing but its head line."""
    return not (function.current or function.acs or function.capable or function.buses or function.denied)
