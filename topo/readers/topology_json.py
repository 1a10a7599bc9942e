"""Our own document of a topology, `topology/1`, as a topology."""

from __future__ import annotations

from topo import jsonio
from topo.topology import Topology

FORMAT = "topology JSON"
SCHEMA = "topology/1"
DERIVED = ("matrix", "num_ranks")
"""Keys that are computed when the document is written, and ignored when it is read."""


def sniff(text: str) -> bool:
    """Whether the text opens like a JSON object: any is ours to read or to refuse with its schema."""
    return text.lstrip("\ufeff \t\r\n").startswith("{")


def read(text: str, source: str = "") -> Topology:
    """The topology of a document; CaptureError with the JSON path of what is wrong."""
    return jsonio.decode(text, Topology, SCHEMA, source, derived=DERIVED)
