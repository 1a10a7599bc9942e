"""JSON lines of NCCL's Inspector plugin -> its records of collectives; what else it writes is passed over.

Each rank writes a file of its own, one object a line (or several lines, where somebody has laid it out); files of many
ranks may stand one after the other. A last object that was cut off by the end of the run is dropped, and counted.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from topo.errors import CaptureError
from topo.readers.limits import MAX_MATRIX_CHARS

KEY = '"coll_perf"'

_COMMENT = re.compile(r"(?m)//[^\n\"]*$")
_BLANK = " \t\r\n,"
_MAX_CHARS = 64 * MAX_MATRIX_CHARS
"""A long run writes a line for every collective of every rank."""


@dataclass(frozen=True, slots=True)
class InspectorRecord:
    """One collective as one rank saw it.

    `msg_bytes` is what the plugin calls the message: of one rank or of all together, by collective and release; the
    algbw beside it, bytes per second, tells which. `number` counts the collectives of a communicator.
    """

    line: int
    communicator: str
    rank: int
    num_ranks: int
    num_nodes: int | None
    collective: str
    number: int
    msg_bytes: int
    time_s: float
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    timing_source: str | None = None
    algorithm: str | None = None
    protocol: str | None = None


@dataclass(frozen=True, slots=True)
class InspectorDump:
    """All records of collectives in a text, in its order; `num_other` objects are of something else."""

    source: str
    records: tuple[InspectorRecord, ...]
    num_other: int = 0
    is_cut: bool = False


def sniff(text: str) -> bool:
    """Whether the text begins with an object of the Inspector's."""
    if not text.lstrip("\ufeff" + _BLANK).startswith("{"):
        return False
    return KEY in text or '"inspector_output_format_version"' in text


def read(text: str, source: str = "") -> InspectorDump:
    """The records in the text; CaptureError with the line of an object that cannot be read, and where there is none."""
    if len(text) > _MAX_CHARS:
        raise CaptureError(f"{len(text)} characters: give the file of one rank, or a part of it", source=source)
    text = _COMMENT.sub("", text.removeprefix("\ufeff"))
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    records: list[InspectorRecord] = []
    num_other, is_cut, position = 0, False, 0
    while (position := _next(text, position)) < len(text):
        line = text.count("\n", 0, position) + 1
        try:
            found, position = decoder.raw_decode(text, position)
        except RecursionError:
            raise CaptureError("the JSON is nested too deeply", source=source, line=line) from None
        except ValueError as error:
            if not records or "\n{" in text[position:]:
                raise CaptureError(f"no JSON of the Inspector ({error})", source=source, line=line) from None
            is_cut = True
            break
        if isinstance(found, dict) and "coll_perf" in found:
            records.append(_record(found, source, line))
        else:
            num_other += 1
    if not records:
        raise CaptureError("no collective of the Inspector in it (coll_perf)", source=source)
    return InspectorDump(source, tuple(records), num_other, is_cut)


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _next(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BLANK:
        position += 1
    return position


def _record(found: dict[str, Any], source: str, line: int) -> InspectorRecord:
    """One record; older releases keep who wrote it beside the figures, newer ones under `header`."""
    try:
        figures, header = found["coll_perf"], found.get("header") or found
        record = InspectorRecord(
            line=line,
            communicator=str(header["id"]),
            rank=int(header["rank"]),
            num_ranks=int(header["n_ranks"]),
            num_nodes=header.get("nnodes"),
            collective=str(figures["coll"]),
            number=int(figures["coll_sn"]),
            msg_bytes=int(figures["coll_msg_size_bytes"]),
            time_s=float(figures["coll_exec_time_us"]) / 1e6,
            algbw_bytes_per_s=float(figures["coll_algobw_gbs"]) * 1e9,
            busbw_bytes_per_s=float(figures["coll_busbw_gbs"]) * 1e9,
            timing_source=figures.get("coll_timing_source"),
            algorithm=figures.get("coll_algo"),
            protocol=figures.get("coll_proto"),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CaptureError(f"a record that cannot be read ({error!r})", source=source, line=line) from None
    if not (0 <= record.rank < record.num_ranks and record.msg_bytes >= 0 and record.time_s > 0):
        raise CaptureError(
            f"rank {record.rank} of {record.num_ranks}, {record.msg_bytes} bytes in {record.time_s} s: no collective "
            "can be so",
            source=source,
            line=line,
        )
    return record
