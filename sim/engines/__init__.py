"""The engines: (schedule, network, workload) in, times out. A new one is one function and one line in ENGINES."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from topo.errors import NameChoiceError

if TYPE_CHECKING:
    from sim.engines.network import Network
    from sim.engines.run import Run
    from sim.schedule import Schedule
    from sim.workload import Workload

    Engine = Callable[[Schedule, Network, Workload], Run]

ENGINES: dict[str, str] = {"event": "sim.engines.event:simulate"}
"""Engine by name: where its function lies. An engine is imported when it is asked for."""


def engine(name: str) -> Engine:
    """The engine of that name; NameChoiceError with the nearest otherwise."""
    if name not in ENGINES:
        raise NameChoiceError("engine", name, ENGINES)
    from importlib import import_module

    module, function = ENGINES[name].split(":")
    found: Engine = getattr(import_module(module), function)
    return found
