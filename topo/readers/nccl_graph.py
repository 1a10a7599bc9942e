"""NCCL's graph XML (NCCL_GRAPH_DUMP_FILE, NCCL_GRAPH_FILE) -> the channels that its search found, or that a user wants.

Numbers of GPUs and NICs are decimal up to NCCL 2.20 and hexadecimal behind 0x since. A file without its root, as people
copy one graph out of several, is read like a whole one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from topo.errors import CaptureError
from topo.readers.xml_tree import Element, parse

FORMAT = "NCCL graph XML"
VERSION = "1"

PATTERNS: Mapping[int, str] = {
    1: "balanced-tree",
    2: "split-tree",
    3: "tree",
    4: "ring",
    5: "nvls",
    6: "collnet-direct",
}
PATH_TYPES = ("LOC", "PORT", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS")

SYSTEM_SHIFT = 24
"""On a machine of several hosts (an NVLink domain) the host's number stands above so many bits of a device's."""

_BEFORE_ROOT = re.compile(r"(?:<\?.*?\?>|<!--.*?-->|\s+)*", re.DOTALL)
_DECLARATION = re.compile(r"\s*<\?xml[^>]*\?>")
_GRAPH = re.compile(r"<graph\s[^>]*\bpattern\s*=", re.DOTALL)
_ROOT = re.compile(r"<graphs[\s>/]")


@dataclass(frozen=True, slots=True)
class GraphPart:
    """A GPU or NIC of a channel, by its device number, or a GPU by its rank. `system` is the host's number."""

    line: int
    kind: Literal["gpu", "net"]
    by: Literal["dev", "rank"]
    number: int
    system: int = 0


@dataclass(frozen=True, slots=True)
class GraphChannel:
    """One channel: its parts in order, a NIC first and last where it leaves the machine."""

    line: int
    parts: tuple[GraphPart, ...]

    @property
    def gpus(self) -> tuple[int, ...]:
        """The numbers of the GPUs, in order."""
        return tuple(part.number for part in self.parts if part.kind == "gpu")

    @property
    def nets(self) -> tuple[int, ...]:
        """The numbers of the NICs, in order: by which the channel comes in, and by which it leaves."""
        return tuple(part.number for part in self.parts if part.kind == "net")


@dataclass(frozen=True, slots=True)
class Graph:
    """What the search for one algorithm found. `pattern` is toposcope's name for NCCL's number (`ring`, `nvls`).

    The bandwidths are those of one channel, inside the machine and between machines; `latency_inter_s` is None where
    the file does not state it (before NCCL 2.12).
    """

    line: int
    id: int
    pattern: str
    cross_nic: int
    num_channels: int
    bandwidth_intra_bytes_per_s: float
    bandwidth_inter_bytes_per_s: float
    latency_inter_s: float | None
    type_intra: str
    type_inter: str
    same_channels: bool
    channels: tuple[GraphChannel, ...]


@dataclass(frozen=True, slots=True)
class GraphFile:
    """All graphs of a file, in its order, and sentences about what in it is unusual."""

    source: str
    graphs: tuple[Graph, ...]
    notes: tuple[str, ...] = ()


def sniff(text: str) -> bool:
    """Whether the text opens like graph XML: with `graphs`, or with a `graph` that has a pattern."""
    body = text.removeprefix("\ufeff")
    opening = _BEFORE_ROOT.match(body)
    start = opening.end() if opening else 0
    return _ROOT.match(body, start) is not None or _GRAPH.match(body, start) is not None


def read(text: str, source: str = "") -> GraphFile:
    """The graphs of the text; CaptureError with file and line where it is cut off or is no graph XML of NCCL's."""
    root = parse(_with_root(text), source)
    if root.tag != "graphs":
        raise CaptureError(f"the root is <{root.tag}>, expected <graphs>", source=source, line=root.line)
    version = root.attributes.get("version", VERSION)
    if version != VERSION:
        raise CaptureError(f'<graphs version="{version}">: known is version {VERSION}', source=source, line=root.line)
    reading = _Reading(source)
    graphs = tuple(reading.graph(element) for element in reading.children(root, "graph"))
    if not graphs:
        raise CaptureError("the file holds no <graph>: nothing to read", source=source, line=root.line)
    reading.check_numbers()
    return GraphFile(source, graphs, tuple(reading.notes))


def summary(file: GraphFile) -> dict[str, Any]:
    """The graphs in plain values for JSON: what each is for, and its channels as lists of GPUs and NICs."""
    from topo.jsonio import to_plain

    return {
        "graphs": [
            {
                **{key: item for key, item in to_plain(graph).items() if key not in ("line", "channels")},
                "channels": [{"gpus": list(c.gpus), "nets": list(c.nets)} for c in graph.channels],
            }
            for graph in file.graphs
        ],
        "notes": list(file.notes),
    }


def _with_root(text: str) -> str:
    """The text inside one root; what is put around a fragment adds no line."""
    body = text.removeprefix("\ufeff")
    opening = _BEFORE_ROOT.match(body)
    if opening is None or _GRAPH.match(body, opening.end()) is None:
        return body
    declaration = _DECLARATION.match(body)
    blank = "\n" * declaration[0].count("\n") if declaration else ""
    return f"<graphs>{blank}{body[declaration.end() if declaration else 0 :]}</graphs>"


class _Reading:
    """One file while it is read: remembers how numbers are written, and what is unusual."""

    def __init__(self, source: str) -> None:
        self.notes: list[str] = []
        self._source = source
        self._bare_hex: tuple[str, int] | None = None
        self._long_decimal: tuple[str, int] | None = None

    def children(self, element: Element, *tags: str) -> tuple[Element, ...]:
        """The children of an element, all of which must be of these tags."""
        for child in element.children:
            if child.tag not in tags:
                raise self._refused(
                    f"<{child.tag}> inside <{element.tag}>, where NCCL's graphs have only {' and '.join(tags)}", child
                )
        return element.children

    def graph(self, element: Element) -> Graph:
        """One <graph>, checked."""
        pattern = self._whole(element, "pattern")
        if pattern not in PATTERNS:
            raise self._refused(f"pattern {pattern}: known are {', '.join(map(str, PATTERNS))}", element)
        announced = self._whole(element, "nchannels")
        channels = tuple(self._channel(child) for child in self.children(element, "channel"))
        if announced != len(channels):
            self.notes.append(
                f"line {element.line}: graph {element.attributes.get('id')} announces {announced} channels and holds "
                f"{len(channels)}"
            )
        latency_us = self._real(element, "latencyinter") if "latencyinter" in element.attributes else None
        return Graph(
            line=element.line,
            id=self._whole(element, "id"),
            pattern=PATTERNS[pattern],
            cross_nic=self._whole(element, "crossnic"),
            num_channels=announced,
            bandwidth_intra_bytes_per_s=self._real(element, "speedintra") * 1e9,
            bandwidth_inter_bytes_per_s=self._real(element, "speedinter") * 1e9,
            latency_inter_s=None if latency_us is None else latency_us * 1e-6,
            type_intra=self._path_type(element, "typeintra"),
            type_inter=self._path_type(element, "typeinter"),
            same_channels=self._whole(element, "samechannels") != 0,
            channels=channels,
        )

    def check_numbers(self) -> None:
        """Refuses a file in which a bare "10" could be ten or sixteen."""
        if self._bare_hex is None:
            return
        text, line = self._bare_hex
        if self._long_decimal is not None:
            other, other_line = self._long_decimal
            raise CaptureError(
                f'dev="{text}" is hexadecimal without its 0x, so dev="{other}" in line {other_line} has two readings: '
                "write 0x in front",
                source=self._source,
                line=line,
            )
        self.notes.append(f'line {line}: dev="{text}" lacks its 0x, read as hexadecimal; NCCL itself reads 0')

    def _channel(self, element: Element) -> GraphChannel:
        parts = tuple(self._part(child) for child in self.children(element, "net", "gpu"))
        gpus = [(part.by, part.system, part.number) for part in parts if part.kind == "gpu"]
        if not gpus:
            raise self._refused("a channel without a <gpu>: the file is cut or edited", element)
        twice = next((gpu for place, gpu in enumerate(gpus) if gpu in gpus[:place]), None)
        if twice is not None:
            raise self._refused(f"GPU {twice[0]} {twice[2]} stands twice in one channel: expected each once", element)
        return GraphChannel(element.line, parts)

    def _part(self, element: Element) -> GraphPart:
        if element.children:
            raise self._refused(f"<{element.tag}> holds other elements, expected none", element)
        kind: Literal["gpu", "net"] = "gpu" if element.tag == "gpu" else "net"
        by: Literal["dev", "rank"] = "dev" if kind == "net" or "dev" in element.attributes else "rank"
        number = self._number(element, by)
        return GraphPart(element.line, kind, by, number & (1 << SYSTEM_SHIFT) - 1, number >> SYSTEM_SHIFT)

    def _number(self, element: Element, name: str) -> int:
        """A device number: decimal, 0x and hexadecimal, or, noted, hexadecimal with a letter in it."""
        text = element.attributes.get(name, "").strip()
        if re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", text):
            return int(text, 16)
        if re.fullmatch(r"[0-9]{1,18}", text):
            if len(text) > 1 and self._long_decimal is None:
                self._long_decimal = (text, element.line)
            return int(text)
        if re.fullmatch(r"[0-9a-fA-F]{1,16}", text):
            self._bare_hex = self._bare_hex or (text, element.line)
            return int(text, 16)
        raise self._refused(f'<{element.tag} {name}="{text}">: expected a number', element)

    def _whole(self, element: Element, name: str) -> int:
        text = element.attributes.get(name, "").strip()
        if not re.fullmatch(r"-?[0-9]{1,9}", text):
            raise self._refused(f'<{element.tag} {name}="{text}">: expected a whole number', element)
        return int(text)

    def _real(self, element: Element, name: str) -> float:
        text = element.attributes.get(name, "").strip()
        number = float(text) if re.fullmatch(r"[0-9]{1,15}(?:\.[0-9]{0,15})?", text) else math.nan
        if not math.isfinite(number):
            raise self._refused(f'<{element.tag} {name}="{text}">: expected a number, 0 or more', element)
        return number

    def _path_type(self, element: Element, name: str) -> str:
        text = element.attributes.get(name, "").strip()
        if text not in PATH_TYPES:
            raise self._refused(f'{name}="{text}": known are {", ".join(PATH_TYPES)}', element)
        return text

    def _refused(self, sentence: str, element: Element) -> CaptureError:
        return CaptureError(sentence, source=self._source, line=element.line)
