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


def contribution(workload: Workload, num_ranks: int, rank: int) -> Values:
    """What `rank` contributes, whole numbers of shape (elements,); negative only for a maximum of signed numbers."""
    unit = num_ranks if workload.reduction == "avg" else 1
    summed = num_ranks if workload.reduction in ("sum", "avg") else 1
    choices = min(LARGEST_VALUE, EXACT_UP_TO[workload.dtype] // (unit * summed))
    element = np.arange(workload.num_elements, dtype=np.uint32)
    if choices < 1:
        # More ranks than the dtype can count: each element gets its contribution from few ranks, the others add 0.
        allowed = max(1, EXACT_UP_TO[workload.dtype] // unit)
        spread = -(-num_ranks // allowed)
        return np.where((element + np.uint32(rank)) % np.uint32(spread) == 0, unit, 0).astype(np.int32)
    mixed = element * np.uint32(2654435761) + np.uint32(rank) * np.uint32(40503)
    mixed ^= mixed >> np.uint32(15)
    values = (1 + (mixed * np.uint32(2246822519) >> np.uint32(16)) % np.uint32(choices)).astype(np.int32) * unit
    return -values if workload.reduction == "max" and workload.dtype != "uint8" else values


def expected(workload: Workload, num_ranks: int, contributes: Mask, bounds: npt.NDArray[np.int64]) -> Values:
    """The result, shape (elements,): the reduction over the ranks that contribute to each chunk.

    `contributes` is of shape (ranks, chunks), `bounds[c]` to `bounds[c + 1]` are the elements of chunk c.
    """
    combine = {"min": np.minimum, "max": np.maximum}.get(workload.reduction, np.add)
    result = np.zeros(workload.num_elements, dtype=np.int32)
    started = np.zeros(workload.num_elements, dtype=bool)
    lengths = np.diff(bounds)
    for rank in range(num_ranks):
        mine = np.repeat(contributes[rank], lengths)
        values = contribution(workload, num_ranks, rank)
        result = np.where(mine, np.where(started, combine(result, values), values), result)
        started |= mine
    averages = workload.reduction == "avg" and collective(workload.collective).reduces
    return result // np.int32(num_ranks) if averages else result
