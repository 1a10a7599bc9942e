"""All paths that the search uses, as tables by index; built by `find_paths`, changed by nothing afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field

from sim.planners.nccl_2_30.kinds import NodeKind
from sim.planners.nccl_2_30.options import NcclOptions, NetDevs
from sim.planners.nccl_2_30.paths import Path, PathFinder, local_nodes, table
from sim.planners.nccl_2_30.system import System

Table = tuple[tuple[Path, ...], ...]
Draft = list[list[Path]]


@dataclass(frozen=True, slots=True)
class LocalNets:
    """The NICs of one GPU: `nets` are the equally near ones, of which it takes `count` from `start` on."""

    nets: tuple[int, ...]
    start: int
    count: int

    def of_channel(self, channel: int) -> int:
        """The NIC that this GPU uses in a channel; -1 where the machine has none."""
        if not self.nets:
            return -1
        return self.nets[(self.start + channel % self.count) % len(self.nets)]


@dataclass(frozen=True)
class Paths:
    """Paths after NCCL's decisions on P2P, PXN and GPUDirect. `x_y[i][j]` leads from the i-th x to the j-th y.

    `gpu_switch[i]` and `switch_gpu[i]` are empty without an NVSwitch. `local_gpu[n]` is the GPU that serves NIC n
    (-1: none).
    """

    system: System
    gpu_gpu: Table
    gpu_net: Table
    net_gpu: Table
    gpu_switch: Table
    switch_gpu: Table
    device_device: Table
    device_net: Table
    local_nets: tuple[LocalNets, ...]
    local_gpu: tuple[int, ...]


@dataclass
class Tables:
    """The same tables while they are being changed, with those to and from CPUs."""

    system: System
    gpu_gpu: Draft
    gpu_net: Draft
    net_gpu: Draft
    gpu_cpu: Draft
    cpu_gpu: Draft
    net_cpu: Draft
    cpu_net: Draft
    gpu_switch: Draft
    switch_gpu: Draft
    device_device: Draft
    device_net: Draft
    local_cpu: list[int] = field(default_factory=list)

    def frozen(self, local_nets: tuple[LocalNets, ...], local_gpu: tuple[int, ...]) -> Paths:
        """The finished tables."""
        return Paths(
            system=self.system,
            gpu_gpu=_fixed(self.gpu_gpu),
            gpu_net=_fixed(self.gpu_net),
            net_gpu=_fixed(self.net_gpu),
            gpu_switch=_fixed(self.gpu_switch),
            switch_gpu=_fixed(self.switch_gpu),
            device_device=_fixed(self.device_device),
            device_net=_fixed(self.device_net),
            local_nets=local_nets,
            local_gpu=local_gpu,
        )


def _fixed(draft: Draft) -> Table:
    return tuple(map(tuple, draft))


def raw_tables(system: System, options: NcclOptions) -> Tables:
    """The tables as breadth-first search finds them."""
    finder = PathFinder(system, through_gpus=not options.nvb_disable)
    kinds = (NodeKind.CPU, NodeKind.DEVICE, NodeKind.GPU, NodeKind.NET, NodeKind.NVSWITCH)
    numbers = {kind: [node.number for node in system.of_kind(kind)] for kind in kinds}
    found = {kind: [finder.to(number) for number in numbers[kind]] for kind in kinds}

    def between(source: NodeKind, target: NodeKind) -> Draft:
        return table(found[target], numbers[source])

    tables = Tables(
        system=system,
        gpu_gpu=between(NodeKind.GPU, NodeKind.GPU),
        gpu_net=between(NodeKind.GPU, NodeKind.NET),
        net_gpu=between(NodeKind.NET, NodeKind.GPU),
        gpu_cpu=between(NodeKind.GPU, NodeKind.CPU),
        cpu_gpu=between(NodeKind.CPU, NodeKind.GPU),
        net_cpu=between(NodeKind.NET, NodeKind.CPU),
        cpu_net=between(NodeKind.CPU, NodeKind.NET),
        gpu_switch=between(NodeKind.GPU, NodeKind.NVSWITCH),
        switch_gpu=between(NodeKind.NVSWITCH, NodeKind.GPU),
        device_device=between(NodeKind.DEVICE, NodeKind.DEVICE),
        device_net=between(NodeKind.DEVICE, NodeKind.NET),
    )
    tables.local_cpu = [_local_cpu(row) for row in tables.gpu_cpu]
    return tables


def _local_cpu(paths: list[Path]) -> int:
    """The CPU of a GPU: of the equally near ones, that with the fewest hops."""
    return min(local_nodes(paths), key=lambda cpu: len(paths[cpu].hops), default=-1)


class Locality:
    """Which NICs are local to a GPU and which GPU serves a NIC, on tables that still change.

    Results are kept until a change of a path could alter them (`gpu_net_changed`, `net_gpu_changed`).
    """

    def __init__(self, tables: Tables, policy: NetDevs) -> None:
        self._tables = tables
        self._policy = policy
        self._gpus = tables.system.of_kind(NodeKind.GPU)
        self._near_nets = [local_nodes(row) for row in tables.gpu_net]
        self._near_gpus = [local_nodes(row) for row in tables.net_gpu]
        self._nets: dict[int, LocalNets] = {}
        self._gpu_of: dict[int, int] = {}

    def gpu_net_changed(self, gpu: int) -> None:
        """Take note that a path from this GPU to a NIC was replaced."""
        near = local_nodes(self._tables.gpu_net[gpu])
        if near != self._near_nets[gpu]:
            self._near_nets[gpu] = near
            self._nets.pop(gpu, None)
            self._gpu_of.clear()

    def net_gpu_changed(self, net: int) -> None:
        """Take note that a path from this NIC to a GPU was replaced."""
        near = local_nodes(self._tables.net_gpu[net])
        if near != self._near_gpus[net]:
            self._near_gpus[net] = near
            self._nets.clear()
            self._gpu_of.clear()

    def nets_of(self, gpu: int) -> LocalNets:
        """The NICs that this GPU uses."""
        if gpu not in self._nets:
            self._nets[gpu] = self._find_nets(gpu)
        return self._nets[gpu]

    def _find_nets(self, gpu: int) -> LocalNets:
        nets = self._near_nets[gpu]
        if not nets:
            return LocalNets((), 0, 0)
        sharing = max(1, len(self._near_gpus[nets[0]]))
        start = self._gpus[gpu].dev % sharing
        bits = len(nets).bit_length() - 1
        if len(nets) == 1 << bits:
            start = sum((start >> bit & 1) << (bits - 1 - bit) for bit in range(bits))
        count = {
            "all": len(nets),
            "max": min(self._policy.limit, len(nets)),
            "auto": -(-len(nets) // sharing),
        }[self._policy.policy]
        return LocalNets(nets, start, count)

    def gpu_of(self, net: int) -> int:
        """The GPU that serves this NIC, -1 where none does (it sits behind another socket)."""
        if net not in self._gpu_of:
            self._gpu_of[net] = self._find_gpu(net)
        return self._gpu_of[net]

    def _find_gpu(self, net: int) -> int:
        near = [(gpu, self.nets_of(gpu)) for gpu in self._near_gpus[net]]
        near = [(gpu, nets) for gpu, nets in near if net in nets.nets]
        for channel in range(max((nets.count for _, nets in near), default=0)):
            for gpu, nets in near:
                if nets.of_channel(channel) == net:
                    return gpu
        return -1

    def same_device(self, gpu: int) -> int:
        """The first GPU node of the same physical GPU."""
        device = self._gpus[gpu].device
        return next(node.index for node in self._gpus if node.device == device)
