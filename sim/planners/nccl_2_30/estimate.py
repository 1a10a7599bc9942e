"""The time that NCCL expects of each way to run one collective, and which one it takes (src/enqueue.cc, tuning.cc)."""

from __future__ import annotations

from dataclasses import dataclass

from sim.planners.nccl_2_30 import tuner_facts as facts
from sim.planners.nccl_2_30.machine import Machine
from sim.planners.nccl_2_30.options import ALGORITHMS, PROTOCOLS
from sim.planners.nccl_2_30.rules import why_unsupported
from sim.planners.nccl_2_30.trees import floor_log2
from sim.planners.nccl_2_30.tuner import TunerTable


@dataclass(frozen=True, slots=True)
class Parts:
    """What one way's time is made of: `latency_s`, and the bytes over `bytes_per_s`.

    `latency_factor` and `bandwidth_factor` are NCCL's corrections for this size, which both numbers contain already.
    """

    latency_s: float
    bytes_per_s: float
    latency_factor: float = 1.0
    bandwidth_factor: float = 1.0


def parts_of(
    table: TunerTable,
    machine: Machine,
    num_channels: int,
    collective: str,
    num_bytes: int,
    *,
    dtype: str = "float32",
    reduction: str = "sum",
) -> dict[tuple[str, str], Parts]:
    """The parts of every (algorithm, protocol) that is available, in NCCL's order.

    `num_bytes` is the larger of send and receive buffer, `num_channels` that of the communicator.
    """
    parts = {}
    for algorithm in ALGORITHMS:
        for protocol in PROTOCOLS:
            cost = table.get((collective, algorithm, protocol))
            if cost is None or not cost.bytes_per_s or not supports(collective, algorithm, dtype, reduction):
                continue
            slower = longer = 1.0
            if collective == "all_reduce":
                slower = _tree_correction(machine, algorithm, protocol, num_bytes)
                if (algorithm, protocol) == ("ring", "simple"):
                    longer = _ring_plateau(machine, num_channels, num_bytes)
            parts[algorithm, protocol] = Parts(cost.latency_s * longer, cost.bytes_per_s * slower, longer, slower)
    return parts


def times_s(
    table: TunerTable,
    machine: Machine,
    num_channels: int,
    collective: str,
    num_bytes: int,
    *,
    dtype: str = "float32",
    reduction: str = "sum",
) -> dict[tuple[str, str], float]:
    """Seconds by (algorithm, protocol), in NCCL's order; arguments are those of `parts_of`."""
    parts = parts_of(table, machine, num_channels, collective, num_bytes, dtype=dtype, reduction=reduction)
    return {way: part.latency_s + num_bytes / part.bytes_per_s for way, part in parts.items()}


def supports(collective: str, algorithm: str, dtype: str, reduction: str) -> bool:
    """Whether an algorithm can do this reduction on this type."""
    return not why_unsupported(collective, algorithm, dtype, reduction)


def _tree_correction(machine: Machine, algorithm: str, protocol: str, num_bytes: int) -> float:
    new_x86 = machine.cpu_arch == "x86_64" and machine.min_compute_capability >= 100
    if algorithm != "tree" and not (algorithm == "nvls-tree" and new_x86):
        return 1.0
    row = facts.TREE_CORRECTION[protocol][: facts.TREE_CORRECTION_ENTRIES[algorithm]]
    power = floor_log2(num_bytes // 64)
    return row[power] if 0 <= power < len(row) else 1.0


def _ring_plateau(machine: Machine, num_channels: int, num_bytes: int) -> float:
    """A ring over several nodes starts slowly once every rank has something to send."""
    if machine.num_nodes == 1 or num_bytes // (num_channels * machine.num_ranks) < facts.RING_PLATEAU_FROM_BYTES:
        return 1.0
    return facts.RING_PLATEAU_OLD if machine.min_compute_capability < 80 else facts.RING_PLATEAU
