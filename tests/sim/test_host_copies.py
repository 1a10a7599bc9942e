"""GPUs that exchange data through the host's memory: every schedule is held to what NCCL's copies reach there."""

from __future__ import annotations

import numpy as np
import pytest

from sim.clock.facts import pairs_through_host
from sim.engines.host_copies import SHM
from sim.planners.options import Options
from sim.predict import Simulator
from sim.profile import load_profile
from sim.workload import Workload
from topo.cluster import Cluster
from topo.edit import Machine
from topo.presets import preset

LARGE = Workload("all_reduce", 1 << 30)
P2P_OFF = Options(environment=(("NCCL_P2P_DISABLE", "1"),))
THROUGH_HOST: dict[str, tuple[Machine, Options]] = {
    "pcie-4gpu": (preset("pcie-4gpu"), Options()),
    "pcie-8gpu": (preset("pcie-8gpu"), Options()),
    "dgx-h100 without P2P": (preset("dgx-h100"), P2P_OFF),
    "dgx-a100 without P2P": (preset("dgx-a100"), P2P_OFF),
}


@pytest.mark.parametrize("name", THROUGH_HOST)
def test_a_schedule_of_nccls_ring_is_as_slow_as_its_kernel(name: str) -> None:
    machine, options = THROUGH_HOST[name]
    kernels, event = (Simulator(machine, None, options, engine).run(LARGE, "ring") for engine in ("kernels", "event"))
    assert event.duration_s == pytest.approx(kernels.duration_s, rel=0.1)
    assert event.limiting
    assert kernels.limiting
    assert event.limiting.link == kernels.limiting.link


@pytest.mark.parametrize("name", THROUGH_HOST)
@pytest.mark.parametrize("algorithm", ["halving-doubling", "hierarchical", "parameter-server"])
def test_no_schedule_moves_more_through_the_host_than_its_copies_do(name: str, algorithm: str) -> None:
    machine, options = THROUGH_HOST[name]
    run = Simulator(machine, None, options, "event").run(LARGE, algorithm)
    copies = [load for load in run.link_loads if SHM in load.link]
    assert copies
    assert max(load.num_bytes for load in copies) / run.duration_s <= copies[0].bandwidth_bytes_per_s * 1.001


@pytest.mark.parametrize("nodes", [1, 2])
def test_gpus_below_one_switch_reach_each_other(nodes: int) -> None:
    """Pairs of other switches do not (PXB is the worst path for P2P); two hosts have no memory in common."""
    node = preset("pcie-8gpu")
    machine = node if nodes == 1 else Cluster(node, nodes)
    nccl = Simulator(machine).planner.nccl
    assert nccl
    through = pairs_through_host(nccl, 8)
    below = np.arange(8) // 2
    assert (through == (below[:, None] != below[None, :])).all()


@pytest.mark.parametrize("name", ["dgx-h100", "dgx1-v100"])
def test_peers_need_no_copies(name: str) -> None:
    run = Simulator(preset(name), load_profile("nccl-fitted", preset(name)), engine="event").run(LARGE, "ring")
    assert not any(SHM in load.link for load in run.link_loads)


def test_the_ideal_profile_knows_no_copies() -> None:
    run = Simulator(preset("pcie-8gpu"), load_profile("ideal", preset("pcie-8gpu"))).run(LARGE, "ring")
    assert not any(SHM in load.link for load in run.link_loads)


def test_of_several_hosts_each_copies_by_itself() -> None:
    links = {
        load.link
        for load in Simulator(Cluster(preset("pcie-8gpu"), 2), engine="event").run(LARGE, "hierarchical").link_loads
    }
    assert {"SHM->node0/GPU0", "node1/GPU7->SHM"} <= links
