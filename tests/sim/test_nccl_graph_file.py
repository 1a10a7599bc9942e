"""The graph file of a plan: its channels by device numbers, readable by our reader."""

from __future__ import annotations

import pytest

from sim.planners.nccl_2_30.graph_file import graph_file
from sim.planners.nccl_2_30.plans import plan_machine
from topo.load import load_topology
from topo.readers import nccl_graph
from topo.writers.nccl_graph import render


@pytest.mark.parametrize(
    ("name", "count"),
    [("dgx-h100", 1), ("dgx-h100", 2), ("dgx1-v100", 1), ("gb200-nvl8", 2), ("alps-gh200x4", 2), ("pcie-4gpu", 1)],
)
def test_written_graphs_are_those_of_the_search(name: str, count: int) -> None:
    wiring = plan_machine(load_topology(name, nodes=count), {}).wiring
    file = nccl_graph.read(render(graph_file(wiring)))
    assert file.notes == ()
    found = {graph.id: graph for graph in file.graphs}
    assert list(found) == [0, 1, 4, 2, 3]
    for number, kind in ((0, "ring"), (1, "tree"), (3, "nvls")):
        searched = wiring.domain_graphs[0][kind]
        assert found[number].num_channels == searched.num_channels
        assert found[number].bandwidth_intra_bytes_per_s == pytest.approx(searched.intra_bytes_per_s)
        for written, channel in zip(found[number].channels, searched.channels, strict=True):
            if name != "gb200-nvl8":
                assert written.gpus == channel.ranks, "on these machines ranks are device numbers"
            assert len(written.gpus) == len(channel.ranks)
            assert len(written.nets) == (2 if count > 1 and number != 3 else len(channel.nets))


def test_hosts_of_one_nvlink_domain_stand_above_the_device_number() -> None:
    file = graph_file(plan_machine(load_topology("gb200-nvl8", nodes=2), {}).wiring)
    parts = {(part.system, part.number) for part in file.graphs[0].channels[0].parts if part.kind == "gpu"}
    assert parts == {(host, dev) for host in (0, 1) for dev in range(4)}


def test_ranks_that_share_a_gpu_are_told_by_rank() -> None:
    file = graph_file(plan_machine(load_topology("h200-1gpu-2ranks"), {}).wiring)
    assert {part.by for part in file.graphs[0].channels[0].parts} == {"rank"}
    nccl_graph.read(render(file))
