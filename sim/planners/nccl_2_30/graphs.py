"""What the search is asked for, what it tries and what it finds (src/graph/search.cc, struct ncclTopoGraph)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from sim.planners.nccl_2_30.kinds import PathKind


class Pattern(IntEnum):
    """The shape of one channel inside a domain."""

    BALANCED_TREE = 1
    TREE = 3
    RING = 4
    NVLS = 5
    COLLNET_DIRECT = 6


@dataclass(frozen=True, slots=True)
class Request:
    """One graph to search; `collnet` asks for NICs that can reduce in the network."""

    pattern: Pattern
    min_channels: int
    max_channels: int
    collnet: bool = False


@dataclass(frozen=True, slots=True)
class GraphChannel:
    """One channel: ranks in order (NVLS: its head alone), and the ids of the NICs it enters and leaves by."""

    ranks: tuple[int, ...]
    nets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """What a search found; bandwidths are per channel. No channels: there is no such graph here."""

    pattern: Pattern
    cross_nic: int = 0
    kind_intra: PathKind = PathKind.LOC
    kind_inter: PathKind = PathKind.LOC
    same_channels: bool = False
    intra_bytes_per_s: float = 0.0
    inter_bytes_per_s: float = 0.0
    latency_inter_s: float = 0.0
    num_hops: int = 0
    channels: tuple[GraphChannel, ...] = ()

    @property
    def num_channels(self) -> int:
        """How many channels the graph has."""
        return len(self.channels)


@dataclass(slots=True)
class Trial:
    """The settings of one try. A found solution is a frozen copy of them, with its channels."""

    pattern: Pattern
    cross_nic: int
    kind_intra: PathKind
    kind_inter: PathKind
    same_channels: bool
    intra_bytes_per_s: float
    inter_bytes_per_s: float
    min_channels: int
    max_channels: int
    latency_inter_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Solution:
    """A trial that was accepted: GPU indices per channel, and NIC indices (start, return) where it is not intra."""

    pattern: Pattern
    cross_nic: int
    kind_intra: PathKind
    kind_inter: PathKind
    same_channels: bool
    intra_bytes_per_s: float
    inter_bytes_per_s: float
    num_hops: int
    latency_inter_s: float
    orders: tuple[tuple[int, ...], ...]
    nets: tuple[tuple[int, ...], ...]

    @property
    def num_channels(self) -> int:
        """How many channels it has."""
        return len(self.orders)
