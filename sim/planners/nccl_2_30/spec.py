"""A machine as NCCL's topology file tells it: a frozen tree that knows neither files nor our own `Topology`.

The tree keeps document order, since every tie in NCCL goes to what came first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NvlinkSpec:
    """NVLinks of one GPU that end at the same target: a PCI bus id, or the switch ("gpu", "nvswitch" or "cpu")."""

    target: str
    target_kind: str
    lanes: int


@dataclass(frozen=True, slots=True)
class C2cSpec:
    """NVLink-C2C from a GPU to its CPU, all links together."""

    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One rank's GPU; `rank` None means that it takes no part. `compute_capability` is ten times CUDA's."""

    rank: int | None
    index: int
    compute_capability: int
    gdr: bool
    nvlinks: tuple[NvlinkSpec, ...] = ()
    c2c: tuple[C2cSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class NetSpec:
    """One port of a network interface. `guid` None: the port stands for itself. `name` is what its source calls it."""

    index: int
    bandwidth_bytes_per_s: float
    latency_s: float = 0.0
    port: int = 0
    guid: int | None = None
    gdr: bool = False
    collnet: bool = False
    rail: int | None = None
    plane: int | None = None
    name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class NicSpec:
    """A network card that hangs directly on a NUMA node, and its ports."""

    nets: tuple[NetSpec, ...]


@dataclass(frozen=True, slots=True)
class PciSpec:
    """One PCI function and what lies below it. `ids` is vendor, device and both subsystem ids in 16 bits each.

    `link_speed` and `link_width` are verbatim. A function with GPUs is a GPU, one with `nic` a network card; any
    other is what its class says.
    """

    bus_id: str
    device_class: str
    ids: int
    link_speed: str
    link_width: int
    children: tuple[PciSpec, ...] = ()
    gpus: tuple[GpuSpec, ...] = ()
    nic: NicSpec | None = None
    peers: tuple[str, ...] = ()

    def walk(self) -> Iterator[PciSpec]:
        """This function and everything below it, in document order."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class CpuSpec:
    """One NUMA node of one host and what hangs on it.

    `peer_bytes_per_s` stands for the rate to other CPUs where `arch` is not known.
    """

    numa_node: int
    host: str = ""
    arch: str | None = None
    vendor: str | None = None
    family: int = 0
    model: int = 0
    peer_bytes_per_s: float = 0.0
    children: tuple[PciSpec | NicSpec, ...] = ()

    def functions(self) -> Iterator[PciSpec]:
        """All PCI functions of this NUMA node, in document order."""
        for child in self.children:
            if isinstance(child, PciSpec):
                yield from child.walk()


@dataclass(frozen=True, slots=True)
class SystemSpec:
    """One host, or all hosts of one NVLink domain (then `host` of the CPUs tells them apart).

    `assumed` are sentences about what its source left open.
    """

    cpus: tuple[CpuSpec, ...]
    name: str = field(default="", compare=False)
    assumed: tuple[str, ...] = field(default=(), compare=False)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts, in order of first appearance."""
        return tuple(dict.fromkeys(cpu.host for cpu in self.cpus))

    def gpus(self) -> Iterator[GpuSpec]:
        """All GPUs that take part, in document order."""
        for cpu in self.cpus:
            for function in cpu.functions():
                for gpu in function.gpus:
                    if gpu.rank is None:
                        break
                    yield gpu
