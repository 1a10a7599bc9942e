"""What one prediction costs inside a process that has made its machine ready: the median over many, in milliseconds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from sim.clock.kernels import times_s
from sim.clock.profile import load_kernels
from sim.planners.options import Options
from sim.predict import Simulator
from sim.profile import load_profile
from sim.workload import Workload
from topo.load import load_topology
from validate.clocked import jobs_of_case
from validate.scoring.front import load

RUNS = 21
SIZES = tuple(2**power for power in range(3, 34))
VECTORS = 64


def measure() -> list[dict[str, object]]:
    """A row per kind of work: its name, median CPU seconds of one, and how many were measured."""
    machine = load_topology("dgx-h100")
    fitted = Simulator(machine)
    rings = Simulator(machine, load_profile("ideal", machine), Options(num_channels=24), engine="steady")
    workloads = [Workload("all_reduce", size) for size in SIZES]
    names = fitted.algorithms_for(workloads[-1])
    jobs = jobs_of_case(load().cases[0])
    values = np.tile(load_kernels().values, (VECTORS, 1))
    fits = VECTORS * len(jobs)
    return [
        _row("dgx-h100, one size, kernels", lambda: fitted.run(workloads[20])),
        _row("dgx-h100, ring on 24 channels, one size, steady", lambda: rings.run(workloads[20], "ring")),
        _row(
            f"dgx-h100, 31 sizes of {len(names)} algorithms",
            lambda: [fitted.run(workload, name) for name in names for workload in workloads],
        ),
        _row(f"a size under one of {VECTORS} vectors of terms", lambda: times_s(values, jobs), fits),
    ]


def table(rows: list[dict[str, object]]) -> str:
    """The rows as Markdown."""
    lines = ["| work in one process | CPU ms |", "|---|---:|"]
    return "\n".join([*lines, *(f"| {row['name']} | {float(str(row['cpu_s'])) * 1e3:.3g} |" for row in rows)])


def _row(name: str, work: Callable[[], object], share: int = 1) -> dict[str, object]:
    """The median of RUNS after one that makes everything ready, divided by how many pieces the work has."""
    work()
    each = []
    for _ in range(RUNS):
        start = time.process_time()
        work()
        each.append((time.process_time() - start) / share)
    return {"name": name, "cpu_s": statistics.median(each), "runs": RUNS}
