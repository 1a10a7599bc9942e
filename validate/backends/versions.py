"""Which software a process runs, in one line that must be the same everywhere."""

from __future__ import annotations

from typing import Any

import torch


def versions_of(backend: str) -> str:
    """`torch 2.9.0`, and on GPUs also NCCL's and CUDA's version."""
    words = f"torch {torch.__version__}"
    if backend == "nccl":
        nccl: Any = torch.cuda.nccl
        words += f", nccl {'.'.join(str(part) for part in nccl.version())}, cuda {torch.version.cuda}"
    return words
