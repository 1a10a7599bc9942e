"""The fitted clock as a predictor of published runs, by its profile alone or corrected by some of a run's sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.clock.correction import Correction
from sim.clock.facts import facts_of
from sim.clock.fit import Fitted, covariance, fit, starting_values, weights_by_group
from sim.clock.jobs import OLD_LAUNCHES, Jobs, jobs_of, operation_of
from sim.clock.kernels import times_s

if TYPE_CHECKING:
    from validate.published.cases import Case

Floats = npt.NDArray[np.float64]

LAUNCH_BOUND = 1.4
"""A smallest size that is this much slower than predicted is bound by launches, if that explains it better."""


def hint_of(case: Case) -> str:
    """What the source says of the machine, which may name its network."""
    return f"{case.run.machine.machine_class} {case.run.machine.description}"


def jobs_of_case(case: Case) -> Jobs:
    """The case's samples, one job each."""
    facts = facts_of(case.plan, hint_of(case))
    version = case.nccl_version
    rows = zip(case.samples, case.choices, strict=True)
    return jobs_of(
        facts,
        [operation_of(case.plan, case.collective, sample.num_bytes, choice) for sample, choice in rows],
        gpus_per_process=case.gpus_per_process,
        old=version is not None and version < OLD_LAUNCHES,
    )


@dataclass(frozen=True)
class Clocked:
    """Predicts by the clock under these terms; `correction` is what some of a run's own sizes taught."""

    values: Floats
    correction: Correction | None = None
    launch_bound: bool = False

    def times_s(self, case: Case) -> Floats:
        """Seconds of each of the case's samples."""
        jobs = self._jobs(case)
        return times_s(self.values, jobs) if self.correction is None else self.correction.times_s(jobs)

    def adapted(self, case: Case, rows: Sequence[int]) -> Clocked:
        """The predictor that has seen these samples of the case."""
        seen = case.only(rows)
        found = replace(self, launch_bound=self._is_launch_bound(seen))
        return replace(found, correction=Correction.learned(self.values, found._jobs(seen), seen.measured_s))

    def _jobs(self, case: Case) -> Jobs:
        jobs = jobs_of_case(case)
        return replace(jobs, gpus_per_process=jobs.num_ranks / jobs.num_nodes) if self.launch_bound else jobs

    def _is_launch_bound(self, seen: Case) -> bool:
        """Whether one process seems to have driven all GPUs of a node, where the source does not say."""
        if seen.gpus_per_process is not None or seen.num_nodes > 1:
            return False
        smallest = int(np.argmin(seen.num_bytes))
        free, bound = (float(replace(self, launch_bound=each).times_s(seen)[smallest]) for each in (False, True))
        measured = float(seen.measured_s[smallest])
        return measured > LAUNCH_BOUND * free and abs(np.log(measured / bound)) < abs(np.log(measured / free))


def train(cases: Iterable[Case], start: Floats | None = None) -> Fitted:
    """The terms fitted to all samples of these cases, each run weighing by the root of its rows.

    `start` is where the solver begins, such as the terms of almost the same cases.
    """
    rows = tuple(cases)
    jobs = Jobs.joined([jobs_of_case(case) for case in rows])
    measured = np.concatenate([case.measured_s for case in rows])
    groups = [case.name for case in rows for _ in case.samples]
    return fit(jobs, measured, starting_values(), covariance(), weights=weights_by_group(groups), start=start)
