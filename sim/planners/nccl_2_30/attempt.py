"""One try of the graph search: which channels fit under given speeds and path kinds (src/graph/search.cc).

The recursion of NCCL is written as generators that yield the deeper visit; a small loop runs them, so that depth (two
visits per GPU and channel) costs no Python stack.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any

from sim.planners.nccl_2_30.candidates import Candidates
from sim.planners.nccl_2_30.facts import VISITS_PCI_ORDER
from sim.planners.nccl_2_30.fruitless import Fruitless, Used
from sim.planners.nccl_2_30.graphs import Pattern, Solution, Trial
from sim.planners.nccl_2_30.ground import Ground, Route
from sim.planners.nccl_2_30.kinds import PathKind
from sim.planners.nccl_2_30.ledger import Ledger, Legs
from sim.planners.nccl_2_30.net_choice import NetChoice, own_bytes_per_s

Visits = Generator[Any, None, None]

FREE, PCI_ORDER, REPLAY = 0, 1, 2
"""How the next GPU is chosen: by searching, by index, or as in the channel before."""

HEADED = (Pattern.NVLS, Pattern.COLLNET_DIRECT)
"""Patterns whose channel is one head GPU, joined with all others at once."""
NO_STEP = -1
PERFECT = -1
UNSET = -1.0
"""No latency, since no channel has begun."""


@dataclass(slots=True)
class Clock:
    """Visits left; PERFECT (-1) after a solution with all channels was accepted."""

    left: int


class Attempt:
    """Runs tries on one ground; keeps the best solution and what is left of every link."""

    def __init__(self, ground: Ground, trial: Trial, best: Solution, *, collnet: bool) -> None:
        self.trial = trial
        self.best = best
        self.ledger = Ledger(edge.bandwidth_bytes_per_s for edge in ground.domain.system.edges)
        self._ground = ground
        self._num_gpus = ground.num_gpus
        self._inter = ground.domain.inter
        self._nets = NetChoice(ground, collnet=collnet)
        self._candidates = Candidates(ground, self.ledger.left)
        self._fruitless = Fruitless(ground, self.ledger, self._nets)
        self._orders: list[list[int]] = []
        self._ends: list[list[int]] = []
        self._used: list[int] = []
        self._count = 0
        self._return_step = NO_STEP
        self._first_step = NO_STEP
        self._both_ways = False

    def run(self, num_visits: int) -> int:
        """Try the present trial; the visits left, or PERFECT."""
        trial, num_gpus = self.trial, self._num_gpus
        ring = trial.pattern == Pattern.RING
        self._return_step = (num_gpus - 1 if ring else 0) if self._inter else NO_STEP
        self._first_step = num_gpus - 1 if ring and not self._inter else NO_STEP
        self._both_ways = trial.pattern in (Pattern.BALANCED_TREE, Pattern.TREE)
        self._orders = [[-1] * num_gpus for _ in range(trial.max_channels)]
        self._ends = [[-1, -1] for _ in range(trial.max_channels)]
        self._used = [0] * trial.max_channels
        self._count = 0
        self._fruitless.forget()
        clock = Clock(num_visits)
        _run(self._channel(clock))
        return clock.left

    def _channel(self, clock: Clock) -> Visits:
        """Start the next channel everywhere it may start."""
        return self._inter_channel(clock) if self._inter else self._intra_channel(clock)

    def _intra_channel(self, clock: Clock) -> Visits:
        count = self._count
        if self.trial.pattern == Pattern.NVLS:
            yield from self._begin(count, FREE, clock)
            return
        if count == 0:
            yield from self._begin(0, PCI_ORDER, clock)
        else:
            yield from self._begin(self._orders[count - 1][0], REPLAY, clock)
        if count == 0 or not self.trial.same_channels:
            for gpu in range(self._num_gpus):
                yield from self._begin(gpu, FREE, clock)

    def _begin(self, gpu: int, order: int, clock: Clock) -> Visits:
        """Begin a channel at a GPU without coming from anywhere."""
        count = self._count
        self._used[count] ^= 1 << gpu
        yield self._visit(gpu, 0, self._return_step, order, clock)
        self._used[count] ^= 1 << gpu

    def _inter_channel(self, clock: Clock) -> Visits:
        """Start from each NIC in turn, whose own bandwidth is taken as long as the channel stands."""
        trial, count = self.trial, self._count
        nets = self._nets.select(None, trial.kind_inter)
        own = own_bytes_per_s(trial)
        for position in range(len(nets)):
            net = nets[(count + position) % len(nets)]
            if not self._nets.may_start(net, trial, self._ends, count):
                continue
            self._ends[count][0] = net
            trial.latency_inter_s = self._nets.latency_s(net)
            self._nets.take(net, own)
            tried_head = False
            if trial.pattern in HEADED:
                head = self._head_of(net) if count < len(nets) else -1
                tried_head = head >= 0
                if tried_head:
                    yield from self._enter(net, head, FREE, clock)
            else:
                yield from self._from_net(net, clock)
            self._nets.take(net, -own)
            if tried_head:
                return

    def _head_of(self, net: int) -> int:
        """The GPU that would be the head of a channel through this NIC; -1 where none is left."""
        gpu = self._ground.domain.paths.local_gpu[net]
        if any(self._orders[channel][0] == gpu for channel in range(self._count)):
            return -1
        return gpu

    def _from_net(self, net: int, clock: Clock) -> Visits:
        if self._count and self.trial.same_channels:
            yield from self._enter(net, self._orders[self._count - 1][0], REPLAY, clock)
            return
        if self._count == 0 and not self._ground.has_switch:
            apart = Clock(VISITS_PCI_ORDER)
            _run(self._enter(net, 0, PCI_ORDER, apart))
            if apart.left == PERFECT:
                clock.left = PERFECT
        served = self._ground.domain.paths.local_gpu[net]
        if served >= 0:
            yield from self._enter(net, served, FREE, clock)
        for gpu in self._candidates.near_net(net):
            if gpu != served:
                yield from self._enter(net, gpu, FREE, clock)

    def _enter(self, net: int, gpu: int, order: int, clock: Clock) -> Visits:
        """Begin a channel at a GPU that is reached from a NIC."""
        trial, count = self.trial, self._count
        route = self._ground.net_gpu[net][gpu]
        if not self._follow(route, trial.inter_bytes_per_s, trial.kind_inter):
            return
        self._used[count] ^= 1 << gpu
        yield self._visit(gpu, 0, self._return_step, order, clock)
        self._used[count] ^= 1 << gpu
        self.ledger.release(route, trial.inter_bytes_per_s)

    def _visit(self, gpu: int, step: int, return_step: int, order: int, clock: Clock) -> Visits:
        """One entry into a GPU step; nothing happens without visits left."""
        if clock.left <= 0:
            return
        clock.left -= 1
        trial, count = self.trial, self._count
        self._orders[count][step] = gpu
        if step == return_step:
            yield from self._return(gpu, step, order, clock)
        elif trial.pattern in HEADED:
            yield from self._head(gpu, clock)
        elif step < self._num_gpus - 1:
            for candidate in self._next(gpu, step, return_step, order):
                route = self._ground.gpu_gpu[gpu][candidate]
                if self._follow(route, trial.intra_bytes_per_s, trial.kind_intra):
                    self._used[count] ^= 1 << candidate
                    yield self._visit(candidate, step + 1, return_step, order, clock)
                    self._used[count] ^= 1 << candidate
                    self.ledger.release(route, trial.intra_bytes_per_s)
        elif step == self._first_step:
            route = self._ground.gpu_gpu[gpu][self._orders[count][0]]
            if self._follow(route, trial.intra_bytes_per_s, trial.kind_intra):
                yield self._complete(clock)
                self.ledger.release(route, trial.intra_bytes_per_s)
        else:
            yield self._complete(clock)

    def _next(self, gpu: int, step: int, return_step: int, order: int) -> Iterable[int]:
        """The GPUs to try next, in order."""
        count = self._count
        if order == PCI_ORDER:
            return (step + 1,)
        if order == REPLAY:
            return (self._orders[count - 1][step + 1],)
        used = self._used[count]
        if self._ground.has_switch:
            return self._candidates.neighbours(gpu, self.trial.pattern, used)
        if return_step == NO_STEP:
            return self._candidates.intra(gpu, used)
        return self._candidates.towards_net(gpu, used, self._ends[count][0], reverse=return_step != step + 1)

    def _return(self, gpu: int, step: int, order: int, clock: Clock) -> Visits:
        """Leave to a NIC, then visit the same GPU again without a return step (balanced tree: one more)."""
        trial, ends = self.trial, self._ends[self._count]
        balanced = trial.pattern == Pattern.BALANCED_TREE
        amount = trial.inter_bytes_per_s / 2 if balanced else trial.inter_bytes_per_s
        for net in self._nets.select(gpu, trial.kind_inter):
            if balanced and step and net != ends[1]:
                continue
            if not self._nets.may_return(net, trial, self._ends, self._count):
                continue
            route = self._ground.gpu_net[gpu][net]
            if self._follow(route, amount, trial.kind_inter):
                ends[1] = net
                yield self._visit(gpu, step, 1 if balanced and step == 0 else NO_STEP, order, clock)
                self.ledger.release(route, amount)

    def _head(self, gpu: int, clock: Clock) -> Visits:
        """An NVLS or CollNetDirect head: all GPUs to and from the switch or the head, or nothing."""
        trial = self.trial
        legs = self._head_legs(gpu)
        if self.ledger.follow_legs(legs, trial.intra_bytes_per_s, trial.kind_intra):
            if trial.pattern == Pattern.COLLNET_DIRECT:
                self._orders[self._count][1:] = [other for other in range(self._num_gpus) if other != gpu]
            yield self._complete(clock)
            self.ledger.release_legs(legs, trial.intra_bytes_per_s)

    def _head_legs(self, gpu: int) -> Legs:
        gpus, ground = range(self._num_gpus), self._ground
        if self.trial.pattern == Pattern.NVLS:
            down = [(ground.switch_gpu[0][other], 2.0 if other == gpu else 1.0) for other in gpus]
            return down + [(ground.gpu_switch[other][0], 2.0 if other == gpu else 1.0) for other in gpus]
        share: float = struct.unpack("f", struct.pack("f", 1 / (self._num_gpus - 1)))[0]
        out = [(ground.gpu_gpu[gpu][other], share) for other in gpus]
        return out + [(ground.gpu_gpu[other][gpu], share) for other in gpus]

    def _complete(self, clock: Clock) -> Visits:
        """One channel is finished: keep the solution if it is better, then search the next channel."""
        if clock.left <= 0:
            return
        clock.left -= 1
        trial = self.trial
        self._count += 1
        if self._better():
            self.best = self._solution()
            if self._count == trial.max_channels:
                clock.left = PERFECT
        if self._count < trial.max_channels:
            if self._inter and not trial.same_channels and trial.pattern not in HEADED:
                yield from self._further(clock)
            else:
                yield self._channel(clock)
        self._count -= 1

    def _further(self, clock: Clock) -> Visits:
        """The next channels; what the same search used before without finding anything is taken off the clock."""
        trial, best, visits, latency_s = self.trial, self.best, clock.left, self.trial.latency_inter_s
        state = self._fruitless.state(trial, self._count, self._ends)
        known = self._fruitless.used(state)
        if known is not None:
            clock.left = max(0, clock.left - known.visits)
            if known.latency_inter_s is not None:
                trial.latency_inter_s = known.latency_inter_s
            return
        trial.latency_inter_s = UNSET
        yield self._channel(clock)
        left_s = None if trial.latency_inter_s == UNSET else trial.latency_inter_s
        if left_s is None:
            trial.latency_inter_s = latency_s
        if self.best is best and clock.left > 0 and self._fruitless.state(trial, self._count, self._ends) == state:
            self._fruitless.keep(state, Used(visits - clock.left, left_s))

    def _better(self) -> bool:
        trial, best, count = self.trial, self.best, self._count
        if count < trial.min_channels:
            return False
        known = best.num_channels
        if trial.pattern == Pattern.NVLS:
            if known < count <= self._num_gpus:
                return True
            return count * trial.inter_bytes_per_s > known * best.inter_bytes_per_s
        now, then = count * trial.intra_bytes_per_s, known * best.intra_bytes_per_s
        if now != then:
            return now > then
        same_shape = trial.pattern == best.pattern and trial.cross_nic == best.cross_nic
        return same_shape and self.ledger.num_hops < best.num_hops

    def _solution(self) -> Solution:
        trial, count = self.trial, self._count
        length = 1 if trial.pattern == Pattern.NVLS else self._num_gpus
        return Solution(
            pattern=trial.pattern,
            cross_nic=trial.cross_nic,
            kind_intra=trial.kind_intra,
            kind_inter=trial.kind_inter,
            same_channels=trial.same_channels,
            intra_bytes_per_s=trial.intra_bytes_per_s,
            inter_bytes_per_s=trial.inter_bytes_per_s,
            num_hops=self.ledger.num_hops,
            latency_inter_s=trial.latency_inter_s,
            orders=tuple(tuple(order[:length]) for order in self._orders[:count]),
            nets=tuple(tuple(ends) for ends in self._ends[:count]) if self._inter else ((),) * count,
        )

    def _follow(self, route: Route | None, bytes_per_s: float, limit: PathKind) -> bool:
        return self.ledger.follow(route, bytes_per_s, limit, both_ways=self._both_ways)


def _run(first: Visits) -> None:
    """Run a visit and everything it leads to."""
    stack = [first]
    while stack:
        deeper = next(stack[-1], None)
        if deeper is None:
            stack.pop()
        else:
            stack.append(deeper)
