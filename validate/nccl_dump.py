"""NCCL's own picture of this machine, as a source of `topo discover`: the XML that it dumps as it starts.

A process of its own makes one communicator over all GPUs through the NCCL that torch brings, and ends. Of what the user
set for NCCL, files that would stand in for the machine are dropped, and so is a choice of GPUs: nvidia-smi, beside
which the dump is read, shows all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from topo.commands import RawText, run_command

FILE = "nccl-topo.xml"
COMMAND = (sys.executable, "-m", "validate.nccl_dump")
TIMEOUT_S = 90.0
"""Importing torch and opening eight GPUs takes some 20 s where no daemon keeps the driver awake."""

DRIVERS_GPUS = Path("/proc/driver/nvidia/gpus")

DROPPED = (
    "CUDA_VISIBLE_DEVICES",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_FILE",
    "NCCL_TOPO_DUMP_FILE_RANK",
    "NCCL_TOPO_FILE",
)

Run = Callable[[str, tuple[str, ...], float], RawText]


def nccl_dump(run: Run = run_command, gpus: Path = DRIVERS_GPUS) -> RawText:
    """The topology XML of NCCL, or why there is none; `run` and `gpus` stand in for this machine in tests.

    Nothing is started where the driver shows no GPU, or torch is not installed.
    """
    if not gpus.is_dir() or not any(gpus.iterdir()):
        return RawText(FILE, COMMAND, problem="the NVIDIA driver shows no GPU here")
    if find_spec("torch") is None:
        return RawText(FILE, COMMAND, problem="torch is not installed (pip install 'toposcope[validate]')")
    raw = run(FILE, COMMAND, TIMEOUT_S)
    if raw.problem:
        said = raw.text.strip().splitlines()
        return replace(raw, text="", problem=f"{raw.problem}: {said[-1][:200]}" if said else raw.problem)
    if "<system" not in raw.text:
        return replace(raw, text="", problem="NCCL dumped no topology")
    return raw


def main(environment: MutableMapping[str, str] = os.environ) -> str:
    """NCCL's dump of all GPUs of this process; RuntimeError with what NCCL or torch says where there is none."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="nccl-dump-") as folder:
        dump, log = Path(folder, "topology.xml"), Path(folder, "log.txt")
        for name in DROPPED:
            environment.pop(name, None)
        environment["NCCL_TOPO_DUMP_FILE"] = str(dump)
        environment["NCCL_DEBUG"] = "WARN"
        environment["NCCL_DEBUG_FILE"] = str(log)
        try:
            _start_nccl()
        except RuntimeError as error:
            raise RuntimeError(_last_warning(log) or _one_line(error)) from None
        if not dump.is_file():
            raise RuntimeError(_last_warning(log) or "NCCL dumped no topology")
        return dump.read_text(encoding="utf-8", errors="replace")


def _start_nccl() -> None:
    """One all-reduce of a number over all GPUs, for which NCCL looks at the machine."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA GPU")
    if not torch.distributed.is_nccl_available():
        raise RuntimeError("this torch was built without NCCL")
    from torch.cuda import nccl

    numbers = [torch.ones(1, device=f"cuda:{index}") for index in range(torch.cuda.device_count())]
    reduce_all: Callable[[list[Any]], None] = nccl.all_reduce
    reduce_all(numbers)
    for index in range(len(numbers)):
        torch.cuda.synchronize(index)


def _last_warning(log: Path) -> str:
    """What NCCL warned of last, empty where it did not."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    return next((_one_line(line.partition("WARN")[2]) for line in reversed(lines) if "WARN" in line), "")


def _one_line(words: object) -> str:
    return " ".join(str(words).split())


if __name__ == "__main__":
    try:
        sys.stdout.write(main())
    except RuntimeError as stop:
        sys.exit(str(stop))
