"""The searched graphs of a node in the form of NCCL's graph file, which NCCL_GRAPH_FILE would read."""

from __future__ import annotations

from typing import Literal

from sim.planners.nccl_2_30.domains import Domain
from sim.planners.nccl_2_30.graphs import Graph as Found
from sim.planners.nccl_2_30.kinds import NodeKind
from sim.planners.nccl_2_30.wiring import Wiring
from topo.readers.nccl_graph import PATTERNS, Graph, GraphChannel, GraphFile, GraphPart

_IDS = {"ring": 0, "tree": 1, "collnet_direct": 4, "collnet_chain": 2, "nvls": 3}
"""NCCL's numbers, in the order in which it writes the graphs."""
_NET_DEV_BITS = 56


def graph_file(wiring: Wiring, domain: int = 0) -> GraphFile:
    """The graphs that one of NCCL's nodes found, before all ranks agree; GPUs and NICs by their device numbers."""
    place = wiring.domains[domain]
    graphs = wiring.domain_graphs[domain]
    return GraphFile("", tuple(_graph(number, graphs[name], place) for name, number in _IDS.items()))


def _graph(number: int, found: Found, domain: Domain) -> Graph:
    gpus = _gpus(domain)
    return Graph(
        line=0,
        id=number,
        pattern=PATTERNS[found.pattern],
        cross_nic=found.cross_nic,
        num_channels=found.num_channels,
        bandwidth_intra_bytes_per_s=found.intra_bytes_per_s,
        bandwidth_inter_bytes_per_s=found.inter_bytes_per_s,
        latency_inter_s=found.latency_inter_s,
        type_intra=found.kind_intra.name,
        type_inter=found.kind_inter.name,
        same_channels=bool(found.same_channels),
        channels=tuple(
            GraphChannel(
                0,
                (
                    *(_net(net) for net in channel.nets[:1]),
                    *(gpus[rank] for rank in channel.ranks),
                    *(_net(net) for net in channel.nets[1:]),
                ),
            )
            for channel in found.channels
        ),
    )


def _gpus(domain: Domain) -> dict[int, GraphPart]:
    """Each rank by its GPU's number, or by itself where several ranks share a GPU."""
    nodes = domain.system.of_kind(NodeKind.GPU)
    places = {node.rank: (node.host, node.dev) for node in nodes}
    if len(set(places.values())) < len(places):
        return {rank: GraphPart(0, "gpu", "rank", rank) for rank in places}
    return {rank: _part("gpu", *place) for rank, place in places.items()}


def _net(net: int) -> GraphPart:
    """A NIC by its id; -1 stands for none where a search fell back to nothing."""
    host, number = (0, 0) if net < 0 else divmod(net, 1 << _NET_DEV_BITS)
    return _part("net", host, number)


def _part(kind: Literal["gpu", "net"], system: int, number: int) -> GraphPart:
    return GraphPart(0, kind, "dev", number, system)
