"""What a log of NCCL says of one run, in the form that a topology carries it: rings, trees and transports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RunTree:
    """The tree of one channel by rank: parent (-1: the root) and children (-1: none); None where no line shows it."""

    up: tuple[int | None, ...]
    down: tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class NcclRun:
    """One run of NCCL as its log shows it.

    `num_ranks` and `num_nodes` are None where the log does not show them. `rings` are those that are wholly shown, from
    rank 0 in sending direction; `ring_channels` are their channels. `trees` stand in order of `tree_channels`.
    `transports` counts the connection lines that name each transport ("P2P/IPC", "NET/IB/0 [send]").
    """

    num_ranks: int | None
    num_nodes: int | None
    num_channels: int | None
    version: str | None
    rings: tuple[tuple[int, ...], ...] = ()
    ring_channels: tuple[int, ...] = ()
    trees: tuple[RunTree, ...] = ()
    tree_channels: tuple[int, ...] = ()
    transports: Mapping[str, int] = field(default_factory=dict, hash=False)
