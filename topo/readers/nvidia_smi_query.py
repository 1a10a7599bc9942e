"""`nvidia-smi --query-gpu=... --format=csv[,noheader][,nounits]`: names, PCI addresses and PCIe links of GPUs.

Any columns in any order are read; those that are not understood are kept as text. UUIDs and serial numbers are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from topo.errors import CaptureError
from topo.readers import query_columns as columns
from topo.readers.plain_text import Line, cleaned_lines, command_in

FORMAT = "nvidia-smi --query-gpu=... --format=csv"

_QUERY = re.compile(r"--query-gpu[=\s]+([\w.,]+)")


@dataclass(frozen=True, slots=True)
class QueriedGpu:
    """One GPU's row; what the query did not ask for, or the driver does not know (`[N/A]`), is None.

    `address` is Linux' form of the PCI bus id. `compute_capability` is ten times CUDA's. PCIe generations are numbers
    from 1 on: `current` of the link as it runs now (slower while the GPU idles), `max` of what GPU and machine allow
    together, `gpu_max` and `host_max` of each alone. `others` are the remaining columns as text, by their names.
    """

    line: int
    index: int | None = None
    name: str | None = None
    address: str | None = None
    compute_capability: int | None = None
    pcie_generation_current: int | None = None
    pcie_generation_max: int | None = None
    pcie_generation_gpu_max: int | None = None
    pcie_generation_host_max: int | None = None
    pcie_width_current: int | None = None
    pcie_width_max: int | None = None
    mig_enabled: bool | None = None
    memory_bytes: int | None = None
    others: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class GpuQueryFacts:
    """The rows of one machine, one per GPU, and the columns in their order ("" for one that nothing names)."""

    gpus: tuple[QueriedGpu, ...]
    columns: tuple[str, ...]
    source: str = ""


@dataclass(frozen=True, slots=True)
class _Table:
    """Columns, the line that names them, and the rows; `prefix` is how many characters a log puts before each."""

    names: tuple[str, ...]
    line: int
    rows: tuple[Line, ...]
    prefix: int = 0


def sniff(text: str) -> bool:
    """Whether the text holds rows of such a query: below their header or their command, or plain by themselves."""
    if not columns.MAY_BE.search(text):
        return False
    try:
        found = _table(cleaned_lines(text))
    except CaptureError:
        return False
    return found is not None and bool(found.rows)


def read(text: str, source: str = "") -> GpuQueryFacts:
    """The facts of the query. Of a GPU that stands several times (`-l 1`), the last row counts.

    CaptureError, with file and line, where there are no rows, a row has other columns than the header, or a cell that
    ought to be a number is none.
    """
    lines = cleaned_lines(text, source)
    table = _table(lines)
    if table is None or not table.rows:
        raise CaptureError(
            f"no rows of GPUs: expected the output of {FORMAT}, a header such as index, name, pci.bus_id and one row "
            "per GPU",
            source=source,
            line=table.line if table else 1,
        )
    gpus: dict[object, QueriedGpu] = {}
    for row in table.rows:
        gpu = _gpu(row, table, source)
        key = gpu.address or gpu.index
        first = gpus.get(key) if key is not None else None
        if first is not None and (first.index, first.name) != (gpu.index, gpu.name):
            raise CaptureError(
                f"GPU {key} is {first.name} in line {first.line} and {gpu.name} here: expected one machine, give one "
                "file for each",
                source=source,
                line=row.number,
            )
        gpus[row.number if key is None else key] = gpu
    return GpuQueryFacts(tuple(gpus.values()), tuple(columns.canonical(name) for name in table.names), source)


def _gpu(row: Line, table: _Table, source: str) -> QueriedGpu:
    cells = columns.cells_of(row.text[table.prefix :])
    if len(cells) != len(table.names):
        raise CaptureError(
            f"a row of {len(cells)} cells, but there are {len(table.names)} columns (line {table.line}): it is cut or "
            "shifted",
            source=source,
            line=row.number,
        )
    known: dict[str, object] = {}
    others: list[tuple[str, str]] = []
    for title, cell in zip(table.names, cells, strict=True):
        name = columns.canonical(title)
        if name in columns.DROPPED or columns.is_unknown(cell):
            continue
        if name in columns.FIELDS:
            field, parse = columns.FIELDS[name]
            value = parse(cell, title)
            if value is None:
                raise CaptureError(
                    f"column {name} says {cell!r}, which is no {columns.WHAT[parse]}: the row is cut or shifted",
                    source=source,
                    line=row.number,
                )
            known[field] = value
        else:
            others.append((name, cell))
    return QueriedGpu(row.number, **known, others=tuple(others))  # type: ignore[arg-type]


def _table(lines: Sequence[Line]) -> _Table | None:
    """The rows with their columns: a header names them, else the command in the text, else what cells can only be."""
    asked: tuple[str, ...] = ()
    for place, line in enumerate(lines):
        command = command_in(line.text)
        if command is not None:
            query = _QUERY.search(command)
            asked = tuple(query[1].strip(",").split(",")) if query else ()
            continue
        header = columns.header_in(line.text)
        if header is not None:
            prefix, names = header
            return _Table(names, line.number, _rows(lines[place + 1 :], prefix), prefix)
        if asked and len(asked) == len(columns.cells_of(line.text)):
            return _Table(asked, line.number, _rows(lines[place:], 0))
    return _bare_table(lines)


def _bare_table(lines: Sequence[Line]) -> _Table | None:
    """Rows that nothing names: their columns are known by cells that can be one thing only, else they are no rows."""
    rows = [line for line in lines if "," in line.text]
    table = [columns.cells_of(row.text) for row in rows]
    if len({len(cells) for cells in table}) != 1 or any(command_in(line.text) for line in lines):
        return None
    names = columns.names_of(list(zip(*table, strict=True)))
    return None if names is None else _Table(names, rows[0].number, tuple(rows))


def _rows(lines: Sequence[Line], prefix: int) -> tuple[Line, ...]:
    """The rows that follow, up to a command, another header, or a line with commas that begins like no row."""
    found: list[Line] = []
    for line in lines:
        if command_in(line.text) is not None or columns.header_in(line.text) is not None:
            break
        cells = columns.cells_of(line.text[prefix:])
        if len(cells) > 1 and not columns.begins_row(cells[0]):
            break
        if len(cells) > 1:
            found.append(line)
    return tuple(found)
