"""What NVML told (`nvml/1` JSON), as the facts that nvidia-smi's outputs give: it is the same source by another way."""

from __future__ import annotations

import re
from dataclasses import dataclass

from topo import jsonio
from topo.readers.nvidia_smi_p2p import MEANINGS, P2pFacts, P2pTable
from topo.readers.nvidia_smi_query import GpuQueryFacts, QueriedGpu
from topo.readers.nvidia_smi_topo import MatrixFacts
from topo.readers.nvlink_remote import GpuRemotes, RemoteFacts, RemoteLink
from topo.readers.nvlink_status import GpuNvlinks, NvlinkFacts, NvlinkState
from topo.readers.pci_address import canonical

FORMAT = "NVML"
SCHEMA = "nvml/1"

LETTERS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""NVML's levels of a common ancestor (nvmlGpuTopologyLevel_t) in nvidia-smi's letters."""

P2P_MARKS = ("OK", "CNS", "GNS", "TNS", "DR", "NS", "U")
"""NVML's peer-to-peer states (nvmlGpuP2PStatus_t) in nvidia-smi's marks, by number."""

_CLAIM = re.compile(r'"schema"\s*:\s*"nvml/')


@dataclass(frozen=True, slots=True)
class _Nvlink:
    link: int
    active: bool
    remote: str | None = None


@dataclass(frozen=True, slots=True)
class _Gpu:
    index: int
    name: str | None
    bus_id: str | None
    compute_capability: tuple[int, int] | None
    pcie_generation: int | None
    pcie_generation_max: int | None
    pcie_width: int | None
    pcie_width_max: int | None
    mig: bool | None
    nvlinks: tuple[_Nvlink, ...]


@dataclass(frozen=True, slots=True)
class _Pair:
    gpus: tuple[int, int]
    common_ancestor: int | None
    p2p_read: int | None


@dataclass(frozen=True, slots=True)
class _Document:
    gpus: tuple[_Gpu, ...]
    pairs: tuple[_Pair, ...]


@dataclass(frozen=True, slots=True)
class NvmlFacts:
    """The same facts as `nvidia-smi topo -m`, `--query-gpu`, `nvlink -s`, `nvlink -R` and `topo -p2p r` give.

    `matrix` and `p2p` are None where there are no two GPUs.
    """

    query: GpuQueryFacts
    nvlinks: NvlinkFacts
    remotes: RemoteFacts
    matrix: MatrixFacts | None
    p2p: P2pFacts | None
    source: str = ""


def sniff(text: str) -> bool:
    """Whether the text is a JSON object that claims to be what NVML told."""
    return text.lstrip("\ufeff \t\r\n").startswith("{") and _CLAIM.search(text) is not None


def read(text: str, source: str = "") -> NvmlFacts:
    """The facts of the document; CaptureError where it is malformed."""
    document = jsonio.decode(text, _Document, SCHEMA, source)
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if '"index":' in line]
    lines += [1] * (len(document.gpus) - len(lines))
    several = len(document.gpus) > 1
    return NvmlFacts(
        GpuQueryFacts(tuple(map(_queried, document.gpus, lines)), (), source),
        NvlinkFacts(tuple(map(_status, document.gpus, lines)), source),
        RemoteFacts(tuple(map(_remotes, document.gpus, lines)), source),
        _matrix(document, lines, source) if several else None,
        _p2p(document, lines, source) if several else None,
        source,
    )


def _queried(gpu: _Gpu, line: int) -> QueriedGpu:
    major, minor = gpu.compute_capability or (0, 0)
    return QueriedGpu(
        line=line,
        index=gpu.index,
        name=gpu.name,
        address=canonical(gpu.bus_id) if gpu.bus_id else None,
        compute_capability=10 * major + minor or None,
        pcie_generation_current=gpu.pcie_generation,
        pcie_generation_max=gpu.pcie_generation_max,
        pcie_width_current=gpu.pcie_width,
        pcie_width_max=gpu.pcie_width_max,
        mig_enabled=gpu.mig,
    )


def _status(gpu: _Gpu, line: int) -> GpuNvlinks:
    links = tuple(
        NvlinkState(
            row.link, "active" if row.active else "inactive", None, "active" if row.active else "inactive", line
        )
        for row in gpu.nvlinks
    )
    return GpuNvlinks(gpu.index, gpu.name, links, "links" if links else "silent", True, line)


def _remotes(gpu: _Gpu, line: int) -> GpuRemotes:
    found = ((row.link, canonical(row.remote)) for row in gpu.nvlinks if row.active and row.remote)
    return GpuRemotes(
        gpu.index, gpu.name, tuple(RemoteLink(n, address, None, line) for n, address in found if address), True, line
    )


def _matrix(document: _Document, lines: list[int], source: str) -> MatrixFacts:
    names = tuple(f"GPU{gpu.index}" for gpu in document.gpus)
    cells = tuple(((f"GPU{pair.gpus[0]}", f"GPU{pair.gpus[1]}"), _letters(document, pair)) for pair in document.pairs)
    behind = tuple(
        ((f"GPU{pair.gpus[0]}", f"GPU{pair.gpus[1]}"), path)
        for pair in document.pairs
        if (path := LETTERS.get(-1 if pair.common_ancestor is None else pair.common_ancestor)) is not None
    )
    return MatrixFacts(
        names,
        cells,
        row_lines=tuple(zip(names, lines, strict=True)),
        complete=all(letters is not None for _, letters in cells),
        source=source,
        behind_nvlinks=tuple(row for row, cell in zip(behind, cells, strict=False) if (cell[1] or "").startswith("NV")),
    )


def _letters(document: _Document, pair: _Pair) -> str | None:
    """NV# where NVLinks join the two directly or over switches, else the letters of their PCIe path."""
    count = _num_nvlinks(document, *pair.gpus)
    if count:
        return f"NV{count}"
    return LETTERS.get(-1 if pair.common_ancestor is None else pair.common_ancestor)


def _num_nvlinks(document: _Document, one: int, other: int) -> int:
    gpus = {gpu.index: gpu for gpu in document.gpus}
    addresses = {canonical(gpu.bus_id or ""): gpu.index for gpu in document.gpus}
    ends = [
        [addresses.get(canonical(row.remote or "")) for row in gpus[index].nvlinks if row.active]
        for index in (one, other)
    ]
    direct = ends[0].count(other)
    return direct or min(end.count(None) for end in ends)


def _p2p(document: _Document, lines: list[int], source: str) -> P2pFacts:
    names = tuple(f"GPU{gpu.index}" for gpu in document.gpus)
    cells = tuple(
        (ends, mark)
        for pair in document.pairs
        if pair.p2p_read is not None and 0 <= pair.p2p_read < len(P2P_MARKS)
        for mark in [P2P_MARKS[pair.p2p_read]]
        for ends in ((f"GPU{pair.gpus[0]}", f"GPU{pair.gpus[1]}"), (f"GPU{pair.gpus[1]}", f"GPU{pair.gpus[0]}"))
    )
    table = P2pTable(names, cells, tuple(zip(names, lines, strict=True)), "r", bool(cells))
    used = {mark for _, mark in cells}
    return P2pFacts((table,), tuple((mark, words) for mark, words in MEANINGS.items() if mark in used), source)
