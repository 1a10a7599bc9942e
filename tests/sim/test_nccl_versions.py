"""What older versions of NCCL chose: where published runs show it, and nowhere else."""

from __future__ import annotations

import pytest

from sim.planners import PLANNERS
from sim.planners.nccl_2_30.front_door import plan_machine
from sim.planners.nccl_2_30.versions import as_chosen_by
from sim.planners.options import Options
from sim.workload import Workload
from topo.cluster import Cluster
from topo.presets import preset

OLD, NEW = (2, 8, 4), (2, 29, 7)
KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("num_nodes", "ways"),
    [
        (1, ((512 * KIB, "ring/ll"), (1 * MIB, "ring/simple"), (32 * MIB, "ring/simple"))),
        (2, ((16 * KIB, "tree/ll"), (128 * KIB, "ring/ll"), (512 * KIB, "ring/ll"), (1 * MIB, "ring/simple"))),
        (4, ((32 * KIB, "tree/ll"), (64 * KIB, "ring/ll"), (1 * MIB, "ring/ll"), (2 * MIB, "ring/simple"))),
        (16, ((128 * KIB, "tree/ll"), (256 * KIB, "ring/ll"), (2 * MIB, "ring/ll"), (4 * MIB, "tree/simple"))),
    ],
)
def test_old_versions_switch_where_their_step_times_change(num_nodes: int, ways: tuple[tuple[int, str], ...]) -> None:
    node = preset("abci-v100x4")
    plan = as_chosen_by(plan_machine(node if num_nodes == 1 else Cluster(node, num_nodes), {}), OLD)
    for num_bytes, way in ways:
        choice = plan.choose("all_reduce", num_bytes)
        assert f"{choice.algorithm}/{choice.protocol}" == way, num_bytes


@pytest.mark.parametrize("collective", ["broadcast", "reduce", "all_gather", "reduce_scatter"])
def test_old_versions_run_everything_else_by_rings(collective: str) -> None:
    plan = as_chosen_by(plan_machine(Cluster(preset("abci-v100x4"), 4), {}), OLD)
    small, large = (plan.choose(collective, size) for size in (16 * KIB, 64 * MIB))
    assert (small.algorithm, small.protocol, large.protocol) == ("ring", "ll", "simple")


@pytest.mark.parametrize("version", [None, NEW, (2, 30)])
def test_versions_that_are_unknown_or_new_choose_as_planned(version: tuple[int, ...] | None) -> None:
    plan = plan_machine(preset("dgx-b200"), {"NCCL_NVLS_ENABLE": "0"})
    assert as_chosen_by(plan, version) is plan


def test_blackwell_knows_no_ll128_up_to_2_29_2() -> None:
    plan = plan_machine(preset("dgx-b200"), {"NCCL_NVLS_ENABLE": "0"})
    assert plan.choose("all_gather", 16 * MIB).protocol == "ll128"
    assert as_chosen_by(plan, (2, 29, 2)).choose("all_gather", 16 * MIB).protocol == "simple"
    hopper = plan_machine(preset("dgx-h100"), {})
    assert as_chosen_by(hopper, (2, 29, 2)) is hopper


@pytest.mark.parametrize(
    ("num_bytes", "version", "chunk"),
    [
        (2 * MIB, OLD, 32 * KIB),
        (8 * MIB, OLD, 64 * KIB),
        (32 * MIB, (2, 21), 128 * KIB),
        (8 * MIB, (2, 22), 512 * KIB),
        (8 * MIB, None, 512 * KIB),
    ],
)
def test_trees_of_simple_cut_their_chunks_before_2_22(
    num_bytes: int, version: tuple[int, ...] | None, chunk: int
) -> None:
    plan = plan_machine(Cluster(preset("abci-v100x4"), 32), {"NCCL_PROTO": "Simple"})
    choice = as_chosen_by(plan, version).choose("all_reduce", num_bytes, algorithms=("tree",))
    assert {part.chunk_bytes for part in (choice.split.first, choice.split.middle, choice.split.last) if part} == {
        chunk
    }


def test_other_ways_keep_their_chunks_in_old_versions() -> None:
    plan = plan_machine(preset("abci-v100x4"), {})
    now, then = (each.choose("all_reduce", 32 * MIB, algorithms=("ring",)) for each in (plan, as_chosen_by(plan, OLD)))
    assert then.split == now.split


def test_ll128_that_is_asked_for_stays_in_versions_that_would_not_take_it() -> None:
    for node, version in (("abci-v100x4", OLD), ("dgx-b200", (2, 29, 2))):
        asked = as_chosen_by(plan_machine(preset(node), {"NCCL_PROTO": "LL128"}), version)
        assert asked.choose("all_reduce", 1 * MIB).protocol == "ll128"


def test_the_planner_cuts_as_the_version_that_runs() -> None:
    work, machine = Workload("all_reduce", 8 * MIB), Cluster(preset("abci-v100x4"), 32)
    environment = (("NCCL_PROTO", "Simple"),)
    chunks = {
        version: PLANNERS["nccl-2.30"](machine, work, Options(environment=environment, nccl_version=version), "tree")
        for version in (None, (2, 21), (2, 22))
    }
    assert [plan.chunk_bytes for plan in chunks.values()] == [512 * KIB, 64 * KIB, 512 * KIB]
    assert chunks[2, 21].num_chunks == 8 * chunks[2, 22].num_chunks
