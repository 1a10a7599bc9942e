"""The formula of the textbooks as a baseline: a ring's steps of 3 us each, and its bytes over the vendor's bandwidth.

t = k * 3 us + V / B, with k = 2(n - 1) steps of an all-reduce, n - 1 of other collectives, 1 of a send; V what each
rank sends (nccl-tests' size times its busbw factor); B the data sheet's rate of one GPU's NVLinks, or of PCIe where
NVLinks do not join the GPUs, and over several nodes no more than all NICs of one node together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from topo.cluster import Cluster
from topo.paths import path_bandwidth
from topo.topology import Topology
from validate.published.cases import SENDRECV
from validate.scoring.scaled import ScaledModel, Terms

if TYPE_CHECKING:
    from validate.published.cases import Case

STEP_S = 3e-6

_GPU_LINKS = ("nvlink", "xgmi")


def textbook() -> ScaledModel:
    """The formula as it stands."""
    return ScaledModel(textbook_terms)


def textbook_terms(case: Case) -> Terms:
    """Steps and bytes of a ring over the case's GPUs."""
    steps, volume = _steps_and_volume(case.collective, case.num_ranks)
    latency_s = np.full(len(case.samples), steps * STEP_S)
    return Terms(latency_s, volume * case.num_bytes / vendor_bytes_per_s(case.machine, case.collective))


def _steps_and_volume(collective: str, num_ranks: int) -> tuple[int, float]:
    from sim.collective import collective as row_of

    if collective == SENDRECV:
        return 1, 1.0
    steps = (num_ranks - 1) * (2 if collective == "all_reduce" else 1)
    return steps, row_of(collective).busbw_factor(num_ranks)


def vendor_bytes_per_s(machine: Topology | Cluster, collective: str) -> float:
    """The rate of the slowest hop on the way round, by the data sheets.

    An all-to-all crosses every NIC of a node for each of its GPUs, where a ring enters a node once.
    """
    if isinstance(machine, Topology):
        return node_bytes_per_s(machine)
    nics = sum(machine.port_bytes_per_s(nic) for nic in machine.nics)
    if collective in ("all_to_all", SENDRECV):
        nics /= machine.node.num_ranks
    return min(nics, node_bytes_per_s(machine.node)) if machine.node.num_ranks > 1 else nics


def node_bytes_per_s(node: Topology) -> float:
    """What one GPU sends to the others: all its NVLinks where these join all GPUs, else the slowest path of a ring."""
    sums = [_sum_of_links(node, gpu_id) for gpu_id in node.gpu_ids]
    if all(sums) and _joined(node):
        return min(sums)
    pairs = zip(node.gpu_ids, (*node.gpu_ids[1:], node.gpu_ids[0]), strict=True)
    return min(path_bandwidth(node, one, other) for one, other in pairs)


def _sum_of_links(node: Topology, gpu_id: str) -> float:
    reachable = {*node.gpu_ids, *(device.id for device in node.of_kind("nvswitch"))}
    links = (link for link in node.adjacency[gpu_id] if link.kind in _GPU_LINKS and link.dst in reachable)
    return sum(link.bandwidth_bytes_per_s for link in links)


def _joined(node: Topology) -> bool:
    """Whether NVLinks alone lead from the first GPU to all others."""
    switches = {device.id for device in node.of_kind("nvswitch")}
    reached, todo = {node.gpu_ids[0]}, [node.gpu_ids[0]]
    while todo:
        for link in node.adjacency[todo.pop()]:
            usable = link.kind in _GPU_LINKS and (link.dst in node.gpu_ids or link.dst in switches)
            if usable and link.dst not in reached:
                reached.add(link.dst)
                todo.append(link.dst)
    return reached.issuperset(node.gpu_ids)
