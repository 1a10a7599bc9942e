"""What joins the nodes of a cluster: its name and numbers, and which switch each NIC's cable ends in.

Every fabric is one or two levels of switches. A NIC's port leads to a leaf switch; leaves are joined by a spine that
never limits, over uplinks that may. `flat` is a single leaf. In `rail` NIC i of every node shares leaf i, so that only
traffic between unlike NICs meets the spine. In `fat-tree:RATIO` the nodes of a group share a leaf, whose uplink
carries the sum of its ports divided by RATIO. An uplink stands for all cables between a leaf and the spine, perfectly
balanced: that flows hash onto one cable is not modelled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from topo.errors import NameChoiceError, TopologyError
from topo.synthetic import read_settings
from topo.units import parse_duration, parse_rate

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]

IntOrArray = TypeVar("IntOrArray", "int", "Numbers")

FLAT_ID = "fabric"
SPINE_ID = "spine"
DEFAULT_NODES_PER_LEAF = 4

FABRICS: Mapping[str, str] = {
    "flat": "one switch without contention inside, to which every NIC has its own port",
    "rail": "a leaf switch per NIC of a node (rail-optimised), leaves joined by a spine without contention",
    "fat-tree": "fat-tree:RATIO, a leaf switch per group of nodes, with uplinks of the sum of its ports over RATIO",
}
"""Fabrics by name, with a line that describes each."""

EXAMPLE = "flat,bandwidth=400Gb/s,latency=2us"
_FAT_TREE_EXAMPLE = "fat-tree:2,nodes_per_leaf=16,bandwidth=400Gb/s,latency=2us"


@dataclass(frozen=True, slots=True)
class Fabric:
    """What joins the nodes.

    `bandwidth_bytes_per_s` is that of one port and direction (None: the NIC's own rate; the lower of both counts);
    `latency_s` is from NIC to NIC, whatever lies between. `oversubscription` and `nodes_per_leaf` are a fat tree's:
    1 is non-blocking; without a number of nodes a leaf has `DEFAULT_NODES_PER_LEAF`, or fewer where all nodes would
    fit on one, so that there is always an uplink to meet.
    """

    name: str = "flat"
    bandwidth_bytes_per_s: float | None = None
    latency_s: float = 0.0
    oversubscription: float = 1.0
    nodes_per_leaf: int | None = None

    def __post_init__(self) -> None:
        if self.name not in FABRICS:
            raise NameChoiceError("fabric", self.name, FABRICS)
        rate, latency_s = self.bandwidth_bytes_per_s, self.latency_s
        if rate is not None and not (math.isfinite(rate) and rate > 0):
            raise TopologyError(f"fabric {self.name} has bandwidth {rate} B/s: it must be positive and finite")
        if not (math.isfinite(latency_s) and latency_s >= 0):
            raise TopologyError(f"fabric {self.name} has latency {latency_s} s: it must be finite and not negative")
        if not (math.isfinite(self.oversubscription) and self.oversubscription >= 1):
            raise TopologyError(
                f"fabric {self.name} has oversubscription {self.oversubscription:g}: expected 1 (non-blocking) or more "
                "(2: uplinks carry half of what the ports do)"
            )
        if self.nodes_per_leaf is not None and self.nodes_per_leaf < 1:
            raise TopologyError(f"fabric {self.name} has {self.nodes_per_leaf} nodes per leaf: at least 1")
        if self.name != "fat-tree" and (self.oversubscription, self.nodes_per_leaf) != (1, None):
            raise TopologyError(
                f"fabric {self.name} takes no oversubscription and no nodes per leaf: only fat-tree does"
            )


FLAT = Fabric()
"""NICs of their own rates on one switch, without latency."""


@dataclass(frozen=True, slots=True)
class FabricLink:
    """One direction between a leaf switch and the spine, all its cables together; named like a link's id."""

    name: str
    bandwidth_bytes_per_s: float


def parse_fabric(text: str) -> Fabric:
    """The fabric of `NAME[:RATIO][,KEY=VALUE]...`: `rail`, `flat,bandwidth=400Gb/s`, `fat-tree:2,nodes_per_leaf=16`.

    Keys are `bandwidth` (of a port), `latency` (from NIC to NIC) and, of a fat tree, `nodes_per_leaf`; RATIO is `2`
    or `2:1`. NameChoiceError for an unknown name or key, UnitError for an unreadable rate or latency, TopologyError
    for other values that cannot be.
    """
    head, *settings = text.split(",")
    name, colon, ratio = (part.strip() for part in head.partition(":"))
    if name not in FABRICS:
        raise NameChoiceError("fabric", name, FABRICS)
    has_groups = name == "fat-tree"
    keys = ("bandwidth", "latency", *(("nodes_per_leaf",) if has_groups else ()))
    if colon and not has_groups:
        raise TopologyError(f"{text!r}: {name} takes no ratio, write {name} alone, as in {EXAMPLE}")
    values = read_settings(text, settings, keys, _FAT_TREE_EXAMPLE if has_groups else EXAMPLE)
    bandwidth, latency, nodes = (values.get(key) for key in ("bandwidth", "latency", "nodes_per_leaf"))
    return Fabric(
        name,
        None if bandwidth is None else parse_rate(bandwidth),
        0.0 if latency is None else parse_duration(latency),
        _ratio(text, ratio) if has_groups else 1.0,
        None if nodes is None else _whole(text, nodes),
    )


def _ratio(text: str, ratio: str) -> float:
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)(?::1)?", ratio)
    if match is None:
        found = f"{ratio!r} is no ratio" if ratio else "no ratio"
        raise TopologyError(f"{text!r}: {found}, expected 1 (non-blocking) or more, as in {_FAT_TREE_EXAMPLE}")
    return float(match[1])


def _whole(text: str, number: str) -> int:
    if not re.fullmatch(r"\d{1,9}", number):
        raise TopologyError(f"{text!r}: {number!r} nodes per leaf, expected a whole number, as in {_FAT_TREE_EXAMPLE}")
    return int(number)


@dataclass(frozen=True, slots=True)
class Wiring:
    """A fabric at a given size: `port_rates` are those of one node's NICs in order, in bytes/s."""

    fabric: Fabric
    num_nodes: int
    port_rates: tuple[float, ...]

    @property
    def nodes_per_leaf(self) -> int:
        """How many nodes share a leaf: all of them, save in a fat tree."""
        if self.fabric.name != "fat-tree":
            return self.num_nodes
        return self.fabric.nodes_per_leaf or max(1, min(DEFAULT_NODES_PER_LEAF, self.num_nodes // 2))

    @property
    def num_leaves(self) -> int:
        """How many leaf switches there are."""
        if self.fabric.name == "rail":
            return len(self.port_rates)
        return -(-self.num_nodes // self.nodes_per_leaf)

    def leaf_of(self, node: IntOrArray, nic: IntOrArray) -> IntOrArray:
        """The number of the leaf that NIC `nic` of node `node` is wired to; of arrays, an array."""
        return nic if self.fabric.name == "rail" else node // self.nodes_per_leaf

    def leaf_id(self, leaf: int) -> str:
        """What a leaf switch is called: `fabric` where there is only one, else `rail3` or `leaf3`."""
        return FLAT_ID if self.num_leaves == 1 else f"{'rail' if self.fabric.name == 'rail' else 'leaf'}{leaf}"

    def uplink_bytes_per_s(self, leaf: int) -> float:
        """Bytes/s between a leaf and the spine in one direction: its ports together, over the ratio."""
        if self.fabric.name == "rail":
            ports = self.num_nodes * self.port_rates[leaf]
        else:
            nodes = min(self.nodes_per_leaf, self.num_nodes - leaf * self.nodes_per_leaf)
            ports = nodes * sum(self.port_rates)
        return ports / self.fabric.oversubscription

    def links(self) -> tuple[FabricLink, ...]:
        """Per leaf its uplink (number 2 * leaf) and the link back (2 * leaf + 1); none where there is one leaf."""
        if self.num_leaves == 1:
            return ()
        return tuple(
            FabricLink(f"{src}->{dst}", self.uplink_bytes_per_s(leaf))
            for leaf in range(self.num_leaves)
            for src, dst in ((self.leaf_id(leaf), SPINE_ID), (SPINE_ID, self.leaf_id(leaf)))
        )

    def route(
        self, src_node: Numbers, src_nic: Numbers, dst_node: Numbers, dst_nic: Numbers
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """What each pair crosses of `links()`, as `(first, links)`: pair i crosses links[first[i]:first[i + 1]].

        Two links (up, down) between different leaves, none on one leaf. The arguments are arrays of one length.
        """
        import numpy as np

        src_leaf, dst_leaf = self.leaf_of(src_node, src_nic), self.leaf_of(dst_node, dst_nic)
        crosses = src_leaf != dst_leaf
        first = np.concatenate([[0], np.cumsum(2 * crosses)]).astype(np.int32)
        both = np.stack([2 * src_leaf, 2 * dst_leaf + 1], axis=1)
        return first, both[crosses].ravel().astype(np.int32)
