"""Graph search, rings and trees against the reference runs, field by field, and rules that hold on every machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.planners.nccl_2_30.graphs import Graph, Pattern, Request
from sim.planners.nccl_2_30.ground import prepare
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.planner import NcclPlan, plan_nccl
from sim.planners.nccl_2_30.requests import ring_min_channels
from sim.planners.nccl_2_30.search import search_graph
from sim.planners.nccl_2_30.spec import CpuSpec, PciSpec, SystemSpec
from sim.planners.nccl_2_30.trees import NOBODY, binary_tree, double_tree
from tests.sim.nccl_support import (
    GIGA,
    REFERENCES,
    Reference,
    domain_of,
    machine_names,
    machine_text,
    plan_of,
    spec_of,
)
from topo.errors import TopologyError


def fields(graph: Graph) -> dict[str, Any]:
    return {
        "pattern": int(graph.pattern),
        "crossNic": graph.cross_nic,
        "nChannels": graph.num_channels,
        "bwIntra": pytest.approx(graph.intra_bytes_per_s / GIGA),
        "bwInter": pytest.approx(graph.inter_bytes_per_s / GIGA),
        "latencyInter": pytest.approx(graph.latency_inter_s * 1e6),
        "typeIntra": graph.kind_intra.name,
        "typeInter": graph.kind_inter.name,
        "sameChannels": int(graph.same_channels),
        "nHops": graph.num_hops,
        "channels": [
            {"intra": list(channel.ranks), "inter": list(channel.nets)}
            if channel.nets
            else {"intra": list(channel.ranks)}
            for channel in graph.channels
        ],
    }


@pytest.mark.corpus
@pytest.mark.parametrize("reference", REFERENCES, ids=str)
class TestReference:
    @pytest.mark.parametrize("name", ["ring", "tree", "nvls", "collnet_chain", "collnet_direct"])
    def test_graph(self, reference: Reference, name: str) -> None:
        expected = {key: value for key, value in reference.result["graphs"][name].items() if key != "id"}
        assert expected == fields(plan_of(reference).wiring.domain_graphs[0][name])

    def test_channels(self, reference: Reference) -> None:
        result, plan = reference.result, plan_of(reference)
        assert plan.wiring.num_channels == result["nChannels"]
        assert [list(ring) for ring in plan.wiring.rings] == result["rings"]
        assert [
            {"up": list(tree.up), "down": [[*below, *[-1] * (3 - len(below))] for below in tree.down]}
            for tree in plan.wiring.trees
        ] == result["trees"]

    def test_nvls_trees(self, reference: Reference) -> None:
        trees = [{"up": list(tree.up), "headRank": list(tree.head)} for tree in plan_of(reference).wiring.nvls_trees]
        if "tuner" in reference.result:
            assert trees == reference.result.get("nvlsTrees", [])


def check_rings(plan: NcclPlan) -> None:
    """Every ring visits every rank once and starts at rank 0."""
    assert len(plan.wiring.rings) == plan.wiring.num_channels
    for ring in plan.wiring.rings:
        assert ring[0] == 0
        assert sorted(ring) == list(range(plan.wiring.num_ranks))


def check_trees(plan: NcclPlan) -> None:
    """Every tree has one root, from which all ranks are reached, and both directions agree."""
    assert len(plan.wiring.trees) == plan.wiring.num_channels
    for tree in plan.wiring.trees:
        roots = [rank for rank, up in enumerate(tree.up) if up == NOBODY]
        assert len(roots) == 1
        reached, todo = set(roots), list(roots)
        while todo:
            rank = todo.pop()
            for below in tree.down[rank]:
                assert tree.up[below] == rank
                assert below not in reached
                reached.add(below)
                todo.append(below)
        assert len(reached) == plan.wiring.num_ranks
        assert max(map(len, tree.down)) <= 3


@pytest.mark.corpus
@pytest.mark.parametrize("name", machine_names())
@pytest.mark.parametrize("num_copies", [1, 3])
def test_rings_and_trees_on_every_machine(name: str, num_copies: int) -> None:
    text = machine_text(name)
    if num_copies > 1 and "<net " not in text:
        with pytest.raises(TopologyError, match="no NIC, but NCCL has to join 3 nodes"):
            plan_nccl(spec_of(text), num_copies=num_copies)
        return
    plan = plan_nccl(spec_of(text), num_copies=num_copies)
    check_rings(plan)
    check_trees(plan)
    for size in (8, 1 << 20, 1 << 30):
        choice = plan.choose("all_reduce", size)
        assert choice.split.num_channels <= choice.num_channels
        assert choice.estimate_s == min(time for _, time in choice.times_s)


def with_ranks(spec: SystemSpec, chosen: list[int]) -> SystemSpec:
    """The machine of which only those ranks take part, renumbered."""
    new = {rank: number for number, rank in enumerate(chosen)}

    def pci(part: PciSpec) -> PciSpec:
        gpus = tuple(replace(gpu, rank=new.get(gpu.rank) if gpu.rank is not None else None) for gpu in part.gpus)
        return replace(part, gpus=gpus, children=tuple(map(pci, part.children)))

    def cpu(part: CpuSpec) -> CpuSpec:
        return replace(part, children=tuple(pci(c) if isinstance(c, PciSpec) else c for c in part.children))

    return SystemSpec(tuple(map(cpu, spec.cpus)))


SUBSET_MACHINES = [
    name for name in machine_names() if name in ("dgx-h100", "dgx1-v100", "dgx-a100", "pcie-8xl40s-intel", "gb200-nvl8")
]


@pytest.mark.corpus
@pytest.mark.skipif(not SUBSET_MACHINES, reason="no corpus of captures")
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rings_and_trees_on_subsets_of_gpus(data: st.DataObject) -> None:
    spec = spec_of(machine_text(data.draw(st.sampled_from(SUBSET_MACHINES))))
    ranks = sorted(gpu.rank for gpu in spec.gpus() if gpu.rank is not None)
    chosen = data.draw(st.lists(st.sampled_from(ranks), min_size=1, unique=True))
    plan = plan_nccl(with_ranks(spec, chosen), num_copies=data.draw(st.integers(1, 3)))
    check_rings(plan)
    check_trees(plan)


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "num_copies"),
    [("dgx-h100", 1), ("dgx-h100", 2), ("hgx-a100-4gpu-mesh", 1), ("alps-gh200x4", 2), ("pcie-8xl40s-amd", 2)],
)
def test_shortcuts_change_nothing(name: str, num_copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = machine_text(name) if name in machine_names() else pytest.skip("no corpus of captures")
    spec = spec_of(text)
    quick = plan_nccl(spec, num_copies=num_copies)
    monkeypatch.setattr("sim.planners.nccl_2_30.shortcuts.Shortcuts.hopeless", lambda *_: False)
    monkeypatch.setattr("sim.planners.nccl_2_30.shortcuts.Shortcuts.known", lambda *_: None)
    assert plan_nccl(spec, num_copies=num_copies).wiring.domain_graphs == quick.wiring.domain_graphs


@pytest.mark.parametrize("num_nodes", [*range(1, 18), 32, 33, 129])
def test_double_tree_spans(num_nodes: int) -> None:
    for which in (0, 1):
        places = [double_tree(node, num_nodes)[which] for node in range(num_nodes)]
        roots = [node for node, place in enumerate(places) if place.up == NOBODY]
        assert len(roots) == 1
        for node, place in enumerate(places):
            for second, child in enumerate(place.down):
                if child != NOBODY:
                    assert places[child].up == node
                    assert places[child].second_child == bool(second)
        children = sum(child != NOBODY for place in places for child in place.down)
        assert children == num_nodes - 1
    inner = [
        {node for node in range(num_nodes) if any(c != NOBODY for c in double_tree(node, num_nodes)[which].down)}
        for which in (0, 1)
    ]
    if num_nodes % 2 == 0 and num_nodes > 2:
        assert not inner[0] & inner[1], "a leaf of one tree is an inner node of the other"


def test_leaves_are_odd_nodes() -> None:
    assert [binary_tree(node, 8).down for node in (1, 3, 5, 7)] == [(NOBODY, NOBODY)] * 4


@pytest.mark.corpus
@pytest.mark.skipif(not REFERENCES, reason="no corpus of captures")
def test_no_solution_falls_back_to_one_slow_channel() -> None:
    reference = next(reference for reference in REFERENCES if reference.name == "dgx-h100")
    ground = prepare(domain_of(reference), NcclOptions())
    graph = search_graph(ground, Request(Pattern.BALANCED_TREE, 200, 200), NcclOptions())
    assert graph.num_channels == 1
    assert graph.intra_bytes_per_s == pytest.approx(0.1 * GIGA)
    assert graph.channels[0].ranks == tuple(range(8))
    assert ring_min_channels(domain_of(reference)) == 1
