"""What the ranks put in, and what must come out: whole numbers so small that every sum is exact in the dtype.

Values differ from element to element without a period, so that chunks in each other's place are noticed; none is 0,
so that a buffer that was never filled is noticed, also by a minimum; averages divide without a rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.collective import collective
from sim.workload import Workload

if TYPE_CHECKING:
    from sim.collective import Mask

Values = npt.NDArray[np.int32]

EXACT_UP_TO = {
    "int8": 2**7 - 1,
    "uint8": 2**8 - 1,
    "float16": 2**11,
    "bfloat16": 2**8,
    "int32": 2**20,
    "float32": 2**20,
    "int64": 2**20,
    "float64": 2**20,
}
"""A bound below which each whole number has its own representation in the dtype (2^20 where far more have)."""

LARGEST_VALUE = 7


def contribution(workload: Workload, num_ranks: int, rank: int, first: int = 0, end: int | None = None) -> Values:
    """What `rank` contributes to the elements from `first` on, whole numbers, negative only for a signed maximum.

    `end` None is that of the workload's own buffer; in an all-to-all the shared buffer is longer.
    """
    unit = num_ranks if workload.reduction == "avg" else 1
    summed = num_ranks if workload.reduction in ("sum", "avg") else 1
    choices = min(LARGEST_VALUE, EXACT_UP_TO[workload.dtype] // (unit * summed))
    element = np.arange(first, workload.num_elements if end is None else end, dtype=np.int64).astype(np.uint32)
    if choices < 1:
        # More ranks than the dtype can count: each element gets its contribution from few ranks, the others add 0.
        allowed = max(1, EXACT_UP_TO[workload.dtype] // unit)
        spread = -(-num_ranks // allowed)
        return np.where((element + np.uint32(rank)) % np.uint32(spread) == 0, unit, 0).astype(np.int32)
    mixed = element * np.uint32(2654435761) + np.uint32(rank) * np.uint32(40503)
    mixed ^= mixed >> np.uint32(15)
    values = (1 + (mixed * np.uint32(2246822519) >> np.uint32(16)) % np.uint32(choices)).astype(np.int32) * unit
    return -values if workload.reduction == "max" and workload.dtype != "uint8" else values


def expected(
    workload: Workload,
    num_ranks: int,
    contributes: Mask,
    bounds: npt.NDArray[np.int64],
    chunks: npt.NDArray[np.int64] | None = None,
) -> Values:
    """The results of the chunks (None: all) one after the other: each reduced over the ranks that contribute to it.

    `contributes` is of shape (ranks, chunks), `bounds[c]` to `bounds[c + 1]` are the elements of chunk c.
    """
    wanted = np.arange(len(bounds) - 1) if chunks is None else chunks
    if not len(wanted):
        return np.zeros(0, dtype=np.int32)
    who = contributes[:, wanted]
    breaks = np.flatnonzero((np.diff(wanted) != 1) | (who[:, 1:] != who[:, :-1]).any(axis=0)) + 1
    parts = [
        _reduced(workload, num_ranks, np.flatnonzero(contributes[:, part[0]]), bounds[part[0]], bounds[part[-1] + 1])
        for part in np.split(wanted, breaks)
    ]
    return np.concatenate(parts)


def _reduced(
    workload: Workload, num_ranks: int, ranks: npt.NDArray[np.int64], first: np.int64, end: np.int64
) -> Values:
    """The reduction over these ranks of the elements from `first` to `end`; zeros where there is no rank."""
    combine = {"min": np.minimum, "max": np.maximum}.get(workload.reduction, np.add)
    result = np.zeros(int(end - first), dtype=np.int32)
    for number, rank in enumerate(ranks.tolist()):
        values = contribution(workload, num_ranks, rank, int(first), int(end))
        result = combine(result, values) if number else values
    averages = workload.reduction == "avg" and collective(workload.collective).reduces
    return result // np.int32(num_ranks) if averages else result
