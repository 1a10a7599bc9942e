"""The steady engine: nearly the same answers at any scale.

Rows that repeat are folded into a few dozen classes (`sim.engines.fold`), whatever the number of ranks. Long
repetitions are walked only until every class moves by the same time from period to period; the periods that are left
are added. Both are held to within 1 % of the event engine by the tests; rings on symmetric machines agree exactly, and
so does what does not repeat, unless it is very large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sim.engines.fold import Folded, fold
from sim.engines.indexing import offsets
from sim.engines.instants import State, simulate_classes
from sim.engines.network import Network
from sim.engines.periods import IrregularError, Period, periods, with_bytes
from sim.engines.run import Run
from sim.schedule import Schedule
from sim.workload import Workload

Floats = npt.NDArray[np.float64]

FEW_CLASSES = 64
MOST_TRANSFERS = 4096
"""Transfers that a short walk may simulate: with few periods to walk, classes may be many."""
AFFORDABLE = 32_768
"""Transfers up to which a pipeline is walked to its end, since its pace drifts while slots fill, and folded in full."""
MOST_ROWS_IN_FULL = 262_144
"""Transfers up to which blocks that do not repeat are folded in full: there is no walk that many classes make longer.

Few classes save hardly anything there, and tell ranks apart by what is near them alone: PAT over cube meshes was
wrong by up to 13 %.
"""
WINDOW = 12
"""Periods over which increments have to agree; more than the slots of a connection."""
SETTLING = 12
"""Periods walked before them at first where a period is one step."""
FILLING = 24
"""The same for a pipeline, beside twice its depth: connections run ahead of each other until their slots are full."""
MOST_ROWS_WITH_LATE_STARTS = 65_536
"""Transfers up to which the event engine answers where agents start at different times; beyond, all wait for the last.

What a few classes told of such runs was wrong by half, or took minutes; waiting is too long by what of the others' work
hides in it, measured 0 to 6 %.
"""
TOLERANCE = 1e-8
"""Relative difference of increments that counts as none."""
JITTER = 0.005
"""Relative difference between what the limiting class moves by and the mean pace over a third of a walk."""
MANY_PERIODS = 180
AGREEMENT = 0.01
"""Relative difference between the mean paces of two thirds of so long a walk that lets their mean stand."""


def simulate(schedule: Schedule, network: Network, workload: Workload, *, spans: bool = False) -> Run:
    """The run of a schedule on a network.

    By the event engine where blocks do not repeat regularly, for `spans`, and where few transfers start at different
    times; where many do, as if all waited for the last.
    """
    if network.start_s is not None and not spans and schedule.num_rows > MOST_ROWS_WITH_LATE_STARTS:
        together = simulate(schedule, replace(network, start_s=None), workload)
        return replace(together, duration_s=together.duration_s + float(network.start_s.max(initial=0.0)))
    try:
        if spans:
            raise IrregularError("the times of every transfer are asked for")
        if network.start_s is not None:
            raise IrregularError("whoever waits for somebody late waits by its distance, which few classes do not tell")
        blocks = periods(schedule)
    except IrregularError:
        from sim.engines import event

        return event.simulate(schedule, network, workload, spans=spans)
    if not blocks:
        nothing = np.zeros(len(network.bandwidth_bytes_per_s))
        return Run(network.last_start_s, nothing, nothing, {"rows": schedule.num_rows})
    blocks = with_bytes(blocks, workload.num_elements, schedule)
    depth = max(_depth(block) for block in blocks)
    walk = WINDOW + (SETTLING if depth == 1 else FILLING + 2 * depth)
    longest = max(block.repeat for block in blocks)
    in_full = MOST_ROWS_IN_FULL if longest == 1 else AFFORDABLE if depth > 1 else 0
    few = None if schedule.num_messages <= in_full else max(FEW_CLASSES, MOST_TRANSFERS // min(longest, walk))
    classes = schedule.derived(("few classes", few, network), lambda: fold(blocks, network, few))
    if depth > 1 and _is_alone(blocks, classes):
        depth, walk = 0, WINDOW + 2
    elif depth > 1 and classes.num_classes * longest <= AFFORDABLE:
        walk = longest
    while True:
        short = [replace(block, repeat=min(block.repeat, walk)) for block in blocks]
        run, landed_s = simulate_classes(short, classes, schedule, network, workload, _run_clock)
        skipped_s = _skipped(blocks, short, classes, landed_s, depth)
        if skipped_s is not None:
            grown = 1 + skipped_s / run.duration_s if run.duration_s > 0 else 1.0
            duration_s = max(run.duration_s + skipped_s, _bound(run, network))
            return replace(run, duration_s=duration_s, link_busy_s=run.link_busy_s * grown)
        walk *= 2


def _run_clock(state: State, begin_s: float) -> None:
    """Takes a short walk through its instants; without SimPy, whose import costs more than the walk."""
    state.begin(begin_s)
    now_s = begin_s
    while (instant := state.next_instant()) < np.inf:
        # Delays are added up, as SimPy does: so both engines agree to the last digit.
        now_s += instant - now_s
        state.advance(now_s)


def _bound(run: Run, network: Network) -> float:
    """What the busiest link needs for its bytes: no pace told from a walk may promise less."""
    return network.launch_overhead_s + float((run.link_bytes / network.bandwidth_bytes_per_s).max(initial=0.0))


def _depth(block: Period) -> int:
    """How many periods are under way at once in a block's pipeline."""
    step = block.rows.step
    return (int(step.max()) - int(step.min())) // max(block.step_shift, 1) + 1


def _is_alone(blocks: Sequence[Period], classes: Folded) -> bool:
    """Whether no two rows of a period share a link, so that what comes later changes nothing before it: a chain.

    Then a pipeline need be neither filled nor drained to know its pace: each row keeps its own from the first period.
    """
    crossing = np.bincount(classes.routes.links, weights=classes.routes.weight)
    return len(blocks) == 1 and float(crossing.max(initial=0.0)) <= 1 + TOLERANCE


def _skipped(
    blocks: Sequence[Period], short: Sequence[Period], classes: Folded, landed_s: Floats, depth: int
) -> float | None:
    """Seconds of the periods left out, None where increments have not settled.

    Of a walk's last `depth` periods nothing is taken: they run with less beside them than those that follow would.
    """
    bounds = [block.offset for block in blocks] + [len(classes.of_row)]
    counts = np.histogram(classes.leader, bounds)[0]
    base = offsets([count * block.repeat for count, block in zip(counts, short, strict=True)])
    skipped_s = 0.0
    for index, (block, walked) in enumerate(zip(blocks, short, strict=True)):
        left = block.repeat - walked.repeat
        if left:
            landed = landed_s[base[index] : base[index + 1]].reshape(walked.repeat, counts[index])
            further_s = _further(landed, min(depth, _depth(block)), left)
            if further_s is None:
                return None
            skipped_s += further_s
    return skipped_s


def _further(walked: Floats, drained: int, left: int) -> float | None:
    """Seconds that so many further periods take, None while that cannot be told.

    `walked` says when each class landed, shape (periods, classes); its last `drained` periods count for nothing. Times
    repeat from one cycle of periods to the next where rates are constant: a chunk that crosses nodes of eight ranks
    meets the slow hop every eighth period, and where all slots of a connection are under way one comes back with each
    latency. Where rates change with what happens to run together most classes jitter for ever, but the one that limits
    all moves evenly.
    """
    landed = walked[: len(walked) - drained]
    for cycle in range(1, len(landed) // 3):
        moved = landed[cycle:] - landed[:-cycle]
        settled = moved[-max(WINDOW, cycle) :]
        if len(settled) >= WINDOW and np.ptp(settled) <= TOLERANCE * settled.max():
            cycles, rest = divmod(left, cycle)
            # Where in its cycle the walk ended, seen as many cycles before as both ends of the rest are known.
            base = len(walked) - 1 - cycle * -(-(drained + rest) // cycle)
            return cycles * float(settled.mean()) + float(landed[base + rest].max() - landed[base].max())
    moved = np.diff(landed[-WINDOW - 1 :], axis=0)
    even = np.ptp(moved, axis=0) <= TOLERANCE * moved.max(axis=0)
    middle, last_pace = _pace(landed, 1, 2), _pace(landed, 2, 3)
    limit = float(moved[0, even].max(initial=0.0))
    if abs(last_pace - limit) <= JITTER * limit:
        return left * limit
    agree = abs(middle - last_pace) <= AGREEMENT * last_pace and len(landed) >= MANY_PERIODS
    return left * (middle + last_pace) / 2 if agree else None


def _pace(landed: Floats, begin: int, end: int) -> float:
    """Seconds per period between two thirds of a walk, of the slowest class where classes part, else of all."""
    part = landed[len(landed) * begin // 3 : len(landed) * end // 3]
    paces = (part[-1] - part[0]) / (len(part) - 1)
    return float(paces.max() if paces.max() > (1 + 2 * JITTER) * paces.mean() else paces.mean())
