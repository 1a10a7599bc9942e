"""How long a schedule takes on processes that share the cores of one machine.

A message between two processes of a machine takes a processor's time at both of its ends, and hardly anything else: the
calls that post it, switching to whoever waits for it, copying its bytes into the kernel and out again. So what limits
is not a link but how many such pieces of work there are at a time, and how many cores. Each process does its own pieces
one after the other; with more of them than cores all get the same share. While many processes are at work each piece
also costs more than alone (caches, switching), as the two calibrations show.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from topo.words import counted

if TYPE_CHECKING:
    from sim.prediction import Prediction
    from sim.schedule import Schedule
    from sim.workload import Workload
    from validate.backends.steps import Receive, Send, Step

POSTING_SHARE = 0.5
"""Which part of a step is Python's posting: gloo's own ring over 2, 4 and 8 ranks does without about half."""

DONE_S = 1e-12
"""What is left of a piece of work that has ended, for rounding."""


@dataclass(frozen=True, slots=True)
class MessageCost:
    """What a message of `num_bytes` costs, in seconds.

    `alone_s` while no other is under way; `crowded_s` is one step in which every rank sends one and receives one;
    `combine_s` is the processor's time to add one to what is there.
    """

    num_bytes: int
    alone_s: float
    crowded_s: float
    combine_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Cores:
    """Processes on cores.

    `costs` by size, the smallest first, of a message that is a step of its own; `step_s` of that is what a step costs
    however many messages are in it: posting them from Python, and waking up when they are through.
    """

    num_ranks: int
    num_cores: int
    costs: tuple[MessageCost, ...]
    step_s: float = 0.0

    def alone_s(self, num_bytes: float) -> float:
        """A message alone."""
        return self._between(num_bytes, [cost.alone_s for cost in self.costs])

    def combine_s(self, num_bytes: float) -> float:
        """Adding a message to what is there."""
        return self._between(num_bytes, [cost.combine_s for cost in self.costs])

    def crowding(self, num_bytes: float) -> float:
        """How many times as much a message costs while every rank is at work, beside what sharing cores explains."""
        crowded_s = self._between(num_bytes, [cost.crowded_s for cost in self.costs])
        return crowded_s * min(self.num_cores, self.num_ranks) / self.num_ranks / self.alone_s(num_bytes)

    def of_library(self) -> Cores:
        """The same where a library posts the messages of its own collective."""
        posting_s = self.step_s * POSTING_SHARE
        costs = (
            replace(row, alone_s=row.alone_s - posting_s, crowded_s=self._less(row, posting_s)) for row in self.costs
        )
        return replace(self, costs=tuple(costs), step_s=self.step_s - posting_s)

    def _less(self, cost: MessageCost, posting_s: float) -> float:
        """A crowded step without posting: crowding makes all its pieces dearer alike."""
        return cost.crowded_s * (1 - posting_s / cost.alone_s)

    def _between(self, num_bytes: float, values: Sequence[float]) -> float:
        """Straight lines between the sizes that were measured; beyond the largest in proportion."""
        sizes = [cost.num_bytes for cost in self.costs]
        if num_bytes >= sizes[-1]:
            return values[-1] * num_bytes / sizes[-1]
        above = next(place for place, size in enumerate(sizes) if size > num_bytes)
        if above == 0:
            return values[0]
        share = (num_bytes - sizes[above - 1]) / (sizes[above] - sizes[above - 1])
        return values[above - 1] + share * (values[above] - values[above - 1])

    def duration_s(self, schedule: Schedule, workload: Workload) -> float:
        """How long all ranks together take if they begin together."""
        return _Run.of(self, schedule, workload).duration_s()


def _nothing() -> None:
    """What follows the posting of a step: its messages stand behind it already."""


def taking(simulated: Prediction, duration_s: float, num_cores: int) -> Prediction:
    """What was simulated over links, in the time that processes on so many cores need."""
    share = simulated.duration_s / duration_s if duration_s > 0 else 0.0
    loads = tuple(replace(load, busy_fraction=min(1.0, load.busy_fraction * share)) for load in simulated.link_loads)
    engine = f"processes on {counted(num_cores, 'core')}"
    return replace(simulated, duration_s=duration_s, link_loads=loads, engine=engine)


@dataclass(slots=True)
class _Work:
    """A piece of work: what is left of it, in seconds on a core of its own, and what follows when it is done."""

    left_s: float
    crowding: float
    then: Callable[[], None]


@dataclass(slots=True)
class _Run:
    """One simulated run: where each process stands, what it is at, and messages that wait for their receiver."""

    cores: Cores
    bytes_of: Sequence[int]
    steps: list[tuple[Step, ...]]
    now_s: float = 0.0
    at: list[int] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    working: dict[int, _Work] = field(default_factory=dict)
    waiting: dict[int, deque[_Work]] = field(default_factory=lambda: defaultdict(deque))
    arrived: dict[tuple[int, int, int], int] = field(default_factory=lambda: defaultdict(int))
    wanted: dict[tuple[int, int, int], deque[Receive]] = field(default_factory=lambda: defaultdict(deque))

    @classmethod
    def of(cls, cores: Cores, schedule: Schedule, workload: Workload) -> _Run:
        """The run of a schedule before its first step."""
        import numpy as np

        from validate.backends.steps import chunk_bounds, steps_of

        elements = np.diff(chunk_bounds(workload, schedule.num_chunks))
        bytes_of = [int(number) * workload.element_bytes for number in elements]
        steps = [steps_of(schedule, agent, elements) for agent in range(schedule.num_agents)]
        return cls(cores, bytes_of, steps, at=[0] * len(steps), open=[0] * len(steps))

    def duration_s(self) -> float:
        """Go through all steps; the time when the last is done."""
        for agent in range(len(self.steps)):
            self._begin(agent)
        while self.working:
            self._advance()
        return self.now_s

    def _begin(self, agent: int) -> None:
        """Post all of the agent's next step."""
        if self.at[agent] == len(self.steps[agent]):
            return
        step = self.steps[agent][self.at[agent]]
        self.open[agent] = len(step.sends) + len(step.receives)
        self._work(agent, self.cores.step_s, self.cores.crowding(0), _nothing)
        for receive in step.receives:
            self.wanted[receive.peer, agent, receive.tag].append(receive)
        for send in step.sends:
            self._work_half(agent, send.chunk, lambda send=send: self._sent(agent, send))  # type: ignore[misc]
        for receive in step.receives:
            self._match((receive.peer, agent, receive.tag))

    def _sent(self, agent: int, send: Send) -> None:
        key = (agent, send.peer, send.tag)
        self.arrived[key] += 1
        self._match(key)
        self._closed(agent)

    def _match(self, key: tuple[int, int, int]) -> None:
        """Have the receiver take a message that has arrived, if it wants it already."""
        if not (self.arrived[key] and self.wanted[key]):
            return
        self.arrived[key] -= 1
        receive, agent = self.wanted[key].popleft(), key[1]
        extra_s = 0.0 if receive.replaces else self.cores.combine_s(self.bytes_of[receive.chunk])
        self._work_half(agent, receive.chunk, lambda: self._closed(agent), extra_s)

    def _closed(self, agent: int) -> None:
        """One transfer of the agent's step is through; after the last the next step begins."""
        self.open[agent] -= 1
        if self.open[agent] == 0:
            self.at[agent] += 1
            self._begin(agent)

    def _work_half(self, agent: int, chunk: int, then: Callable[[], None], extra_s: float = 0.0) -> None:
        """One end of a message: half of what it costs."""
        num_bytes = self.bytes_of[chunk]
        message_s = max(0.0, self.cores.alone_s(num_bytes) - self.cores.step_s)
        self._work(agent, message_s / 2 + extra_s, self.cores.crowding(num_bytes), then)

    def _work(self, agent: int, left_s: float, crowding: float, then: Callable[[], None]) -> None:
        """A piece of work for the agent, behind those that it has."""
        piece = _Work(left_s, crowding, then)
        if agent in self.working:
            self.waiting[agent].append(piece)
        else:
            self.working[agent] = piece

    def _advance(self) -> None:
        """To the moment when the next piece of work is done."""
        rates = {agent: self._rate(work) for agent, work in self.working.items()}
        step_s = min(work.left_s / rates[agent] for agent, work in self.working.items())
        self.now_s += step_s
        ended = []
        for agent, work in self.working.items():
            work.left_s -= step_s * rates[agent]
            if work.left_s <= DONE_S:
                ended.append((agent, work))
        for agent, _ in ended:
            del self.working[agent]
            if self.waiting[agent]:
                self.working[agent] = self.waiting[agent].popleft()
        for _, work in ended:
            work.then()

    def _rate(self, work: _Work) -> float:
        """How fast a piece goes on, 1 alone on a core: shared by all at work, and dearer the more of them there are."""
        crowd = (len(self.working) - 1) / max(self.cores.num_ranks - 1, 1)
        share = min(1.0, self.cores.num_cores / len(self.working))
        return share / (1 + min(crowd, 1.0) * (work.crowding - 1))
