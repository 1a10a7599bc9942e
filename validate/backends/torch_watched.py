"""Processes that note how long each waited for the others, which needs no common clock to find who comes late."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch.distributed as dist

from validate.backends.torch_processes import Processes
from validate.stage import Stage


@dataclass(frozen=True, slots=True)
class Watched(Processes):
    """The same, with `delay_s` that holds this process up before each meeting, and `waits_s` for how long it waited.

    All meet twice: the first time they come from their work, the second time from the same moment. So the second
    tells who is late by itself, and not who had the longer way.
    """

    delay_s: float = 0.0
    waits_s: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, processes: Processes, delay_s: float) -> Watched:
        """These processes, watched."""
        same = {row.name: getattr(processes, row.name) for row in fields(processes)}
        return cls(**same, delay_s=delay_s)

    def meet(self) -> None:
        """Return once all processes have come here."""
        Processes.meet(self)
        if self.delay_s:
            time.sleep(self.delay_s)
        arrived = time.perf_counter()
        Processes.meet(self)
        self.waits_s.append(time.perf_counter() - arrived)

    def note_job(self, number: int, stage: Stage) -> None:
        """Write, on rank 0, what all have waited since the last job; every process calls it."""
        everyone: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, list(self.waits_s), group=self.control)
        self.waits_s.clear()
        if self.rank == 0:
            with Path(stage.arrivals).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"job": number, "waits_s": everyone}) + "\n")
