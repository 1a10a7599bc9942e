"""What GPUs torch could use here."""

from __future__ import annotations

import shutil
from pathlib import Path

TRACES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""Devices of which one is there wherever a GPU can be used; looking for them saves importing torch elsewhere."""


def num_gpus() -> int:
    """How many GPUs torch sees; 0 where torch is missing, is built without CUDA, or finds no driver."""
    if shutil.which("nvidia-smi") is None and not any(Path(trace).exists() for trace in TRACES):
        return 0
    try:
        import torch
    except ImportError:
        return 0
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def nccl_version() -> tuple[int, ...]:
    """The version of the NCCL that torch uses, such as (2, 30, 7); (0,) where torch is built without one."""
    try:
        import torch

        found = torch.cuda.nccl.version()  # type: ignore[no-untyped-call]
    except (ImportError, AttributeError, RuntimeError):
        return (0,)
    return tuple(found) if isinstance(found, tuple) else (0,)
