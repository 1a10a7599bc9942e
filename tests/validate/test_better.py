"""Where NCCL's own choice costs: another protocol, or a way that it does not take unless told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.workload import Workload
from topo.load import load_topology
from validate.better import better_ways
from validate.compare import Comparison
from validate.measurement import Measurement, Setting
from validate.measurement_set import MeasurementSet
from validate.predicting import hold_against
from validate.suspects import Machine

SMALL = (32 << 10, 64 << 10, 128 << 10)


def rows_on(
    name: str, factor: float, *settings: Setting, sizes: tuple[int, ...] = SMALL
) -> tuple[list[Comparison], Machine]:
    """Rows that took `factor` times what is predicted."""
    machine = load_topology(name)
    bare = [
        Measurement(Workload("all_reduce", size), machine.num_ranks, "nccl", "builtin", "builtin", (1.0,))
        for size in sizes
    ]
    found = hold_against(MeasurementSet("x", tuple(bare)), machine)
    return [
        replace(
            row,
            measurement=replace(row.measurement, samples_s=(row.prediction.duration_s * factor,), environment=settings),
        )
        for row in found
    ], Machine(machine)


def test_gpus_that_pass_host_memory_could_reach_each_other() -> None:
    (sentence,) = better_ways(*rows_on("pcie-8xl40s-intel", 1.0, sizes=(8 << 10, 256 << 10, 512 << 10)))
    assert sentence.startswith("NCCL's own choice costs at 256 KiB to 512 KiB: 512 KiB takes ")
    assert "predicted with NCCL_P2P_LEVEL=SYS" in sentence


def test_a_link_that_nccl_takes_for_slow_is_said_to_be() -> None:
    (sentence,) = better_ways(*rows_on("rtxpro6000-2turin", 1.0, Setting("NCCL_P2P_LEVEL", "SYS")))
    assert "NCCL_PROTO=LL (protocol LL)" in sentence
    assert sentence.endswith("(NCCL_GRAPH_FILE) says otherwise")


@pytest.mark.parametrize(
    ("name", "factor", "settings"),
    [
        ("dgx-a100", 1.0, ()),
        ("pcie-8xl40s-intel", 0.2, ()),
        ("rtxpro6000-2turin", 1.0, (Setting("NCCL_P2P_LEVEL", "SYS"), Setting("NCCL_PROTO", "Simple"))),
    ],
)
def test_a_choice_that_is_good_measured_better_or_made_by_the_user_is_left_alone(
    name: str, factor: float, settings: tuple[Setting, ...]
) -> None:
    assert not better_ways(*rows_on(name, factor, *settings))
