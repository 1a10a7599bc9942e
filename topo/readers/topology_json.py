"""Our own document of a topology, `topology/1`, as a topology."""

from __future__ import annotations

import re

from topo import jsonio
from topo.topology import Topology

FORMAT = "topology JSON"
SCHEMA = "topology/1"
DERIVED = ("matrix", "num_ranks")
"""Keys that are computed when the document is written, and ignored when it is read."""

_CLAIM = re.compile(r'"schema"\s*:\s*"topology/')


def sniff(text: str) -> bool:
    """Whether the text is a JSON object that claims to be a topology of ours, of any version."""
    return text.lstrip("\ufeff \t\r\n").startswith("{") and _CLAIM.search(text) is not None


def read(text: str, source: str = "") -> Topology:
    """The topology of a document; CaptureError with the JSON path of what is wrong."""
    return jsonio.decode(text, Topology, SCHEMA, source, derived=DERIVED)
