"""How many NVLinks stand behind a rate that NCCL prints: it counts one rate per link, by GPU generation and version."""

from __future__ import annotations

from topo import catalog

_PRINTED_TO_BYTES_PER_S = 0.06e9
"""NCCL prints tenths of a GB/s."""

_RATES: tuple[tuple[float, int, tuple[int, int]], ...] = (
    (18e9, 4, (60, 69)),
    (20e9, 12, (70, 89)),
    (21e9, 6, (70, 79)),
    (22e9, 6, (70, 79)),
    (12e9, 4, (86, 86)),
    (20.6e9, 18, (90, 99)),
    (40.1e9, 18, (100, 129)),
)
"""Bytes/s of one link as NCCL counts it, the most links of a GPU, and the compute capabilities (times ten) that have
them. NCCL 2.30 src/graph/topo.h, with the 21 and 22 GB/s of versions before 2.8 for V100."""


def nvlinks_in(bytes_per_s: float, compute_capability: int | None = None) -> int | None:
    """The number of NVLinks that add up to the rate; None where none or several numbers do.

    With a known compute capability only its generation counts.
    """
    if compute_capability is not None:
        counts = {_count(bytes_per_s, catalog.nvlink_effective_bytes_per_s(compute_capability), 18)}
        counts |= {
            _count(bytes_per_s, rate, most)
            for rate, most, (first, last) in _RATES
            if first <= compute_capability <= last
        }
    else:
        counts = {_count(bytes_per_s, rate, most) for rate, most, _ in _RATES}
    counts.discard(None)
    return counts.pop() if len(counts) == 1 else None


def _count(bytes_per_s: float, rate_bytes_per_s: float, most: int) -> int | None:
    """How many times the rate is in it, as far as the printed tenths of a GB/s tell."""
    count = round(bytes_per_s / rate_bytes_per_s)
    off = abs(bytes_per_s - count * rate_bytes_per_s)
    return count if 1 <= count <= most and off <= _PRINTED_TO_BYTES_PER_S else None
