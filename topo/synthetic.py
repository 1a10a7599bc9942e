"""Machines described in one line, without hardware behind them: `switch:1024,bandwidth=200GB/s,latency=1us`.

The bandwidth is that of one port in one direction; the latency is end to end between two neighbours. Rates are taken
as given: no protocol, no launch cost, no CPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations

from topo.errors import NameChoiceError, TopologyError
from topo.topology import Device, Link, Provenance, Topology
from topo.units import parse_duration, parse_rate

MAX_LINKS = 2**21
"""More links than this are never written out: about what 2 GiB of memory hold."""

MAX_DESCRIBED_LINKS = 2**18
"""Of a description in one line: what is built and checked in some three seconds (switch:131072)."""

SWITCH_ID = "SW0"

Pair = tuple[str, str]


def _switch_links(gpus: tuple[str, ...], bandwidth_bytes_per_s: float, latency_s: float) -> Iterator[Link]:
    """Each GPU to the switch and back; half the latency on each of the two links between neighbours."""
    for gpu in gpus:
        yield Link(gpu, SWITCH_ID, "network", bandwidth_bytes_per_s, 1, latency_s / 2)
        yield Link(SWITCH_ID, gpu, "network", bandwidth_bytes_per_s, 1, latency_s / 2)


def _ring_links(gpus: tuple[str, ...], bandwidth_bytes_per_s: float, latency_s: float) -> Iterator[Link]:
    """Each GPU to both neighbours; two GPUs are joined once."""
    neighbours = zip(gpus, gpus[1:] + gpus[:1] if len(gpus) > 2 else gpus[1:], strict=False)
    return _both_ways(neighbours, bandwidth_bytes_per_s, latency_s)


def _full_links(gpus: tuple[str, ...], bandwidth_bytes_per_s: float, latency_s: float) -> Iterator[Link]:
    """Each GPU to every other over a port of its own."""
    return _both_ways(combinations(gpus, 2), bandwidth_bytes_per_s, latency_s)


def _both_ways(pairs: Iterable[Pair], bandwidth_bytes_per_s: float, latency_s: float) -> Iterator[Link]:
    for low, high in pairs:
        yield Link(low, high, "network", bandwidth_bytes_per_s, 1, latency_s)
        yield Link(high, low, "network", bandwidth_bytes_per_s, 1, latency_s)


SHAPES: Mapping[str, Callable[[tuple[str, ...], float, float], Iterator[Link]]] = {
    "switch": _switch_links,
    "ring": _ring_links,
    "fully-connected": _full_links,
}
"""The shapes by name; each gives its links from the GPUs, bytes/s per port and direction, and latency in seconds."""

_KEYS = ("bandwidth", "latency")
_EXAMPLE = "switch:8,bandwidth=200GB/s,latency=1us"


def is_synthetic(text: str) -> bool:
    """Whether the text is meant as a description, right or wrong: a known shape or any word, a colon and a count."""
    shape, colon, _ = text.partition(":")
    return bool(colon) and (shape in SHAPES or re.fullmatch(r"[A-Za-z][\w-]+:[0-9]+(,.*)?", text) is not None)


def synthetic(text: str) -> Topology:
    """The machine that `SHAPE:COUNT,bandwidth=RATE[,latency=DURATION]` describes; its GPUs are `GPU0`, `GPU1`...

    Every link has kind `network`. NameChoiceError for an unknown shape or key, UnitError for an unreadable value,
    TopologyError for a count below 1, too many links, a missing bandwidth or a key given twice.
    """
    shape, _, rest = text.partition(":")
    if shape not in SHAPES:
        raise NameChoiceError("shape", shape, SHAPES)
    count_text, *settings = rest.split(",")
    count = _count(text, count_text)
    values = read_settings(text, settings, _KEYS, _EXAMPLE)
    if "bandwidth" not in values:
        raise TopologyError(f"{text!r} states no bandwidth: add it, as in {_EXAMPLE}")
    bandwidth_bytes_per_s = parse_rate(values["bandwidth"])
    latency_s = parse_duration(values.get("latency", "0s"))
    _check_number_of_links(text, shape, count)
    # One text for each name, however often it stands: two of them would be compared by letter wherever one is sought.
    gpus = tuple(f"GPU{rank}" for rank in range(count))
    devices = [Device(gpu, "gpu") for gpu in gpus]
    if shape == "switch":
        devices.append(Device(SWITCH_ID, "net_switch"))
    return Topology(
        devices=tuple(devices),
        links=tuple(SHAPES[shape](gpus, bandwidth_bytes_per_s, latency_s)),
        gpu_ids=gpus,
        name=text,
        provenance=(Provenance("synthetic", text),),
        synthetic=True,
    )


def read_settings(text: str, settings: list[str], keys: tuple[str, ...], example: str) -> dict[str, str]:
    """The values of texts `KEY=VALUE`, by key, as far as given; `text` and `example` stand in errors.

    NameChoiceError for a key that is none of `keys`, TopologyError for one given twice or without a value.
    """
    values: dict[str, str] = {}
    for setting in settings:
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not equals:
            raise TopologyError(f"{text!r}: expected KEY=VALUE in place of {setting!r}, as in {example}")
        if key not in keys:
            raise NameChoiceError(f"key in {text!r},", key, keys)
        if key in values:
            raise TopologyError(f"{text!r} gives {key} twice: keep one")
        values[key] = value
    return values


def _count(text: str, count_text: str) -> int:
    stripped = count_text.strip()
    if not re.fullmatch(r"[0-9]{1,9}", stripped) or int(stripped) < 1:
        raise TopologyError(f"{text!r} has {count_text!r} GPUs: expected a whole number from 1, as in {_EXAMPLE}")
    return int(stripped)


def _check_number_of_links(text: str, shape: str, count: int) -> None:
    num_links = count * (count - 1) if shape == "fully-connected" else 2 * count
    if num_links > MAX_DESCRIBED_LINKS:
        raise TopologyError(
            f"{text!r} has {num_links:,} links, more than {MAX_DESCRIBED_LINKS:,}: take fewer GPUs, or a preset with "
            "--nodes, which stays folded"
        )
