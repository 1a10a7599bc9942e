"""The event engine: SimPy owns the clock, numpy handles all transfers of one instant as one batch.

What may happen when is `sim.engines.instants`. Transfers that cannot be told apart are simulated once
(`sim.engines.fold`); a schedule that does not repeat regularly is simulated row by row.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import simpy

from sim.engines.fold import fold
from sim.engines.instants import State, carried_bytes, run_tasks, simulate_classes
from sim.engines.network import Network
from sim.engines.periods import IrregularError, periods, with_bytes
from sim.engines.run import Run, Spans
from sim.engines.tasks import unfolded
from sim.schedule import Schedule
from sim.workload import Workload


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
    return simulate_classes(blocks, classes, schedule, network, workload, run_clock)[0]


def simulate_rows(schedule: Schedule, network: Network, workload: Workload, *, spans: bool = True) -> Run:
    """The same row by row, whatever symmetry there is; with `spans` it keeps the times of each row."""
    tasks = unfolded(schedule, network, workload)
    state = run_tasks(tasks, schedule, network, run_clock)
    run = Run(state.now_s, carried_bytes(tasks), state.link_busy_s, {**state.work, "rows": schedule.num_rows})
    if not spans:
        return run
    _, each = schedule.messages()
    kept = Spans(*(np.repeat(times, each) for times in (state.start_s, state.sent_s, state.landed_s)))
    return replace(run, spans=kept)


def run_clock(state: State, begin_s: float) -> None:
    """Takes a run through all its instants on SimPy's clock."""
    env = simpy.Environment(initial_time=begin_s)
    env.process(_instants(env, state))
    env.run()


def _instants(env: simpy.Environment, state: State) -> Generator[simpy.Event, None, None]:
    """Jump from instant to instant; in each, everything that happens then happens as one batch."""
    state.begin(env.now)
    while (instant := state.next_instant()) < np.inf:
        yield env.timeout(instant - env.now)
        state.advance(env.now)
