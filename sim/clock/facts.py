"""What of a machine NCCL's kernels feel: rates by counting who shares each link, and the kind of network."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.planners.nccl_2_30.kinds import LinkKind, NodeKind, PathKind
from sim.planners.nccl_2_30.transports import p2p_level

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.planners.nccl_2_30.domains import Domain
    from sim.planners.nccl_2_30.graphs import Graph, GraphChannel
    from sim.planners.nccl_2_30.planner import NcclPlan
    from topo.cluster import Cluster
    from topo.topology import Topology

NO_NETWORK = "none"
_FAST_NIC_BYTES_PER_S = 40e9
"""EFA came in two kinds so far: 100 Gbit/s cards that need 75 us, and those of 400 Gbit/s and their successors."""
_NVLINK_BYTES_PER_S = 100e9
"""A lone GPU with faster links than this has NVLinks, which its one rank does not use."""
PCIE_BESIDE_NCCL = 55 / 48
"""A NIC gets 55 GB/s through Gen5 x16, where NCCL's figure, made for GPUs that talk to each other, is 48."""
_CHIPS = {70: "volta", 80: "ampere", 90: "hopper", 100: "blackwell", 103: "blackwell"}
"""Compute capabilities of the chips that each generation of NVLink was made for."""
ENDLESS = 1e15
"""The rate of what does not limit."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A communicator as the clock counts it.

    `link_bytes_per_s` and `net_bytes_per_s` are what all channels of a ring together move over one hop inside a node
    and between nodes, limited by the most crowded link; `gpu_bytes_per_s` is all links of one GPU. `through_host`:
    some hop passes the host's memory. `host_bridge`: NICs are reached over it. `newest` says that a GPU is newer
    than NCCL's tables.
    """

    generation: str
    fabric: str
    num_ranks: int
    num_nodes: int
    num_channels: int
    num_heads: int
    link_bytes_per_s: float
    net_bytes_per_s: float
    gpu_bytes_per_s: float
    nic_bytes_per_s: float
    through_host: bool = False
    host_bridge: bool = False
    newest: bool = False
    nics_bytes_per_s: float = 0.0
    """What all NICs that GPUs of a node have near together move, which sends to all others use; 0 on one node."""
    native: str = ""
    """The generation by the GPU's chip, which is another one where its NVLinks are not used; empty: the same."""

    @property
    def ranks_per_node(self) -> float:
        """Ranks per node, on average."""
        return self.num_ranks / self.num_nodes


def facts_of(plan: NcclPlan, hint: str = "") -> Facts:
    """The facts of a planned machine; `hint` is further text about it, such as a published description."""
    wiring = plan.wiring
    first = wiring.domains[0]
    nets = [node.net for node in first.system.of_kind(NodeKind.NET) if node.net]
    crowds = [
        _Crowd(domain, graphs["ring"], p2p_level(domain.system, plan.options))
        for domain, graphs in zip(wiring.domains, wiring.domain_graphs, strict=True)
    ]
    kinds = frozenset().union(*(crowd.kinds for crowd in crowds))
    gpu_rate = min(domain.total_bytes_per_s for domain in wiring.domains)
    nvlink = kinds <= {PathKind.NVL, PathKind.NVB} if kinds else gpu_rate > _NVLINK_BYTES_PER_S
    machine = plan.communicator.machine
    several = wiring.num_nodes > 1
    generation = _generation(machine.min_compute_capability, nvlink=nvlink)
    text = f"{hint} {' '.join(net.name for net in nets[:1])}".lower()
    nic_rate = nets[0].bandwidth_bytes_per_s if nets else 0.0
    return Facts(
        generation=generation,
        fabric=_fabric(text, nic_rate, nets[0].latency_s if nets else 0.0) if several else NO_NETWORK,
        num_ranks=wiring.num_ranks,
        num_nodes=wiring.num_nodes,
        num_channels=wiring.num_channels,
        num_heads=max(1, plan.communicator.nvls_num_heads),
        link_bytes_per_s=min(crowd.link_bytes_per_s for crowd in crowds),
        net_bytes_per_s=min(crowd.net_bytes_per_s for crowd in crowds) if several else ENDLESS,
        gpu_bytes_per_s=gpu_rate,
        nic_bytes_per_s=nic_rate,
        through_host=any(crowd.through_host for crowd in crowds),
        host_bridge=several and wiring.graphs["ring"].kind_inter in (PathKind.PHB, PathKind.SYS),
        newest=plan.extrapolated,
        nics_bytes_per_s=min(map(_nics_bytes_per_s, wiring.domains)) if several else 0.0,
        native=_CHIPS.get(machine.min_compute_capability, generation) if generation == "pcie" else generation,
    )


def _nics_bytes_per_s(domain: Domain) -> float:
    """The rates of the NICs that are near to a GPU of the domain, as far as PCIe lets them through."""
    paths = domain.paths
    rates: dict[int, float] = {}
    for gpu, nearest in enumerate(paths.local_nets):
        for net in {nearest.of_channel(channel) for channel in range(nearest.count)}:
            reached = paths.gpu_net[gpu][net].bandwidth_bytes_per_s * PCIE_BESIDE_NCCL
            rates[net] = max(rates.get(net, 0.0), reached)
    own = [node.net.bandwidth_bytes_per_s for node in paths.system.of_kind(NodeKind.NET) if node.net]
    return sum(min(own[net], rate) for net, rate in rates.items())


def pairs_through_host(plan: NcclPlan, num_gpus: int) -> npt.NDArray[np.bool_]:
    """Whether GPU a of a host sends to GPU b of it through the host's memory, shape (num_gpus, num_gpus)."""
    through = np.zeros((num_gpus, num_gpus), dtype=np.bool_)
    for domain in plan.wiring.domains:
        level = p2p_level(domain.system, plan.options)
        ranks = np.array(domain.ranks)
        kinds = np.array([[path.kind for path in row] for row in domain.paths.gpu_gpu])
        through[np.ix_(ranks, ranks)] = (kinds > level) & (kinds < PathKind.NET)
    np.fill_diagonal(through, val=False)
    return through


class _Crowd:
    """How many channels of a domain's ring cross each edge, and by which kinds of paths its hops lead."""

    def __init__(self, domain: Domain, graph: Graph, p2p: PathKind) -> None:
        self._p2p = p2p
        self._edges = domain.system.edges
        self._num_channels = len(graph.channels)
        self._between_gpus: Counter[int] = Counter()
        self._to_nics: Counter[int] = Counter()
        self.kinds: frozenset[PathKind] = frozenset()
        gpu_of = {rank: index for index, rank in enumerate(domain.ranks)}
        net_of = {node.net_id: node.index for node in domain.system.of_kind(NodeKind.NET)}
        for channel in graph.channels:
            self._count(domain, channel, gpu_of, net_of)

    def _count(
        self, domain: Domain, channel: GraphChannel, gpu_of: Mapping[int, int], net_of: Mapping[int, int]
    ) -> None:
        paths = domain.paths
        order = [gpu_of.get(rank, rank) for rank in channel.ranks]
        hops = list(pairwise(order))
        if not channel.nets:
            hops.append((order[-1], order[0]))
        for path in (paths.gpu_gpu[src][dst] for src, dst in hops if src != dst):
            self.kinds |= {path.kind}
            self._between_gpus.update(path.hops)
        if channel.nets:
            self._to_nics.update(paths.net_gpu[net_of[channel.nets[0]]][order[0]].hops)
            self._to_nics.update(paths.gpu_net[order[-1]][net_of[channel.nets[-1]]].hops)

    @property
    def through_host(self) -> bool:
        """Whether GPUs that may not talk directly pass the host's memory."""
        return any(self._p2p < kind < PathKind.NET for kind in self.kinds)

    @property
    def link_bytes_per_s(self) -> float:
        """What all channels together move over the most crowded link between GPUs."""
        return self._rate(self._between_gpus, 1.0)

    @property
    def net_bytes_per_s(self) -> float:
        """The same on the way between GPUs and the network, at the rate that PCIe gives NICs."""
        return self._rate(self._to_nics, PCIE_BESIDE_NCCL)

    def _rate(self, uses: Counter[int], pcie: float) -> float:
        rates = (
            self._edges[edge].bandwidth_bytes_per_s
            * (pcie if self._edges[edge].kind == LinkKind.PCI else 1.0)
            * self._num_channels
            / (self._between_gpus[edge] + self._to_nics[edge])
            for edge in uses
        )
        return min(rates, default=ENDLESS)


def _node_of(machine: Topology | Cluster) -> Topology:
    from topo.topology import Topology

    return machine if isinstance(machine, Topology) else machine.node


def generation_of(machine: Topology | Cluster) -> str:
    """The generation of a machine by its GPUs and links alone, without a plan."""
    node = _node_of(machine)
    capabilities = [device.gpu.compute_capability for device in node.devices if device.gpu]
    lowest = min((capability for capability in capabilities if capability is not None), default=0)
    return _generation(lowest, nvlink=any(link.kind == "nvlink" for link in node.links))


def fabric_of(machine: Topology | Cluster) -> str:
    """The kind of network that its NICs lead to, whether it is used or not."""
    node = _node_of(machine)
    nic = next(iter(node.of_kind("nic")), None)
    if nic is None or nic.nic is None:
        return _fabric(machine.name.lower(), 0.0, 0.0)
    text = f"{machine.name} {nic.nic.os_name or nic.name}".lower()
    return _fabric(text, nic.nic.bandwidth_bytes_per_s or 0.0, nic.nic.latency_s or 0.0)


def _generation(compute_capability: int, *, nvlink: bool) -> str:
    if not nvlink:
        return "pcie"
    for least, name in ((100, "blackwell"), (90, "hopper"), (80, "ampere")):
        if compute_capability >= least:
            return name
    return "volta"


def _fabric(text: str, nic_bytes_per_s: float, latency_s: float) -> str:
    """The kind of network, from the names of NICs and what is said of the machine."""
    if "gcp" in text or "tcpx" in text:
        return "tcpx"
    if "cxi" in text or "slingshot" in text:
        return "slingshot"
    if "efa" in text or "rdmap" in text or latency_s > 0:
        return "efa" if nic_bytes_per_s >= _FAST_NIC_BYTES_PER_S else "efa-classic"
    return "infiniband"
