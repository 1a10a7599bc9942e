"""How one collective is cut: what each channel carries, and in chunks of which size (src/enqueue.cc of NCCL 2.30.7)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sim.planners.nccl_2_30.launch import Communicator
from sim.planners.nccl_2_30.options import COLLNET, NVLS
from sim.planners.nccl_2_30.trees import floor_log2
from sim.slots import SLOTS_PER_CONNECTION

MIN_TRAFFIC_BYTES = 32 << 10
LL_TRAFFIC = 4
LINE_ELEMENTS, LINE_DATA_ELEMENTS = 16, 15
GRAIN_BYTES = {"ll": 16, "ll128": 1920, "simple": 512}
RING_CHUNK_STEPS = {"all_reduce": 4, "all_gather": 4, "reduce_scatter": 4}
"""Steps that one chunk of a simple ring takes; 1 for every other collective."""
KIB = 1 << 10


@dataclass(frozen=True, slots=True)
class Part:
    """What one channel carries: elements of one rank's buffer, and the bytes of one chunk (before the last one)."""

    num_elements: int
    chunk_bytes: int


@dataclass(frozen=True, slots=True)
class Split:
    """An operation over its channels: the first, those in the middle (all alike) and the last, as NCCL has them.

    `middle` and `last` are None where there are no such channels.
    """

    num_channels: int
    first: Part
    middle: Part | None = None
    last: Part | None = None

    def in_chunks_of(self, num_bytes: int) -> Split:
        """The same with this chunk on every channel."""
        middle, last = (part and replace(part, chunk_bytes=num_bytes) for part in (self.middle, self.last))
        return Split(self.num_channels, replace(self.first, chunk_bytes=num_bytes), middle, last)


def split(
    comm: Communicator,
    collective: str,
    algorithm: str,
    protocol: str,
    num_elements: int,
    element_bytes: int,
    max_channels: int,
) -> Split:
    """How NCCL spreads `num_elements` per rank (of the smaller buffer) over at most `max_channels` channels."""
    scale = comm.machine.num_ranks if collective in ("all_gather", "reduce_scatter") else 1

    def part(elements: int, channels: int = 1) -> Part:
        num_bytes = elements * element_bytes * scale
        return Part(elements, chunk_bytes(comm, collective, algorithm, protocol, num_bytes, channels))

    if algorithm in COLLNET:
        return Split(max_channels, part(num_elements, max_channels))
    traffic = 2 if collective == "all_reduce" else scale
    if protocol == "ll":
        traffic *= LL_TRAFFIC
    cap = comm.nvls_num_channels if algorithm in NVLS else comm.num_channels
    cell_bytes = _round_up(-(-MIN_TRAFFIC_BYTES // traffic), 16)
    total = num_elements * element_bytes
    per_channel = _round_up(-(-max(MIN_TRAFFIC_BYTES, total * traffic) // min(max_channels, cap)), 16)
    cells = -(-total // cell_bytes)
    first, per_middle, num_middle, last = _cells(cells, -(-per_channel // (cell_bytes * traffic)), cap)
    per_cell = cell_bytes // element_bytes
    excess = cells * per_cell - num_elements
    num_channels = 1 + num_middle + (last > 0)
    found = Split(
        num_channels,
        part(first * per_cell - (0 if last else excess)),
        part(per_middle * per_cell) if num_middle else None,
        part(last * per_cell - excess) if last else None,
    )
    if comm.cuts_tree_chunks and (algorithm, protocol) == ("tree", "simple"):
        return found.in_chunks_of(_old_tree(comm, found.first.chunk_bytes, total, num_channels))
    return found


def _cells(cells: int, per_channel: int, cap: int) -> tuple[int, int, int, int]:
    """Cells of the first channel and of each middle one, how many middle ones there are, and cells of the last."""
    first = cells if cap == 1 else min(cells, per_channel)
    rest = cells - first
    num_middle, last = divmod(rest, min(cells, per_channel)) if rest else (0, 0)
    if 1 + num_middle + (last > 0) > cap:
        num_middle = cap - 2
        per_channel, left = divmod(rest, num_middle + 1)
        last = per_channel + left
    if last == 0 and num_middle:
        return first, per_channel, num_middle - 1, per_channel
    return first, per_channel, num_middle, last


def chunk_bytes(
    comm: Communicator, collective: str, algorithm: str, protocol: str, num_bytes: int, num_channels: int
) -> int:
    """The size of one chunk for `num_bytes` (all ranks' data together) over so many channels."""
    step = comm.buffer_bytes[protocol] // SLOTS_PER_CONNECTION
    ring_steps = RING_CHUNK_STEPS.get(collective, 1) if (algorithm, protocol) == ("ring", "simple") else 1
    chunk = step * ring_steps
    if protocol == "ll":
        chunk //= 2
    elif protocol == "ll128":
        chunk = chunk // LINE_ELEMENTS * LINE_DATA_ELEMENTS
    if algorithm == "tree" and protocol == "ll128":
        chunk = _tree_ll128(comm, chunk, num_bytes, num_channels)
    elif algorithm == "pat":
        chunk = _pat(chunk, num_bytes, num_channels, 32 if collective == "all_gather" else 16)
    elif algorithm == "nvls":
        chunk = _nvls(comm, chunk, num_bytes, num_channels)
    elif algorithm == "nvls-tree":
        chunk = _nvls_tree(comm, num_bytes, num_channels)
    elif algorithm == "collnet-direct":
        chunk = _collnet(chunk, num_bytes, num_channels * max(1, comm.direct_num_heads), (64, 8, 8))
    elif algorithm == "collnet-chain":
        depth = comm.machine.ranks_per_node
        chunk = _collnet(min(256 * KIB, chunk), num_bytes, num_channels, (64 * depth, 8 * depth, depth))
    grain = GRAIN_BYTES[protocol]
    return chunk // grain * grain


def _old_tree(comm: Communicator, chunk: int, num_bytes: int, num_channels: int) -> int:
    """Halved until many chunks fill the pipeline, whose depth counts a node's ranks and the levels over nodes.

    It goes by the bytes of all channels together (computeCollWorkFunc, src/enqueue.cc of 2.8 to 2.21).
    """
    machine = comm.machine
    depth = floor_log2(machine.num_nodes) + (0 if machine.ranks_per_node == 1 else machine.ranks_per_node)
    for chunks, least in ((8, 128 * KIB), (4, 64 * KIB), (1, 32 * KIB)):
        while num_bytes // (num_channels * chunk) < chunks * depth and chunk > least:
            chunk //= 2
    return chunk


def _tree_ll128(comm: Communicator, chunk: int, num_bytes: int, num_channels: int) -> int:
    ranks = comm.machine.num_ranks / comm.machine.num_nodes
    steps = 1 + floor_log2(comm.machine.num_nodes) + 0.1 * ranks
    for chunks, least in ((64, 128 * KIB), (16, 32 * KIB)):
        while num_bytes // (num_channels * chunk) < steps * chunks / ranks and chunk > least:
            chunk //= 2
    return chunk


def _pat(chunk: int, num_bytes: int, num_channels: int, chunks: int) -> int:
    while chunk * num_channels * chunks > num_bytes and chunk > 64 * KIB:
        chunk //= 2
    return chunk


def _nvls(comm: Communicator, chunk: int, num_bytes: int, num_channels: int) -> int:
    chunk = min(chunk, comm.nvls_chunk_bytes)
    at_once = num_channels * comm.nvls_num_heads
    for chunks, smaller in ((64, 64 * KIB), (8, 32 * KIB), (2, 16 * KIB)):
        if num_bytes < chunks * at_once * chunk and chunk > smaller:
            chunk = smaller
    return chunk


def _nvls_tree(comm: Communicator, num_bytes: int, num_channels: int) -> int:
    chunk = min(comm.nvls_chunk_bytes, comm.nvls_tree_max_chunk_bytes)
    at_once = num_channels * comm.nvls_num_heads
    for chunks, smaller in ((32, 256 * KIB), (16, 128 * KIB), (4, 64 * KIB), (1, 32 * KIB)):
        if num_bytes < chunks * at_once * chunk and chunk > smaller:
            chunk = smaller
    return chunk


def _collnet(chunk: int, num_bytes: int, at_once: int, chunks: tuple[int, int, int]) -> int:
    for wanted, least in zip(chunks, (128 * KIB, 64 * KIB, 32 * KIB), strict=True):
        while num_bytes // (at_once * chunk) < wanted and chunk > least:
            chunk //= 2
    return chunk


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
