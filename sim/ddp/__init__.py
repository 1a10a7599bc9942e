"""Data-parallel training steps: gradients in buckets, sent while backward still runs.

A step is a list of tasks on two lanes, compute and communication (`lanes`). What stands in the list is a way of
synchronising (`schedules`): DistributedDataParallel, ZeRO-1, ZeRO-2 or FSDP. A new one is one function and one line.
"""

from __future__ import annotations
