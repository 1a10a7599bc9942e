"""Channels and chunks of point-to-point transfers, all-to-all among them (src/graph/paths.cc of NCCL 2.30.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sim.planners.nccl_2_30.domains import Domain
from sim.planners.nccl_2_30.kinds import GIGA, PathKind
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.rates import nvlink_bytes_per_s

PCI_CHANNELS = 2
NET_CHANNEL_BYTES_PER_S = 14 * GIGA
RANKS_PER_CHANNEL = 8
"""Above this many ranks per channel, NCCL takes fewer channels for each peer (seen in the reference runs)."""
ARM_BLACKWELL_NET_CHUNK_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class PointToPoint:
    """How a pair of ranks exchanges data."""

    num_channels: int
    num_channels_per_peer: int
    chunk_bytes: int
    all_nvlink: bool
    net_bytes_per_s: float


def point_to_point(
    domains: Sequence[Domain], options: NcclOptions, *, num_channels: int, num_ranks: int
) -> PointToPoint:
    """Channels, channels per peer and chunk size for pairs of ranks, and the slowest GPU's best NIC path."""
    nvlink = all(_all_nvlink(domain) for domain in domains)
    net = min(net_bytes_per_s(domain) for domain in domains)
    inter = domains[0].inter
    per_peer = min((_intra_channels(domain) for domain in domains), default=num_channels)
    if inter:
        per_peer = min(per_peer, *(_net_channels(domain, num_channels, num_ranks) for domain in domains))
    return PointToPoint(
        num_channels=_power_of_two(num_channels),
        num_channels_per_peer=_power_of_two(min(per_peer, num_channels)),
        chunk_bytes=_chunk_bytes(domains[0], options, inter, nvlink),
        all_nvlink=nvlink,
        net_bytes_per_s=net,
    )


def net_bytes_per_s(domain: Domain) -> float:
    """The slowest GPU's best path to a NIC; 0 where the machine has no NIC."""
    return min(max((path.bandwidth_bytes_per_s for path in row), default=0.0) for row in domain.paths.gpu_net or ((),))


def _all_nvlink(domain: Domain) -> bool:
    return all(path.kind < PathKind.PIX for row in domain.paths.gpu_gpu for path in row)


def _intra_channels(domain: Domain) -> int:
    lane = nvlink_bytes_per_s(domain.system.min_compute_capability)
    fewest = 1 << 30
    for gpu, row in enumerate(domain.paths.gpu_gpu):
        for other, path in enumerate(row):
            if gpu == other or path.kind == PathKind.LOC:
                continue
            nvlink = path.kind in (PathKind.NVL, PathKind.NVB)
            channels = 2 * max(1, int(path.bandwidth_bytes_per_s // lane)) if nvlink else PCI_CHANNELS
            fewest = min(fewest, channels)
    return fewest


def _net_channels(domain: Domain, num_channels: int, num_ranks: int) -> int:
    """Enough to drive a GPU's NICs, fewer where many ranks would crowd the channels."""
    fewest = 1 << 30
    for row, nets in zip(domain.paths.gpu_net, domain.paths.local_nets, strict=True):
        bandwidth = max((path.bandwidth_bytes_per_s for path in row), default=0.0)
        channels = max(nets.count, -int(-bandwidth // NET_CHANNEL_BYTES_PER_S), 1)
        while channels > 1 and channels * num_ranks > RANKS_PER_CHANNEL * num_channels:
            channels //= 2
        fewest = min(fewest, channels)
    return fewest


def _chunk_bytes(domain: Domain, options: NcclOptions, inter: bool, nvlink: bool) -> int:
    if inter:
        system = domain.system
        superchip = system.arch == "arm64" and system.min_compute_capability >= 100
        default = NcclOptions().p2p_net_chunk_bytes == options.p2p_net_chunk_bytes
        return ARM_BLACKWELL_NET_CHUNK_BYTES if superchip and default else options.p2p_net_chunk_bytes
    return options.p2p_nvl_chunk_bytes if nvlink else options.p2p_pci_chunk_bytes


def _power_of_two(value: int) -> int:
    return 1 << max(0, value - 1).bit_length()
