"""The facts of all ranks of a communicator -> its rings and trees, whole or not at all.

A ring is taken from the line of rank 0 where that shows all ranks, else put together from what each rank says of its
neighbours, else, where the line of rank 0 breaks off after 20 ranks, from connections: NCCL sets up the ring of a
channel before its tree, so each rank's first connection leads to the next in the ring. It must agree with what is
printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from topo.readers.nccl_log.facts import Connection, PrintedRing, Ring, RingNeighbours, Tree, TreeNode

OLD_MAX_PRINTED_RANKS = 20
"""Up to NCCL 2.22 a ring line ends after so many ranks, without a sign."""

MAX_SPARSE_RANKS = 1024


def rings_of(
    printed: Iterable[PrintedRing],
    neighbours: Iterable[RingNeighbours],
    connections: Sequence[Connection],
    num_ranks: int | None,
) -> tuple[tuple[Ring, ...], tuple[int, ...]]:
    """The whole rings by channel, and the channels of which the lines show a ring only in part."""
    lines = {ring.channel: ring for ring in printed}
    places: dict[int, dict[int, int]] = {}
    for place in neighbours:
        following = places.setdefault(place.channel, {})
        following[place.rank] = place.following
        following.setdefault(place.previous, place.rank)
    whole: list[Ring] = []
    partly: list[int] = []
    for channel in sorted(lines.keys() | places.keys()):
        ring = _ring(channel, lines.get(channel), places.get(channel, {}), connections, num_ranks)
        if ring is None:
            partly.append(channel)
        else:
            whole.append(ring)
    return tuple(whole), tuple(partly)


def _ring(
    channel: int,
    line: PrintedRing | None,
    following: Mapping[int, int],
    connections: Sequence[Connection],
    num_ranks: int | None,
) -> Ring | None:
    if line is not None and _shows_all(line, num_ranks):
        return Ring(channel, line.ranks, "printed")
    start = line.ranks if line else ()
    joined = _cycle(following, num_ranks)
    if joined and joined[: len(start)] == start:
        return Ring(channel, joined, "neighbours")
    if num_ranks is not None and start:
        joined = _cycle(_first_sends(connections, channel), num_ranks)
        if joined and joined[: len(start)] == start:
            return Ring(channel, joined, "connections")
    return None


def _shows_all(line: PrintedRing, num_ranks: int | None) -> bool:
    """Whether the line names every rank once. Without a known number of ranks, 20 of them may be the first of more."""
    ranks = line.ranks
    if line.cut or set(ranks) != set(range(len(ranks))) or len(set(ranks)) != len(ranks):
        return False
    return len(ranks) == num_ranks if num_ranks is not None else len(ranks) != OLD_MAX_PRINTED_RANKS


def _cycle(following: Mapping[int, int], num_ranks: int | None) -> tuple[int, ...]:
    """The ranks from 0 on, each followed by the next, where that comes back to 0 past every rank; else nothing."""
    if 0 not in following:
        return ()
    ranks = [0]
    while (rank := following.get(ranks[-1])) is not None and rank != 0:
        if len(ranks) > len(following):
            return ()  # it runs in a circle without 0
        ranks.append(rank)
    closed = rank == 0 and len(ranks) == (num_ranks or len(following))
    return tuple(ranks) if closed and set(ranks) == set(range(len(ranks))) else ()


def _first_sends(connections: Iterable[Connection], channel: int) -> dict[int, int]:
    """To whom each rank's first connection of the channel leads, as the sending side reports it."""
    first: dict[int, int] = {}
    for connection in connections:
        is_sender = connection.channel == channel and connection.direction != "receive" and connection.index != 1
        if is_sender and connection.dst is not None:
            first.setdefault(connection.src, connection.dst)
    return first


def trees_of(nodes: Iterable[TreeNode], num_ranks: int | None) -> tuple[Tree, ...]:
    """The tree of each channel, by rank; without a known number of ranks, up to the highest rank that is named.

    Nothing where there are more than `MAX_SPARSE_RANKS` ranks and lines of less than half of them: a few lines out of
    a large run (or a damaged number) would make a large table of nothing.
    """
    by_channel: dict[int, dict[int, TreeNode]] = {}
    highest = -1
    for node in nodes:
        by_channel.setdefault(node.channel, {}).setdefault(node.rank, node)
        highest = max(highest, node.rank, node.up, *node.down)
    size = num_ranks if num_ranks is not None else highest + 1
    if size > MAX_SPARSE_RANKS and 2 * max(map(len, by_channel.values()), default=0) < size:
        return ()
    trees = []
    for channel in sorted(by_channel):
        at = by_channel[channel]
        found = [at.get(rank) for rank in range(size)]
        ups = tuple(None if node is None else node.up for node in found)
        downs = tuple(None if node is None else node.down for node in found)
        trees.append(Tree(channel, ups, downs))
    return tuple(trees)
