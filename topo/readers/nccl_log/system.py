"""NCCL's system tree and its lines of paths, as nodes, links and paths.

A row's depth is its column: what hangs below a part begins in the column of that part's name. Each part is written once
with its own row; NVLinks, C2C and what joins CPUs refer to parts by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from topo.readers.nccl_log.facts import Unread
from topo.readers.nccl_log.machine_facts import SystemLink, SystemNode, SystemPath, SystemTree

GB = 1e9

Row = tuple[int, str]
"""The number of a line, and its words."""

_TITLE = re.compile(r"=== System : (?:maxBw|maxWidth) +(\d+(?:\.\d*)?)(?: +\w+ +(\d+(?:\.\d*)?))?")
_ID = r"([0-9A-Fa-f]{1,20}(?:-[0-9A-Fa-f]{1,20})?)"
_ROW = re.compile(rf"( *)(?:\+ ([A-Z0-9]+)\[ *(\d+(?:\.\d*)?)\] - )?([A-Z0-9]+)/{_ID}(?: \(([^()]*)\))?$")
_PATHS_FROM = re.compile(rf"([A-Z]+)/{_ID} :")
_PATH = re.compile(rf"([A-Z]+)/{_ID} \((\d+)/(\d+(?:\.\d*)?)/([A-Z0-9]+)\)")

_DEFINED_BY_REFERENCE = frozenset({"NET", "GIN", "RMA", "NVS"})
"""Parts that have no row of their own. Since 2.30 a GPU has none either: it hangs on its DEV by a LOC link."""

_POWER = "2"
"""NCCL's number of the one architecture whose CPUs have NVLinks."""


def is_row(words: str) -> bool:
    """Whether the words are a row of a tree."""
    return _ROW.fullmatch(words) is not None


def read_tree(rows: Sequence[Row], host: str | None, *, ended: bool) -> tuple[SystemTree, tuple[Unread, ...]]:
    """The tree that the rows (with or without their title) show, and the rows that could not be read.

    `ended` says whether the line that ends a tree was seen. `bandwidth_bytes_per_s` are NCCL's GB/s times 1e9.
    """
    growth = _Growth()
    title = _TITLE.match(rows[0][1].strip())
    for line, words in rows[1:] if title else rows:
        growth.take(line, words)
    nodes, links = growth.grown()
    tree = SystemTree(
        line=rows[0][0],
        host=host,
        max_bandwidth_bytes_per_s=float(title[1]) * GB if title else None,
        total_bandwidth_bytes_per_s=float(title[2]) * GB if title and title[2] else None,
        nodes=nodes,
        links=links,
        complete=bool(title) and ended and bool(nodes) and not growth.unread and not growth.missing,
    )
    return tree, tuple(growth.unread)


@dataclass(slots=True)
class _Growth:
    """A tree while its rows are read. `above` holds the parts that a next row may hang below, by column."""

    above: dict[int, str] = field(default_factory=dict)
    nodes: dict[str, SystemNode] = field(default_factory=dict)
    referred: dict[str, SystemNode] = field(default_factory=dict)
    links: list[SystemLink] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    margin: int | None = None
    flattened: bool = False

    def take(self, line: int, words: str) -> None:
        """One row of the tree."""
        match = _ROW.fullmatch(words)
        if match is None:
            self._refuse(line, words, "no row of a system tree as NCCL prints them")
            return
        indent, kind, rate, node_kind, node_id, details = match.groups()
        node = _node(line, node_kind, node_id, details)
        if kind is None:
            self._root(node, len(indent))
            return
        column = len(indent) - (self.margin or 0)
        parent = self.above.get(column)
        if parent is None or not self._possible(parent, kind, node_kind):
            self.flattened = self.flattened or parent is not None
            self._refuse(line, words, "no part stands above its column: rows or blanks in front of them are lost")
            return
        self.above = {at: name for at, name in self.above.items() if at <= column}
        self.links.append(SystemLink(line, parent, node.name, kind, float(rate) * GB))
        if kind == "PCI":
            self.nodes.setdefault(node.name, node)
            self.above[match.start(4) - (self.margin or 0)] = node.name
        else:
            self.referred.setdefault(node.name, node)

    def grown(self) -> tuple[tuple[SystemNode, ...], tuple[SystemLink, ...]]:
        """All parts and links; parts that only others refer to and that should have a row are `missing`.

        Nothing at all where rows hang where they cannot: their blanks are lost, so no row's place can be trusted.
        """
        if self.flattened:
            return (), ()
        by_local = {name for link in self.links if link.kind == "LOC" for name in (link.dst,)}
        for name, node in self.referred.items():
            if name in self.nodes:
                continue
            if node.kind in _DEFINED_BY_REFERENCE or (node.kind == "GPU" and name in by_local):
                self.nodes[name] = node
            else:
                self.missing.add(name)
        links = tuple(link for link in self.links if link.dst in self.nodes)
        return tuple(self.nodes.values()), links

    def _possible(self, parent: str, kind: str, node_kind: str) -> bool:
        """Whether a part may have such a link: a CPU has no network, no GPU on its chip, and rarely NVLinks."""
        above = self.nodes[parent]
        if above.kind != "CPU":
            return True
        if kind == "NVL":
            return node_kind != "NVS" and above.details[:1] in ((), (_POWER,))
        return kind not in ("NET", "LOC", "XGMI")

    def _root(self, node: SystemNode, indent: int) -> None:
        """A CPU: its name's column is where its rows begin."""
        if self.margin is None:
            self.margin = indent
        self.nodes.setdefault(node.name, node)
        self.above = {indent - self.margin: node.name}

    def _refuse(self, line: int, words: str, reason: str) -> None:
        self.unread.append(Unread(line, reason, words.strip()[:120]))


def _node(line: int, kind: str, node_id: str, details: str | None) -> SystemNode:
    system, _, local = node_id.lower().rpartition("-")
    return SystemNode(line, kind, system, local, tuple(details.split("/")) if details else ())


def starts_paths(words: str) -> bool:
    """Whether the words are the paths from one part to all others."""
    return _PATHS_FROM.match(words) is not None


def read_paths(line: int, words: str, host: str | None) -> Iterable[SystemPath]:
    """The paths on one line: from the part in front of the colon to each that follows."""
    match = _PATHS_FROM.match(words)
    if match is None:
        return
    src = _node(line, match[1], match[2], None).name
    for found in _PATH.finditer(words, match.end()):
        kind, node_id, hops, rate, path_kind = found.groups()
        dst = _node(line, kind, node_id, None).name
        yield SystemPath(line, host, src, dst, int(hops), float(rate) * GB, path_kind)
