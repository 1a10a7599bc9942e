"""The event engine: SimPy owns the clock, numpy handles all transfers of one instant as one batch.

A transfer starts when what it reads is there, it is the next of its connection (source, destination, channel), the
connection is free and a slot of it too. It occupies every link of its route at once (cut-through) at its max-min
fair rate, and arrives a latency after its last byte was sent, while the connection already serves the next one.
What arrived lands, and becomes visible to readers, once earlier accesses of its slot are done.

Transfers that cannot be told apart are simulated once (`sim.engines.fold`); a schedule that does not repeat regularly
is simulated row by row.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import simpy

from sim.engines.fold import Folded, fold
from sim.engines.indexing import Deduplicator, Ints, count_down, count_up
from sim.engines.network import Network
from sim.engines.periods import IrregularError, Period, periods, with_bytes
from sim.engines.rates import RateSolver
from sim.engines.run import Run, Spans
from sim.engines.tasks import Table, Tasks, of_classes, unfolded
from sim.schedule import Schedule
from sim.workload import Workload
from topo.errors import Deadlock

SLOTS_PER_CONNECTION = 8
"""Transfers under way on one connection (NCCL_STEPS in NCCL's device.h)."""

_SAME_INSTANT = 1 + 1e-12

Floats = npt.NDArray[np.float64]


def simulate(schedule: Schedule, network: Network, workload: Workload, *, spans: bool = False) -> Run:
    """The run of a schedule on a network; Deadlock if transfers can never finish.

    With `spans` the run is simulated row by row and keeps the times of each.
    """
    if spans:
        return simulate_rows(schedule, network, workload)
    try:
        blocks = periods(schedule)
    except IrregularError:
        blocks = ()
    if not blocks:
        return simulate_rows(schedule, network, workload, spans=False)
    classes = schedule.derived(("classes", network), lambda: fold(blocks, network))
    blocks = with_bytes(blocks, workload.num_elements, schedule)
    return simulate_classes(blocks, classes, schedule, network, workload)[0]


def simulate_classes(
    blocks: Sequence[Period], classes: Folded, schedule: Schedule, network: Network, workload: Workload
) -> tuple[Run, Floats]:
    """The run of one row of each class in each period, and when each of these tasks landed."""
    tasks = of_classes(blocks, classes, schedule, network, workload)
    state = _run(tasks, schedule, network)
    used = classes.of_link >= 0
    by_link = [np.where(used, values[classes.of_link], 0.0) for values in (_carried(tasks), state.link_busy_s)]
    return Run(state.now_s, by_link[0], by_link[1], {**state.work, "rows": schedule.num_rows}), state.landed_s


def simulate_rows(schedule: Schedule, network: Network, workload: Workload, *, spans: bool = True) -> Run:
    """The same row by row, whatever symmetry there is; with `spans` it keeps the times of each row."""
    tasks = unfolded(schedule, network, workload)
    state = _run(tasks, schedule, network)
    run = Run(state.now_s, _carried(tasks), state.link_busy_s, {**state.work, "rows": schedule.num_rows})
    if not spans:
        return run
    _, each = schedule.messages()
    kept = Spans(*(np.repeat(times, each) for times in (state.start_s, state.sent_s, state.landed_s)))
    return replace(run, spans=kept)


def _run(tasks: Tasks, schedule: Schedule, network: Network) -> _State:
    state = _State(tasks)
    env = simpy.Environment(initial_time=network.launch_overhead_s)
    env.process(_clock(env, state))
    env.run()
    state.require_all_landed(schedule)
    state.now_s = max(state.now_s, network.last_start_s)
    return state


def _carried(tasks: Tasks) -> Floats:
    """Bytes on each link of the tasks' routes."""
    routes = tasks.routes
    on_route = np.bincount(tasks.route, weights=tasks.carried_bytes, minlength=len(routes.latency_s))
    crossing = np.repeat(on_route, np.diff(routes.first)).astype(np.float64)
    weight = np.ones(len(crossing)) if routes.weight is None else routes.weight
    return np.bincount(routes.links, weights=crossing * weight, minlength=len(tasks.capacity)).astype(np.float64)


def _clock(env: simpy.Environment, state: _State) -> Generator[simpy.Event, None, None]:
    """Jump from instant to instant; in each, everything that happens then happens as one batch."""
    state.begin(env.now)
    while (instant := state.next_instant()) < np.inf:
        yield env.timeout(instant - env.now)
        state.advance(env.now)


class _State:
    """What is under way, as arrays by task, connection, gate, route or link."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        self.solver = RateSolver(tasks.routes, tasks.capacity)
        num_tasks, num_gates = len(tasks), len(tasks.gate_size)
        everyone = np.arange(num_tasks, dtype=np.int64)
        self._left_at_gate = tasks.gate_size.copy()
        # The last entry stands for NOTHING, a gate that is always open.
        self._open = np.append(np.zeros(num_gates, dtype=bool), True)
        self._start_behind = Table(tasks.start_gate, everyone, num_gates)
        self._land_behind = Table(tasks.land_gate, everyone, num_gates)
        self._head, self._tail = tasks.queue.first[:-1].astype(np.int64), tasks.queue.first[1:].astype(np.int64)
        num_connections = len(self._head)
        self._free = np.ones(num_connections, dtype=bool)
        self._slots_used = np.zeros(num_connections, dtype=np.int32)
        self._each_connection, self._each_gate = Deduplicator(num_connections), Deduplicator(num_gates)
        self.start_s, self.sent_s, self.landed_s = (np.full(num_tasks, np.nan) for _ in range(3))
        self._arrived = np.zeros(num_tasks, dtype=bool)
        self._num_landed = 0
        # What each connection transmits: the task, its route (behind the last one where it is idle), rate and end.
        num_routes = len(tasks.routes.latency_s)
        self._task, self._route = np.zeros(num_connections, dtype=np.int64), np.full(num_connections, num_routes)
        self._rate, self._end_s = np.zeros(num_connections), np.full(num_connections, np.inf)
        self._on_route = np.zeros(num_routes, dtype=np.int32)
        self._arrivals: list[tuple[float, int, Ints]] = []
        self._late_starts_s = [] if tasks.held_s is None else np.unique(np.concatenate(tasks.held_s)).tolist()
        self._busy_s = np.zeros(len(tasks.capacity))
        self._sharing, self._shared_since_s = self.solver.share(self._on_route), 0.0
        self.now_s = 0.0
        self._num_instants = 0

    def begin(self, now_s: float) -> None:
        """Start every transfer that waits for nothing."""
        self.now_s = now_s
        self._start(np.arange(len(self._head), dtype=np.int64))
        self._share()

    def next_instant(self) -> float:
        """When something happens next; infinity when nothing is under way."""
        arrival = self._arrivals[0][0] if self._arrivals else np.inf
        late = self._late_starts_s[0] if self._late_starts_s else np.inf
        return float(min(arrival, late, self._end_s.min(initial=np.inf)))

    def advance(self, now_s: float) -> None:
        """Handle everything that happens at this instant."""
        self._num_instants += 1
        self.now_s = now_s
        limit = now_s * _SAME_INSTANT
        ended = np.flatnonzero(self._end_s <= limit)
        touched = [self._send_off(ended)] if len(ended) else []
        while self._arrivals and self._arrivals[0][0] <= limit:
            touched.append(self._arrive(heapq.heappop(self._arrivals)[2]))
        if self._late_starts_s and self._late_starts_s[0] <= limit:
            del self._late_starts_s[0]
            touched.append(self._wake())
        started = self._start(touched[0] if len(touched) == 1 else np.concatenate(touched)) if touched else False
        if started or len(ended):
            self._share()

    def _send_off(self, connections: Ints) -> Ints:
        """The last byte of what these connections transmit left; returns the connections that may go on."""
        sent, route = self._task[connections], self._route[connections]
        self.sent_s[sent] = self.now_s
        count_down(self._on_route, route)
        self._free[connections] = True
        self._route[connections], self._rate[connections], self._end_s[connections] = len(self._on_route), 0.0, np.inf
        latency_s = self.tasks.routes.latency_s[route]
        alike = latency_s.min() == latency_s.max()
        for value in sorted(set(latency_s[:1].tolist() if alike else latency_s.tolist())):
            arriving = sent if alike else sent[latency_s == value]
            heapq.heappush(self._arrivals, (self.now_s + value, int(arriving[0]), arriving))
        return np.concatenate([connections, self._pass(self.tasks.gates_by_sent.of(sent))])

    def _arrive(self, arrived: Ints) -> Ints:
        """These tasks reached their receiver; returns the connections that may go on."""
        self._arrived[arrived] = True
        landing = self._open[self.tasks.land_gate[arrived]]
        if self.tasks.held_s is not None:
            landing &= self._reached(self.tasks.held_s[1][arrived])
        return self._land(arrived[landing])

    def _reached(self, instants_s: Floats) -> npt.NDArray[np.bool_]:
        """Which of these times are not ahead."""
        reached: npt.NDArray[np.bool_] = instants_s <= self.now_s * _SAME_INSTANT
        return reached

    def _wake(self) -> Ints:
        """Somebody late has started: what waited for that lands; returns the connections that may go on (any)."""
        waiting = np.flatnonzero(self._arrived & np.isnan(self.landed_s))
        return np.concatenate([np.arange(len(self._head), dtype=np.int64), self._arrive(waiting)])

    def _land(self, landed: Ints) -> Ints:
        """The data of these tasks is in place; returns the connections that may go on."""
        self.landed_s[landed] = self.now_s
        self._num_landed += len(landed)
        connection = self.tasks.connection[landed]
        count_down(self._slots_used, connection)
        return np.concatenate([connection, self._pass(self.tasks.gates_by_landed.of(landed))])

    def _pass(self, gates: Ints) -> Ints:
        """One task of each gate is done; opens those that are complete, returns the connections that may go on."""
        if not len(gates):
            return gates
        count_down(self._left_at_gate, gates)
        opened = self._each_gate(gates[self._left_at_gate[gates] == 0])
        if not len(opened):
            return opened
        self._open[opened] = True
        starting = self.tasks.connection[self._start_behind.of(opened)]
        landing = self._land_behind.of(opened)
        landing = landing[self._arrived[landing] & np.isnan(self.landed_s[landing])] if len(landing) else landing
        if self.tasks.held_s is not None and len(landing):
            landing = landing[self._reached(self.tasks.held_s[1][landing])]
        return np.concatenate([starting, self._land(landing)]) if len(landing) else starting

    def _start(self, connections: Ints) -> bool:
        """Start the next transfer of each of these connections that can; empty chunks pass through at once.

        Returns whether anything now occupies links that did not.
        """
        occupied = False
        while len(connections):
            connections = self._each_connection(connections)
            head = self._head[connections]
            able = self._free[connections] & (head < self._tail[connections])
            able &= self._slots_used[connections] < SLOTS_PER_CONNECTION
            connections = connections[able]
            tasks = self.tasks.queue.values[head[able]]
            ready = self._open[self.tasks.start_gate[tasks]]
            if self.tasks.held_s is not None:
                ready &= self._reached(self.tasks.held_s[0][tasks])
            connections, tasks = connections[ready], tasks[ready]
            if not len(tasks):
                break
            self.start_s[tasks] = self.now_s
            self._head[connections] += 1
            self._slots_used[connections] += 1
            empty = self.tasks.num_bytes[tasks] == 0
            occupied |= self._occupy(tasks[~empty], connections[~empty])
            connections = self._pass_through(tasks[empty])
        return occupied

    def _occupy(self, tasks: Ints, connections: Ints) -> bool:
        route = self.tasks.route[tasks]
        self._free[connections] = False
        self._task[connections], self._route[connections] = tasks, route
        count_up(self._on_route, route)
        return len(tasks) > 0

    def _pass_through(self, tasks: Ints) -> Ints:
        """A chunk without bytes is not sent: it is there at once and costs nothing."""
        if not len(tasks):
            return tasks
        self.sent_s[tasks] = self.now_s
        onwards = self._pass(self.tasks.gates_by_sent.of(tasks))
        return np.concatenate([self.tasks.connection[tasks], onwards, self._arrive(tasks)])

    def _share(self) -> None:
        """Share the links anew; only transfers whose rate changes get a new end."""
        sharing = self.solver.share(self._on_route)
        if sharing is not self._sharing:
            self._busy_s[self._sharing.links] += self.now_s - self._shared_since_s
            self._sharing, self._shared_since_s = sharing, self.now_s
        rate = sharing.rate_bytes_per_s[self._route]
        changed = np.flatnonzero(rate != self._rate)
        if not len(changed):
            return
        old, new = self._rate[changed], rate[changed]
        with np.errstate(invalid="ignore"):
            left = (self._end_s[changed] - self.now_s) * old
        left = np.where(old > 0, np.maximum(left, 0.0), self.tasks.num_bytes[self._task[changed]])
        self._end_s[changed] = self.now_s + left / new
        self._rate = rate

    @property
    def link_busy_s(self) -> Floats:
        """For how long each link was in use."""
        busy_s = self._busy_s.copy()
        busy_s[self._sharing.links] += self.now_s - self._shared_since_s
        return busy_s

    @property
    def work(self) -> dict[str, int]:
        """What was done, counted."""
        return {"instants": self._num_instants, "solves": self.solver.num_solves, "transfers": len(self.tasks)}

    def require_all_landed(self, schedule: Schedule) -> None:
        """Raise Deadlock, naming the first transfers, if any has not landed."""
        if self._num_landed == len(self.tasks):
            return
        stuck = np.flatnonzero(np.isnan(self.landed_s))
        named = ", ".join(schedule.describe(row) for row in self.tasks.row[stuck[:4]].tolist())
        raise Deadlock(f"{len(stuck)} of {len(self.tasks)} transfers can never finish, the first are {named}")
