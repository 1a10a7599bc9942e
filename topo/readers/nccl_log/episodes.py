"""The records of an NCCL log sorted by who speaks of which communicator: one episode is one rank of one communicator.

NCCL names the communicator only in some lines. The others belong to it because the same thread writes them between the
first and the last word of its initialisation; connections that are set up later come from threads of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from topo.readers.nccl_log.facts import (
    CommLine,
    Connection,
    Fact,
    Mention,
    PrintedRing,
    RingNeighbours,
    TreeNode,
    Unread,
)
from topo.readers.nccl_log.lines import Speaker

Process = tuple[str | None, int | None, int | None]
"""Host, process id and CUDA device: what stays the same over the threads of one rank."""


@dataclass(slots=True)
class Episode:
    """One rank of one communicator while its lines are collected; None is what no line has said yet."""

    speaker: Speaker
    pointer: str | None = None
    comm_id: str | None = None
    split: str | None = None
    rank: int | None = None
    num_ranks: int | None = None
    done: bool = False
    lines: list[CommLine] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    placed: dict[tuple[type, int], Fact] = field(default_factory=dict)

    @property
    def process(self) -> Process:
        """The process and device whose rank this is."""
        return (self.speaker.host, self.speaker.pid, self.speaker.cuda_dev)

    def learn(self, line: CommLine) -> None:
        """What a line says that names the communicator."""
        self.lines.append(line)
        self.pointer, self.rank, self.num_ranks = line.pointer, line.rank, line.num_ranks
        self.comm_id = line.comm_id or self.comm_id
        self.split = line.split or self.split
        self.done = self.done or bool(line.status and line.status != "Init START")

    def contradicts(self, fact: Fact) -> bool:
        """Whether the fact cannot be of this episode: it has another rank, or another ring or tree of its channel."""
        rank = rank_of(fact)
        if rank is not None and self.rank is not None and rank != self.rank:
            return True
        if not isinstance(fact, PrintedRing | RingNeighbours | TreeNode):
            return False
        known = self.placed.get((type(fact), fact.channel))
        return self.done or (known is not None and _content(known) != _content(fact))

    def add(self, fact: Fact) -> None:
        """A line without the communicator's name."""
        if isinstance(fact, PrintedRing | RingNeighbours | TreeNode):
            self.placed[type(fact), fact.channel] = fact
        if self.rank is None:
            self.rank = rank_of(fact)
        self.facts.append(fact)


def rank_of(fact: Fact) -> int | None:
    """The rank that says so, as far as the words tell: rank 0 prints rings, the sender its connections."""
    if isinstance(fact, TreeNode | RingNeighbours):
        return fact.rank
    if isinstance(fact, PrintedRing):
        return 0
    if isinstance(fact, Connection):
        return fact.dst if fact.direction == "receive" and fact.dst is not None else fact.src
    return None


def _content(fact: Fact) -> object:
    """The fact without its line."""
    if isinstance(fact, PrintedRing):
        return fact.ranks
    if isinstance(fact, RingNeighbours):
        return (fact.previous, fact.rank, fact.following)
    assert isinstance(fact, TreeNode)
    return (fact.rank, fact.up, fact.down)


class Episodes:
    """Collects episodes while the records of a log go by, in order."""

    def __init__(self) -> None:
        self._all: list[Episode] = []
        self._current: dict[Speaker, Episode] = {}
        self._of_rank: dict[tuple[Speaker, int], Episode] = {}
        self._of_pointer: dict[tuple[str | None, int | None, str], Episode] = {}

    def take(self, speaker: Speaker, fact: Fact) -> None:
        """One fact that a thread stated."""
        if isinstance(fact, CommLine):
            episode = self._named(speaker, fact)
            episode.learn(fact)
            self._of_pointer[speaker.host, speaker.pid, fact.pointer] = episode
            self._stand(speaker, episode)
        elif isinstance(fact, Mention):
            self._mention(speaker, fact)
        elif not isinstance(fact, Unread):
            episode = self._unnamed(speaker, fact)
            episode.add(fact)
            self._stand(speaker, episode)

    def finished(self) -> list[Episode]:
        """All episodes; what threads of their own said of a communicator is added to their process' only one."""
        named = [episode for episode in self._all if episode.num_ranks is not None]
        homes: dict[Process, list[Episode]] = {}
        for episode in named:
            homes.setdefault(episode.process, []).append(episode)
        rest = []
        for episode in self._all:
            if episode.num_ranks is None:
                home = self._home(episode, homes)
                if home is None:
                    rest.append(episode)
                else:
                    home.facts.extend(episode.facts)
        kept = {id(episode) for episode in (*named, *rest)}
        return [episode for episode in self._all if id(episode) in kept]

    @staticmethod
    def _home(episode: Episode, homes: dict[Process, list[Episode]]) -> Episode | None:
        """The one communicator of the process in which it has this rank."""
        if episode.speaker.host is None:
            return None
        known = homes.get(episode.process, [])
        fitting = [home for home in known if episode.rank is None or home.rank == episode.rank]
        return fitting[0] if len(fitting) == 1 else None

    def _named(self, speaker: Speaker, line: CommLine) -> Episode:
        known = self._of_pointer.get((speaker.host, speaker.pid, line.pointer))
        if line.status == "Init START":
            return self._new(speaker)
        if known is not None and (known.rank, known.num_ranks) == (line.rank, line.num_ranks):
            return known
        for episode in self._candidates(speaker, line.rank):
            if episode.pointer is None and episode.rank in (None, line.rank) and not episode.done:
                return episode
        return self._new(speaker)

    def _mention(self, speaker: Speaker, mention: Mention) -> None:
        """RCCL's name of the communicator, which stands before the fact that its line holds."""
        episode = self._of_pointer.get((speaker.host, speaker.pid, mention.pointer)) or self._new(speaker)
        if episode.pointer is None:
            episode.pointer, episode.num_ranks = mention.pointer, mention.num_ranks
            self._of_pointer[speaker.host, speaker.pid, mention.pointer] = episode
        self._current[speaker] = episode

    def _unnamed(self, speaker: Speaker, fact: Fact) -> Episode:
        for episode in self._candidates(speaker, rank_of(fact)):
            if not episode.contradicts(fact):
                return episode
        return self._new(speaker)

    def _candidates(self, speaker: Speaker, rank: int | None) -> Iterator[Episode]:
        """Episodes that the thread may speak of: the current one, then that of the rank."""
        current = self._current.get(speaker)
        if current is not None:
            yield current
        other = None if rank is None else self._of_rank.get((speaker, rank))
        if other is not None and other is not current:
            yield other

    def _new(self, speaker: Speaker) -> Episode:
        episode = Episode(speaker)
        self._all.append(episode)
        return episode

    def _stand(self, speaker: Speaker, episode: Episode) -> None:
        """The thread goes on with this episode."""
        self._current[speaker] = episode
        if episode.rank is not None:
            self._of_rank[speaker, episode.rank] = episode
