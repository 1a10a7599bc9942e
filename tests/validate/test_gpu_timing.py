"""What happens on a GPU and in which order, on a torch whose CUDA is made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

if find_spec("torch") is None:
    pytest.skip("torch is not installed: no backend of it is tested", allow_module_level=True)

import torch
import torch.distributed as dist

from sim.workload import Workload
from validate.backends import NotRun
from validate.backends.torch_builtin import TorchBuiltin
from validate.backends.torch_processes import Processes

GPU = SimpleNamespace(type="cuda")


def in_memory(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The same function without the device, which is made up."""

    def made(*shape: int, device: object = None, **more: object) -> torch.Tensor:
        return make(*shape, **more)

    return made


class Alone(Processes):
    """One process that agrees with itself."""

    def meet(self) -> None:
        pass

    def all_agree(self, mine: bool) -> bool:
        return mine

    def everyones(self, mine: str) -> list[str]:
        return [mine, ""]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of CUDA and of the process group, in order."""
    log: list[str] = []

    class Event:
        num_made = 0

        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing
            Event.num_made += 1
            self.name = "start" if Event.num_made % 2 else "end"

        def record(self) -> None:
            log.append(self.name)

        def elapsed_time(self, other: Event) -> float:
            assert (self.name, other.name) == ("start", "end")
            return 2.5

    class Graph:
        def replay(self) -> None:
            log.append("replay")

    @contextmanager
    def capturing(graph: Graph, *, capture_error_mode: str) -> Iterator[None]:
        assert capture_error_mode == "thread_local"
        log.append("capture")
        yield
        log.append("captured")

    monkeypatch.setattr(torch, "zeros", in_memory(torch.zeros))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", capturing)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: log.append("empty_cache"))
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: log.append("sleep"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: log.append("synchronize"))
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, **_: log.append(f"all_reduce {tensor.numel()}"))
    return log


def test_the_gpus_meet_while_launches_are_queued_and_events_enclose_the_run(calls: list[str]) -> None:
    processes = Alone("nccl", 0, 2, GPU, None, None)
    assert processes.timed(lambda: calls.append("run")) == 2.5e-3
    assert calls == ["sleep", "all_reduce 1", "start", "run", "end", "synchronize"]


class OnCpu(TorchBuiltin):
    """The built-in collectives with their buffers where this test has memory."""

    def _load(self, workload: Workload) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "empty", in_memory(torch.empty))
            super()._load(workload)


@pytest.mark.parametrize(("graph", "timed"), [(False, "all_reduce 4"), (True, "replay")])
def test_the_first_run_is_not_timed_and_a_graph_is_replayed(calls: list[str], graph: bool, timed: str) -> None:
    backend = OnCpu(Alone("nccl", 0, 2, GPU, None, None), graph=graph)
    backend.load(Workload("all_reduce", 16))
    first = ["all_reduce 4", "synchronize"]
    assert calls == first + (["capture", "all_reduce 4", "captured"] if graph else [])
    assert backend.timing == ("cuda-graph" if graph else "cuda-events")
    calls.clear()
    backend.time_once()
    assert calls == ["sleep", "all_reduce 1", "start", timed, "end", "synchronize"]


def test_a_size_that_does_not_fit_ends_itself_and_gives_its_memory_back(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., torch.Tensor] = torch.empty

    def refuse(*shape: int, device: object = None, **more: object) -> torch.Tensor:
        if device is GPU:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 80.00 GiB.\nand more lines")
        return real(*shape, **more)

    backend = TorchBuiltin(Alone("nccl", 0, 2, GPU, None, None))
    monkeypatch.setattr(torch, "empty", refuse)
    with pytest.raises(NotRun, match=r"CUDA out of memory\. Tried .* \(on process 0\)"):
        backend.load(Workload("all_reduce", 16))
    assert calls == ["empty_cache"]


def test_nccls_own_estimate_is_asked_for_without_running_anything(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def estimator(*, group: object, device: object) -> Iterator[SimpleNamespace]:
        found = SimpleNamespace(estimated_time=None)
        calls.append("estimate")
        yield found
        found.estimated_time = 12.5

    monkeypatch.setattr(dist.distributed_c10d, "_time_estimator", estimator)
    backend = OnCpu(Alone("nccl", 0, 2, GPU, None, None))
    backend.load(Workload("all_reduce", 16))
    calls.clear()
    assert backend.estimate_s() == pytest.approx(12.5e-6)
    assert calls == ["estimate", "all_reduce 4"]
    monkeypatch.delattr(dist.distributed_c10d, "_time_estimator")
    assert backend.estimate_s() is None
    assert OnCpu(Alone("gloo", 0, 2, torch.device("cpu"), None, None)).estimate_s() is None
