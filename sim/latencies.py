"""Latencies that a user states, which the times of NCCL's kernels leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topo.topology import Topology

if TYPE_CHECKING:
    from topo.cluster import Cluster

LEFT_OUT = (
    "a latency is stated, which times of NCCL's kernels leave out, since they count every hop as fitted: --engine "
    "event adds it"
)


def states_latency(machine: Topology | Cluster) -> bool:
    """Whether links or fabric have a latency of their own, which no capture says and only a user can."""
    if isinstance(machine, Topology):
        return any(link.latency_s for link in machine.links)
    return machine.fabric.latency_s > 0 or states_latency(machine.node)
