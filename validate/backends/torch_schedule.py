"""Executes any schedule by point-to-point messages of `torch.distributed`, the same on gloo and nccl."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from sim.collective import collective
from sim.schedule import Schedule
from sim.workload import Workload
from validate.backends.layout import Layout, layout_of
from validate.backends.steps import Receive, Step, staging_elements, steps_of
from validate.backends.torch_backend import TorchBackend, divide
from validate.backends.torch_processes import Processes

Combine = tuple[Any, Any, Any]
"""A function, the slot it writes, and the staged tensor it reads."""


class TorchSchedule(TorchBackend):
    """Runs this process' part of a schedule, one batch of sends and receives per step."""

    executor = "point-to-point"

    def __init__(self, processes: Processes, schedule: Schedule, algorithm: str, *, graph: bool = False) -> None:
        super().__init__(processes, algorithm, graph=graph)
        self.schedule = schedule
        self._slots: dict[int, Any] = {}
        self._staging = self.buffer
        self._combine: Any = None
        self._batches: list[tuple[list[Any], list[Combine]]] = []
        self._averaged: list[Any] = []

    def lay_out(self, workload: Workload) -> Layout:
        """The chunks that this process meets in the schedule, or holds before or after it."""
        return layout_of(
            self.schedule, self.processes.rank, self.schedule.chunk_bytes(workload) // workload.element_bytes
        )

    def prepare(self, workload: Workload) -> None:
        """Cut the buffer into chunks and build every message of this process once, to be sent in each run."""
        elements = self.layout.elements
        agent = self.processes.rank
        steps = steps_of(self.schedule, agent, elements) if agent < self.schedule.num_agents else ()
        self._slots = {chunk: self.buffer[first:last] for chunk, (first, last) in self.layout.places().items()}
        self._staging = self.buffer.new_empty(staging_elements(steps, elements))
        self._combine = {"min": torch.minimum, "max": torch.maximum}.get(workload.reduction, torch.add)
        self._batches = [self._batch(step) for step in steps]
        self._averaged = self._results() if workload.reduction == "avg" else []

    def run(self) -> None:
        """One run: within a step every message is posted at once, and slots change only when all have completed."""
        for messages, combines in self._batches:
            for work in dist.batch_isend_irecv(messages):
                work.wait()
            for combine, slot, staged in combines:
                if combine is None:
                    slot.copy_(staged)
                else:
                    combine(slot, staged, out=slot)
        for slot in self._averaged:
            divide(slot, self.num_ranks)

    def _batch(self, step: Step) -> tuple[list[Any], list[Combine]]:
        """Receives first: gloo announces one behind whatever is being sent to that peer, which may be megabytes."""
        messages: list[Any] = []
        combines: list[Combine] = []
        for row in step.receives:
            slot = self._slots[row.chunk]
            target = slot if row.staged_at is None else self._staged(row, slot)
            messages.append(dist.P2POp(dist.irecv, target, row.peer, tag=row.tag))
            if row.staged_at is not None:
                combines.append((None if row.replaces else self._combine, slot, target))
        messages += [dist.P2POp(dist.isend, self._slots[row.chunk], row.peer, tag=row.tag) for row in step.sends]
        return messages, combines

    def _staged(self, row: Receive, slot: Any) -> Any:
        return self._staging[row.staged_at : (row.staged_at or 0) + slot.numel()]

    def _results(self) -> list[Any]:
        """The slots of this rank that hold a sum at the end; none on helpers and where nothing is reduced."""
        what = collective(self.schedule.collective)
        if not (what.reduces and self.processes.is_rank):
            return []
        required = what.after(self.num_ranks, self.schedule.num_chunks)[self.processes.rank]
        return [self._slots[chunk] for chunk in np.flatnonzero(required).tolist()]
