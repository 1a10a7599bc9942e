"""With how many channels and threads NCCL runs one collective (src/enqueue.cc, src/graph/tuning.cc of NCCL 2.30.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sim.planners.nccl_2_30.graphs import Graph
from sim.planners.nccl_2_30.kinds import GIGA
from sim.planners.nccl_2_30.machine import Machine
from sim.planners.nccl_2_30.options import ALGORITHMS, COLLNET, NVLS, PROTOCOLS, NcclOptions

WARP = 32
MAX_THREADS = 640
LL_THREADS = 512
SIMPLE_THREADS = 512
SLOW_SIMPLE_THREADS = 256
SLOW_RING_BYTES_PER_S = 12 * GIGA
"""A whole ring at PCIe speed needs fewer threads."""
LL_THRESHOLD, LL128_THRESHOLD, SIMPLE_THRESHOLD, COLLNET_THRESHOLD = 8, 8, 64, 512
DIRECT_SWITCH_CHANNELS = 16

Limits = Mapping[tuple[str, str], int]
"""By (algorithm, protocol)."""


@dataclass(frozen=True, slots=True)
class Communicator:
    """What launching needs: channel counts, NVLS shape, and threads and thresholds by algorithm and protocol.

    A thread is worth starting for `thresholds` bytes per channel; `buffer_bytes` are those of one connection by
    protocol. With `cuts_tree_chunks` trees of Simple move less than whole steps of theirs, as before NCCL 2.22.
    """

    machine: Machine
    num_channels: int
    nvls_num_channels: int
    nvls_num_heads: int
    nvls_chunk_bytes: int
    nvls_tree_max_chunk_bytes: int
    max_threads: Limits
    thresholds: Limits
    buffer_bytes: Mapping[str, int]
    direct_num_heads: int = 0
    cuts_tree_chunks: bool = False


def max_threads(graphs: Mapping[str, Graph], options: NcclOptions) -> Limits:
    """Threads of one channel at most; 0 where an algorithm does not have the protocol."""
    ring = graphs["ring"]
    slow = ring.intra_bytes_per_s * ring.num_channels <= SLOW_RING_BYTES_PER_S
    ring_simple = _threads(options.num_threads, 2 * WARP, SIMPLE_THREADS, SLOW_SIMPLE_THREADS if slow else None)
    tree_simple = _threads(options.num_threads, 2 * WARP, SIMPLE_THREADS, None)
    low_latency = _threads(options.num_threads, 2 * WARP, LL_THREADS, None)
    ll128 = _threads(options.ll128_num_threads, MAX_THREADS // 4, MAX_THREADS, None)
    limits = {(algorithm, protocol): 0 for algorithm in ALGORITHMS for protocol in PROTOCOLS}
    for algorithm, simple in (("tree", tree_simple), ("ring", ring_simple)):
        limits[algorithm, "ll"] = low_latency
        limits[algorithm, "ll128"] = ll128
        limits[algorithm, "simple"] = simple
    for algorithm in (*COLLNET, *NVLS):
        limits[algorithm, "simple"] = MAX_THREADS
    return limits


def _threads(asked: int | None, least: int, most: int, default: int | None) -> int:
    """NCCL takes a whole number of warps within its limits, and `default` (or else the most) where nothing is asked."""
    if asked is None:
        return default or most
    if asked % WARP:
        return most
    return min(max(asked, least), most)


def thresholds(num_ranks: int, options: NcclOptions) -> Limits:
    """Bytes per thread and channel below which NCCL takes fewer of them."""
    limits = {}
    for algorithm in ALGORITHMS:
        collnet = algorithm in COLLNET
        limits[algorithm, "ll"] = LL_THRESHOLD * (num_ranks if algorithm == "ring" else 1)
        limits[algorithm, "ll128"] = LL128_THRESHOLD
        limits[algorithm, "simple"] = COLLNET_THRESHOLD if collnet else SIMPLE_THRESHOLD
    asked = [(algorithm, protocol) for algorithm in ("tree", "ring") for protocol in PROTOCOLS]
    return {**limits, **dict(zip(asked, options.thread_thresholds, strict=False))}


def num_channels_and_warps(comm: Communicator, algorithm: str, protocol: str, num_bytes: int) -> tuple[int, int]:
    """How many channels may share an operation, and the warps of each."""
    threads = comm.max_threads[algorithm, protocol]
    threshold = comm.thresholds[algorithm, protocol]
    if algorithm in NVLS:
        channels = comm.nvls_num_channels
        if algorithm == "nvls" and comm.machine.num_nodes > 1:
            channels = min(channels, comm.num_channels)
    elif algorithm == "collnet-direct":
        channels = _direct_channels(comm, threads, threshold, num_bytes)
    else:
        channels = comm.num_channels
        while channels > 1 and num_bytes < channels * threads * threshold:
            channels -= 1
        while num_bytes < channels * threads * threshold and threads % 128 == 0:
            threads //= 2
    if algorithm in ("tree", "pat"):
        threads = MAX_THREADS
    elif algorithm == "ring" and protocol == "simple":
        threads += WARP
    return channels, max(threads // WARP, 3)


def _direct_channels(comm: Communicator, threads: int, threshold: int, num_bytes: int) -> int:
    channels, switch, short = comm.num_channels, DIRECT_SWITCH_CHANNELS, True
    while switch >= 1 and short:
        while True:
            short = num_bytes < channels * threads * comm.direct_num_heads * threshold
            if not short or channels <= switch:
                break
            if channels == switch + switch // 2:
                threshold //= 2
            channels -= 1
        switch //= 2
    return channels
