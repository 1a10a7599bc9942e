"""The JSON that nccl-tests writes with -J -> the same table that its text gives.

It holds the whole environment of the run, secrets included: nothing of that is looked at here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from topo.errors import CaptureError
from topo.readers.nccl_tests_table import (
    Footer,
    NcclTestsHalf,
    NcclTestsRow,
    NcclTestsTable,
    SetAside,
    reason_to_set_aside,
)

RESOLUTION_US = 0.01
"""Times may be rounded as the text's are."""


def sniff(text: str) -> bool:
    """Whether the text is such a document: a JSON object with `results` and `nccl_version` or `config`."""
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return False
    import msgspec

    try:
        document = msgspec.json.decode(text.removeprefix("\ufeff"))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return isinstance(document, dict) and "results" in document and bool({"nccl_version", "config"} & set(document))


def read(text: str, source: str = "") -> NcclTestsTable:
    """The table of the document; CaptureError with the result's number where one cannot be read."""
    if not sniff(text):
        raise CaptureError("no JSON of nccl-tests (-J): it has no results", source=source)
    import msgspec

    document: dict[str, Any] = msgspec.json.decode(text.removeprefix("\ufeff"))
    rows: list[NcclTestsRow] = []
    set_aside: list[SetAside] = []
    for number, result in enumerate(document["results"], start=1):
        try:
            row = _row(number, result)
        except (KeyError, TypeError, ValueError) as error:
            raise CaptureError(
                f"result {number} cannot be read ({error!r}): run again with -J", source=source
            ) from None
        halves = tuple(half for half in (row.out_of_place, row.in_place) if half is not None)
        reason = reason_to_set_aside(row.num_bytes, row.dtype, halves)
        if reason:
            set_aside.append(SetAside(number, row.num_bytes, reason))
        else:
            rows.append(row)
    if not (rows or set_aside):
        raise CaptureError("no result in it: the run ended before its first size", source=source)
    return _table(document, source, tuple(rows), tuple(set_aside))


def _row(number: int, result: dict[str, Any]) -> NcclTestsRow:
    out_of_place = _half(result["out_of_place"], result.get("out_of_place_per_iter"))
    if out_of_place is None:
        raise ValueError("no out-of-place time")
    return NcclTestsRow(
        line=number,
        num_bytes=int(result["size"]),
        count=int(result["count"]),
        dtype=str(result["type"]),
        redop=result.get("redop"),
        root=result.get("root"),
        out_of_place=out_of_place,
        in_place=_half(result.get("in_place"), result.get("in_place_per_iter")),
    )


def _half(half: dict[str, Any] | None, singles: dict[str, Any] | None = None) -> NcclTestsHalf | None:
    """Microseconds and GB/s as in the text; CPU times of the calls (-C 1) are no times of the collective."""
    if half is None:
        return None
    if "cpu_time" in half:
        raise ValueError("cpu_time is not the time of the collective, measure without -C 1")
    wrong = half.get("nwrong")
    return NcclTestsHalf(
        time_s=float(Fraction(str(half["time"])) / 10**6),
        algbw_bytes_per_s=float(half["alg_bw"]) * 1e9,
        busbw_bytes_per_s=float(half["bus_bw"]) * 1e9,
        wrong=None if wrong is None else float(wrong),
        resolution_s=RESOLUTION_US * 1e-6,
        samples_s=tuple(float(Fraction(str(us)) / 10**6) for us in (singles or {}).get("times_us") or ()),
    )


def _table(
    document: dict[str, Any], source: str, rows: tuple[NcclTestsRow, ...], set_aside: tuple[SetAside, ...]
) -> NcclTestsTable:
    config = document.get("config") or {}
    devices = config.get("devices") or document.get("devices") or []
    ranks = [device["rank"] for device in devices if isinstance(device, dict) and "rank" in device]
    arguments = [str(argument) for argument in document.get("args") or []]
    program = arguments[0].rpartition("/")[2] if arguments else ""
    version = document.get("nccl_version")
    return NcclTestsTable(
        source=source,
        rows=rows,
        set_aside=set_aside,
        collective=program.partition("_perf")[0] if "_perf" in program else None,
        num_ranks=max(ranks) + 1 if ranks else None,
        num_warmups=config.get("warmup_iters"),
        num_iterations=config.get("iterations"),
        tests_version=None if document.get("version") is None else str(document["version"]),
        nccl_version=None if version is None else str(version),
        footer=_footer(document, len(document["results"])),
        gpus_per_process=_product(config.get("nthreads"), config.get("ngpus")),
    )


def _product(threads: object, gpus: object) -> int | None:
    return threads * gpus if isinstance(threads, int) and isinstance(gpus, int) else None


def _footer(document: dict[str, Any], num_results: int) -> Footer | None:
    found = document.get("out_of_bounds")
    if not isinstance(found, dict) or not isinstance(found.get("count"), int):
        return None
    return Footer(num_results, found["count"], found.get("okay") is False)
