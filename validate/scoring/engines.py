"""Our engines with the default profile as a model: every size simulated, which takes minutes for large machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from topo.errors import TopoError
from validate.published.cases import SENDRECV

if TYPE_CHECKING:
    import numpy.typing as npt

    from sim.predict import Simulator
    from sim.workload import Workload
    from validate.published.cases import Case

    Numbers = npt.NDArray[np.float64]


class EngineModel:
    """Simulates each sample of a case by the planner's schedule; NaN for what has no schedule."""

    def __init__(self, factor: float = 1.0) -> None:
        """`factor` stretches every time."""
        self._factor = factor

    def times_s(self, case: Case) -> Numbers:
        """Simulated seconds of each sample."""
        from sim.planners.options import Options
        from sim.predict import Simulator

        if case.collective == SENDRECV:
            return np.full(len(case.samples), np.nan)
        simulator = Simulator(case.machine, options=Options(environment=case.settings.environment))
        algorithm = case.settings.algorithms[0] if case.settings.algorithms else "auto"
        return self._factor * np.array([_time_s(simulator, work, algorithm) for work in case.workloads])

    def adapted(self, case: Case, rows: tuple[int, ...]) -> EngineModel:
        """One factor on all times, from the rows alone."""
        if not rows:
            return self
        one = case.only(rows)
        ratios = one.measured_s / self.times_s(one)
        known = ratios[np.isfinite(ratios)]
        return EngineModel(self._factor * float(np.exp(np.log(known).mean()))) if len(known) else self


def _time_s(simulator: Simulator, work: Workload, algorithm: str) -> float:
    try:
        return simulator.run(work, algorithm).duration_s or np.nan
    except TopoError:
        return np.nan
