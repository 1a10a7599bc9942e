"""Replays training steps under torch's DistributedDataParallel: only their communication is real.

Forward and backward idle until the times that are given, so that what a step takes beyond them is its communication.
Gradients live in their buckets (`gradient_as_bucket_view`): nothing is copied out of them.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sim.ddp.buckets import MIB
from sim.workload import Workload
from topo.errors import MeasurementError
from validate.backends.torch_processes import Processes
from validate.measurement import Setting
from validate.replay import Replay

BUCKETS = "ddp_bucket_bytes"
"""The setting that says of a measurement which buckets torch made."""

STEPS_UNTIL_REBUILT = 2
"""torch rebuilds its buckets as the second step begins."""

CYCLES_TO_TIME = 20_000_000


class _Clock:
    """Passes time until moments that are given in seconds from a beginning: the processor sleeps, the GPU spins."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._begin_s = 0.0
        self._passed_s = 0.0
        self._cycles_per_s = self._measured() if device.type == "cuda" else 0.0

    def begin(self) -> None:
        self._begin_s, self._passed_s = time.perf_counter(), 0.0

    def until(self, moment_s: float) -> None:
        """On a GPU each stretch takes its time anew; on a processor what came in between is made up for."""
        if self._device.type == "cuda":
            sleep: Any = torch.cuda._sleep
            sleep(max(0, round((moment_s - self._passed_s) * self._cycles_per_s)))
            self._passed_s = moment_s
            return
        remaining_s = self._begin_s + moment_s - time.perf_counter()
        if remaining_s > 0:
            time.sleep(remaining_s)

    def _measured(self) -> float:
        event: Any = torch.cuda.Event
        sleep: Any = torch.cuda._sleep
        start, end = event(enable_timing=True), event(enable_timing=True)
        sleep(CYCLES_TO_TIME)
        start.record()
        sleep(CYCLES_TO_TIME)
        end.record()
        torch.cuda.synchronize(self._device)
        return CYCLES_TO_TIME / (float(start.elapsed_time(end)) / 1e3)


class _Appearing(torch.autograd.Function):
    """Hands its input on; in backward the weight's gradient appears once its moment has come."""

    @staticmethod
    def forward(context: Any, given: Any, weight: Any, replayed: Any, moment_s: float) -> Any:
        context.replayed, context.moment_s, context.num_elements = replayed, moment_s, weight.numel()
        return given.clone()

    @staticmethod
    def backward(context: Any, gradient: Any) -> tuple[Any, ...]:
        context.replayed.clock.until(context.moment_s)
        return gradient, context.replayed.values[: context.num_elements], None, None


class _Replayed(nn.Module):
    """Parameters whose gradients appear in the order and at the times of a replay, all with the same values."""

    def __init__(self, replay: Replay, clock: _Clock, device: Any) -> None:
        super().__init__()
        dtype = getattr(torch, replay.dtype)
        largest = max(row.num_elements for row in replay.gradients)
        self.clock, self.replay = clock, replay
        self.values = torch.ones(largest, dtype=dtype, device=device)
        rows = reversed(replay.gradients)
        self.weights = nn.ParameterList(torch.zeros(row.num_elements, dtype=dtype, device=device) for row in rows)

    def forward(self, given: Any) -> Any:
        self.clock.begin()
        self.clock.until(self.replay.forward_s)
        for weight, row in zip(self.weights, reversed(self.replay.gradients), strict=True):
            given = _Appearing.apply(given, weight, self, self.replay.forward_s + row.ready_s)  # type: ignore[no-untyped-call]
        return given


class TorchReplay:
    """A Backend whose run is one training step: forward, backward, and all its gradients averaged."""

    executor = "ddp"
    fault = ""

    def __init__(self, processes: Processes, replay: Replay) -> None:
        self.processes = processes
        self.replay = replay
        self.name = processes.backend
        self.num_ranks = processes.num_ranks
        self.algorithm: str = replay.synchronisation
        self.timing = "cuda-events" if processes.device.type == "cuda" else "clock"
        self._model: Any = None
        self._given = torch.zeros((), device=processes.device, requires_grad=True)

    def load(self, workload: Workload) -> None:
        """Make the model and wrap it; the first steps, in which torch finds its buckets, are run here."""
        if workload.num_bytes != self.replay.num_bytes:
            raise MeasurementError(f"a workload of {workload.num_bytes} bytes for {self.replay.num_bytes} of gradients")
        inner = _Replayed(self.replay, _Clock(self.processes.device), self.processes.device)
        self._model = DistributedDataParallel(
            inner,
            process_group=self.processes.ranks,
            gradient_as_bucket_view=True,
            **_caps(self.replay),
        )
        _compress(self._model, self.replay.compression)
        for _ in range(STEPS_UNTIL_REBUILT):
            self.processes.meet()
            self._synchronised()

    def time_once(self) -> float:
        """Seconds of one step on this process, after all processes have met."""
        return self.processes.timed(self.run)

    def run(self) -> None:
        """One step."""
        with nullcontext() if self.replay.synchronisation == "ddp" else self._model.no_sync():
            self._synchronised()

    def slowest(self, own_s: Sequence[float]) -> tuple[float, ...]:
        """The maximum over all processes of each iteration's seconds."""
        return self.processes.slowest(own_s)

    def is_correct(self) -> bool | None:
        """Whether every gradient is the mean over the ranks, each of which gives its number plus 1."""
        module = self._model.module
        module.values.fill_(self.processes.rank + 1)
        for weight in module.weights:
            weight.grad.zero_()
        self.processes.meet()
        self._synchronised()
        mean = (self.num_ranks + 1) / 2
        return self.processes.all_agree(all(bool((weight.grad == mean).all()) for weight in module.weights))

    def estimate_s(self) -> float | None:
        """What the library itself expects: nothing is known."""
        return None

    def software(self) -> tuple[Setting, ...]:
        """The version of torch, and the buckets that it made."""
        found = self._model._get_ddp_logging_data()
        buckets = found.get("rebuilt_bucket_sizes") or found.get("bucket_sizes", "")
        return (Setting("torch", torch.__version__), Setting(BUCKETS, buckets.replace(" ", "")))

    def _synchronised(self) -> None:
        self._model(self._given).backward()


def _caps(replay: Replay) -> dict[str, Any]:
    """The caps in the words of this torch; older ones give the first bucket 1 MiB whatever the others have."""
    caps = replay.caps
    if "bucket_cap_mb_list" in inspect.signature(DistributedDataParallel).parameters:
        return {"bucket_cap_mb_list": [caps.first_num_bytes / MIB, caps.num_bytes / MIB]}
    return {"bucket_cap_mb": caps.cap_mb}


def _compress(model: Any, compression: str | None) -> None:
    """Have gradients sent as a narrower type."""
    if compression is None:
        return
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    model.register_comm_hook(None, getattr(default_hooks, f"{compression}_compress_hook"))
