"""The JSON Schema of the document `topology/1`, made of the dataclasses that it holds.

`python -m topo.schema` prints it; docs/schemas/topology-1.json is that text.
"""

from __future__ import annotations

from typing import Any

from topo.readers.topology_json import SCHEMA
from topo.topology import Topology

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def topology_schema() -> dict[str, Any]:
    """The schema: every field of `Topology`, the document's own `schema`, and what is derived as it is written.

    It says what a document may hold by itself. What its parts must be to each other (links join devices that exist,
    every two ranks can reach each other) is checked where it is read.
    """
    import msgspec

    _, parts = msgspec.json.schema_components([Topology], ref_template="#/$defs/{name}")
    for part in parts.values():
        part["additionalProperties"] = False
    whole = parts.pop("Topology")
    derived = {
        "num_ranks": {"type": "integer", "minimum": 0, "description": "How many ranks: derived, ignored when read."},
        "matrix": {
            "type": ["object", "null"],
            "description": "Path letters by the names of two devices: derived, ignored when read; null if large.",
            "additionalProperties": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        },
    }
    return {
        "$schema": DIALECT,
        "title": SCHEMA,
        "description": whole["description"],
        "type": "object",
        "properties": {"schema": {"const": SCHEMA}, **whole["properties"], **derived},
        "required": ["schema", *whole["required"]],
        "additionalProperties": False,
        "$defs": parts,
    }


def render() -> str:
    """The schema as indented JSON, ending in a newline."""
    import json

    return json.dumps(topology_schema(), indent=2) + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(render())
