"""Which switches reduce and multicast for which ranks, and which ranks share a node."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sim.algorithms import algorithm as find_algorithm
from sim.plan import Plan
from topo.errors import TopologyError
from topo.topology import Topology

if TYPE_CHECKING:
    from topo.cluster import Cluster

Groups = tuple[tuple[int, ...], ...]


def nodes_of(machine: Topology | Cluster) -> Groups:
    """The ranks of each node, nodes in the order of their first ranks; TopologyError where nodes differ in number.

    The nodes of a topology are its hosts.
    """
    if not isinstance(machine, Topology):
        size = machine.node.num_ranks
        return tuple(tuple(range(node * size, (node + 1) * size)) for node in range(machine.count))
    ranks: dict[str | None, list[int]] = {}
    for rank, gpu_id in enumerate(machine.gpu_ids):
        ranks.setdefault(machine.device(gpu_id).host, []).append(rank)
    sizes = {host: len(found) for host, found in ranks.items()}
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{host or 'no host'} {size}" for host, size in sizes.items())
        raise TopologyError(
            f"hierarchical needs as many ranks on each node, here are {said}: choose them with --gpus, or another "
            "--algorithm"
        )
    return tuple(tuple(found) for found in ranks.values())


def with_switches(plan: Plan, machine: Topology | Cluster, *, network_reduces: bool = False) -> Plan:
    """The plan of an algorithm in switches with the groups of ranks that switches join, and these as its helpers.

    NVLS joins several groups where the network's switch, then the last helper, reduces too. TopologyError where ranks
    have no switch, where there are too many groups for `nvls` or too few for `nvls-tree`, or where groups differ.
    """
    if find_algorithm(plan.algorithm).in_network:
        return _with_network_switch(plan, machine)
    found = _joined(machine)
    groups, helpers = tuple(found), tuple(switch for switches in found.values() for switch in switches)
    name = machine.name or "this topology"
    missing = sorted(set(range(machine.num_ranks)).difference(*groups))
    if missing:
        raise TopologyError(
            f"{plan.algorithm} needs an NVSwitch that reduces beside every rank, {name} has none at rank {missing[0]}: "
            "choose another --algorithm"
        )
    if plan.algorithm == "nvls" and len(groups) > 1 and not network_reduces:
        raise TopologyError(
            f"nvls needs one NVSwitch for all ranks, on {name} there are {len(groups)} groups: use nvls-tree"
        )
    if plan.algorithm == "nvls-tree" and len(groups) == 1:
        raise TopologyError(f"nvls-tree joins several groups of ranks, on {name} one NVSwitch joins all: use nvls")
    if len({(len(ranks), len(switches)) for ranks, switches in found.items()}) > 1:
        raise TopologyError(
            f"{plan.algorithm} needs as many ranks and switches in each group, on {name} they differ: choose ranks "
            "with --gpus, or another --algorithm"
        )
    if plan.algorithm == "nvls" and len(groups) > 1:
        helpers = (*helpers, _network_switch(plan.algorithm, machine))
    return replace(plan, groups=groups, helpers=helpers)


def _with_network_switch(plan: Plan, machine: Topology | Cluster) -> Plan:
    """The plan with the ranks of each node, and the one switch of the network as helper."""
    groups = nodes_of(machine)
    if len(groups) < 2:
        raise TopologyError(
            f"{plan.algorithm} needs a network switch that reduces between several nodes, here is one: add --nodes"
        )
    return replace(plan, groups=groups, helpers=(_network_switch(plan.algorithm, machine),))


def _network_switch(algorithm: str, machine: Topology | Cluster) -> str:
    """The one switch that joins all nodes; TopologyError where there is none, or a tree of them."""
    from topo.fabric import FLAT_ID

    if isinstance(machine, Topology):
        switches = [device.id for device in machine.of_kind("net_switch")]
    else:
        switches = [FLAT_ID] if machine.fabric.name == "flat" else []
    if len(switches) != 1:
        raise TopologyError(
            f"{algorithm} needs one network switch that reduces for all nodes, a tree of switches is not modelled: "
            "take --fabric flat, or another --algorithm"
        )
    return switches[0]


def _joined(machine: Topology | Cluster) -> dict[tuple[int, ...], list[str]]:
    """The switches of each group of ranks that they join directly, groups in the order of their first ranks."""
    if not isinstance(machine, Topology):
        size = machine.node.num_ranks
        return {
            tuple(node * size + rank for rank in ranks): [machine.device_id(node, switch) for switch in switches]
            for node in range(machine.count)
            for ranks, switches in _joined(machine.node).items()
        }
    switches = {device.id for device in machine.of_kind("nvswitch")}
    ranks = {gpu_id: rank for rank, gpu_id in enumerate(machine.gpu_ids)}
    joined: dict[str, set[int]] = {}
    for link in machine.links:
        if link.state == "active" and link.src in ranks and link.dst in switches:
            joined.setdefault(link.dst, set()).add(ranks[link.src])
    found: dict[tuple[int, ...], list[str]] = {}
    for switch, who in sorted(joined.items(), key=lambda item: min(item[1])):
        found.setdefault(tuple(sorted(who)), []).append(switch)
    return found
