"""What a run fixed on purpose is predicted as it was; what only made it slower is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.workload import Workload
from topo.load import load_topology
from validate.as_run import Simulators, fixed_by
from validate.measurement import Measurement, Setting

POWERS = (12, 16, 20, 22, 24, 28)
LARGE = Workload("all_reduce", 64 << 20)


def measured(*settings: tuple[str, str], **more: object) -> Measurement:
    environment = tuple(Setting(*setting) for setting in settings)
    return Measurement(LARGE, 8, "nccl-tests", "builtin", "builtin", (1e-3,), environment=environment, **more)


@pytest.mark.parametrize(
    ("found", "fixed"),
    [
        (measured(), {}),
        (measured(("NCCL_ALGO", "Ring"), ("NCCL_P2P_DISABLE", "1"), ("OMP_NUM_THREADS", "4")), {"NCCL_ALGO": "Ring"}),
        (measured(("NCCL_ALGO", "nonsense")), {}),
        (measured(protocol="ll"), {"NCCL_PROTO": "ll"}),
        (measured(num_channels=4), {"NCCL_MIN_NCHANNELS": "4", "NCCL_MAX_NCHANNELS": "4"}),
    ],
)
def test_what_was_fixed_is_told_by_the_run_itself(found: Measurement, fixed: dict[str, str]) -> None:
    assert dict(fixed_by(found)) == fixed


@pytest.mark.parametrize(
    ("version", "name", "knows"),
    [
        ("2.29.2", "dgx-b200", False),
        ("2.27.7+cuda12.9", "dgx-b200", False),
        ("2.29.7", "dgx-b200", True),
        ("2.29.2", "dgx-h100", True),
        ("unknown", "dgx-b200", True),
    ],
)
def test_what_the_runs_own_nccl_does_not_do_is_not_predicted(version: str, name: str, knows: bool) -> None:
    machine = Simulators(load_topology(name), None)
    found = measured(software=(Setting("nccl", version),))
    rows = [replace(found, workload=Workload("all_reduce", 1 << power)) for power in POWERS]
    assert ("ll128" in {machine.run(row, "ring").protocol for row in rows}) == knows
    forced = measured(("NCCL_PROTO", "LL128"), software=(Setting("nccl", version),))
    assert machine.run(forced, "ring").protocol == "ll128"


def test_a_way_that_a_setting_opens_is_taken_and_one_that_it_closes_is_not() -> None:
    apart, switched = (Simulators(load_topology(name), None) for name in ("pcie-8xl40s-intel", "dgx-a100"))
    opened, closed = (measured(("NCCL_P2P_LEVEL", level)) for level in ("SYS", "LOC"))
    assert apart.run(opened, "ring").duration_s < apart.run(measured(), "ring").duration_s
    assert switched.run(closed, "ring") == switched.run(measured(), "ring")


def test_an_old_nccl_chose_by_another_cost_model() -> None:
    machine = Simulators(load_topology("dgx-h100", nodes=32), None)
    old, new = (
        [machine.run(replace(found, workload=Workload("all_reduce", 1 << power)), "auto").protocol for power in POWERS]
        for found in (measured(software=(Setting("nccl", version),)) for version in ("2.8.4", "2.20.5"))
    )
    assert "ll128" in new
    assert "ll128" not in old
    forced = measured(("NCCL_PROTO", "LL128"), software=(Setting("nccl", "2.8.4"),))
    assert machine.run(forced, "auto").protocol == "ll128"


def test_few_channels_are_predicted_to_be_slow() -> None:
    simulators = Simulators(load_topology("dgx-h100"), None)
    usual, few = (simulators.run(found, "ring") for found in (measured(), measured(num_channels=1)))
    assert few.num_channels < usual.num_channels
    assert few.duration_s > usual.duration_s
    assert simulators.under(()) is simulators.under(())


def test_a_machine_that_nccl_cannot_plan_leaves_it_open() -> None:
    simulators = Simulators(load_topology("switch:8,bandwidth=100GB/s,latency=1us"), None)
    forced = measured(("NCCL_PROTO", "LL"))
    assert simulators.run(forced, "ring") == simulators.run(measured(), "ring")


def test_an_old_nccl_cut_the_chunks_of_its_trees() -> None:
    machine = Simulators(load_topology("abci-v100x4", nodes=32), None)
    found = replace(measured(("NCCL_PROTO", "Simple")), workload=Workload("all_reduce", 8 << 20))
    old, new = (
        machine.run(replace(found, software=(Setting("nccl", version),)), "tree").duration_s
        for version in ("2.21.5", "2.22.3")
    )
    assert old < new


def test_what_the_runs_own_nccl_cannot_do_is_predicted_as_a_new_one_does_it() -> None:
    machine = Simulators(load_topology("dgx-h100"), None)
    found = measured(software=(Setting("nccl", "2.8.4"),))
    assert machine.run(found, "nvls") == machine.run(replace(found, software=()), "nvls")
