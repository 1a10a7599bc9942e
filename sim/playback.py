"""One simulated run, transfer by transfer: when each held which links, and what it carried of a small example.

The example's numbers come from the interpreter that proves schedules (`sim.prove`), the times from the event engine:
what a drawing or a trace shows of a run is derived here, from the same rows that were timed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.algorithms import ALGORITHMS
from sim.collective import collective
from sim.engines.network import Routing, routing
from sim.planners import AUTO
from sim.prove import sent_values
from sim.schedule import Rows, Schedule
from topo.topology import Topology

if TYPE_CHECKING:
    from sim.engines.network import Network
    from sim.plan import Plan
    from sim.predict import Simulator
    from sim.prediction import Prediction

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MOST_TRANSFERS = 150_000
"""Transfers of a run that is followed one by one; a run of more is only summed up."""

SAME_TIME = 1e-6
"""Relative difference of two engines' times that is not worth a word."""


@dataclass(frozen=True, eq=False)
class Playback:
    """A run whose every transfer is known. Arrays are by row of `schedule.rows()`; times in seconds from the launch.

    `agents` are the ids of the devices of ranks and helpers, `names` what people call them. Rank r begins with the
    number r + 1 in each chunk that it contributes: `start` holds these by (agent, chunk), 0 where there is none yet;
    `sent` what each row carries, `total` the result of each chunk and `wanted` (by rank and chunk) who must hold it.
    All times are `stretch` times those of the run of every transfer, so that the run ends when the prediction says.
    """

    plan: Plan
    schedule: Schedule
    run: Prediction
    network: Network
    ways: Routing
    agents: tuple[str, ...]
    names: tuple[str, ...]
    num_bytes: Ints
    start_s: Floats
    sent_s: Floats
    landed_s: Floats
    start: Ints
    sent: Ints
    total: Ints
    wanted: npt.NDArray[np.bool_]
    stretch: float = 1.0

    @property
    def rows(self) -> Rows:
        """The transfers."""
        return self.schedule.rows()

    def links_of(self, row: int) -> list[int]:
        """The links that a row crosses, by their number in the network."""
        route = int(self.ways.route[row])
        first, last = self.ways.routes.first[route : route + 2]
        found: list[int] = self.ways.routes.links[first:last].tolist()
        return found

    def link_ids(self) -> dict[int, str]:
        """The name of every link that some row crosses, by its number, in that order."""
        return {link: self.network.link_id(link) for link in np.unique(self.ways.routes.links).tolist()}

    def chunks_in_order(self) -> Ints:
        """The chunks that anything moves, those of the first channel first."""
        chunk, first = np.unique(self.rows.chunk, return_index=True)
        found: Ints = chunk[np.lexsort((chunk, self.rows.channel[first]))].astype(np.int64)
        return found


def plan_of(simulator: Simulator, prediction: Prediction, asked: str) -> Plan | None:
    """The plan behind a prediction, None where no schedule here is its algorithm.

    `asked` is the algorithm's name as the user gave it, such as `auto`.
    """
    workload = prediction.workload
    if prediction.algorithm not in ALGORITHMS:
        return None
    if asked == AUTO and simulator.planner_of(AUTO, workload.collective).chooses:
        chosen = simulator.plan(workload, AUTO)
        if chosen.algorithm == prediction.algorithm:
            return chosen
    return simulator.plan(workload, prediction.algorithm)


def playback(simulator: Simulator, plan: Plan, prediction: Prediction) -> Playback | None:
    """The run of a prediction's plan followed row by row; None where it has more than MOST_TRANSFERS transfers.

    Times are those of the event engine, stretched to what was predicted where another engine did that.
    """
    schedule, workload = plan.shape.schedule(), prediction.workload
    if schedule.num_rows > MOST_TRANSFERS:
        return None
    run = simulator.run_plan(plan, workload, spans=True)
    stretch = prediction.duration_s / run.duration_s if run.duration_s > 0 else 1.0
    network = simulator.network_for(plan)
    rows = schedule.rows()
    times = np.array([(span.start_s, span.sent_s, span.landed_s) for span in run.spans]).reshape(-1, 3) * stretch
    shape = (schedule.num_ranks, schedule.num_chunks)
    before = collective(schedule.collective).before(*shape)
    given = np.where(before, np.arange(1, schedule.num_ranks + 1, dtype=np.uint64)[:, None], np.uint64(0))
    start = np.zeros((schedule.num_agents, schedule.num_chunks), dtype=np.int64)
    start[: schedule.num_ranks] = given
    agents, names = _agents(simulator, plan)
    return Playback(
        plan=plan,
        schedule=schedule,
        run=replace(run, duration_s=prediction.duration_s, spans=()),
        network=network,
        ways=routing(network, rows),
        agents=agents,
        names=names,
        num_bytes=schedule.chunk_bytes(workload)[rows.chunk],
        start_s=times[:, 0],
        sent_s=times[:, 1],
        landed_s=times[:, 2],
        start=start,
        sent=sent_values(schedule, given, before).astype(np.int64),
        total=given.sum(axis=0).astype(np.int64),
        wanted=collective(schedule.collective).after(*shape),
        stretch=stretch,
    )


def _agents(simulator: Simulator, plan: Plan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids and names of the devices on which a plan's agents run."""
    machine = simulator.machine
    if isinstance(machine, Topology):
        ids = (*machine.gpu_ids, *plan.helpers)
        return ids, tuple(machine.device(device_id).name for device_id in ids)
    ranks = [machine.place_of(rank) for rank in range(plan.num_ranks)]
    local = [(where, machine.node.gpu_ids[local_rank]) for where, local_rank in ranks]
    # A helper without its node stands in the first.
    inside = {device.id for device in machine.node.devices}
    helpers = tuple(machine.device_id(0, helper) if helper in inside else helper for helper in plan.helpers)
    ids = tuple(machine.device_id(*place) for place in local)
    names = tuple(machine.device_id(where, machine.node.device(device_id).name) for where, device_id in local)
    return (*ids, *helpers), (*names, *helpers)
