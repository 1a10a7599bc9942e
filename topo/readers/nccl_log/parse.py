"""One record of an NCCL log -> what it says of communicators: rings, trees, connections, counts.

Every line has one strict form for each generation of NCCL; what begins like one of them and does not fit is `Unread`,
never half read. Only whole records count: where another process wrote into the line, the rest is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from topo.readers.nccl_log.facts import (
    ChannelCounts,
    CommLine,
    Connection,
    Fact,
    Mention,
    NvlsHead,
    P2pChunk,
    PrintedRing,
    RingNeighbours,
    Thresholds,
    TreeNode,
    Unread,
)
from topo.readers.nccl_log.lines import Record
from topo.words import counted

MAX_RANKS = 2**15
MAX_CHANNELS = 128
"""More than any log holds (NCCL has 64 channels, RCCL 128); larger numbers are damage, and would only cost memory."""

MAX_LINE_CHARS = 1023
"""NCCL builds a line in a buffer of this length: what ends there may be cut within a number."""


_MENTION = re.compile(r" comm (0x[0-9a-fA-F]+) nRanks (\d+)(?: busId [0-9a-fA-F]+)?(?: .*)?$")
_PRINTED_RING = re.compile(r"(?:Channel|Ring) (\d+)(?:/(\d+))? :((?: +\d+)+)( ?\.\.\.)?$")
_NEIGHBOURS = re.compile(r"Ring (\d+) : (\d+) -> (\d+) -> (\d+)$")
_RANK = r"(\d+)(?:\[([0-9a-fA-F]+)\])?"
_CONNECTION = re.compile(
    rf"(?:Channel|Ring) (\d+)(?:/(\d+))? : {_RANK} -> {_RANK} (?:\[(send|receive)\] )?via ([A-Za-z][\w./+:()\- ]*)$"
)
_COLLNET = re.compile(r"(?:CollNet|Coll) (\d+)(?:/(\d+))? : (\d+) \[(send|receive)\] via ([A-Za-z][\w./+:()\- ]*)$")
_TREES = re.compile(r"\[(\d+)\] (\S+)")
_UP_LAST = re.compile(r"(-?\d+(?:/-?\d+)+)->(\d+)->(-?\d+)")
_UP_FIRST = re.compile(r"(-?\d+)->(\d+)->(-?\d+(?:/-?\d+)+)")
_TREE = re.compile(r"Tree (\d+) : (-?\d+) -> (\d+) -> (-?\d+(?:/-?\d+)+)$")
_COMM = re.compile(r"\bcomm (0x[0-9a-fA-F]+) rank (\d+) n[rR]anks (\d+)\b(.*)$")
_STATUS = re.compile(r"- ([A-Z]\w+ \w+)$")
_PAIR = re.compile(
    r"(nNodes|localRanks|localRank|MNNVL|cudaDev|nvmlDev|busId|commId|splitCount|color) (0x[0-9a-f]+|\w+)"
)
_WHOLE = re.compile(r"\d+")
_VALUES = {"busId": re.compile(r"(?:0x)?[0-9a-fA-F]{1,16}"), "commId": re.compile(r"0x[0-9a-f]+")}
"""How the values of a line about a communicator look; all others are whole numbers."""

_COUNTS = re.compile(
    r"(\d+) coll channels, (?:(\d+) collnet channels, )?(?:(\d+) nvls channels, )?"
    r"(\d+) p2p channels, (\d+) p2p channels per peer$"
)
_HEAD = re.compile(r"NVLS Head +(\d+):((?: +-?\d+)+)$")
_P2P_CHUNK = re.compile(r"P2P Chunksize set to (\d+)$")


def facts_of(record: Record) -> tuple[Fact, ...]:
    """What the record says of its communicator, in order; empty for records about anything else."""
    words = record.words
    keyword = words.partition(" ")[0]
    if " comm 0x" in words or keyword == "comm":
        found = _comm(record)
        if found:
            return found
    parse = _PARSERS.get(keyword)
    if parse is not None:
        facts = tuple(parse(record))
        if any(_is_beyond(fact) for fact in facts):
            return (unread(record, f"a rank or channel beyond {MAX_RANKS} and {MAX_CHANNELS}"),)
        return facts
    if keyword.isdecimal() and " coll channels" in words:
        return tuple(_counts(record))
    return ()


def _is_beyond(fact: Fact) -> bool:
    """Whether a rank or channel is larger than any that a log can hold."""
    ranks: tuple[int, ...] = ()
    if isinstance(fact, TreeNode):
        ranks = (fact.rank, fact.up, *fact.down)
    elif isinstance(fact, Connection):
        ranks = (fact.src, fact.dst or 0)
    elif isinstance(fact, PrintedRing):
        ranks = fact.ranks
    elif isinstance(fact, RingNeighbours):
        ranks = (fact.previous, fact.rank, fact.following)
    else:
        return isinstance(fact, Mention) and fact.num_ranks > MAX_RANKS
    return fact.channel >= MAX_CHANNELS or max(ranks, default=0) >= MAX_RANKS


def unread(record: Record, reason: str) -> Unread:
    """The record as a line that could not be read."""
    why = "another process wrote into this line" if record.cut else reason
    return Unread(record.line, why, record.words[:120])


def _comm(record: Record) -> tuple[Fact, ...]:
    """The communicator that a record is about, or the end of another kind of record that names one."""
    match = _COMM.search(record.words)
    if match is None:
        return ()
    if record.cut:
        return (unread(record, ""),)
    said = dict(_PAIR.findall(match[4]))
    odd = [name for name, value in said.items() if not _VALUES.get(name, _WHOLE).fullmatch(value)]
    if odd:
        return (unread(record, f"{odd[0]} is {said[odd[0]]!r}, no number"),)
    status = _STATUS.search(match[4])
    split = f"{said['splitCount']}/{said['color']}" if "splitCount" in said and "color" in said else None
    line = CommLine(
        line=record.line,
        pointer=match[1],
        rank=int(match[2]),
        num_ranks=int(match[3]),
        status=status[1] if status else "",
        comm_id=said.get("commId"),
        split=split,
        num_nodes=_whole(said.get("nNodes")),
        num_local_ranks=_whole(said.get("localRanks")),
        local_rank=_whole(said.get("localRank")),
        mnnvl=None if "MNNVL" not in said else said["MNNVL"] != "0",
        cuda_dev=_whole(said.get("cudaDev")),
        nvml_dev=_whole(said.get("nvmlDev")),
        bus_id=said["busId"].removeprefix("0x").lower() if "busId" in said else None,
    )
    if line.rank >= line.num_ranks or line.num_ranks > MAX_RANKS:
        return (unread(record, f"rank {line.rank} of {counted(line.num_ranks, 'rank')} does not exist"),)
    return (line,)


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _without_mention(record: Record) -> tuple[str, tuple[Mention, ...]]:
    """The words without RCCL's end, and what it names."""
    if " comm 0x" in record.words and (match := _MENTION.search(record.words)):
        return record.words[: match.start()].rstrip(), (Mention(record.line, match[1], int(match[2])),)
    return record.words, ()


def _channel(record: Record) -> Iterator[Fact]:
    """A ring as rank 0 prints it, a rank's neighbours in a ring, or a connection: all begin with a channel."""
    words, mentions = _without_mention(record)
    if " : " not in words and not words.endswith(" :"):
        return  # "Channel 0: " and the like of NCCL's forks
    fact: Fact | None = None
    if not record.cut:
        fact = _connection(record.line, words) or _printed(record.line, words) or _neighbours(record.line, words)
    if fact is None:
        yield unread(record, "no ring, no place in a ring and no connection as NCCL prints them")
        return
    yield from mentions
    yield fact


def _printed(line: int, words: str) -> PrintedRing | None:
    match = _PRINTED_RING.fullmatch(words)
    if match is None:
        return None
    ranks = tuple(int(rank) for rank in match[3].split())
    # A number that touches the dots may have lost its last digits.
    touching = match[4] == "..."
    return PrintedRing(line, int(match[1]), _whole(match[2]), ranks[:-1] if touching else ranks, match[4] is not None)


def _neighbours(line: int, words: str) -> RingNeighbours | None:
    match = _NEIGHBOURS.fullmatch(words)
    return None if match is None else RingNeighbours(line, *(int(number) for number in match.groups()))


def _connection(line: int, words: str) -> Connection | None:
    match = _CONNECTION.fullmatch(words)
    if match is None:
        return None
    channel, index, src, src_bracket, dst, dst_bracket, direction, transport = match.groups()
    return Connection(
        line, int(channel), _whole(index), int(src), int(dst), transport, direction, src_bracket, dst_bracket
    )


def _collnet(record: Record) -> Iterator[Fact]:
    words, mentions = _without_mention(record)
    if " via " not in words and not record.cut:
        return
    match = None if record.cut else _COLLNET.fullmatch(words)
    if match is None:
        yield unread(record, "no CollNet connection as NCCL prints them")
        return
    yield from mentions
    channel, index, rank, direction, transport = match.groups()
    yield Connection(record.line, int(channel), _whole(index), int(rank), None, transport, direction)


def _trees(record: Record) -> Iterator[Fact]:
    """A rank's place in the trees of all channels, in the notation of any version."""
    if record.cut:
        yield unread(record, "")
        return
    words, mentions = _without_mention(record)
    yield from mentions
    found = list(_TREES.finditer(words))
    if not found or words[: found[0].start()].strip() != "Trees":
        yield unread(record, "no trees as NCCL prints them")
        return
    at_limit = len(words) >= MAX_LINE_CHARS
    for place, match in enumerate(found):
        is_last = place == len(found) - 1
        node = None if is_last and at_limit else _tree_node(record.line, int(match[1]), match[2])
        if node is not None:
            yield node
        else:
            reason = "the line breaks off" if is_last else "not as NCCL prints it"
            yield unread(record, f"tree of channel {match[1]}: {reason}")


def _tree_node(line: int, channel: int, text: str) -> TreeNode | None:
    """`d0/d1/d2->rank->up` since 2.8, with `|up->rank->d0/d1/d2` behind it in 2.5 to 2.7, which stands alone in 2.4."""
    reduce_part, bar, broadcast_part = text.partition("|")
    if match := _UP_LAST.fullmatch(reduce_part):
        node = TreeNode(line, channel, int(match[2]), int(match[3]), _children(match[1]))
    elif (match := _UP_FIRST.fullmatch(reduce_part)) and not bar:
        return TreeNode(line, channel, int(match[2]), int(match[1]), _children(match[3]))
    else:
        return None
    if not bar:
        return node
    match = _UP_FIRST.fullmatch(broadcast_part)
    same = match is not None and TreeNode(line, channel, int(match[2]), int(match[1]), _children(match[3])) == node
    return node if same else None


def _children(text: str) -> tuple[int, ...]:
    return tuple(int(child) for child in text.split("/"))


def _tree(record: Record) -> Iterator[Fact]:
    words, mentions = _without_mention(record)
    match = None if record.cut else _TREE.fullmatch(words)
    if match is None:
        yield unread(record, "no tree as NCCL prints them")
        return
    yield from mentions
    yield TreeNode(record.line, int(match[1]), int(match[3]), int(match[2]), _children(match[4]))


def _counts(record: Record) -> Iterator[Fact]:
    words, mentions = _without_mention(record)
    match = None if record.cut else _COUNTS.fullmatch(words)
    if match is None:
        yield unread(record, "no numbers of channels as NCCL prints them")
        return
    yield from mentions
    collective, collnet, nvls, p2p, per_peer = (_whole(number) for number in match.groups())
    yield ChannelCounts(record.line, collective or 0, p2p or 0, per_peer or 0, collnet, nvls)


def _nvls(record: Record) -> Iterator[Fact]:
    if record.words.startswith("NVLS Head"):
        match = None if record.cut else _HEAD.fullmatch(record.words)
        if match is None:
            yield unread(record, "no NVLS head as NCCL prints them")
        else:
            yield NvlsHead(record.line, int(match[1]), tuple(int(rank) for rank in match[2].split()))


def _thresholds(record: Record) -> Iterator[Fact]:
    if not record.cut:
        yield Thresholds(record.line, record.words.partition(" ")[2].strip())


def _p2p(record: Record) -> Iterator[Fact]:
    match = None if record.cut else _P2P_CHUNK.fullmatch(_without_mention(record)[0])
    if match:
        yield P2pChunk(record.line, int(match[1]))


_PARSERS: Mapping[str, Callable[[Record], Iterator[Fact]]] = {
    "Channel": _channel,
    "Ring": _channel,
    "CollNet": _collnet,
    "Coll": _collnet,
    "Trees": _trees,
    "Tree": _tree,
    "NVLS": _nvls,
    "threadThresholds": _thresholds,
    "P2P": _p2p,
}
