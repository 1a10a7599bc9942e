"""The time that NCCL expects of each way to run one collective, and which one it takes (src/enqueue.cc, tuning.cc)."""

from __future__ import annotations

from sim.planners.nccl_2_30 import tuner_facts as facts
from sim.planners.nccl_2_30.machine import Machine
from sim.planners.nccl_2_30.options import ALGORITHMS, PROTOCOLS
from sim.planners.nccl_2_30.rules import why_unsupported
from sim.planners.nccl_2_30.trees import floor_log2
from sim.planners.nccl_2_30.tuner import TunerTable


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
    """Seconds by (algorithm, protocol), in NCCL's order; ways that are not available are left out.

    `num_bytes` is the larger of send and receive buffer, `num_channels` that of the communicator.
    """
    times = {}
    for algorithm in ALGORITHMS:
        for protocol in PROTOCOLS:
            cost = table.get((collective, algorithm, protocol))
            if cost is None or not cost.bytes_per_s or not supports(collective, algorithm, dtype, reduction):
                continue
            bandwidth, latency = cost.bytes_per_s, cost.latency_s
            if collective == "all_reduce":
                bandwidth *= _tree_correction(machine, algorithm, protocol, num_bytes)
                if (algorithm, protocol) == ("ring", "simple"):
                    latency *= _ring_plateau(machine, num_channels, num_bytes)
            times[algorithm, protocol] = latency + num_bytes / bandwidth
    return times


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
