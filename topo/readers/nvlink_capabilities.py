"""`nvidia-smi nvlink -c` (`--capabilities`): what each NVLink of each GPU can do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from topo.errors import CaptureError
from topo.readers.nvlink_sections import Section, link_lines, once_per_gpu, sections

FORMAT = "nvidia-smi nvlink -c"

_CAPABILITY = re.compile(r"(.*?)\s*:\s*(true|false)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Capability:
    """One capability of one link, called as the driver calls it (`P2P is supported`)."""

    number: int
    name: str
    supported: bool
    line: int


@dataclass(frozen=True, slots=True)
class GpuCapabilities:
    """What one GPU's NVLinks can do; `complete` is False where the text shows that some are left out."""

    gpu: int | None
    name: str | None
    capabilities: tuple[Capability, ...]
    complete: bool
    line: int

    @property
    def links(self) -> tuple[int, ...]:
        """The numbers of the links that are shown."""
        return tuple(dict.fromkeys(capability.number for capability in self.capabilities))

    def lacking(self, name: str) -> tuple[Capability, ...]:
        """Where the capability of that name is false."""
        return tuple(row for row in self.capabilities if row.name == name and not row.supported)


@dataclass(frozen=True, slots=True)
class CapabilityFacts:
    """What the NVLinks of all GPUs that the text shows can do."""

    gpus: tuple[GpuCapabilities, ...]
    source: str = ""


def sniff(text: str) -> bool:
    """Whether the text holds links with what they support."""
    return any(link.sign == "," and _CAPABILITY.match(link.said) for link in link_lines(text))


def read(text: str, source: str = "") -> CapabilityFacts:
    """The facts of the output; CaptureError, with file and line, where the text is something else."""
    gpus = [
        GpuCapabilities(section.gpu, section.name, rows, not section.elided, section.line)
        for section in sections(text, source)
        if (rows := _capabilities(section))
    ]
    if not gpus:
        raise CaptureError(
            f"no NVLink capabilities: expected the output of {FORMAT}, lines such as Link 0, P2P is supported: true",
            source=source,
            line=1,
        )
    return CapabilityFacts(once_per_gpu(gpus, _content, source), source)


def _capabilities(section: Section) -> tuple[Capability, ...]:
    found = [(link, _CAPABILITY.match(link.said)) for link in section.links if link.sign == ","]
    return tuple(
        Capability(link.number, match[1], match[2].lower() == "true", link.line) for link, match in found if match
    )


def _content(gpu: GpuCapabilities) -> Sequence[tuple[int, str, bool]]:
    return tuple((row.number, row.name, row.supported) for row in gpu.capabilities)
