"""Constants of NCCL's cost model (src/graph/tuning.cc of NCCL 2.30.7), converted to seconds and bytes per second."""

from __future__ import annotations

from collections.abc import Iterable

from sim.planners.nccl_2_30.kinds import GIGA

Triple = tuple[float, float, float]
"""One number each for ll, ll128 and simple, or for 1, 2 and more nodes."""


def _us(*values: float) -> Triple:
    first, second, third = (value * 1e-6 for value in values)
    return first, second, third


def _giga(*values: float) -> Triple:
    first, second, third = (value * GIGA for value in values)
    return first, second, third


def _simple_only(value: float) -> Triple:
    return _us(0, 0, value)


BASE_LATENCY_S: dict[str, Triple] = {
    "tree": _us(6.8, 14, 8.4),
    "ring": _us(6.6, 14, 8.4),
    "collnet-direct": _us(0, 0, 0),
    "collnet-chain": _us(0, 0, 0),
    "nvls": _us(0, 0, 0),
    "nvls-tree": _us(0, 0, 0),
    "pat": _us(8, 8, 8),
}

NVLINK_LATENCY_S: dict[str, Triple] = {
    "tree": _us(0.6, 1.25, 4.0),
    "ring": _us(0.6, 1.9, 3.4),
    "collnet-direct": _simple_only(3.7),
    "collnet-chain": _simple_only(2.8),
    "nvls": _simple_only(25),
    "nvls-tree": _simple_only(25),
    "pat": _simple_only(4.0),
}
PCI_LATENCY_S: dict[str, Triple] = {
    "tree": _us(1.0, 1.9, 4.0),
    "ring": _us(1.0, 2.5, 5.7),
    "collnet-direct": _simple_only(3.7),
    "collnet-chain": _simple_only(2.8),
    "nvls": _us(0, 0, 0),
    "nvls-tree": _us(0, 0, 0),
    "pat": _simple_only(4.0),
}
NET_LATENCY_S: dict[str, Triple] = {
    "tree": _us(5.0, 8.5, 14),
    "ring": _us(2.7, 4.0, 14),
    "collnet-direct": _simple_only(31),
    "collnet-chain": _simple_only(30),
    "nvls": _simple_only(18),
    "nvls-tree": _simple_only(20.9),
    "pat": _simple_only(14),
}

LL_MAX_BYTES_PER_S = (_giga(39, 39, 20.4), _giga(87.7, 22.5, 19), _giga(141, 45, 35), _giga(282, 90, 70))
"""By row and number of nodes; on one node the row is the GPU generation, else 1 for AMD CPUs and 0 for others."""
RING_LL128_BYTES_PER_S = tuple(value * GIGA for value in (20, 20, 36.7, 40))
TREE_LL128_BYTES_PER_S = (_giga(20, 20, 20), _giga(20, 20, 20), _giga(36.7, 36.7, 29), _giga(55.6, 31.67, 20))
TREE_BYTES_PER_S = (_giga(26.5, 18.5, 10), _giga(24, 23.6, 17.8), _giga(38.7, 41.4, 36), _giga(70, 42.8, 24))
NVLS_TREE_BYTES_PER_S = (_giga(26.5, 18.5, 10), _giga(24, 23.6, 17.8), _giga(0, 57.7, 45.5), _giga(0, 96, 80))
NVLS_EFFICIENCY = (0.0, 0.0, 0.85, 0.74)
"""Per channel and GPU generation: before Ampere, Ampere, Hopper, Blackwell."""
GENERATIONS = (80, 90, 100)
"""Compute capabilities from which the generations after the first begin."""

RING_LL_SHARE = 0.5
RING_LL128_SHARE = 0.92
TREE_SHARE = 0.92
TREE_LL_SHARE = 1 / 3.8
TREE_LL128_SHARE_ONE_NODE = 7 / 9
TREE_LL128_SHARE = 120 / 128
TREE_PATTERN_SHARE = 0.85
PAT_SHARE = 0.75
COLLNET_SM90_SHARE = 0.85
COLLNET_NET_SHARE = 0.9

NET_OVERHEAD_S = 1e-6
NET_OVERHEAD_AMD_S = 2e-6
NET_OVERHEAD_SIMPLE_TIMES = 3
PAT_HOP_SHARE = 1 / 3.5
PAT_RANK_S = 2.8e-6
COLLNET_RANK_S = 0.4e-6
RING_PLATEAU = 1.4
RING_PLATEAU_OLD = 1.9
RING_PLATEAU_FROM_BYTES = 64


def _tenths(digits: Iterable[int]) -> tuple[float, ...]:
    return tuple(digit / 10 for digit in digits)


TREE_CORRECTION: dict[str, tuple[float, ...]] = {
    "ll": _tenths((10, 10, 10, 10, 9, 8, 7, 7, 7, 7, 6, 5, 4, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10)),
    "ll128": _tenths((10, 10, 10, 10, 10, 9, 8, 8, 8, 7, 6, 6, 6, 6, 6, 6, 8, 9, 9, 9, 9, 10, 10)),
    "simple": _tenths((9, 9, 9, 9, 9, 9, 9, 8, 7, 6, 6, 5, 5, 5, 5, 6, 7, 8, 7, 7, 8, 9, 9, 9)),
}
"""What a tree reaches of its bandwidth, by the power of two of bytes / 64; nvls-tree uses one more entry."""
TREE_CORRECTION_ENTRIES = {"tree": 23, "nvls-tree": 24}
