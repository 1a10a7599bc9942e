"""`nvidia-smi nvlink -R` (and the older `-p`): which device each NVLink of each GPU leads to.

The numbers of the links are this output's own: it counts those that are up from 0, so that they need not be the
numbers of `nvlink -s`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from topo.errors import CaptureError
from topo.readers.nvlink_sections import LinkLine, Section, link_lines, once_per_gpu, sections
from topo.readers.pci_address import ADDRESS, canonical

FORMAT = "nvidia-smi nvlink -R"

_REMOTE = re.compile(rf"(?:Remote Device\s+)?({ADDRESS})(?:\s*[:,]\s*Link\s*(\d{{1,3}}))?\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RemoteLink:
    """One link: the PCI address of the device at its other end (as Linux writes it), and the link's number there.

    `remote_link` is None where the output does not tell it (`-p`).
    """

    number: int
    remote: str
    remote_link: int | None
    line: int


@dataclass(frozen=True, slots=True)
class GpuRemotes:
    """The far ends of one GPU's NVLinks; `complete` is False where the text shows that some are left out."""

    gpu: int | None
    name: str | None
    links: tuple[RemoteLink, ...]
    complete: bool
    line: int

    @property
    def links_to(self) -> dict[str, int]:
        """How many links lead to each device, by its address, in the order of the links."""
        return dict(Counter(link.remote for link in self.links))


@dataclass(frozen=True, slots=True)
class RemoteFacts:
    """The far ends of the NVLinks of all GPUs that the text shows."""

    gpus: tuple[GpuRemotes, ...]
    source: str = ""


def sniff(text: str) -> bool:
    """Whether the text holds links with the addresses of what they lead to."""
    return any(_remote(link) for link in link_lines(text))


def read(text: str, source: str = "") -> RemoteFacts:
    """The facts of the output; CaptureError, with file and line, where the text is something else."""
    gpus = [
        GpuRemotes(section.gpu, section.name, links, not section.elided, section.line)
        for section in sections(text, source)
        if (links := _remotes(section))
    ]
    if not gpus:
        raise CaptureError(
            f"no NVLink peers: expected the output of {FORMAT}, lines such as Link 0: Remote Device 0000:18:00.0: "
            "Link 2",
            source=source,
            line=1,
        )
    return RemoteFacts(once_per_gpu(gpus, _content, source), source)


def _remotes(section: Section) -> tuple[RemoteLink, ...]:
    return tuple(remote for link in section.links if (remote := _remote(link)) is not None)


def _remote(link: LinkLine) -> RemoteLink | None:
    match = _REMOTE.match(link.said) if link.sign == ":" else None
    address = canonical(match[1]) if match else None
    if match is None or address is None:
        return None
    return RemoteLink(link.number, address, int(match[2]) if match[2] else None, link.line)


def _content(gpu: GpuRemotes) -> Sequence[tuple[int, str, int | None]]:
    return tuple((link.number, link.remote, link.remote_link) for link in gpu.links)
