"""Who prices the points of a sweep: processes of this machine, or a Dask cluster; one interface for both.

That interface is `concurrent.futures`: `submit`, `wait`, and an exception where a worker was lost.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import active_children, parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from topo.errors import EnvironmentMissing

CONNECT_S = 10
FEEDER_S = 1.0
"""How long a queue's thread may take to end; it takes no time, or for ever."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Workers that can be had: `open()` is a context with an executor, `count` how many it runs at once.

    `lost` are the exceptions that say that a worker died with the points it had; `gone` those that say that nobody is
    left to ask, in the words `where`.
    """

    open: Callable[[], Iterator[Executor]]
    count: int
    lost: tuple[type[BaseException], ...]
    gone: tuple[type[BaseException], ...] = ()
    where: str = ""


def local_workers(count: int) -> Workers:
    """So many processes of this machine."""
    return Workers(lambda: _processes(count), count, (BrokenExecutor,))


def _processes(count: int) -> Iterator[Executor]:
    before = set(active_children())
    executor = ProcessPoolExecutor(count, _Context(), initializer=_follow_parent)
    # Python 3.11 before 3.11.5 would wait for ever, at the end, for a full queue that no worker reads any more
    # (CPython's issue 94777). What is in it then is nobody's loss.
    internals: Any = executor
    queue, results = internals._call_queue, internals._result_queue
    queue.cancel_join_thread()
    try:
        yield executor
    finally:
        # Whoever is left works on points that nobody waits for any more.
        left = set(active_children()) - before
        for child in left:
            child.terminate()
        for child in left:
            child.join()
        # Nobody writes results any more: one that was cut short is at its end, and is not waited for.
        results._writer.close()
        # The executor's thread is waited for: up to Python 3.12, a program that ends while that thread does wakes it
        # through a pipe that it may be closing (CPython's issue 109047).
        executor.shutdown(cancel_futures=True)
        # So is the queue's own, unless the queue is full: it may free a semaphore, and cut short in that by the end of
        # the program it would leave it to the resource tracker, which warns of it.
        if queue._thread is not None:
            queue._thread.join(FEEDER_S)


class _Worker(SpawnProcess):
    """A process to which Ctrl-C does nothing, from before its first instruction: what happens then is the parent's."""

    def start(self) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Context(SpawnContext):
    Process = _Worker


def _follow_parent() -> None:
    """In a worker: end where the parent ends, however that happens."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def dask_workers(address: str) -> Workers:
    """The workers of an existing Dask cluster; EnvironmentMissing where Dask, its scheduler or its workers are not."""
    try:
        dask, scheduler = import_module("distributed"), import_module("distributed.scheduler")
    except ImportError:
        raise EnvironmentMissing(
            "--scheduler needs Dask, which is not here: install toposcope[cluster], or leave it out"
        ) from None
    # What Dask would log of a lost scheduler, tracebacks and all, is said in one sentence by whoever asks.
    for name in ("distributed", "distributed.client", "distributed.core", "distributed.comm", "distributed.utils"):
        logging.getLogger(name).setLevel(logging.CRITICAL)

    def opened() -> Iterator[Executor]:
        with dask.Client(address, timeout=CONNECT_S, set_as_default=False) as client:
            yield client.get_executor(pure=False)

    try:
        with dask.Client(address, timeout=CONNECT_S, set_as_default=False) as client:
            count = sum(client.ncores().values())
    except (OSError, ValueError) as error:
        raise EnvironmentMissing(f"--scheduler {address}: no scheduler answers there ({_first_line(error)})") from None
    if not count:
        raise EnvironmentMissing(f"--scheduler {address}: it has no workers, start some (dask worker {address})")
    gone = (CancelledError, OSError)
    return Workers(opened, count, (scheduler.KilledWorker,), gone, f"the scheduler at {address}")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
