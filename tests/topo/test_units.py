"""Sizes, rates and durations: one reading each, and text that is printed can be read back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.errors import UnitError
from topo.units import (
    MAX_SIZE_BYTES,
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_rate,
    parse_size,
    parse_sizes,
    size_sweep,
)


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("0", 0),
        ("8", 8),
        ("8B", 8),
        (" 8 B ", 8),
        ("8K", 8 * 1024),
        ("8k", 8 * 1024),
        ("8M", 8 * 1024**2),
        ("8G", 8 * 1024**3),
        ("1T", 1024**4),
        ("8KiB", 8 * 1024),
        ("8 MiB", 8 * 1024**2),
        ("8GiB", 8 * 1024**3),
        ("1TiB", 1024**4),
        ("8KB", 8000),
        ("8kB", 8000),
        ("8GB", 8 * 10**9),
        ("1.5K", 1536),
        (".5K", 512),
        ("0.001KB", 1),
        ("1e6", 10**6),
        (str(MAX_SIZE_BYTES), MAX_SIZE_BYTES),
    ],
)
def test_sizes(text: str, num_bytes: int) -> None:
    assert parse_size(text) == num_bytes
    assert isinstance(parse_size(text), int)


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [
        ("200GB/s", 200e9),
        ("200 GiB/s", 200 * 1024.0**3),
        ("26.562 GB/s", 26.562e9),
        ("5 MB/s", 5e6),
        ("7 B/s", 7.0),
        ("400Gb/s", 50e9),
        ("400Gbit/s", 50e9),
        ("400 Gb/sec", 50e9),
        ("400Gbps", 50e9),
        ("400gbps", 50e9),
        ("200mbit", 25e6),
        ("200Mbit", 25e6),
        ("1gbit", 125e6),
        ("8kibit", 1024.0),
        ("8bit", 1.0),
    ],
)
def test_rates(text: str, bytes_per_s: float) -> None:
    assert parse_rate(text) == bytes_per_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1us", 1e-6),
        ("1 us", 1e-6),
        ("1µs", 1e-6),
        ("1\u03bcs", 1e-6),
        ("2ms", 2e-3),
        ("3ns", 3e-9),
        ("1.5s", 1.5),
        ("0us", 0.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


REFUSED: list[tuple[Callable[[str], object], str, str]] = [
    (parse_size, "", "empty"),
    (parse_size, "x", "plain number"),
    (parse_size, "nan", "plain number"),
    (parse_size, "inf", "plain number"),
    (parse_size, "-8", "negative"),
    (parse_size, "1.3", "whole"),
    (parse_size, "8kb", "did you mean 'KB'"),
    (parse_size, "8mib", "did you mean 'MiB'"),
    (parse_size, "8Mi", "did you mean"),
    (parse_size, "8GB/s", "no unit of it"),
    (parse_size, "1,000", "no unit of it"),
    (parse_size, "1_000", "no unit of it"),
    (parse_size, "0x10", "no unit of it"),
    (parse_size, "٣", "plain number"),
    (parse_size, "9223372036854775808", "2\\^63"),
    (parse_size, "1e999999999", "no unit|plain number"),
    (parse_size, "9" * 5000, "64 characters"),
    (parse_rate, "", "empty"),
    (parse_rate, "200", "no unit"),
    (parse_rate, "200GB", "did you mean 'GB/s'"),
    (parse_rate, "200GBps", "bits or bytes"),
    (parse_rate, "200gb/s", "bits or bytes"),
    (parse_rate, "200 gB/s", "bits or bytes"),
    (parse_rate, "0GB/s", "more than 0"),
    (parse_rate, "-1GB/s", "negative"),
    (parse_rate, "nan GB/s", "plain number"),
    (parse_rate, "inf GB/s", "plain number"),
    (parse_rate, "1e999GB/s", "too large"),
    (parse_rate, "16.0 GT/s", "did you mean"),
    (parse_rate, "200 GB/s each", "no unit of it"),
    (parse_duration, "1", "no unit"),
    (parse_duration, "0", "no unit"),
    (parse_duration, "1usec", "did you mean 'us'"),
    (parse_duration, "1MS", "did you mean 'ms'"),
    (parse_duration, "1 minute", "no unit of it"),
    (parse_duration, "-1us", "negative"),
    (parse_duration, "infs", "plain number"),
    (parse_duration, "", "empty"),
]


@pytest.mark.parametrize(("parse", "text", "problem"), REFUSED, ids=[f"{p.__name__}-{t[:20]}" for p, t, _ in REFUSED])
def test_refused_with_what_was_expected(parse: Callable[[str], object], text: str, problem: str) -> None:
    with pytest.raises(UnitError, match=problem) as caught:
        parse(text)
    assert repr(text[:40])[1:-1] in str(caught.value)
    assert "expected" in str(caught.value)


def test_lists_and_sweeps() -> None:
    assert parse_sizes("1M,1G") == (2**20, 2**30)
    assert parse_sizes("4 , 8K") == (4, 8192)
    assert size_sweep(8, 64, 2) == (8, 16, 32, 64)
    assert size_sweep(8, 100, 4) == (8, 32)
    assert size_sweep(5, 5, 2) == (5,)
    assert len(size_sweep(8, 8 * 2**30, 2)) == 31
    with pytest.raises(UnitError, match="empty"):
        parse_sizes("1M,,1G")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [((0, 8, 2), "begin"), ((16, 8, 2), "empty"), ((8, 16, 1), "factor"), ((8, 16, 0), "factor")],
)
def test_sweeps_that_never_end(arguments: tuple[int, int, int], problem: str) -> None:
    with pytest.raises(UnitError, match=problem):
        size_sweep(*arguments)


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        (format_size(2**20), "1 MiB"),
        (format_size(3 * 2**29), "1.5 GiB"),
        (format_size(0), "0 B"),
        (format_size(1000), "1000 B"),
        (format_size(8 * 10**9), "8 GB"),
        (format_size(2052000), "2.052 MB"),
        (format_size(2**30 + 1), "1073741825 B"),
        (format_rate(200e9), "200 GB/s"),
        (format_rate(370.8e9), "370.8 GB/s"),
        (format_rate(25e6), "25 MB/s"),
        (format_rate(0.0), "0 GB/s"),
        (format_duration(23.18e-6), "23.18 us"),
        (format_duration(999.96e-6), "1 ms"),
        (format_duration(0.0), "0 us"),
        (format_duration(12.0), "12 s"),
        (format_duration(-2e-6), "-2 us"),
    ],
)
def test_formats(printed: str, text: str) -> None:
    assert printed == text


@pytest.mark.parametrize(
    "call", [lambda: format_size(-1), lambda: format_rate(math.nan), lambda: format_duration(math.inf)]
)
def test_formats_refuse_what_is_no_quantity(call: Callable[[], str]) -> None:
    with pytest.raises(UnitError, match="must"):
        call()


@given(st.integers(0, MAX_SIZE_BYTES) | st.integers(0, 2**20).map(lambda k: k * 1024))
def test_printed_sizes_are_exact(num_bytes: int) -> None:
    assert parse_size(format_size(num_bytes)) == num_bytes


@given(st.floats(1e-3, 1e15))
def test_printed_rates_read_back(bytes_per_s: float) -> None:
    assert parse_rate(format_rate(bytes_per_s)) == pytest.approx(bytes_per_s, rel=5.1e-4)


@given(st.floats(1e-12, 1e9))
def test_printed_durations_read_back(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=5.1e-4)


def _scale(parse: Callable[[str], Any], text: str) -> float | None:
    try:
        return float(parse(text))
    except UnitError:
        return None


_UNIT_LIKE = st.text(alphabet="kKmMgGtTiIbBpPsS/ectn", max_size=6)


@given(st.integers(1, 4096).map(lambda k: k * 8), _UNIT_LIKE)
def test_no_text_has_two_readings(count: int, unit: str) -> None:
    """A text is one kind of quantity at most, and the rates that `b` and `B` tell apart hold exactly one."""
    text = f"{count}{unit}"
    readings = [_scale(parse, text) for parse in (parse_size, parse_rate, parse_duration)]
    assert sum(reading is not None for reading in readings) <= 1
    rate = readings[1]
    if rate is not None and "bps" not in unit and "bit" not in unit.lower():
        assert ("B" in unit) != ("b" in unit)
        assert _scale(parse_rate, text.replace("B", "b")) == rate / (8 if "B" in unit else 1)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_size, parse_rate, parse_duration):
        value = _scale(parse, text)
        assert value is None or (math.isfinite(value) and value >= 0)
