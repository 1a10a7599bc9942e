"""Which NICs a channel may enter and leave by, and what their ports still have (ncclTopoSearchRecNet)."""

from __future__ import annotations

from collections.abc import Sequence

from sim.planners.nccl_2_30.graphs import Pattern, Trial
from sim.planners.nccl_2_30.ground import Ground
from sim.planners.nccl_2_30.kinds import GIGA, NodeKind, PathKind

Ends = Sequence[Sequence[int]]
"""Per channel: the NIC it enters by and the one it leaves by."""


class NetChoice:
    """The NICs of one ground for one graph; keeps the ports' own bandwidth, apart from that of the links."""

    def __init__(self, ground: Ground, *, collnet: bool) -> None:
        self._ground = ground
        self._collnet = collnet
        self._nets = [node.net for node in ground.domain.system.of_kind(NodeKind.NET) if node.net is not None]
        self._left = [net.bandwidth_bytes_per_s for net in self._nets]
        self._selected: dict[tuple[int | None, PathKind], tuple[int, ...]] = {}

    def latency_s(self, net: int) -> float:
        """What the NIC adds to the latency of a message."""
        return self._nets[net].latency_s

    def select(self, gpu: int | None, kind_inter: PathKind) -> tuple[int, ...]:
        """The NICs that a GPU (None: any) may use, in order of preference."""
        key = (gpu, kind_inter)
        if key not in self._selected:
            self._selected[key] = self._ground.select_nets(*key)
        return self._selected[key]

    @property
    def left(self) -> tuple[float, ...]:
        """What each port still has of its own bandwidth."""
        return tuple(self._left)

    def take(self, net: int, bytes_per_s: float) -> None:
        """Take whole GB/s from the port of a NIC, or give them back where the rate is negative."""
        for port in self._ground.net_groups[net]:
            self._left[port] -= bytes_per_s

    def may_start(self, net: int, trial: Trial, ends: Ends, channel: int) -> bool:
        """Whether a channel may enter by this NIC; where rings cross NICs, odd ones mirror the one before."""
        if self._collnet and not self._nets[net].collnet:
            return False
        if self._left[net] < own_bytes_per_s(trial):
            return False
        return not (_mirrors(trial, channel) and net != ends[channel - 1][1])

    def may_return(self, net: int, trial: Trial, ends: Ends, channel: int) -> bool:
        """Whether a channel may leave by this NIC."""
        start = ends[channel][0]
        there, here = self._nets[net], self._nets[start]
        if there.plane is not None and here.plane is not None and there.plane != here.plane:
            return False
        if trial.pattern == Pattern.TREE:
            return net == start
        if trial.pattern == Pattern.RING and trial.cross_nic == 2:
            return not _mirrors(trial, channel) or net == ends[channel - 1][0]
        if trial.cross_nic:
            return True
        if there.rail is not None and here.rail is not None:
            return there.rail == here.rail
        return net in self._ground.net_groups[start]


def own_bytes_per_s(trial: Trial) -> float:
    """What a channel takes of its port: the speed in whole GB/s."""
    return float(trial.inter_bytes_per_s // GIGA * GIGA)


def _mirrors(trial: Trial, channel: int) -> bool:
    return trial.pattern == Pattern.RING and trial.cross_nic == 2 and channel % 2 == 1
