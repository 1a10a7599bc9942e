"""Which NIC serves which GPU: the nearest, one each where there are enough, and never a slower one for a new one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import examples
from topo.changes import AddNic, Put
from topo.cluster import Cluster, Fabric
from topo.edit import Machine, edit
from topo.presets import preset

WITH_FEW_GPUS = (
    "dgx1-v100",
    "dgx-a100",
    "dgx-h100",
    "hgx-h100-4nic",
    "polaris-a100x4",
    "pcie-8gpu",
    "optcast-v100pcie",
)


def cluster_of(machine: Machine) -> Cluster:
    assert isinstance(machine, Cluster)
    return machine


def least_bytes_per_s(cluster: Cluster) -> float:
    """What the GPU with the least gets of its NIC's port, shared with the others that use it."""
    own = [cluster.nic_of(rank) for rank in range(cluster.node.num_ranks)]
    return min(cluster.port_bytes_per_s(nic) / own.count(nic) for nic in own)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(WITH_FEW_GPUS),
    st.lists(st.tuples(st.sampled_from(["node0", "GPU0", "GPU1"]), st.sampled_from([1e9, 12.5e9, 25e9, 50e9, 100e9]))),
)
def test_another_nic_leaves_the_gpu_with_the_least_no_less(name: str, added: list[tuple[str, float]]) -> None:
    machine: Machine = Cluster(preset(name), 2)
    for place, rate in added[:3]:
        before = least_bytes_per_s(cluster_of(machine))
        machine = edit(machine, AddNic(place, rate))
        assert least_bytes_per_s(cluster_of(machine)) >= before


@pytest.mark.parametrize("rate", [12.5e9, 25e9, 50e9, 100e9])
def test_a_port_that_pcie_holds_down_is_no_better_than_the_gpu_s_own(rate: float) -> None:
    """Gen4 x16 counts 24 GB/s: at 25 GB/s a NIC gives all that it lets through."""
    before = Cluster(preset("dgx-a100"), 2)
    after = cluster_of(edit(before, AddNic("node0", rate)))
    assert [after.nic_of(rank).id for rank in range(8)] == [before.nic_of(rank).id for rank in range(8)]


def test_a_faster_nic_goes_to_one_gpu_and_the_other_keeps_its_own() -> None:
    machine = edit(edit(Cluster(preset("dgx-a100"), 2), Put("nic", "bandwidth", 12.5e9)), AddNic("GPU0", 25e9))
    assert [cluster_of(machine).nic_of(rank).id for rank in range(2)] == ["mlx5_8", "mlx5_0"]


@pytest.mark.parametrize("rate", [0.1e9, 1e9, 10e9])
def test_a_slow_nic_nearby_is_passed_over(rate: float) -> None:
    """GPU1 of a Polaris node has no NIC beside it: half of a port of 25 GB/s is more than what these offer."""
    after = cluster_of(edit(Cluster(preset("polaris-a100x4"), 2), AddNic("GPU1", rate)))
    assert sorted(after.nic_of(rank).id for rank in range(4)) == ["cxi0", "cxi0", "cxi1", "cxi1"]


def test_a_fabric_that_is_slower_makes_ports_equal() -> None:
    machine = edit(Cluster(preset("dgx-h100"), 2, Fabric(bandwidth_bytes_per_s=12.5e9)), AddNic("GPU0", 100e9))
    assert cluster_of(machine).nic_of(0).id == "mlx5_0"
    assert [nic.id for nic in cluster_of(machine).nics_of(0)] == ["mlx5_0", "mlx5_8"], "left over, and as good"
    wide = replace(cluster_of(machine), fabric=Fabric())
    assert wide.nic_of(0).id == "mlx5_0", "Gen5 x16 counts 48 GB/s, which the GPU's own NIC fills"
