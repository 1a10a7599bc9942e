"""Which NV# are direct links and which an NVSwitch's, and the generation that the counts point to."""

from __future__ import annotations

from itertools import combinations

import pytest

from topo.nvlink_groups import nvlink_groups


def gpus(count: int) -> list[str]:
    return [f"GPU{number}" for number in range(count)]


def all_pairs(count: int, lanes: int) -> dict[tuple[str, str], int]:
    return dict.fromkeys(combinations(gpus(count), 2), lanes)


@pytest.mark.parametrize(
    ("num_gpus", "lanes", "switched", "capability"),
    [
        (8, 12, True, 80),
        (8, 18, True, 90),
        (4, 18, True, 90),
        (7, 18, True, 90),
        (16, 6, True, 70),
        (2, 18, True, 90),
        (4, 4, False, 80),
        (4, 6, False, 90),
        (2, 12, False, 80),
        (2, 4, False, 86),
        (2, 3, False, 70),
        (2, 2, False, 75),
        (2, 5, False, None),
        (4, 2, False, 70),
    ],
)
def test_all_pairs_alike(num_gpus: int, lanes: int, switched: bool, capability: int | None) -> None:
    (group,) = nvlink_groups(gpus(num_gpus), all_pairs(num_gpus, lanes))
    assert group.compute_capability == capability
    if switched:
        assert group.lanes == tuple((gpu, lanes) for gpu in gpus(num_gpus))
        assert group.pairs == ()
    else:
        assert group.pairs == tuple((*pair, lanes) for pair in combinations(gpus(num_gpus), 2))
        assert group.lanes == ()


def test_a_port_with_links_down_has_fewer_lanes() -> None:
    counts = {pair: 16 if "GPU3" in pair else 18 for pair in combinations(gpus(8), 2)}
    (group,) = nvlink_groups(gpus(8), counts)
    assert dict(group.lanes) == {gpu: 16 if gpu == "GPU3" else 18 for gpu in gpus(8)}


def test_counts_that_no_switch_gives_stay_direct() -> None:
    counts = all_pairs(8, 18) | {("GPU0", "GPU1"): 17}
    (group,) = nvlink_groups(gpus(8), counts)
    assert group.lanes == ()
    assert len(group.pairs) == 28


def test_a_gpu_without_links_is_in_no_group() -> None:
    counts = {pair: lanes for pair, lanes in all_pairs(8, 18).items() if "GPU1" not in pair}
    (group,) = nvlink_groups(gpus(8), counts)
    assert group.gpus == tuple(gpu for gpu in gpus(8) if gpu != "GPU1")


def test_pairs_are_groups_of_their_own() -> None:
    groups = nvlink_groups(gpus(4), {("GPU0", "GPU1"): 12, ("GPU2", "GPU3"): 12})
    assert [group.gpus for group in groups] == [("GPU0", "GPU1"), ("GPU2", "GPU3")]


def test_a_bridged_pair_beside_other_gpus_is_direct() -> None:
    groups = nvlink_groups(gpus(4), {("GPU0", "GPU1"): 18, ("GPU2", "GPU3"): 18})
    assert [group.pairs for group in groups] == [(("GPU0", "GPU1", 18),), (("GPU2", "GPU3", 18),)]


def test_hybrid_cube_mesh_of_p100() -> None:
    near = [pair for quad in (gpus(8)[:4], gpus(8)[4:]) for pair in combinations(quad, 2)]
    across = [(f"GPU{number}", f"GPU{number + 4}") for number in range(4)]
    (group,) = nvlink_groups(gpus(8), dict.fromkeys([*near, *across], 1))
    assert group.lanes == ()
    assert group.compute_capability == 60


def test_several_gpus_in_one_cpus_memory_are_grace_blackwell() -> None:
    (group,) = nvlink_groups(gpus(4), all_pairs(4, 18), own_cpu_memory=True)
    assert group.compute_capability == 100
