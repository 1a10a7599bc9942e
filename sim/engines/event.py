"""The event engine: SimPy owns the clock, numpy handles all transfers of one instant as one batch.

A transfer starts when what it reads is there, it is the next of its connection (source, destination, channel), the
connection is free and a slot of it too. It occupies every link of its route at once (cut-through) at its max-min
fair rate, and arrives a latency after its last byte was sent, while the connection already serves the next one.
What arrived lands, and becomes visible to readers, once earlier accesses of its slot are done.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator

import numpy as np
import numpy.typing as npt
import simpy

from sim.engines.dependencies import Groups, groups
from sim.engines.indexing import Deduplicator, count_down, count_up, distinct, ragged, stable_order
from sim.engines.network import Network, Routing, routing
from sim.engines.rates import RateSolver
from sim.engines.run import Run
from sim.schedule import Rows, Schedule
from sim.workload import Workload
from topo.errors import Deadlock

SLOTS_PER_CONNECTION = 8
"""Transfers under way on one connection (NCCL_STEPS in NCCL's device.h)."""

_SAME_INSTANT = 1 + 1e-12

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def simulate(schedule: Schedule, network: Network, workload: Workload) -> Run:
    """The run of a schedule on a network; Deadlock if transfers can never finish."""
    state = _State(schedule, network, workload)
    env = simpy.Environment(initial_time=network.launch_overhead_s)
    env.process(_clock(env, state))
    env.run()
    state.require_all_landed()
    return state.result(env.now)


def _clock(env: simpy.Environment, state: _State) -> Generator[simpy.Event, None, None]:
    """Jump from instant to instant; in each, everything that happens then happens as one batch."""
    state.begin(env.now)
    while (instant := state.next_instant()) < np.inf:
        yield env.timeout(instant - env.now)
        state.advance(env.now)


class _State:
    """What is under way, as arrays by row, connection, group, route or link."""

    def __init__(self, schedule: Schedule, network: Network, workload: Workload) -> None:
        self.rows = schedule.rows()
        self.num_bytes = workload.chunk_bytes(schedule.num_chunks)[self.rows.chunk].astype(np.float64)
        self.routing: Routing = routing(network, self.rows)
        self.capacity = network.bandwidth_bytes_per_s
        self.solver = RateSolver(self.routing.routes, self.capacity)
        self.groups: Groups = groups(schedule)
        self._open = ~self.groups.follows
        self._left_in_group = self.groups.sizes.astype(np.int32)
        self._line_up(self.rows)
        num_rows = len(self.rows)
        self.start_s, self.sent_s, self.landed_s = (np.full(num_rows, np.nan) for _ in range(3))
        self._arrived = np.zeros(num_rows, dtype=bool)
        self._num_landed = 0
        self._active = np.zeros(0, dtype=np.int64)
        self._end_s, self._rate = np.zeros(0), np.zeros(0)
        self._on_route = np.zeros(len(self.routing.routes.latency_s), dtype=np.int32)
        self._arrivals: list[tuple[float, int, Ints]] = []
        self._link_bytes, self._link_busy_s = np.zeros(len(self.capacity)), np.zeros(len(self.capacity))
        self._busy_links = np.zeros(0, dtype=np.int32)
        self._now_s = 0.0
        self._num_instants = 0

    def _line_up(self, rows: Rows) -> None:
        """Queue the rows of each connection in step order."""
        pair = rows.src.astype(np.int64) * (int(rows.dst.max(initial=0)) + 1) + rows.dst
        key = pair * (int(rows.channel.max(initial=0)) + 1) + rows.channel
        keys, self._connection = distinct(key)
        count = np.bincount(self._connection, minlength=len(keys))
        self._queue = stable_order(self._connection)
        self._tail = np.cumsum(count)
        self._head = self._tail - count
        self._free = np.ones(len(count), dtype=bool)
        self._slots_used = np.zeros(len(count), dtype=np.int32)
        self._each_connection, self._each_group = Deduplicator(len(count)), Deduplicator(len(self._open))

    def begin(self, now_s: float) -> None:
        """Start every transfer that waits for nothing."""
        self._now_s = now_s
        self._start(np.arange(len(self._head)))
        self._share()

    def next_instant(self) -> float:
        """When something happens next; infinity when nothing is under way."""
        arrival = self._arrivals[0][0] if self._arrivals else np.inf
        return float(min(arrival, self._end_s.min(initial=np.inf)))

    def advance(self, now_s: float) -> None:
        """Handle everything that happens at this instant."""
        self._num_instants += 1
        self._link_busy_s[self._busy_links] += now_s - self._now_s
        self._now_s = now_s
        limit = now_s * _SAME_INSTANT
        ended = self._end_s <= limit
        touched = [self._send_off(self._active[ended])] if ended.any() else []
        if touched:
            self._active, self._end_s, self._rate = self._active[~ended], self._end_s[~ended], self._rate[~ended]
        while self._arrivals and self._arrivals[0][0] <= limit:
            touched.append(self._arrive(heapq.heappop(self._arrivals)[2]))
        num_active = len(self._active)
        if touched:
            self._start(np.concatenate(touched))
        if ended.any() or len(self._active) != num_active:
            self._share()

    def _send_off(self, sent: Ints) -> Ints:
        """The last byte of these rows left; returns the connections that may go on."""
        self.sent_s[sent] = self._now_s
        count_down(self._on_route, self.routing.route[sent])
        self._free[self._connection[sent]] = True
        latency_s = self.routing.routes.latency_s[self.routing.route[sent]]
        alike = latency_s.min() == latency_s.max()
        for value in latency_s[:1] if alike else np.unique(latency_s):
            arriving = sent if alike else sent[latency_s == value]
            heapq.heappush(self._arrivals, (self._now_s + float(value), int(arriving[0]), arriving))
        return np.concatenate([self._connection[sent], self._finish(self.groups.read[sent])])

    def _arrive(self, arrived: Ints) -> Ints:
        """These rows reached their receiver; returns the connections that may go on."""
        self._arrived[arrived] = True
        return self._land(arrived[self._open[self.groups.write[arrived]]])

    def _land(self, landed: Ints) -> Ints:
        """The data of these rows is in place; returns the connections that may go on."""
        self.landed_s[landed] = self._now_s
        self._num_landed += len(landed)
        count_down(self._slots_used, self._connection[landed])
        return np.concatenate([self._connection[landed], self._finish(self.groups.write[landed])])

    def _finish(self, of_group: npt.NDArray[np.int32]) -> Ints:
        """One member of each group is done; opens the groups behind and returns connections that may go on."""
        count_down(self._left_in_group, of_group)
        behind = self._each_group(of_group[self._left_in_group[of_group] == 0]) + 1
        behind = behind[behind < len(self._open)]
        behind = behind[self.groups.follows[behind]]
        if not len(behind):
            return np.zeros(0, dtype=np.int64)
        self._open[behind] = True
        readers = self.groups.members[ragged(self.groups.first, behind[~self.groups.writes[behind]])]
        writers = self.groups.members[ragged(self.groups.first, behind[self.groups.writes[behind]])]
        waiting = writers[self._arrived[writers] & np.isnan(self.landed_s[writers])]
        landed = self._land(waiting) if len(waiting) else np.zeros(0, dtype=np.int64)
        return np.concatenate([self._connection[readers], landed])

    def _start(self, connections: Ints) -> None:
        """Start the next transfer of each of these connections that can; empty chunks pass through at once."""
        while len(connections):
            connections = self._each_connection(connections)
            able = connections[
                self._free[connections]
                & (self._head[connections] < self._tail[connections])
                & (self._slots_used[connections] < SLOTS_PER_CONNECTION)
            ]
            rows = self._queue[self._head[able]]
            ready = self._open[self.groups.read[rows]]
            able, rows = able[ready], rows[ready]
            self.start_s[rows] = self._now_s
            self._head[able] += 1
            self._slots_used[able] += 1
            empty = self.num_bytes[rows] == 0
            self._occupy(rows[~empty], able[~empty])
            connections = self._pass_through(rows[empty]) if empty.any() else rows[:0]

    def _occupy(self, rows: Ints, connections: Ints) -> None:
        self._free[connections] = False
        count_up(self._on_route, self.routing.route[rows])
        self._active = np.concatenate([self._active, rows])
        self._end_s = np.concatenate([self._end_s, np.full(len(rows), np.inf)])
        self._rate = np.concatenate([self._rate, np.zeros(len(rows))])

    def _pass_through(self, rows: Ints) -> Ints:
        """A chunk without bytes is not sent: it is there at once and costs nothing."""
        self.sent_s[rows] = self._now_s
        return np.concatenate([self._connection[rows], self._finish(self.groups.read[rows]), self._arrive(rows)])

    def _share(self) -> None:
        """Share the links anew; only transfers whose rate changes get a new end."""
        routes = np.flatnonzero(self._on_route).astype(np.int32)
        counts = self._on_route[routes]
        sharing = self.solver.share(routes, counts)
        rate_of = np.zeros(len(self._on_route))
        rate_of[routes] = sharing.rate_bytes_per_s
        rate = rate_of[self.routing.route[self._active]]
        changed = rate != self._rate
        rows, old = self._active[changed], self._rate[changed]
        begun = old > 0
        with np.errstate(invalid="ignore", divide="ignore"):
            left = np.where(begun, (self._end_s[changed] - self._now_s) * old, self.num_bytes[rows])
            self._end_s[changed] = self._now_s + np.maximum(left, 0.0) / rate[changed]
        self._rate = rate
        self._busy_links = sharing.links

    def require_all_landed(self) -> None:
        """Raise Deadlock, naming the first transfers, if any has not landed."""
        if self._num_landed == len(self.rows):
            return
        stuck = np.flatnonzero(np.isnan(self.landed_s))
        named = ", ".join(
            f"step {self.rows.step[row]} {self.rows.src[row]}->{self.rows.dst[row]} chunk {self.rows.chunk[row]}"
            for row in stuck[:4]
        )
        raise Deadlock(f"{len(stuck)} of {len(self.rows)} transfers can never finish, the first are {named}")

    def result(self, duration_s: float) -> Run:
        """Everything that is known once the last transfer landed."""
        sent = np.bincount(self.routing.route, weights=self.num_bytes, minlength=len(self._on_route))
        lengths = np.diff(self.routing.routes.first)
        np.add.at(self._link_bytes, self.routing.routes.links, np.repeat(sent, lengths))
        work = {"instants": self._num_instants, "solves": self.solver.num_solves, "rows": len(self.rows)}
        return Run(duration_s, self._link_bytes, self._link_busy_s, self.start_s, self.sent_s, self.landed_s, work)
