"""The one strict parser and formatter of sizes, rates and durations.

What a letter means never depends on the program around it:

* `b` or `bit` is a bit, `B` a byte. A bare `K`, `M`, `G`, `T` (either case, as in nccl-tests) or `KiB` ...
  `TiB` is 1024-based; `KB` ... `TB` is decimal. A size without a unit is bytes.
* A rate is never bare. `GB/s` and `GiB/s` are bytes; `Gb/s`, `Gbit/s`, `Gbit` and `Gbps` are bits. `bit` and
  `bps` take their prefix in either case (`200mbit`, `200gbps`): network tools write them so and mean bits.
  `GBps` is refused, since some mean bytes by it and others bits, and so is `gb/s`.
* A duration is never bare: `ns`, `us` (also `µs`), `ms`, `s`.

A text that is accepted has one reading; everything else is a `UnitError` that says what was expected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from topo.errors import UnitError

MAX_SIZE_BYTES = 2**63 - 1
"""The largest size that is read: what a signed 64-bit byte count holds."""

_MAX_TEXT_LENGTH = 64
_NUMBER = re.compile(r"(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)\s*(?P<unit>\S.*)?")

_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_DECIMAL = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclass(frozen=True, slots=True)
class _Quantity:
    """What a quantity's texts may look like: exact units, units in either case, and how to write it."""

    noun: str
    units: Mapping[str, Fraction]
    any_case_units: Mapping[str, Fraction]
    expected: str


def _size_units() -> dict[str, Fraction]:
    units = {"": Fraction(1), "B": Fraction(1), "kB": Fraction(1000)}
    for prefix, scale in _BINARY.items():
        units[prefix] = units[prefix.lower()] = units[f"{prefix}iB"] = Fraction(scale)
        units[f"{prefix}B"] = Fraction(_DECIMAL[prefix])
    return units


def _rate_units() -> dict[str, Fraction]:
    scales = {"": 1, "k": 1000, **_DECIMAL, **{f"{prefix}i": scale for prefix, scale in _BINARY.items()}}
    units: dict[str, Fraction] = {}
    for prefix, scale in scales.items():
        for per_second in ("/s", "/sec"):
            units[f"{prefix}B{per_second}"] = Fraction(scale)
            units[f"{prefix}b{per_second}"] = Fraction(scale, 8)
    return units


def _rate_units_in_any_case() -> dict[str, Fraction]:
    units: dict[str, Fraction] = {}
    scales = {"": 1, **_DECIMAL, **{f"{prefix}i": scale for prefix, scale in _BINARY.items()}}
    for prefix, scale in scales.items():
        for suffix in ("bit", "bit/s", "bit/sec"):
            units[f"{prefix}{suffix}".lower()] = Fraction(scale, 8)
    return units


def _bps_units() -> dict[str, Fraction]:
    scales = {"": 1, **_DECIMAL}
    return {spelling + "bps": Fraction(scale, 8) for p, scale in scales.items() for spelling in {p, p.lower()}}


_SIZE = _Quantity(
    "size", _size_units(), {}, "bytes (1048576), 1M or 1MiB (1024-based, as in nccl-tests), or 1MB (decimal)"
)
_RATE = _Quantity(
    "rate",
    {**_rate_units(), **_bps_units()},
    _rate_units_in_any_case(),
    "bytes per second (200GB/s, 200GiB/s) or bits per second (400Gb/s, 400Gbit/s, 400Gbps, 200mbit)",
)
_DURATION = _Quantity(
    "duration",
    {
        "ns": Fraction(1, 10**9),
        "us": Fraction(1, 10**6),
        "µs": Fraction(1, 10**6),  # the micro sign
        "\u03bcs": Fraction(1, 10**6),  # the Greek letter, which looks the same
        "ms": Fraction(1, 10**3),
        "s": Fraction(1),
    },
    {},
    "a number with ns, us, ms or s (1.5us)",
)


def parse_size(text: str) -> int:
    """Bytes of a size as nccl-tests writes it (`8`, `8K`, `1G`: 1024-based), or `8KiB`, `8KB`, `8B`.

    Fractions are read where they give whole bytes (`1.5K`). 0 is a size; callers that need more refuse it.
    UnitError for anything else.
    """
    value = _parse(text, _SIZE)
    if value.denominator != 1:
        raise _unreadable(text, _SIZE, f"it is {float(value):g} bytes, which is not a whole number")
    if value > MAX_SIZE_BYTES:
        raise _unreadable(text, _SIZE, "it is more than 2^63 - 1 bytes")
    return int(value)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Bytes of each size of a list separated by commas (`1M,1G`), in the order given."""
    return tuple(parse_size(part) for part in text.split(","))


def size_sweep(begin_bytes: int, end_bytes: int, factor: int = 2) -> tuple[int, ...]:
    """Sizes in bytes from `begin_bytes`, each `factor` times the one before, none above `end_bytes`.

    These are the sizes of nccl-tests' `-b BEGIN -e END -f FACTOR`. UnitError unless 0 < begin <= end and
    factor >= 2.
    """
    if begin_bytes < 1:
        raise UnitError(f"a sweep cannot begin at {begin_bytes} bytes: give -b a size of at least 1 byte")
    if end_bytes < begin_bytes:
        raise UnitError(f"a sweep from {begin_bytes} to {end_bytes} bytes is empty: give -e at least what -b is")
    if factor < 2:
        raise UnitError(f"a sweep with factor {factor} never ends: give -f a whole number of at least 2")
    sizes = [begin_bytes]
    while sizes[-1] * factor <= end_bytes:
        sizes.append(sizes[-1] * factor)
    return tuple(sizes)


def parse_rate(text: str) -> float:
    """Bytes per second of a rate with its unit: `200GB/s`, `200 GiB/s`, `400Gb/s`, `400Gbps`, `200mbit`.

    UnitError for a bare number, for zero and for anything that could be read as bits and as bytes.
    """
    value = _as_float(text, _parse(text, _RATE), _RATE)
    if value <= 0:
        raise _unreadable(text, _RATE, "it must be more than 0")
    return value


def parse_duration(text: str) -> float:
    """Seconds of a duration with its unit: `1us`, `1µs`, `2ms`, `3ns`, `1.5s`.

    UnitError for a bare number, even for 0.
    """
    return _as_float(text, _parse(text, _DURATION), _DURATION)


def format_size(num_bytes: int) -> str:
    """A size as exact text that `parse_size` reads back: `1 MiB`, `1.5 KiB`, `2.052 MB`, `1048577 B`.

    A unit is used only where three decimals or fewer say the size exactly; 1024-based ones come first.
    """
    if num_bytes < 0:
        raise UnitError(f"a size of {num_bytes} bytes does not exist: it must not be negative")
    if num_bytes >= 1024:
        for scales, suffix in ((_BINARY, "iB"), (_DECIMAL, "B")):
            prefix = max((p for p in scales if scales[p] <= num_bytes), key=lambda p: scales[p])
            thousandths = Fraction(num_bytes * 1000, scales[prefix])
            if thousandths.denominator == 1:
                whole, rest = divmod(int(thousandths), 1000)
                return f"{whole}.{rest:03d}".rstrip("0").rstrip(".") + f" {prefix}{suffix}"
    return f"{num_bytes} B"


def format_rate(bytes_per_s: float) -> str:
    """A rate in decimal GB/s with four significant digits: `370.8 GB/s`; below 0.1 GB/s in MB/s and so on."""
    steps = ((1e8, 1e9, "GB/s"), (1e6, 1e6, "MB/s"), (1e3, 1e3, "KB/s"), (0.0, 1.0, "B/s"))
    return _scaled(bytes_per_s, steps, "rate", "GB/s")


def format_duration(seconds: float) -> str:
    """A duration with four significant digits in the unit that suits it: `23.18 us`, `1.5 ms`, `12 s`."""
    steps = ((1.0, 1.0, "s"), (1e-3, 1e-3, "ms"), (1e-6, 1e-6, "us"), (0.0, 1e-9, "ns"))
    return _scaled(seconds, steps, "duration", "us")


def _parse(text: str, quantity: _Quantity) -> Fraction:
    """The exact value in base units (bytes, bytes per second, seconds)."""
    stripped = text.strip()
    if not stripped:
        raise _unreadable(text, quantity, "it is empty")
    if len(stripped) > _MAX_TEXT_LENGTH:
        raise _unreadable(text[:_MAX_TEXT_LENGTH] + "...", quantity, f"it has more than {_MAX_TEXT_LENGTH} characters")
    if stripped[0] in "-\u2212":
        raise _unreadable(text, quantity, "it must not be negative")
    match = _NUMBER.fullmatch(stripped)
    if match is None:
        raise _unreadable(text, quantity, "it does not begin with a plain number")
    unit = match["unit"] or ""
    scale = quantity.units.get(unit, quantity.any_case_units.get(unit.lower()))
    if scale is None:
        raise _unreadable(text, quantity, _unit_problem(unit, quantity))
    return Fraction(match["number"]) * scale


def _unit_problem(unit: str, quantity: _Quantity) -> str:
    if not unit:
        return "it has no unit"
    if f"{unit}/s" in quantity.units:
        return f"{unit!r} is an amount, did you mean '{unit}/s'?"
    if quantity is _RATE and re.fullmatch(r"[kmgt]?i?b(ps|/s)", unit, re.IGNORECASE):
        prefix = unit[0].upper() if unit[0] in "kKmMgGtT" else ""
        return f"{unit!r} can mean bits or bytes, write {prefix}b/s for bits or {prefix}B/s for bytes"
    import difflib

    known = {**quantity.units, **quantity.any_case_units}
    by_folded = {name.lower(): name for name in known if name}
    near = difflib.get_close_matches(unit.lower(), list(by_folded), n=1, cutoff=0.5)
    hint = f", did you mean {by_folded[near[0]]!r}?" if near else ""
    return f"{unit!r} is no unit of it{hint}"


def _unreadable(text: str, quantity: _Quantity, problem: str) -> UnitError:
    return UnitError(f"cannot read {text!r} as a {quantity.noun}: {problem}; expected {quantity.expected}")


def _as_float(text: str, value: Fraction, quantity: _Quantity) -> float:
    try:
        return float(value)
    except OverflowError:
        raise _unreadable(text, quantity, "it is too large") from None


def _scaled(value: float, steps: tuple[tuple[float, float, str], ...], noun: str, zero_unit: str) -> str:
    """The value in the first step (from, unit size, unit name) that its rounded magnitude reaches."""
    if not math.isfinite(value):
        raise UnitError(f"a {noun} of {value} cannot be printed: it must be finite")
    if value == 0:
        return f"0 {zero_unit}"
    # Rounded before the unit is chosen, so that 999.96 us becomes 1 ms and not 1000 us.
    rounded = float(f"{value:.4g}")
    _, unit_size, unit = next(step for step in steps if abs(rounded) >= step[0] * (1 - 1e-12))
    return f"{_four_digits(rounded / unit_size)} {unit}"


def _four_digits(number: float) -> str:
    """Four significant digits without an exponent where that stays readable, and without trailing zeros."""
    magnitude = abs(number)
    if magnitude >= 1e12 or magnitude < 1e-4:
        return f"{number:.4g}"
    decimals = max(0, 3 - math.floor(math.log10(magnitude)))
    text = f"{number:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
