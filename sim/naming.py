"""What `--algorithm` may say: `auto`, `all`, or names with commas between them."""

from __future__ import annotations

from sim.algorithms import ALGORITHMS, algorithm
from sim.planners import AUTO, NCCL, PLANNERS
from topo.errors import ScheduleError

ALL = "all"
"""All that can run on a machine: only a Simulator knows which these are."""


def named_algorithms(text: str, collective: str) -> tuple[str, ...]:
    """The algorithms of a list, each once; `auto` stands as it is.

    NameChoiceError for an unknown name, ScheduleError for an algorithm that does not run the collective.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if ALL in names:
        raise ScheduleError(f"--algorithm {text}: {ALL} stands for every algorithm that can run, write it alone")
    for name in names:
        if name != AUTO:
            _require(name, collective)
    return names


def _require(name: str, collective: str) -> None:
    if name not in ALGORITHMS and name in PLANNERS[NCCL].algorithms:
        return
    known = algorithm(name).collectives
    if collective not in known:
        raise ScheduleError(f"{name} runs {', '.join(known)}, not {collective}: choose another algorithm")
