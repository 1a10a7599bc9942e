"""The engines: (schedule, network, workload) in, times out. A new one is one function and one line in ENGINES."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from topo.errors import NameChoiceError

if TYPE_CHECKING:
    from sim.engines.network import Network
    from sim.engines.run import Run
    from sim.schedule import Schedule
    from sim.workload import Workload


class Engine(Protocol):
    """Runs a schedule on a network; with `spans` it keeps the times of every transfer."""

    def __call__(self, schedule: Schedule, network: Network, workload: Workload, *, spans: bool = False) -> Run:
        """The simulated run."""


ENGINES: dict[str, str] = {"event": "sim.engines.event:simulate", "steady": "sim.engines.steady:simulate"}
"""Engine by name: where its function lies. An engine is imported when it is asked for."""


KERNELS = "kernels"
"""NCCL's kernels in closed form (sim/clock): for NCCL's plans under a fitted profile, without a schedule."""


def engine(name: str) -> Engine:
    """The engine of that name; NameChoiceError with the nearest otherwise."""
    if name not in ENGINES:
        raise NameChoiceError("engine", name, ("auto", *ENGINES, KERNELS))
    from importlib import import_module

    module, function = ENGINES[name].split(":")
    found: Engine = getattr(import_module(module), function)
    return found
