"""TOML as plain values, on every Python that is supported."""

from __future__ import annotations

import sys
from typing import Any

from topo.errors import CaptureError


def parse_toml(text: str, source: str = "") -> dict[str, Any]:
    """The keys and plain values of a TOML text; CaptureError with the line where it is none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CaptureError(f"this is no TOML: {error}", source=source) from None
