"""What links carry by counting is what they carry in the event engine, link by link."""

from __future__ import annotations

import pytest

from sim.engines.loads import MOST_PAIRS, link_shares
from sim.networks import Networks
from sim.predict import Simulator
from sim.profile import IDEAL
from sim.workload import Workload
from topo.cluster import Cluster
from topo.edit import Machine
from topo.fabric import parse_fabric
from topo.presets import preset

NUM_BYTES = 840 << 20
FLAT, RAIL, TREE = (parse_fabric(text) for text in ("flat", "rail", "fat-tree:4,nodes_per_leaf=2"))
H100, ONE_GPU = preset("dgx-h100"), preset("hgx-h200-1gpu")
CASES: dict[str, tuple[Machine, str, str]] = {
    "ring": (H100, "ring", "all_reduce"),
    "ring in a mesh": (preset("dgx1-v100"), "ring", "all_gather"),
    "broadcast": (Cluster(H100, 2), "ring", "broadcast"),
    "tree": (Cluster(H100, 3), "tree", "all_reduce"),
    "nvls": (H100, "nvls", "all_reduce"),
    "nvls-tree, 2 nodes": (Cluster(H100, 2), "nvls-tree", "all_reduce"),
    "nvls-tree, 6 nodes": (Cluster(H100, 6, TREE), "nvls-tree", "all_reduce"),
    "pat": (Cluster(ONE_GPU, 7), "pat", "all_gather"),
    "pat backwards": (Cluster(ONE_GPU, 12), "pat", "reduce_scatter"),
    "all to all": (H100, "direct", "all_to_all"),
    "all to all in a mesh": (preset("hgx-a100-4gpu-mesh"), "direct", "all_to_all"),
    "all to all over PCIe": (preset("pcie-8gpu"), "direct", "all_to_all"),
    "all to all over rails": (Cluster(H100, 3, RAIL), "direct", "all_to_all"),
    "all to all over leaves": (Cluster(H100, 6, TREE), "direct", "all_to_all"),
}


@pytest.mark.parametrize("name", CASES)
def test_links_carry_what_transfers_bring(name: str) -> None:
    machine, algorithm, collective = CASES[name]
    simulator = Simulator(machine, IDEAL, engine="event")
    work = Workload(collective, NUM_BYTES)
    plan = simulator.plan(work, algorithm)
    nccl = simulator.planner.nccl
    assert nccl
    network = Networks(machine, IDEAL, simulator.options, lambda: nccl).under("simple", nccl=nccl)
    counted = link_shares(plan, network, nccl.wiring.node_ranks) * NUM_BYTES
    by_name = {network.link_id(link): counted[link] for link in counted.nonzero()[0].tolist()}
    run = simulator.run_plan(plan, work)
    carried = {load.link: pytest.approx(load.num_bytes, rel=1e-3) for load in run.link_loads}
    if algorithm == "nvls-tree":
        # A head's sum goes up once more, which counting leaves out: the link's other direction limits as much.
        assert by_name.keys() == carried.keys()
        carried = {link: amount for link, amount in carried.items() if "NVS0" not in link.partition("->")[2]}
        by_name = {link: amount for link, amount in by_name.items() if link in carried}
    assert by_name == carried


def test_of_many_ranks_some_distances_stand_for_all() -> None:
    """Every leaf of 512 nodes sends as much up as all pairs would, to a per cent."""
    few, many = (
        Simulator(Cluster(ONE_GPU, nodes, TREE)).run(Workload("all_to_all", 1 << 30)).link_loads
        for nodes in (512, 1024)
    )
    assert 512 * 512 <= MOST_PAIRS < 1024 * 1024
    up = [max(load.num_bytes for load in loads if load.link.endswith("->spine")) for loads in (few, many)]
    assert up[0] == pytest.approx(up[1], rel=0.01)
