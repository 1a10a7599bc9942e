"""A published run as a document, `measurement/1`: who measured what on which machine."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from typing import Literal

from topo.errors import CaptureError

SCHEMA = "measurement/1"

_UNPRINTED = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of Unicode that steer a terminal or hide in its text: controls, formats, surrogates, line separators."""

_FREE_TEXT = ("source", "description", "assumed", "quality_basis", "explanation")
"""Keys whose text may run over several lines, since no report shows it."""


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

    return decode(_renamed(text.removeprefix("\ufeff"), source), Published, SCHEMA, source)


def _renamed(text: str, source: str) -> str:
    """The text with the one key that cannot be a field's name renamed; as it stands where there is no such key."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    _refuse_unprinted(document, "$", source)
    machine = document.get("machine") if isinstance(document, dict) else None
    if not isinstance(machine, dict) or "class" not in machine:
        return text
    machine["machine_class"] = machine.pop("class")
    return json.dumps(document)


def _refuse_unprinted(plain: object, path: str, source: str) -> None:
    """CaptureError for a key, or a text that reports show, with signs that a terminal obeys instead of showing."""
    if isinstance(plain, str) and any(unicodedata.category(sign) in _UNPRINTED for sign in plain):
        raise CaptureError(f"{path} is {plain!a}: a name has no control characters, take them out", source=source)
    if isinstance(plain, list):
        for number, item in enumerate(plain):
            _refuse_unprinted(item, f"{path}[{number}]", source)
    elif isinstance(plain, dict):
        for key, item in plain.items():
            _refuse_unprinted(key, f"a key of {path}", source)
            if key not in _FREE_TEXT:
                _refuse_unprinted(item, f"{path}.{key}", source)
