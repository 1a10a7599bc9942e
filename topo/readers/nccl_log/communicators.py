"""Episodes -> communicators: the ranks that belong together, and what they say together.

NCCL's commId is the same on all ranks (since 2.16); before, the number of ranks and the order in which they appear must
do. Where that leaves several readings, communicators are marked `ambiguous`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from topo.readers.nccl_log.episodes import Episode
from topo.readers.nccl_log.facts import (
    ChannelCounts,
    Communicator,
    Connection,
    NvlsHead,
    P2pChunk,
    PrintedRing,
    RankPlace,
    Ring,
    RingNeighbours,
    Thresholds,
    TreeNode,
)
from topo.readers.nccl_log.machine_facts import AnnouncedRank
from topo.readers.nccl_log.rings import rings_of, trees_of

T = TypeVar("T")


@dataclass(slots=True)
class _Group:
    """The episodes of one communicator while they are sought."""

    num_ranks: int | None
    comm_id: str | None = None
    split: str | None = None
    episodes: list[Episode] = field(default_factory=list)
    ambiguous: bool = False

    def takes(self, episode: Episode) -> bool:
        """Whether the episode may be a rank of this communicator that is not there yet, or more words of one."""
        if episode.rank is not None and self.num_ranks is not None and episode.rank >= self.num_ranks:
            return False
        return all(
            episode.rank is None or other.rank != episode.rank or other.process == episode.process
            for other in self.episodes
        )


def communicators_of(
    episodes: Iterable[Episode], announced: Sequence[AnnouncedRank]
) -> tuple[tuple[Communicator, ...], int | None]:
    """All communicators as they first appear, and the place of the main one: the largest, of those the first whole."""
    groups = _groups(list(episodes))
    found = tuple(_communicator(group, announced) for group in groups)
    if not found:
        return (), None
    ranked = sorted(range(len(found)), key=lambda place: (-(found[place].num_ranks or 0), not found[place].complete))
    return found, ranked[0]


def _groups(episodes: list[Episode]) -> list[_Group]:
    groups: list[_Group] = []
    by_id: dict[str, _Group] = {}
    for episode in episodes:
        key = episode.comm_id or episode.split
        if key is not None:
            name = f"{key} {episode.num_ranks}"
            if name not in by_id:
                by_id[name] = _Group(episode.num_ranks, episode.comm_id, episode.split)
                groups.append(by_id[name])
            by_id[name].episodes.append(episode)
    for episode in episodes:
        if not (episode.comm_id or episode.split) and episode.num_ranks is not None:
            _join_sized(episode, groups)
    named = [group for group in groups if group.num_ranks is not None]
    for episode in episodes:
        if episode.num_ranks is None:
            _join_unsized(episode, groups, named)
    order = {id(episode): place for place, episode in enumerate(episodes)}
    return sorted(groups, key=lambda group: min(order[id(episode)] for episode in group.episodes))


def _join_sized(episode: Episode, groups: list[_Group]) -> None:
    """Into the first communicator of that size in which the rank is free."""
    same_size = [group for group in groups if group.num_ranks == episode.num_ranks]
    for group in same_size:
        if all(other.rank != episode.rank for other in group.episodes):
            group.episodes.append(episode)
            return
    unknown = [group for group in same_size if not (group.comm_id or group.split)]
    for group in unknown:
        group.ambiguous = True
    groups.append(_Group(episode.num_ranks, episodes=[episode], ambiguous=bool(unknown)))


def _join_unsized(episode: Episode, groups: list[_Group], named: Sequence[_Group]) -> None:
    """Lines without any name of a communicator: into the only one, else into one of their own."""
    candidates = named if len(named) == 1 else []
    candidates = [*candidates, *(group for group in groups if group.num_ranks is None)]
    for group in candidates:
        if group.takes(episode):
            group.episodes.append(episode)
            return
    groups.append(_Group(None, episodes=[episode], ambiguous=bool(named)))


def _of(kind: type[T], group: _Group) -> list[T]:
    """The facts of one kind over all ranks, in order of their lines."""
    found = [fact for episode in group.episodes for fact in episode.facts if isinstance(fact, kind)]
    return sorted(found, key=lambda fact: fact.line)  # type: ignore[attr-defined]


def _communicator(group: _Group, announced: Sequence[AnnouncedRank]) -> Communicator:
    connections = _of(Connection, group)
    rings, partly = rings_of(_of(PrintedRing, group), _of(RingNeighbours, group), connections, group.num_ranks)
    num_ranks = group.num_ranks if group.num_ranks is not None else _counted(rings, group, announced)
    if num_ranks != group.num_ranks:
        rings, partly = rings_of(_of(PrintedRing, group), _of(RingNeighbours, group), connections, num_ranks)
    nodes = _of(TreeNode, group)
    places = _places(group, announced if len(announced) == num_ranks else ())
    counts = _of(ChannelCounts, group)
    printed = [ring.num_channels for ring in _of(PrintedRing, group) if ring.num_channels is not None]
    lines = [line for episode in group.episodes for line in episode.lines]
    thresholds, chunks = _of(Thresholds, group), _of(P2pChunk, group)
    return Communicator(
        comm_id=next((line.comm_id for line in lines if line.comm_id), None),
        num_ranks=num_ranks,
        num_nodes=_num_nodes([line.num_nodes for line in lines], places, num_ranks),
        num_channels=counts[0].collective if counts else printed[0] if printed else None,
        places=places,
        rings=rings,
        open_rings=partly,
        trees=trees_of(nodes, num_ranks),
        connections=tuple(connections),
        num_tree_lines=len(nodes),
        heads=_distinct_heads(_of(NvlsHead, group)),
        channel_counts=counts[0] if counts else None,
        thread_thresholds=thresholds[0].text if thresholds else None,
        p2p_chunk_bytes=chunks[0].num_bytes if chunks else None,
        mnnvl=next((line.mnnvl for line in lines if line.mnnvl is not None), None),
        ambiguous=group.ambiguous,
    )


def _counted(rings: Sequence[Ring], group: _Group, announced: Sequence[AnnouncedRank]) -> int | None:
    """The number of ranks that no line states: of a whole ring, else of the list that nccl-tests prints."""
    lengths = {len(ring.ranks) for ring in rings}
    if len(lengths) == 1:
        return lengths.pop()
    highest = max((episode.rank for episode in group.episodes if episode.rank is not None), default=0)
    listed = len(announced)
    return listed if not rings and highest < listed and not group.ambiguous else None


def _places(group: _Group, announced: Sequence[AnnouncedRank]) -> tuple[RankPlace, ...]:
    """Where each rank runs, as far as its own lines and the list of nccl-tests tell."""
    found = {row.rank: RankPlace(row.rank, row.host, None, row.cuda_dev, model=row.model) for row in announced}
    seen: set[int] = set()
    for episode in group.episodes:
        rank = episode.rank
        if rank is None or (rank in seen and not episode.lines):
            continue
        known = found.get(rank, RankPlace(rank))
        seen.add(rank)
        speaker = episode.speaker
        cuda = [line.cuda_dev for line in episode.lines if line.cuda_dev is not None]
        nvml = [line.nvml_dev for line in episode.lines if line.nvml_dev is not None]
        buses = [line.bus_id for line in episode.lines if line.bus_id is not None]
        found[rank] = replace(
            known,
            host=speaker.host or known.host,
            pid=speaker.pid if speaker.pid is not None else known.pid,
            cuda_dev=cuda[0] if cuda else speaker.cuda_dev if speaker.cuda_dev is not None else known.cuda_dev,
            nvml_dev=nvml[0] if nvml else known.nvml_dev,
            bus_id=buses[0] if buses else known.bus_id,
        )
    return tuple(found[rank] for rank in sorted(found))


def _num_nodes(stated: Iterable[int | None], places: Sequence[RankPlace], num_ranks: int | None) -> int | None:
    known = [number for number in stated if number is not None]
    if known:
        return max(known)
    hosts = {place.host for place in places}
    return len(hosts) if len(places) == num_ranks and None not in hosts else None


def _distinct_heads(heads: Iterable[NvlsHead]) -> tuple[NvlsHead, ...]:
    by_number: dict[int, NvlsHead] = {}
    for head in heads:
        by_number.setdefault(head.head, head)
    return tuple(by_number[number] for number in sorted(by_number))
