"""Guards of speed that count work: an operation count does not change with how busy the machine is."""

from __future__ import annotations

from functools import partial

import pytest

from sim.engines.event import simulate
from sim.engines.network import network_of
from sim.plan import in_order
from sim.profile import IDEAL
from sim.workload import Workload
from tests.support import calls
from topo.cluster import Cluster
from topo.presets import preset
from topo.synthetic import synthetic

SWITCH = "switch:{},bandwidth=200GB/s,latency=1us"


def work_of(algorithm: str, num_ranks: int, num_bytes: int, **options: int) -> dict[str, int]:
    """What the event engine did for one run on an ideal switch."""
    schedule = in_order(algorithm, num_ranks, **options).schedule()
    network = network_of(synthetic(SWITCH.format(num_ranks)), IDEAL)
    return simulate(schedule, network, Workload("all_reduce", num_bytes)).work


@pytest.mark.parametrize("num_ranks", [2, 8, 129, 1024])
def test_a_ring_is_held_as_two_periods(num_ranks: int) -> None:
    schedule = in_order("ring", num_ranks).schedule()
    assert sum(len(block.rows) for block in schedule.blocks) <= 2 * num_ranks
    assert schedule.num_rows == 2 * num_ranks * (num_ranks - 1)


@pytest.mark.parametrize("num_ranks", [8, 64, 256])
def test_a_ring_is_timed_in_batches_with_few_solutions_of_the_rates(num_ranks: int) -> None:
    """Every step is one instant of sending and one of arriving, whatever the number of transfers in it."""
    work = work_of("ring", num_ranks, num_ranks << 20)
    assert work["instants"] <= 2 * 2 * (num_ranks - 1)
    assert work["solves"] <= 3


def test_the_work_does_not_grow_with_the_size() -> None:
    """Rates are solved for the same sets of transfers at 1 MiB a chunk as at 1 GiB."""
    small, large = (work_of("tree", 16, num_bytes, num_chunks=8) for num_bytes in (8 << 20, 8 << 30))
    assert large["solves"] <= 2 * small["solves"]
    assert large["instants"] <= 2 * small["instants"]


def test_a_cluster_stays_folded() -> None:
    """Building a cluster of 65,536 nodes takes the calls that one of 2 takes."""
    node = preset("dgx-h100")

    def built(count: int) -> int:
        return Cluster(node, count).num_ranks

    few, many = (calls(partial(built, count)) for count in (2, 65_536))
    assert many == few


def test_the_steps_of_an_event_run_do_not_call_per_transfer() -> None:
    """Four times the transfers at twice the instants: calls follow instants."""
    few, many = (calls(partial(work_of, "ring", num_ranks, 1 << 20)) for num_ranks in (32, 64))
    assert many < 3 * few
