"""The cheapest way through a small graph: Dijkstra's algorithm.

Written out here because loading a graph library takes longer than all searches of a machine together.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

Costs = Mapping[str, Mapping[str, float]]
"""By node, the nodes that it reaches, each with the cost of that step, which is above 0."""


def shortest_path(costs: Costs, src: str, dst: str) -> list[str] | None:
    """The nodes of the cheapest way, both ends included; None where there is none.

    Of several that cost the same it is the one whose nodes were reached first, neighbours in the order of `costs`.
    """
    least = {src: 0.0}
    before: dict[str, str] = {}
    done: set[str] = set()
    # The middle number keeps the order of discovery where costs are equal.
    todo = [(0.0, 0, src)]
    num_found = 0
    while todo:
        so_far, _, node = heappop(todo)
        if node == dst:
            return _back_to(src, dst, before)
        if node in done:
            continue
        done.add(node)
        for following, step in costs.get(node, {}).items():
            cost = so_far + step
            if following not in done and (following not in least or cost < least[following]):
                num_found += 1
                least[following] = cost
                before[following] = node
                heappush(todo, (cost, num_found, following))
    return None


def _back_to(src: str, dst: str, before: Mapping[str, str]) -> list[str]:
    path = [dst]
    while path[-1] != src:
        path.append(before[path[-1]])
    return path[::-1]
