"""The kinds of nodes, links and paths that NCCL tells apart, in its order: a lower path kind is a better path."""

from __future__ import annotations

from enum import IntEnum

GIGA = 1_000_000_000
RESOLUTION_BYTES_PER_S = 1_000_000.0
"""NCCL rounds what is left of a link to 0.001 GB/s (topo.cc); comparisons are exact, so bandwidths here are whole
numbers of bytes per second in doubles, which hold them exactly."""


class NodeKind(IntEnum):
    """What a node of the system graph is; DEVICE is a physical GPU, GPU one rank on it (topo.h)."""

    GPU = 0
    PCI = 1
    NVSWITCH = 2
    CPU = 3
    NIC = 4
    NET = 5
    DEVICE = 8


class LinkKind(IntEnum):
    """What joins two nodes (topo.h); the numbers are those of the path that one such link makes."""

    LOC = 0
    NVL = 1
    C2C = 3
    PCI = 4
    SYS = 9
    NET = 10


class PathKind(IntEnum):
    """The worst thing on a path (graph.h), best first."""

    LOC = 0
    NVL = 1
    NVB = 2
    C2C = 3
    PIX = 4
    PXB = 5
    P2C = 6
    PXN = 7
    PHB = 8
    SYS = 9
    NET = 10
    DIS = 11
