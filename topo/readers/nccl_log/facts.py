"""What an NCCL log says of communicators, as values: one frozen class for each kind of line, and what they add up to.

Each line's facts carry its number, counted from 1. -1 stands for "no rank", as in NCCL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from topo.readers.nccl_log.machine_facts import (
    AnnouncedRank,
    Choice,
    Enabled,
    GdrLine,
    GraphSearch,
    NetworkDevice,
    Setting,
    SystemPath,
    SystemTree,
    TuningEntry,
    Warned,
)

NO_RANK = -1


@dataclass(frozen=True, slots=True)
class Unread:
    """A line that should have been read and could not be: its number, why, and its words (shortened)."""

    line: int
    reason: str
    words: str


@dataclass(frozen=True, slots=True)
class CommLine:
    """One line about a communicator as one rank sees it; None is what the line does not say.

    `status` is what the line reports ("Init START", "Init COMPLETE", "Destroy COMPLETE"), empty for the line with the
    number of nodes. `comm_id` is the same on all ranks; `pointer` is the process' own.
    """

    line: int
    pointer: str
    rank: int
    num_ranks: int
    status: str = ""
    comm_id: str | None = None
    split: str | None = None
    num_nodes: int | None = None
    num_local_ranks: int | None = None
    local_rank: int | None = None
    mnnvl: bool | None = None
    cuda_dev: int | None = None
    nvml_dev: int | None = None
    bus_id: str | None = None


@dataclass(frozen=True, slots=True)
class PrintedRing:
    """A ring as rank 0 prints it: the ranks of one channel, from rank 0 in sending direction.

    `cut` is true where the line breaks off (after 20 ranks in old versions, with `...` in new ones);
    `num_channels` is the total that stands behind the channel, None before NCCL 2.5.
    """

    line: int
    channel: int
    num_channels: int | None
    ranks: tuple[int, ...]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class RingNeighbours:
    """A rank's place in a ring: whom it receives from and whom it sends to."""

    line: int
    channel: int
    previous: int
    rank: int
    following: int


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A rank's place in the tree of one channel: its parent, and three children (-1 where there is none)."""

    line: int
    channel: int
    rank: int
    up: int
    down: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Connection:
    """One connection, as one of its ends reports it.

    `transport` is NCCL's own word ("P2P/CUMEM/read", "NET/IB/2/GDRDMA", "SHM/direct/direct"); `direction` is send or
    receive where the line says it (NET); `index` 0 is for collectives, 1 for point-to-point, None before NCCL 2.12.
    The brackets behind the ranks hold a bus id up to NCCL 2.17 and a device number since. `dst` is None for CollNet.
    """

    line: int
    channel: int
    index: int | None
    src: int
    dst: int | None
    transport: str
    direction: str | None = None
    src_bracket: str | None = None
    dst_bracket: str | None = None

    @property
    def label(self) -> str:
        """The transport with its direction: "NET/IB/0 [send]", "P2P/IPC"."""
        return f"{self.transport} [{self.direction}]" if self.direction else self.transport


@dataclass(frozen=True, slots=True)
class NvlsHead:
    """One head of an NVLS graph: the ranks that hold it, one for each node."""

    line: int
    head: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChannelCounts:
    """How many channels a communicator uses; None for kinds that the version does not have."""

    line: int
    collective: int
    p2p: int
    p2p_per_peer: int
    collnet: int | None = None
    nvls: int | None = None


@dataclass(frozen=True, slots=True)
class Mention:
    """The communicator that RCCL names at the end of many of its lines."""

    line: int
    pointer: str
    num_ranks: int


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thread thresholds of a communicator, as printed."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class P2pChunk:
    """The chunk size of point-to-point operations of a communicator."""

    line: int
    num_bytes: int


Fact = (
    CommLine
    | PrintedRing
    | RingNeighbours
    | TreeNode
    | Connection
    | NvlsHead
    | ChannelCounts
    | Mention
    | Thresholds
    | P2pChunk
    | Unread
)


@dataclass(frozen=True, slots=True)
class RankPlace:
    """Where a rank of a communicator runs, as far as the log says."""

    rank: int
    host: str | None = None
    pid: int | None = None
    cuda_dev: int | None = None
    nvml_dev: int | None = None
    bus_id: str | None = None
    model: str | None = None


RingSource = Literal["printed", "neighbours", "connections"]


@dataclass(frozen=True, slots=True)
class Ring:
    """A whole ring of one channel, from rank 0 in sending direction, and what in the log shows it."""

    channel: int
    ranks: tuple[int, ...]
    source: RingSource


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of one channel by rank: parent (-1: the root) and children (-1: none); None where no line shows it."""

    channel: int
    up: tuple[int | None, ...]
    down: tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class Communicator:
    """All that the log says of one communicator, put together over its ranks.

    `comm_id` is None where the log shows none; `ambiguous` is true where several communicators of this size stand in
    the log and nothing tells which lines belong together. `num_nodes` is what NCCL states, else the number of hosts
    where every rank's is known. `open_rings` are channels whose ring is not wholly shown; `num_tree_lines` counts the
    places in trees that were read, also where they are too few to show `trees`.
    """

    comm_id: str | None
    num_ranks: int | None
    num_nodes: int | None
    num_channels: int | None
    places: tuple[RankPlace, ...]
    rings: tuple[Ring, ...]
    open_rings: tuple[int, ...]
    trees: tuple[Tree, ...]
    connections: tuple[Connection, ...]
    num_tree_lines: int = 0
    heads: tuple[NvlsHead, ...] = ()
    channel_counts: ChannelCounts | None = None
    thread_thresholds: str | None = None
    p2p_chunk_bytes: int | None = None
    mnnvl: bool | None = None
    ambiguous: bool = False

    @property
    def complete(self) -> bool:
        """Whether every rank of it was seen."""
        return self.num_ranks is not None and len(self.places) == self.num_ranks

    @property
    def transports(self) -> Mapping[str, int]:
        """How many connection lines name each transport."""
        return count_transports(self.connections)


def count_transports(connections: tuple[Connection, ...]) -> dict[str, int]:
    """How often each transport stands in the connections, by label, in alphabetical order."""
    return dict(sorted(Counter(connection.label for connection in connections).items()))


@dataclass(frozen=True, slots=True)
class NcclLog:
    """Everything read from one log. `communicators` stand as they first appear; `selected` is the main one's place.

    `versions` are those that NCCL prints, once each; `unread` are lines that should have said something and could not
    be read. System trees and paths stand once per host, however many ranks print them.
    """

    source: str
    versions: tuple[str, ...]
    communicators: tuple[Communicator, ...]
    selected: int | None
    systems: tuple[SystemTree, ...] = ()
    paths: tuple[SystemPath, ...] = ()
    searches: tuple[GraphSearch, ...] = ()
    tuning: tuple[TuningEntry, ...] = ()
    choices: tuple[Choice, ...] = ()
    enabled: tuple[Enabled, ...] = ()
    settings: tuple[Setting, ...] = ()
    networks: tuple[NetworkDevice, ...] = ()
    plugins: tuple[str, ...] = ()
    gdr: tuple[GdrLine, ...] = ()
    warnings: tuple[Warned, ...] = ()
    announced: tuple[AnnouncedRank, ...] = ()
    unread: tuple[Unread, ...] = ()

    @property
    def main(self) -> Communicator | None:
        """The largest communicator, the first whole one of several; None where the log shows none."""
        return None if self.selected is None else self.communicators[self.selected]

    @property
    def transports(self) -> Mapping[str, int]:
        """How many connection lines of the whole log name each transport."""
        return count_transports(tuple(c for communicator in self.communicators for c in communicator.connections))
