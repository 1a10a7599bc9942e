"""The columns of `nvidia-smi --query-gpu`: what they are called, and how their cells are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from topo.gpu_models import gpu_model
from topo.readers import pci_address

Parse = Callable[[str, str], object]
"""The value of a cell, given the cell and its column's title (which may state the unit); None where it is none."""

DROPPED = frozenset({"uuid", "serial", "timestamp"})
"""Columns that identify a machine or a moment: their cells are not kept."""

_ALIASES = {"gpu_name": "name", "gpu_bus_id": "pci.bus_id", "gpu_uuid": "uuid", "gpu_serial": "serial"}
_TITLE = re.compile(r"([a-z][a-z0-9_.]*)\s*(?:\[([^\]]*)\])?")
_LAST_TITLE = re.compile(r"(?:^|[\s:>\]\"])([a-z][a-z0-9_.]*\s*(?:\[[^\]]*\])?)$")
_OF_PROCESSES = frozenset({"pid", "process_name"})
_IDENTIFYING = frozenset({"index", "name", "pci.bus_id", "uuid"})
_UNKNOWN = re.compile(
    r"\[?(?:N/A|Not Supported|Unknown Error|Not Active|GPU is lost|Insufficient Permissions)\]?|", re.I
)
_BRANDS = "NVIDIA|Tesla|Quadro|GeForce|GRID|TITAN"
_NAME = re.compile(rf"(?:{_BRANDS})\b")
_VALUE = re.compile(
    r"\[?N/A\]?|\[[\w ]+\]|\d[\d.]*(?: ?(?:MiB|W|C|MHz|%))?|P\d+|(?:En|Dis)abled|Default|Exclusive_\w+|(?:Not )?Active"
)
_IDENTIFYING_TITLES = r"(?:index|name|pci\.bus_id|uuid|gpu_name|gpu_bus_id|gpu_uuid)"
MAY_BE = re.compile(
    rf"--query-gpu|\b{_IDENTIFYING_TITLES}\s*,|,\s*{_IDENTIFYING_TITLES}\s*$|,\s*(?:{_BRANDS})\b"
    rf"|^\W*(?:{_BRANDS})\b[^,\n]*,|[0-9A-Fa-f]{{2}}:[0-9A-Fa-f]{{2}}\.[0-7]\s*,|,\s*[0-9A-Fa-f]{{8}}:",
    re.MULTILINE,
)
"""What every text with rows of GPUs has somewhere: a quick way to tell that others are none."""

_MIB = 2**20


def canonical(title: str) -> str:
    """A title without its unit, aliases resolved: `gpu_name` is `name`, `memory.total [MiB]` is `memory.total`."""
    match = _TITLE.match(title.strip().lower())
    name = match[1] if match else title.strip()
    return _ALIASES.get(name, name)


def cells_of(line: str) -> list[str]:
    """The cells of a line."""
    return [cell.strip().strip('"').strip() for cell in line.split(",")]


def header_in(line: str) -> tuple[int, tuple[str, ...]] | None:
    """The titles in a line, at least one of which says which GPU a row is of, and how many characters a log puts
    before them (0 for blanks alone); None where it is no header."""
    cells = cells_of(line)
    first = _LAST_TITLE.search(cells[0])
    if len(cells) < 2 or first is None or not all(_TITLE.fullmatch(cell) for cell in cells[1:]):
        return None
    names = {canonical(cell) for cell in (first[1], *cells[1:])}
    if names.isdisjoint(_IDENTIFYING) or not names.isdisjoint(_OF_PROCESSES):
        return None
    before = line[: line.index(first[1], line.index(cells[0]) + first.start())]
    return len(before) if before.strip(' \t"') else 0, (first[1], *cells[1:])


def begins_row(cell: str) -> bool:
    """Whether the cell may be a row's first: a value as nvidia-smi writes it, a time, a GPU's name or address."""
    is_value = re.fullmatch(r"[\d./: ]+", cell) or _VALUE.fullmatch(cell) or _NAME.match(cell)
    return bool(is_value) or cell.startswith(("GPU-", "MIG-")) or pci_address.canonical(cell) is not None


def is_unknown(cell: str) -> bool:
    """Whether the driver says that it does not know the value."""
    return _UNKNOWN.fullmatch(cell.strip()) is not None


def names_of(table: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """The names of columns (given as their cells) that can be one thing only, "" for others.

    None where these are no rows of GPUs: no column of names or addresses, or one of other words than nvidia-smi's.
    """
    names = tuple(_name_of(place, cells) for place, cells in enumerate(table))
    rest = [cell for name, cells in zip(names, table, strict=True) if not name for cell in cells]
    is_of_gpus = not {"name", "pci.bus_id"}.isdisjoint(names) and all(_VALUE.fullmatch(cell) for cell in rest)
    return names if is_of_gpus else None


def _name_of(place: int, cells: Sequence[str]) -> str:
    if all(pci_address.canonical(cell) for cell in cells):
        return "pci.bus_id"
    if all(cell.startswith(("GPU-", "MIG-")) for cell in cells):
        return "uuid"
    if all(_NAME.match(cell) or gpu_model(cell) for cell in cells):
        return "name"
    return "index" if place == 0 and list(cells) == [str(number) for number in range(len(cells))] else ""


def _whole(cell: str, title: str) -> int | None:
    return int(cell) if re.fullmatch(r"\d{1,6}", cell) else None


def _address(cell: str, title: str) -> str | None:
    return pci_address.canonical(cell)


def _text(cell: str, title: str) -> str | None:
    return cell or None


def _capability(cell: str, title: str) -> int | None:
    match = re.fullmatch(r"(\d{1,2})\.(\d)", cell)
    return int(match[1]) * 10 + int(match[2]) if match else None


def _switch(cell: str, title: str) -> bool | None:
    return {"enabled": True, "disabled": False}.get(cell.lower())


def _memory(cell: str, title: str) -> int | None:
    """Bytes of a cell in MiB, which it or its title says, or which is nvidia-smi's unit where nobody does (nounits)."""
    match = re.fullmatch(r"(\d{1,9})(?:\s*MiB)?", cell)
    return int(match[1]) * _MIB if match else None


FIELDS: Mapping[str, tuple[str, Parse]] = {
    "index": ("index", _whole),
    "name": ("name", _text),
    "pci.bus_id": ("address", _address),
    "compute_cap": ("compute_capability", _capability),
    "pcie.link.gen.current": ("pcie_generation_current", _whole),
    "pcie.link.gen.gpucurrent": ("pcie_generation_current", _whole),
    "pcie.link.gen.max": ("pcie_generation_max", _whole),
    "pcie.link.gen.gpumax": ("pcie_generation_gpu_max", _whole),
    "pcie.link.gen.hostmax": ("pcie_generation_host_max", _whole),
    "pcie.link.width.current": ("pcie_width_current", _whole),
    "pcie.link.width.max": ("pcie_width_max", _whole),
    "mig.mode.current": ("mig_enabled", _switch),
    "memory.total": ("memory_bytes", _memory),
}
"""The columns that are understood: the field that takes each, and how its cells are read."""

WHAT: Mapping[Parse, str] = {
    _whole: "whole number",
    _text: "text",
    _address: "PCI address",
    _capability: "compute capability",
    _switch: "Enabled or Disabled",
    _memory: "size in MiB",
}
"""What a cell ought to be, for a message."""
