"""The forms a topology is written in: WRITERS is the one table."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topo.topology import Topology

WRITERS: Mapping[str, str] = {
    "text": "topo.writers.text:render",
    "matrix": "topo.writers.matrix:render",
    "json": "topo.writers.json:dumps",
    "affinity": "topo.writers.affinity:render",
    "nccl-xml": "topo.writers.nccl_xml:render",
    "nccl-xml-vm": "topo.writers.nccl_xml:render_for_vm",
    "dot": "topo.writers.dot:render",
    "svg": "topo.writers.svg:render",
}
"""Each form by name, with the function that makes its text; imported when first used."""

SUFFIXES: Mapping[str, str] = {
    ".txt": "text",
    ".json": "json",
    ".xml": "nccl-xml",
    ".dot": "dot",
    ".gv": "dot",
    ".svg": "svg",
}
"""The form that a file's suffix asks for."""


def write(topology: Topology, form: str) -> str:
    """The topology in that form, ending in a newline."""
    module, _, function = WRITERS[form].partition(":")
    text: str = getattr(import_module(module), function)(topology)
    return text if text.endswith("\n") else text + "\n"
