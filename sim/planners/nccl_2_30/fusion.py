"""NIC fusion: ports of one card become one faster NIC before anything is searched (src/graph/topo.cc of NCCL 2.30.7).

By default NCCL fuses the ports of a card (merge level PORT) where the network plugin can, as that for InfiniBand and
RoCE does. Its dumps list the ports as they are, so a run may have searched fewer, faster NICs than its file shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.spec import CpuSpec, NetSpec, NicSpec, PciSpec, SystemSpec
from topo.errors import TopologyError

MAX_PORTS = 4
"""NCCL fuses so many ports at most (NCCL_NET_MAX_DEVS_PER_NIC)."""


def fuse_nics(spec: SystemSpec, options: NcclOptions) -> SystemSpec:
    """The machine after fusion; the same object where there is nothing to fuse.

    Fused NICs are numbered behind the ports of their host, in the order of their first ports. TopologyError where
    NCCL_NET_FORCE_MERGE names ports that are not there or not on one card.
    """
    ports = [net for cpu in spec.cpus for net in _nets(cpu)]
    groups = [_named(text, ports) for text in options.net_force_merge]
    fusion = _Fusion(groups, merges=options.net_merge_level == "PORT")
    cpus = tuple(fusion.cpu(cpu, _first_free(spec, cpu.host)) for cpu in spec.cpus)
    missed = [group for group in groups if not fusion.done(group)]
    if missed:
        names = ",".join(net.name for net in missed[0])
        raise TopologyError(f"NCCL_NET_FORCE_MERGE: {names} are not ports of one card, which is all that is fused here")
    return replace(spec, cpus=cpus) if fusion.fused else spec


def fused_names(spec: SystemSpec, options: NcclOptions) -> tuple[str, ...]:
    """The names of the NICs that fusion makes of several ports ("mlx5_0+mlx5_1")."""
    before = {net for cpu in spec.cpus for net in _nets(cpu)}
    return tuple(net.name for cpu in fuse_nics(spec, options).cpus for net in _nets(cpu) if net not in before)


def _nets(cpu: CpuSpec) -> Iterator[NetSpec]:
    for child in cpu.children:
        if isinstance(child, NicSpec):
            yield from child.nets
    for function in cpu.functions():
        if function.nic is not None:
            yield from function.nic.nets


def _first_free(spec: SystemSpec, host: str) -> int:
    numbers = [net.index for cpu in spec.cpus if cpu.host == host for net in _nets(cpu)]
    return max(numbers, default=-1) + 1


def _named(text: str, ports: Sequence[NetSpec]) -> tuple[NetSpec, ...]:
    """The ports that one group of NCCL_NET_FORCE_MERGE names, as `name` or `name:port`."""
    found = []
    for word in text.split(","):
        name, _, port = word.strip().partition(":")
        fits = [net for net in ports if net.name.rpartition("/")[2] == name and port in ("", str(net.port))]
        if not fits:
            known = ", ".join(dict.fromkeys(net.name for net in ports)) or "none"
            raise TopologyError(f"NCCL_NET_FORCE_MERGE: there is no port {word.strip()!r}, known are {known}")
        found += fits
    return tuple(found)


class _Fusion:
    """Fuses ports card by card; `fused` counts what came of it."""

    def __init__(self, groups: Sequence[tuple[NetSpec, ...]], *, merges: bool) -> None:
        self.fused = 0
        self._groups = groups
        self._merges = merges
        self._done: list[tuple[NetSpec, ...]] = []
        self._numbers: dict[str, int] = {}

    def done(self, group: tuple[NetSpec, ...]) -> bool:
        """Whether a forced group was found on one card."""
        return group in self._done

    def cpu(self, cpu: CpuSpec, first_free: int) -> CpuSpec:
        """A NUMA node with the cards below it fused; NICs that are no PCI function are left as they are."""
        self._numbers.setdefault(cpu.host, first_free)
        children = tuple(
            child if isinstance(child, NicSpec) else self._function(child, cpu.host) for child in cpu.children
        )
        return replace(cpu, children=children)

    def _function(self, function: PciSpec, host: str) -> PciSpec:
        children = tuple(self._function(child, host) for child in function.children)
        nic = function.nic
        if nic is not None and len(nic.nets) > 1:
            nic = NicSpec(tuple(self._fused(part, host) for part in self._parts(nic.nets)))
        return replace(function, children=children, nic=nic)

    def _parts(self, nets: tuple[NetSpec, ...]) -> list[tuple[NetSpec, ...]]:
        """The ports of one card by the NICs they become; a forced group takes its ports first."""
        parts = [group for group in self._groups if set(group) <= set(nets)]
        self._done += parts
        taken = {net for part in parts for net in part}
        rest = [net for net in nets if net not in taken]
        step = MAX_PORTS if self._merges else 1
        # Ports of InfiniBand and RoCE count from 1; the socket plugin, which fuses nothing, says 0.
        ports = [net for net in rest if net.port]
        parts += [tuple(ports[place : place + step]) for place in range(0, len(ports), step)]
        parts += [(net,) for net in rest if not net.port]
        return sorted(parts, key=lambda part: nets.index(part[0]))

    def _fused(self, ports: tuple[NetSpec, ...], host: str) -> NetSpec:
        if len(ports) == 1:
            return ports[0]
        number = self._numbers[host]
        self._numbers[host] += 1
        self.fused += 1
        return replace(
            ports[0],
            name="+".join(net.name for net in ports),
            index=number,
            bandwidth_bytes_per_s=sum(net.bandwidth_bytes_per_s for net in ports),
            gdr=all(net.gdr for net in ports),
            collnet=all(net.collnet for net in ports),
        )
