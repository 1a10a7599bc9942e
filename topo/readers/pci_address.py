"""PCI addresses, which every tool writes in its own way, in one form: Linux' own, `0000:18:00.0`."""

from __future__ import annotations

import re

ADDRESS = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
"""An address as a regular expression: nvidia-smi's `00000000:18:00.0`, lspci's `18:00.0`, Linux' `0000:18:00.0`."""

_PARTS = re.compile(r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.([0-7]))?")


def canonical(address: str) -> str | None:
    """The address as Linux writes it, in lower case with a domain of four digits or more; None if it is none.

    A missing domain is 0, and a missing function too (NVML's older form `0000:18:00`).
    """
    match = _PARTS.fullmatch(address.strip())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{device.lower()}.{function or '0'}"
