"""The JSON that nccl-tests writes with -J -> the same table that its text gives.

It holds the whole environment of the run, secrets included: nothing of that is looked at here.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Any

from topo.errors import CaptureError
from topo.readers.nccl_tests_table import (
    Footer,
    NcclTestsHalf,
    NcclTestsRow,
    NcclTestsTable,
    SetAside,
    reason_to_set_aside,
    width_of,
)

MOST_RANKS = 2**31

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
    for number, result in enumerate(_list(document["results"], "results", source), start=1):
        try:
            row = _row(number, _dict(result, "the result"))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            what = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
            raise CaptureError(f"result {number} cannot be read ({what}): run again with -J", source=source) from None
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
    num_bytes, count, dtype = _whole(result["size"], "size"), _whole(result["count"], "count"), _text(result["type"])
    if num_bytes < count * width_of(dtype):
        raise ValueError(f"a size of {num_bytes} bytes for {count} elements of {dtype}")
    return NcclTestsRow(
        line=number,
        num_bytes=num_bytes,
        count=count,
        dtype=dtype,
        redop=None if result.get("redop") is None else _text(result["redop"]),
        root=None if result.get("root") is None else int(result["root"]),
        out_of_place=out_of_place,
        in_place=_half(result.get("in_place"), result.get("in_place_per_iter")),
    )


def _list(value: object, name: str, source: str) -> list[Any]:
    """A list; CaptureError for anything else."""
    if not isinstance(value, list):
        raise CaptureError(f"{name} is no list: it was edited, run again with -J", source=source)
    return value


def _dict(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} is no object")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} stands where a name belongs")
    return value


def _whole(value: object, name: str) -> int:
    """A whole number of 0 or more, as a number or as its digits."""
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        raise ValueError(f"{name} is {value!r}, no whole number")
    return int(text)


def _number(value: object, name: str) -> float:
    """A finite number of 0 or more, as a number or as its digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(f"{name} is {value!r}, no number")
    found = float(value)
    if not 0 <= found < inf:
        raise ValueError(f"{name} is {value!r}, no number of 0 or more")
    return found


def _seconds(value: object, name: str) -> float:
    """Microseconds in seconds, to the last digit."""
    _number(value, name)
    return float(Fraction(str(value)) / 10**6)


def _half(half: object, singles: object = None) -> NcclTestsHalf | None:
    """Microseconds and GB/s as in the text; CPU times of the calls (-C 1) are no times of the collective."""
    if half is None:
        return None
    half = _dict(half, "a half of the row")
    if "cpu_time" in half:
        raise ValueError("cpu_time is not the time of the collective, measure without -C 1")
    wrong = half.get("nwrong")
    times = () if singles is None else _dict(singles, "what single iterations took").get("times_us") or ()
    if not isinstance(times, (list, tuple)):
        raise TypeError("times_us is no list")
    return NcclTestsHalf(
        time_s=_seconds(half["time"], "time"),
        algbw_bytes_per_s=_number(half["alg_bw"], "alg_bw") * 1e9,
        busbw_bytes_per_s=_number(half["bus_bw"], "bus_bw") * 1e9,
        wrong=None if wrong is None else _number(wrong, "nwrong"),
        resolution_s=RESOLUTION_US * 1e-6,
        samples_s=tuple(_seconds(time_us, "times_us") for time_us in times),
    )


def _table(
    document: dict[str, Any], source: str, rows: tuple[NcclTestsRow, ...], set_aside: tuple[SetAside, ...]
) -> NcclTestsTable:
    config = document.get("config") or {}
    if not isinstance(config, dict):
        raise CaptureError("config is no object: it was edited, run again with -J", source=source)
    devices = _list(config.get("devices") or document.get("devices") or [], "devices", source)
    ranks = [device["rank"] for device in devices if isinstance(device, dict) and "rank" in device]
    if not all(isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < MOST_RANKS for rank in ranks):
        raise CaptureError("a device's rank is no number of a rank: it was edited, run again with -J", source=source)
    hosts = {str(device["hostname"]) for device in devices if isinstance(device, dict) and "hostname" in device}
    gpus = [str(device["device_info"]) for device in devices if isinstance(device, dict) and "device_info" in device]
    arguments = [str(argument) for argument in _list(document.get("args") or [], "args", source)]
    program = arguments[0].rpartition("/")[2] if arguments else ""
    version = document.get("nccl_version")
    return NcclTestsTable(
        source=source,
        rows=rows,
        set_aside=set_aside,
        collective=program.partition("_perf")[0] if "_perf" in program else None,
        num_ranks=max(ranks) + 1 if ranks else None,
        num_warmups=_count_or_none(config.get("warmup_iters")),
        num_iterations=_count_or_none(config.get("iterations")),
        tests_version=None if document.get("version") is None else str(document["version"]),
        nccl_version=None if version is None else str(version),
        footer=_footer(document, len(document["results"])),
        gpus_per_process=_product(config.get("nthreads"), config.get("ngpus")),
        gpu_names=tuple(dict.fromkeys(gpus)),
        num_hosts=len(hosts) or None,
    )


def _count_or_none(value: object) -> int | None:
    """A count above 0 as it stands; None for anything else, which says nothing."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MOST_RANKS else None


def _product(threads: object, gpus: object) -> int | None:
    first, second = _count_or_none(threads), _count_or_none(gpus)
    return first * second if first and second else None


def _footer(document: dict[str, Any], num_results: int) -> Footer | None:
    found = document.get("out_of_bounds")
    if not isinstance(found, dict) or not isinstance(found.get("count"), int):
        return None
    return Footer(num_results, found["count"], found.get("okay") is False)
