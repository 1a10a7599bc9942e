"""The clock of one planned machine: a plan and a workload in, seconds with their range out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sim.clock.facts import NO_NETWORK, Facts, facts_of
from sim.clock.jobs import Operation, jobs_of, kernel_of
from sim.clock.kernels import times_s
from sim.clock.profile import seen_kernel

if TYPE_CHECKING:
    from sim.clock.profile import KernelProfile
    from sim.plan import Plan
    from sim.planners.nccl_2_30.planner import NcclPlan
    from sim.workload import Workload


@dataclass(frozen=True, slots=True)
class Timed:
    """Predicted seconds, between which factors (`band`) measured ones are to be expected, and whether it extrapolates.

    `band` is None where the profile states none, or was fitted to no such kernel.
    """

    duration_s: float
    band: tuple[float, float] | None
    extrapolated: bool


@dataclass(frozen=True)
class MachineClock:
    """Terms of a profile on one machine that NCCL's planner planned; `name` is what the machine is called."""

    profile: KernelProfile
    nccl: NcclPlan
    name: str = ""

    @cached_property
    def facts(self) -> Facts:
        """What of the machine the kernels feel."""
        return facts_of(self.nccl, self.name)

    @property
    def is_strange(self) -> bool:
        """Whether the profile was fitted to no machine of this generation, or of this network."""
        seen = self.profile.seen
        known = self.facts.fabric in (NO_NETWORK, *seen) and self.facts.generation in seen
        return self.facts.newest or not known

    def shows(self, operation: Operation) -> bool:
        """Whether a run that the profile was fitted to shows this kernel at such sizes on this generation.

        A profile that does not say which kernels it saw is taken to know all.
        """
        kernel = kernel_of(operation, several_nodes=self.facts.num_nodes > 1)
        shown = self.profile.seen_kernels
        return not shown or seen_kernel(self.facts.generation, kernel, operation.num_bytes) in shown

    def time(self, plan: Plan, workload: Workload) -> Timed:
        """How long the plan takes for the workload."""
        operation = Operation(
            plan.collective,
            workload.num_bytes,
            plan.algorithm,
            plan.protocol,
            plan.num_channels,
            plan.chunk_bytes or 0,
        )
        jobs = jobs_of(self.facts, [operation], gpus_per_process=1)
        duration_s = float(times_s(np.array(self.profile.values), jobs)[0])
        known = self.shows(operation)
        band = self.profile.band(workload.num_bytes, several_nodes=self.facts.num_nodes > 1) if known else None
        return Timed(duration_s, band, self.is_strange or not known)
