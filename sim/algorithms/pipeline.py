"""How an algorithm passes chunks on, as far as their best number hangs on it: one function of a plan for each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.plan import Plan


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A chunk takes `depth` hops from first to last, and `count` pipelines run side by side, each with its share.

    In a `chain` every rank does the same, so that engines walk a few chunks of however many.
    """

    depth: int
    count: int
    chain: bool = False


def of_chain(plan: Plan) -> Pipeline:
    """Each channel from rank to rank, as a ring broadcasts and reduces."""
    return Pipeline(plan.num_ranks - 1, plan.num_channels, chain=True)


def of_tree(plan: Plan) -> Pipeline:
    """Up and down two trees for each channel."""
    return Pipeline(2 * math.ceil(math.log2(plan.num_ranks)), 2 * plan.num_channels)


def of_nvls(plan: Plan) -> Pipeline:
    """Into each switch of a node and out of it, with a tree between nodes."""
    return Pipeline(2 + 2 * math.ceil(math.log2(len(plan.groups))), len(plan.helpers) // len(plan.groups))


def of_collnet(plan: Plan) -> Pipeline:
    """To each head of a node, through the network's switch, and to the neighbours."""
    return Pipeline(3, len(plan.groups[0]))
