"""What is under way in a run, instant by instant: numpy handles all transfers of one instant as one batch.

A transfer starts when what it reads is there, it is the next of its connection (source, destination, channel), the
connection is free and a slot of it too. It occupies every link of its route at once (cut-through) at its max-min
fair rate, and arrives a latency after its last byte was sent, while the connection already serves the next one.
What arrived lands, and becomes visible to readers, once earlier accesses of its slot are done.

Whoever owns the clock begins a run, asks when something happens next, and goes on to that instant.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from sim.engines.fold import Folded
from sim.engines.indexing import Deduplicator, Ints, count_down, count_up
from sim.engines.network import Network
from sim.engines.periods import Period
from sim.engines.rates import RateSolver
from sim.engines.run import Run
from sim.engines.tasks import Table, Tasks, of_classes
from sim.schedule import Schedule
from sim.slots import SLOTS_PER_CONNECTION
from sim.workload import Workload
from topo.errors import Deadlock

_SAME_INSTANT = 1 + 1e-12
_MOST_S = 1e300
"""Later than any end, and finite."""

Floats = npt.NDArray[np.float64]
Clock = Callable[["State", float], None]
"""Takes a state from its beginning, at these seconds, through all its instants."""


def simulate_classes(
    blocks: Sequence[Period],
    classes: Folded,
    schedule: Schedule,
    network: Network,
    workload: Workload,
    clock: Clock,
) -> tuple[Run, Floats]:
    """The run of one row of each class in each period, and when each of these tasks landed."""
    tasks = of_classes(blocks, classes, schedule, network, workload)
    state = run_tasks(tasks, schedule, network, clock)
    used = classes.of_link >= 0
    by_link = [np.where(used, values[classes.of_link], 0.0) for values in (carried_bytes(tasks), state.link_busy_s)]
    return Run(state.now_s, by_link[0], by_link[1], {**state.work, "rows": schedule.num_rows}), state.landed_s


def run_tasks(tasks: Tasks, schedule: Schedule, network: Network, clock: Clock) -> State:
    """What is known of the tasks once all have landed; Deadlock if some never can."""
    state = State(tasks)
    clock(state, network.launch_overhead_s)
    state.require_all_landed(schedule)
    state.now_s = max(state.now_s, network.last_start_s)
    return state


def carried_bytes(tasks: Tasks) -> Floats:
    """Bytes on each link of the tasks' routes."""
    routes = tasks.routes
    on_route = np.bincount(tasks.route, weights=tasks.carried_bytes, minlength=len(routes.latency_s))
    crossing = np.repeat(on_route, np.diff(routes.first)).astype(np.float64)
    weight = np.ones(len(crossing)) if routes.weight is None else routes.weight
    return np.bincount(routes.links, weights=crossing * weight, minlength=len(tasks.capacity)).astype(np.float64)


def _in_line(queue: Table, num_tasks: int) -> tuple[Ints, Ints]:
    """The first task of each connection, and which comes after each task; `num_tasks` stands for none."""
    ends = np.append(queue.values, num_tasks)
    used = np.diff(queue.first) > 0
    first = np.where(used, ends[queue.first[:-1]], num_tasks)
    after = np.full(num_tasks, num_tasks, dtype=np.int64)
    after[queue.values] = ends[1:]
    after[queue.values[queue.first[1:][used] - 1]] = num_tasks
    return first, after


class State:
    """What is under way, as arrays by task, connection, gate, route or link."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        self.solver = RateSolver(tasks.routes, tasks.capacity)
        num_tasks, num_gates = len(tasks), len(tasks.gate_size)
        everyone = np.arange(num_tasks, dtype=np.int64)
        self._left_at_gate = tasks.gate_size.copy()
        # The last entry stands for NOTHING, a gate that is always open, the one before for a gate that never is.
        self._open = np.append(np.zeros(num_gates + 1, dtype=bool), True)
        self._start_behind = Table(tasks.start_gate, everyone, num_gates)
        self._land_behind = Table(tasks.land_gate, everyone, num_gates)
        # Behind the last task of a connection stands one that is never ready.
        self._start_gate = np.append(tasks.start_gate, num_gates)
        self._next, self._after = _in_line(tasks.queue, num_tasks)
        num_connections = len(self._next)
        # Its slots in use, and as many again as there are while it transmits.
        self._taken = np.zeros(num_connections, dtype=np.int32)
        self._each_connection, self._each_gate = Deduplicator(num_connections), Deduplicator(num_gates)
        self.start_s, self.sent_s, self.landed_s = (np.full(num_tasks, np.nan) for _ in range(3))
        self._arrived = np.zeros(num_tasks, dtype=bool)
        self._num_landed = 0
        self._any_empty = bool((tasks.num_bytes == 0).any())
        latencies_s = set(tasks.routes.latency_s.tolist())
        self._one_latency_s = latencies_s.pop() if len(latencies_s) == 1 else None
        # What each connection transmits: the task, its route (behind the last one where it is idle), rate and end.
        num_routes = len(tasks.routes.latency_s)
        self._task, self._route = np.zeros(num_connections, dtype=np.int64), np.full(num_connections, num_routes)
        self._rate, self._end_s = np.zeros(num_connections), np.full(num_connections, np.inf)
        self._on_route = np.zeros(num_routes, dtype=np.int32)
        self._arrivals: list[tuple[float, int, Ints]] = []
        self._late_starts_s = [] if tasks.held_s is None else np.unique(np.concatenate(tasks.held_s)).tolist()
        self._sharing, self._shared_since_s = self.solver.share(self._on_route), 0.0
        self.now_s, self._next_end_s = 0.0, np.inf
        self._num_instants = 0

    def begin(self, now_s: float) -> None:
        """Start every transfer that waits for nothing."""
        self.now_s = now_s
        self._start(np.arange(len(self._next), dtype=np.int64))
        self._share()

    def next_instant(self) -> float:
        """When something happens next; infinity when nothing is under way."""
        arrival = self._arrivals[0][0] if self._arrivals else np.inf
        late = self._late_starts_s[0] if self._late_starts_s else np.inf
        return min(arrival, late, self._next_end_s)

    def advance(self, now_s: float) -> None:
        """Handle everything that happens at this instant."""
        self._num_instants += 1
        self.now_s = now_s
        limit = now_s * _SAME_INSTANT
        touched = []
        ending = self._next_end_s <= limit
        if ending:
            touched.append(self._send_off((self._end_s <= limit).nonzero()[0]))
        while self._arrivals and self._arrivals[0][0] <= limit:
            touched.append(self._arrive(heapq.heappop(self._arrivals)[2]))
        if self._late_starts_s and self._late_starts_s[0] <= limit:
            del self._late_starts_s[0]
            touched.append(self._wake())
        if self._start(touched[0] if len(touched) == 1 else np.concatenate(touched)) or ending:
            self._share()

    def _send_off(self, connections: Ints) -> Ints:
        """The last byte of what these connections transmit left; returns the connections that may go on."""
        sent, route = self._task[connections], self._route[connections]
        self.sent_s[sent] = self.now_s
        count_down(self._on_route, route)
        self._taken[connections] -= SLOTS_PER_CONNECTION
        self._route[connections], self._rate[connections], self._end_s[connections] = len(self._on_route), 0.0, np.inf
        if self._one_latency_s is not None:
            heapq.heappush(self._arrivals, (self.now_s + self._one_latency_s, int(sent[0]), sent))
        else:
            latency_s = self.tasks.routes.latency_s[route]
            for value in sorted(set(latency_s.tolist())):
                arriving = sent[latency_s == value]
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
        return np.concatenate([np.arange(len(self._next), dtype=np.int64), self._arrive(waiting)])

    def _land(self, landed: Ints) -> Ints:
        """The data of these tasks is in place; returns the connections that may go on."""
        self.landed_s[landed] = self.now_s
        self._num_landed += len(landed)
        connection = self.tasks.connection[landed]
        count_down(self._taken, connection)
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
            connections = connections[self._taken[connections] < SLOTS_PER_CONNECTION]
            tasks = self._next[connections]
            ready = self._open[self._start_gate[tasks]]
            connections, tasks = connections[ready], tasks[ready]
            if self.tasks.held_s is not None:
                ready = self._reached(self.tasks.held_s[0][tasks])
                connections, tasks = connections[ready], tasks[ready]
            if not len(tasks):
                break
            self.start_s[tasks] = self.now_s
            self._next[connections] = self._after[tasks]
            if not self._any_empty:
                self._occupy(tasks, connections)
                return True
            empty = self.tasks.num_bytes[tasks] == 0
            self._taken[connections[empty]] += 1
            if not empty.all():
                self._occupy(tasks[~empty], connections[~empty])
                occupied = True
            connections = self._pass_through(tasks[empty])
        return occupied

    def _occupy(self, tasks: Ints, connections: Ints) -> None:
        route = self.tasks.route[tasks]
        self._taken[connections] += 1 + SLOTS_PER_CONNECTION
        self._task[connections], self._route[connections] = tasks, route
        count_up(self._on_route, route)

    def _pass_through(self, tasks: Ints) -> Ints:
        """A chunk without bytes is not sent: it is there at once and costs nothing."""
        if not len(tasks):
            return tasks
        self.sent_s[tasks] = self.now_s
        onwards = self._pass(self.tasks.gates_by_sent.of(tasks))
        return np.concatenate([self.tasks.connection[tasks], onwards, self._arrive(tasks)])

    def _share(self) -> None:
        """Share the links anew; only transfers whose rate changes get a new end."""
        self._hold()
        self._sharing = self.solver.share(self._on_route)
        rate = self._sharing.rate_bytes_per_s.take(self._route)
        changed = (rate != self._rate).nonzero()[0]
        if len(changed):
            old, new = self._rate[changed], rate[changed]
            # What is idle ends never, at a rate of 0, and is told apart below.
            left = (np.minimum(self._end_s[changed], _MOST_S) - self.now_s) * old
            left = np.where(old > 0, np.maximum(left, 0.0), self.tasks.num_bytes[self._task[changed]])
            self._end_s[changed] = self.now_s + left / new
            self._rate = rate
        self._next_end_s = float(np.minimum.reduce(self._end_s, initial=np.inf))

    def _hold(self) -> None:
        """The present sharing lasted until now."""
        self._sharing.held_s += self.now_s - self._shared_since_s
        self._shared_since_s = self.now_s

    @property
    def link_busy_s(self) -> Floats:
        """For how long each link was in use."""
        self._hold()
        return self.solver.link_busy_s

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
