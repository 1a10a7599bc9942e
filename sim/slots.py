"""How much a connection of NCCL's holds: what engines wait for, planners divide buffers by, and the clock counts."""

from __future__ import annotations

SLOTS_PER_CONNECTION = 8
"""Steps of a buffer, each of which may be on its way (NCCL_STEPS in NCCL's device.h)."""
