"""Takes out of captured text what names one machine: host names, serial numbers, UUIDs, GUIDs, MAC and IP addresses.

What is the same stays the same: each value is replaced by a number of its kind, in all texts of one capture alike. The
replacements have the form of what they replace, so that the texts read as before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

LEAST_NAME_LENGTH = 4
"""Shorter host names may be part of any word, and tell nobody anything."""

_COMMON = frozenset(
    {"localhost", "node", "host", "server", "nvidia", "linux", "ubuntu", "docker", "gpu", "link", "none"}
)
"""Host names that the tools use as words."""

_HEX2 = "[0-9A-Fa-f]{2}"
_HEX4 = "[0-9A-Fa-f]{4}"
_GROUP = "[0-9A-Fa-f]{1,4}"

_PATTERNS: tuple[tuple[str, str, Callable[[int], str]], ...] = (
    (
        "uuid",
        rf"(?i)\b[0-9a-f]{{8}}-{_HEX4}-{_HEX4}-{_HEX4}-[0-9a-f]{{12}}\b",
        lambda n: f"00000000-0000-0000-0000-{n:012d}",
    ),
    (
        "eui64",
        rf"\b(?:{_HEX2}-){{7}}{_HEX2}\b",
        lambda n: f"00-00-00-ff-ff-{n >> 16 & 255:02x}-{n >> 8 & 255:02x}-{n & 255:02x}",
    ),
    ("guid", r"\b0x[0-9A-Fa-f]{16}\b", lambda n: f"0x{n:016x}"),
    (
        "guid4",
        rf"(?<![\w:.])(?:{_HEX4}:){{3}}{_HEX4}(?![\w:.])",
        lambda n: f"0000:0000:{n >> 16 & 65535:04x}:{n & 65535:04x}",
    ),
    (
        "mac",
        rf"(?<![\w:.-])(?:{_HEX2}:){{5,19}}{_HEX2}(?![\w:.-])",
        lambda n: f"02:00:00:{n >> 16 & 255:02x}:{n >> 8 & 255:02x}:{n & 255:02x}",
    ),
    (
        "ipv6",
        rf"(?<![\w:.])(?:{_GROUP}:){{7}}{_GROUP}(?![\w:.])|(?<![\w:.])(?:{_GROUP}:){{1,6}}(?::{_GROUP}){{1,6}}(?![\w:.])",
        lambda n: f"2001:db8::{n:x}",
    ),
    (
        "ipv4",
        r"(?<![\w.])(?!0\.0\.0\.0|127\.)(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.])",
        lambda n: f"198.18.{n >> 8 & 255}.{n & 255}",
    ),
)
"""Kind, pattern, and the n-th replacement. Addresses are those that standards set aside for examples and tests."""

_LABELLED = re.compile(r"(?im)^(\s*(?:\[(?:SN|V\w|Y\w)\] [\w ]+:|.*\bserial(?: number)?\s*[:=])[ \t]*)(\S.*?)[ \t]*$")
"""Serial numbers and vendor's fields by what stands before them: they have no form of their own."""


class Redactor:
    """Replaces what names a machine, in any number of texts; one instance serves one capture."""

    def __init__(self, host_names: Iterable[str] = ()) -> None:
        self._numbers: dict[str, dict[str, int]] = {}
        names = {part for name in host_names for part in (name, name.split(".")[0])}
        kept = sorted((name for name in names if _tells(name)), key=len, reverse=True)
        self._hosts = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, kept))})(?![\w-])") if kept else None

    def __call__(self, text: str) -> str:
        """The text without what names the machine."""
        if self._hosts is not None:
            text = self._hosts.sub("host0", text)
        text = _LABELLED.sub(lambda match: match[1] + f"serial{self._number('serial', match[2])}", text)
        for kind, pattern, written in _PATTERNS:
            text = re.sub(pattern, lambda match, k=kind, w=written: w(self._number(k, match[0].lower())), text)  # type: ignore[misc]
        return text

    def _number(self, kind: str, value: str) -> int:
        """The number of a value among those of its kind, from 1; a value that is a replacement keeps its own."""
        known = self._numbers.setdefault(kind, {})
        return known.setdefault(value, len(known) + 1)


def _tells(name: str) -> bool:
    return len(name) >= LEAST_NAME_LENGTH and name.lower() not in _COMMON
