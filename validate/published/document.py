"""A published run as a document, `measurement/1`: who measured what on which machine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

SCHEMA = "measurement/1"


@dataclass(frozen=True, slots=True)
class PublishedMachine:
    """The machine as its source describes it; `topology` is a path in the folder of machines.

    `machine_class` is the document's `class`.
    """

    topology: str
    description: str
    nodes: int
    gpus_per_node: int
    machine_class: str
    assumed: str | None = None


@dataclass(frozen=True, slots=True)
class PublishedSoftware:
    """Versions and settings; `env` holds NCCL_* only, its values in the source's own types."""

    nccl: str | None
    gpus_per_process: int | None
    env: dict[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class PublishedSample:
    """One size; `derived` where the time was computed from a published bandwidth."""

    num_bytes: int
    time_s: float
    derived: bool = False


@dataclass(frozen=True, slots=True)
class Published:
    """One run; None where the source is silent. `quality` is a curator's judgement with its basis."""

    id: str
    name: str
    source: str
    machine: PublishedMachine
    collective: str
    num_ranks: int
    algorithm: str | None
    protocol: str | None
    num_channels: int | None
    dtype: str
    reduction: str | None
    software: PublishedSoftware
    quality: Literal["healthy", "degraded", "unknown"]
    quality_basis: str
    explanation: str
    samples: tuple[PublishedSample, ...]


def read(text: str, source: str = "") -> Published:
    """The run in a document; CaptureError with the JSON path of what is wrong."""
    from topo.jsonio import decode

    return decode(_renamed(text), Published, SCHEMA, source)


def _renamed(text: str) -> str:
    """The text with the one key that cannot be a field's name renamed; as it stands where there is no such key."""
    try:
        document = json.loads(text)
        document["machine"]["machine_class"] = document["machine"].pop("class")
    except (ValueError, KeyError, TypeError):
        return text
    return json.dumps(document)
