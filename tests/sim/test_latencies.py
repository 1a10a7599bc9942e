"""Stated latencies: what they add to kernels' times is what the event engine adds by running the schedule."""

from __future__ import annotations

import pytest

from sim.predict import Simulator
from sim.profile import IDEAL, load_profile
from sim.workload import Workload
from topo.changes import Break, Put
from topo.cluster import Cluster
from topo.edit import Machine, edit
from topo.presets import preset

STATED_S = 1e-3
"""More than anything that 8 bytes a rank need otherwise."""


def added_s(machine: Machine, part: str, algorithm: str, collective: str, engine: str) -> float:
    """How much longer a few bytes take once each hop over the part has the latency."""
    work = Workload(collective, 8 * machine.num_ranks)
    profile = IDEAL if engine == "event" else None
    before, after = (
        Simulator(changed, profile, engine=engine, planner="nccl-2.30").run(work, algorithm).duration_s
        for changed in (machine, edit(machine, Put(part, "latency", STATED_S)))
    )
    return after - before


RINGS_AND_TREES = (
    ("ring", "all_reduce"),
    ("ring", "all_gather"),
    ("ring", "reduce_scatter"),
    ("tree", "all_reduce"),
)
MACHINES: tuple[tuple[Machine, str], ...] = (
    (preset("dgx1-v100"), "nvlink"),
    (preset("dgx-a100"), "nvlink"),
    (preset("pcie-8gpu"), "pcie"),
    (preset("dgx-a100"), "GPU3->NVS0"),
    (Cluster(preset("dgx-a100"), 2), "fabric"),
    (Cluster(preset("dgx-h100"), 5), "fabric"),
    (Cluster(preset("dgx-h100"), 3), "nvlink"),
)


def far_from_nics() -> Machine:
    """A cluster whose GPUs of one socket reach the NICs over NVLink and GPUs of the other (PXN)."""
    machine: Machine = Cluster(preset("dgx-h100"), 3)
    for number in range(4, 8):
        machine = edit(machine, Break(f"mlx5_{number}"))
    return machine


OVER_PCIE: tuple[tuple[Machine, str], ...] = (
    (Cluster(preset("hgx-h200-1gpu"), 4), "pcie"),
    (Cluster(preset("hgx-h200-1gpu"), 3), "GPU0-numa0/switch0"),
    (Cluster(preset("dgx-a100"), 2), "pcie"),
    (Cluster(preset("hgx-h100-4gpu"), 2), "GPU0-numa0/switch0"),
    (Cluster(preset("dgx-h100"), 2), "GPU0-numa0/switch0"),
    (Cluster(preset("dgx-h100"), 4), "numa0/switch0->mlx5_0"),
    (far_from_nics(), "nvlink"),
    (far_from_nics(), "pcie"),
)
"""Between nodes every byte passes the links between GPU and NIC."""
CASES = [
    *((machine, part, *way) for machine, part in (*MACHINES, *OVER_PCIE) for way in RINGS_AND_TREES),
    (preset("dgx-h100"), "nvlink", "nvls", "all_reduce"),
    *((machine, part, "nvls-tree", "all_reduce") for machine, part in (*MACHINES[-2:], *OVER_PCIE[-2:])),
]


@pytest.mark.parametrize(
    ("machine", "part", "algorithm", "collective"),
    CASES,
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_kernels_wait_as_their_schedules_do(machine: Machine, part: str, algorithm: str, collective: str) -> None:
    kernels, event = (added_s(machine, part, algorithm, collective, engine) for engine in ("kernels", "event"))
    assert event > STATED_S / 2
    assert kernels == pytest.approx(event, rel=1e-3)


@pytest.mark.parametrize("name", ["dgx1-v100", "dgx-a100", "dgx-h100", "dgx-b200"])
@pytest.mark.parametrize("protocol", ["ll", "ll128", "simple"])
def test_a_step_over_pcie_costs_a_gpu_no_less_than_one_over_its_nvlinks(name: str, protocol: str) -> None:
    profile = load_profile("nccl-fitted", preset(name)).under(protocol)
    assert profile.transport("pcie").hop_latency_s >= profile.transport("nvlink").hop_latency_s
