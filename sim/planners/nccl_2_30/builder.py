"""Building the system graph step by step, in the order in which NCCL does (xml -> nodes -> links -> sorted links)."""

from __future__ import annotations

from dataclasses import dataclass, field

from sim.planners.nccl_2_30 import facts
from sim.planners.nccl_2_30.kinds import LinkKind, NodeKind
from sim.planners.nccl_2_30.rates import cpu_bytes_per_s, nvlink_bytes_per_s, pci_class, pcie_bytes_per_s
from sim.planners.nccl_2_30.spec import CpuSpec, GpuSpec, NetSpec, NicSpec, PciSpec, SystemSpec
from sim.planners.nccl_2_30.system import Edge, Node, System


@dataclass(eq=False, slots=True)
class _Link:
    """A link under construction; it sits in the list of the node it leaves."""

    to: _Draft
    kind: LinkKind
    bandwidth_bytes_per_s: float


@dataclass(eq=False, slots=True)
class _Draft:
    """A node under construction; `key` is what NCCL looks it up by, `upper` what it hangs on."""

    kind: NodeKind
    host: int
    key: object
    upper: _Draft | None = None
    ids: int = 0
    gpu: GpuSpec | None = None
    device: _Draft | None = None
    net: NetSpec | None = None
    cpu: CpuSpec | None = None
    links: list[_Link] = field(default_factory=list)


class Builder:
    """Collects nodes and links of one machine; `freeze` gives the finished graph."""

    def __init__(self, spec: SystemSpec) -> None:
        self._spec = spec
        self._hosts = {host: number for number, host in enumerate(spec.hosts)}
        self._nodes: list[_Draft] = []
        self._found: dict[tuple[NodeKind, object], _Draft] = {}

    def add_cpus(self) -> None:
        """Walk the tree in document order and create every node but the NVSwitch."""
        for cpu in self._spec.cpus:
            host = self._hosts[cpu.host]
            node = self._create(NodeKind.CPU, host, (host, cpu.numa_node))
            node.cpu = cpu
            for child in cpu.children:
                if isinstance(child, PciSpec):
                    self._add_function(child, node, cpu)
                else:
                    self._add_card_of_cpu(child, node, cpu)

    def _add_card_of_cpu(self, card: NicSpec, cpu_node: _Draft, cpu: CpuSpec) -> None:
        """A card without a PCI function of its own: one NIC node for all of them on this NUMA node."""
        key = (cpu_node.host, cpu.numa_node, "")
        known = self._found.get((NodeKind.NIC, key))
        node = known or self._create(NodeKind.NIC, cpu_node.host, key, upper=cpu_node)
        self._add_nets(card, node)
        if known is None:
            _join(node, cpu_node, LinkKind.PCI, facts.LOCAL_BYTES_PER_S)

    def _add_function(self, pci: PciSpec, upper: _Draft, cpu: CpuSpec) -> None:
        bandwidth = pcie_bytes_per_s(pci.link_speed, pci.link_width)
        key = (upper.host, pci.bus_id)
        if pci.gpus:
            if pci.gpus[0].rank is not None:
                self._add_device(pci, upper, bandwidth)
        elif pci.nic is not None:
            nic_key = (upper.host, cpu.numa_node, pci.bus_id)
            known = self._found.get((NodeKind.NIC, nic_key))
            node = known or self._create(NodeKind.NIC, upper.host, nic_key, upper=upper)
            self._add_nets(pci.nic, node)
            if known is None:
                _join(node, upper, LinkKind.PCI, bandwidth)
        elif pci_class(pci.device_class) == "bridge":
            node = self._create(NodeKind.PCI, upper.host, key, upper=upper)
            node.ids = pci.ids
            for child in pci.children:
                self._add_function(child, node, cpu)
            _join(node, upper, LinkKind.PCI, bandwidth)

    def _add_device(self, pci: PciSpec, upper: _Draft, bandwidth_bytes_per_s: float) -> None:
        device = self._create(NodeKind.DEVICE, upper.host, (upper.host, pci.bus_id), upper=upper)
        device.gpu = pci.gpus[0]
        _join(device, upper, LinkKind.PCI, bandwidth_bytes_per_s)
        for gpu in pci.gpus:
            if gpu.rank is None:
                break
            node = self._create(NodeKind.GPU, upper.host, (upper.host, pci.bus_id, gpu.rank), upper=device)
            node.gpu, node.device = gpu, device
            _join(node, device, LinkKind.LOC, facts.LOCAL_BYTES_PER_S)

    def _add_nets(self, card: NicSpec, nic: _Draft) -> None:
        for net in card.nets:
            node = self._create(NodeKind.NET, nic.host, (nic.host, net.index), upper=nic)
            node.net = net
            _join(nic, node, LinkKind.NET, net.bandwidth_bytes_per_s)

    def add_nvlinks(self) -> None:
        """NVLinks of each physical GPU: one direction to another GPU, both to the switch or to a CPU."""
        for device in self._devices():
            assert device.gpu is not None
            lane = nvlink_bytes_per_s(device.gpu.compute_capability)
            for link in device.gpu.nvlinks:
                bandwidth = lane * link.lanes
                if link.target_kind == "nvswitch":
                    switch = self._found.get((NodeKind.NVSWITCH, None))
                    switch = switch or self._create(NodeKind.NVSWITCH, 0, None)
                    _join(device, switch, LinkKind.NVL, bandwidth)
                elif link.target_kind == "cpu":
                    _join(device, _cpu_above(device), LinkKind.NVL, bandwidth)
                else:
                    peer = self._found.get((NodeKind.DEVICE, (device.host, link.target)))
                    if peer is not None:
                        _add_link(device, peer, LinkKind.NVL, bandwidth)

    def add_c2c(self) -> None:
        """NVLink-C2C between each physical GPU and the CPU above it."""
        for device in self._devices():
            assert device.gpu is not None
            for c2c in device.gpu.c2c:
                _join(device, _cpu_above(device), LinkKind.C2C, c2c.bandwidth_bytes_per_s)

    def add_pci_peers(self) -> None:
        """Direct links between PCIe switches; each side declares its own direction."""
        for cpu in self._spec.cpus:
            host = self._hosts[cpu.host]
            for pci in cpu.functions():
                for target in pci.peers:
                    near = self._found.get((NodeKind.PCI, (host, pci.bus_id)))
                    far = self._found.get((NodeKind.PCI, (host, target)))
                    if near is not None and far is not None:
                        _add_link(near, far, LinkKind.LOC, facts.LOCAL_BYTES_PER_S)

    def flatten_broadcom(self) -> None:
        """Take the levels of one Broadcom switch for one node, again from the first switch after each find."""
        while any(self._flatten(node) for node in self._nodes if node.kind == NodeKind.PCI):
            pass

    def _flatten(self, switch: _Draft) -> bool:
        child_id = facts.BROADCOM_SWITCHES.get(switch.ids & facts.BROADCOM_MASK)
        if child_id is None:
            return False
        absorbed = [
            link.to
            for link in switch.links
            if link.to.kind == NodeKind.PCI
            and link.to is not switch.upper
            and link.to.ids & facts.BROADCOM_MASK == child_id
        ]
        for child in absorbed:
            _absorb(switch, child)
            self._nodes.remove(child)
        switch.ids |= 0xFFFF
        return True

    def join_cpus(self) -> None:
        """Every two CPUs of a host are joined, at the rate of the first of the pair."""
        cpus = [node for node in self._nodes if node.kind == NodeKind.CPU]
        for near in cpus:
            for far in cpus:
                if near is not far and near.host == far.host:
                    assert near.cpu is not None
                    _add_link(near, far, LinkKind.SYS, cpu_bytes_per_s(near.cpu))

    def sort_links(self) -> None:
        """From each CPU downwards, the first link to the upper node goes to the very end."""
        for node in self._nodes:
            if node.kind == NodeKind.CPU:
                _links_up_last(node, None)

    def freeze(self) -> System:
        """The finished graph."""
        number = {node: position for position, node in enumerate(self._nodes)}
        counts = dict.fromkeys(NodeKind, 0)
        nodes = []
        for node in self._nodes:
            nodes.append(_frozen(node, number, counts[node.kind]))
            counts[node.kind] += 1
        edges: list[Edge] = []
        leaving = []
        first: dict[tuple[int, int, LinkKind], int] = {}
        for node in self._nodes:
            leaving.append(tuple(range(len(edges), len(edges) + len(node.links))))
            for link in node.links:
                ends = (number[node], number[link.to])
                first.setdefault((*ends, link.kind), len(edges))
                edges.append(Edge(*ends, link.kind, float(link.bandwidth_bytes_per_s)))
        both_ways = tuple(
            Edge(e.src, e.dst, e.kind, e.bandwidth_bytes_per_s, first.get((e.dst, e.src, e.kind), -1)) for e in edges
        )
        return System(tuple(nodes), both_ways, tuple(leaving), len(self._hosts))

    def _create(self, kind: NodeKind, host: int, key: object, upper: _Draft | None = None) -> _Draft:
        node = _Draft(kind, host, key, upper)
        self._nodes.append(node)
        self._found.setdefault((kind, key), node)
        return node

    def _devices(self) -> list[_Draft]:
        return [node for node in self._nodes if node.kind == NodeKind.DEVICE]


def _join(near: _Draft, far: _Draft, kind: LinkKind, bandwidth_bytes_per_s: float) -> None:
    _add_link(near, far, kind, bandwidth_bytes_per_s)
    _add_link(far, near, kind, bandwidth_bytes_per_s)


def _add_link(near: _Draft, far: _Draft, kind: LinkKind, bandwidth_bytes_per_s: float) -> None:
    """Add to a link of that kind or append one, then move it up behind the last that is at least as fast."""
    links = near.links
    position = next((at for at, link in enumerate(links) if link.to is far and link.kind == kind), len(links))
    if position == len(links):
        links.append(_Link(far, kind, 0.0))
    moving = links.pop(position)
    moving.bandwidth_bytes_per_s += bandwidth_bytes_per_s
    while position and links[position - 1].bandwidth_bytes_per_s < moving.bandwidth_bytes_per_s:
        position -= 1
    links.insert(position, moving)


def _absorb(switch: _Draft, child: _Draft) -> None:
    """The child's links become the switch's, its neighbours' links lead to the switch."""
    switch.links = [link for link in switch.links if link.to is not child]
    for link in child.links:
        if link.to is switch:
            continue
        switch.links.append(link)
        for back in link.to.links:
            if back.to is child:
                back.to = switch
        if link.to.upper is child:
            link.to.upper = switch


def _cpu_above(node: _Draft) -> _Draft:
    """The CPU that a node hangs on; every function hangs on one by construction."""
    while node.upper is not None:
        node = node.upper
    return node


def _links_up_last(node: _Draft, upper: _Draft | None) -> None:
    for position, link in enumerate(node.links):
        if link.to is upper:
            node.links.append(node.links.pop(position))
            break
    for link in node.links:
        if link.kind == LinkKind.PCI and link.to is not upper:
            _links_up_last(link.to, node)


def _frozen(node: _Draft, number: dict[_Draft, int], index: int) -> Node:
    gpu, net = node.gpu, node.net
    net_id = node.host << 56 | net.index if net else -1
    return Node(
        kind=node.kind,
        number=number[node],
        index=index,
        host=node.host,
        rank=gpu.rank if gpu and node.kind == NodeKind.GPU and gpu.rank is not None else -1,
        dev=gpu.index if gpu else net.index if net else -1,
        compute_capability=gpu.compute_capability if gpu else 0,
        gdr=(gpu.gdr if gpu else net.gdr if net else False),
        device=number[node.device] if node.device else -1,
        net_id=net_id,
        asic=net_id if net is None or net.guid is None else net.guid,
        net=net,
        cpu=node.cpu,
    )
