"""The cheapest way, beside networkx's: the same nodes, ties included."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.engines.shortest import shortest_path

NODES = st.sampled_from("abcdefg")
STEPS = st.lists(st.tuples(NODES, NODES, st.sampled_from([1.0, 2.0, 3.0])), max_size=30)


@given(steps=STEPS, src=NODES, dst=NODES)
def test_it_is_networkx_s(steps: list[tuple[str, str, float]], src: str, dst: str) -> None:
    costs: dict[str, dict[str, float]] = {}
    for one, other, cost in steps:
        costs.setdefault(one, {})[other] = cost
    graph = nx.DiGraph()
    graph.add_nodes_from("abcdefg")
    graph.add_weighted_edges_from((one, other, cost) for one, ends in costs.items() for other, cost in ends.items())
    try:
        expected = nx.dijkstra_path(graph, src, dst)
    except nx.NetworkXNoPath:
        expected = None
    assert shortest_path(costs, src, dst) == expected


@pytest.mark.parametrize(("dst", "expected"), [("a", ["a"]), ("d", ["a", "c", "d"]), ("z", None)])
def test_of_equal_ways_the_first_found_is_taken(dst: str, expected: list[str] | None) -> None:
    costs = {"a": {"c": 1.0, "b": 1.0}, "b": {"d": 1.0}, "c": {"d": 1.0}}
    assert shortest_path(costs, "a", dst) == expected
