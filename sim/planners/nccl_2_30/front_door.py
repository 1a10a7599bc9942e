"""From a machine of ours to NCCL's plan of it, without anything that only simulating needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sim.planners.nccl_2_30.from_topology import spec_from_topology
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.planner import NcclPlan, plan_nccl
from sim.planners.nccl_2_30.requests import GraphSearch, remembered_graphs
from topo.errors import TopologyError, UnitError
from topo.topology import Topology

if TYPE_CHECKING:
    from sim.planners.options import Options
    from topo.cluster import Cluster


def plan_machine(
    machine: Topology | Cluster, environment: Mapping[str, str], search: GraphSearch = remembered_graphs
) -> NcclPlan:
    """What NCCL builds on the machine under these variables; TopologyError where that cannot be told.

    In a cluster NICs have the rate of their port to the fabric. A topology of several hosts that no NVLink joins is
    planned as copies of the first one. `search` finds the graphs of each domain.
    """
    options = NcclOptions.from_environment(environment)
    if not isinstance(machine, Topology):
        return plan_nccl(
            spec_from_topology(_with_port_rates(machine)), num_copies=machine.count, options=options, search=search
        )
    node, copies = _first_host(machine)
    return plan_nccl(spec_from_topology(node), num_copies=copies, options=options, search=search)


def environment_of(options: Options) -> dict[str, str]:
    """The variables that NCCL would read, with --protocol as NCCL_PROTO; UnitError where both are given."""
    environment = dict(options.environment)
    if options.protocol is not None:
        if "NCCL_PROTO" in environment:
            raise UnitError("--protocol and --env NCCL_PROTO say the same thing twice: use one of them")
        environment["NCCL_PROTO"] = options.protocol
    return environment


def _with_port_rates(cluster: Cluster) -> Topology:
    """The node whose NICs run at the rate of their port: the lower of their own and the fabric's."""
    rates = {nic.id: cluster.port_bytes_per_s(nic) for nic in cluster.nics}
    devices = tuple(
        replace(device, nic=replace(device.nic, bandwidth_bytes_per_s=rates[device.id]))
        if device.id in rates and device.nic
        else device
        for device in cluster.node.devices
    )
    return replace(cluster.node, devices=devices)


def _first_host(topology: Topology) -> tuple[Topology, int]:
    """The part of a topology that NCCL takes as one system, and how often it stands: one NVLink domain, or one host."""
    hosts = [topology.device(gpu_id).host for gpu_id in topology.gpu_ids]
    names = list(dict.fromkeys(hosts))
    if len(names) < 2 or _nvlinks_join_hosts(topology):
        return topology, 1
    size = len(hosts) // len(names)
    if hosts != [name for name in names for _ in range(size)]:
        raise TopologyError(
            f"the ranks of {len(names)} hosts are mixed or unequal in number: plan one host, and repeat it with --nodes"
        )
    devices = tuple(device for device in topology.devices if device.host == names[0])
    ids = {device.id for device in devices}
    links = tuple(link for link in topology.links if link.src in ids and link.dst in ids)
    return replace(topology, devices=devices, links=links, gpu_ids=topology.gpu_ids[:size], hidden_pairs=()), len(names)


def _nvlinks_join_hosts(topology: Topology) -> bool:
    """Whether NVLinks, also over NVSwitches, lead from the first GPU to another host."""
    beside: dict[str, list[str]] = {}
    for link in topology.links:
        if link.kind == "nvlink" and link.state == "active":
            beside.setdefault(link.src, []).append(link.dst)
    first = topology.gpu_ids[0]
    reached, todo = {first}, [first]
    while todo:
        for other in beside.get(todo.pop(), ()):
            if other not in reached:
                reached.add(other)
                todo.append(other)
    host = topology.device(first).host
    return any(topology.device(name).kind == "gpu" and topology.device(name).host != host for name in reached)
