"""A launch that starts nothing: every job "takes" the times that it is given, so that all is seen without hardware."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from validate.backends.recorded import Recorded
from validate.harness import measure
from validate.jobs import Job, Run
from validate.launch import Outcome
from validate.results import Arrived, nobody
from validate.watching import untold


@dataclass(frozen=True, slots=True)
class RecordedLaunch:
    """Stands in for `launch`: `times_s(job)` are the samples of a job, from the first again when used up.

    None says that the job cannot run. `texts` are what the library would have written, `failure` ends the launch after
    `num_jobs` jobs.
    """

    times_s: Callable[[Job], Sequence[float] | None]
    texts: Mapping[str, str] = field(default_factory=dict)
    estimate_s: float | None = None
    failure: str | None = None
    num_jobs: int | None = None

    def __call__(
        self,
        run: Run,
        *,
        timeout_s: float = 300.0,
        tell: Callable[[str], None] = untold,
        arrived: Arrived = nobody,
    ) -> Outcome:
        """The outcome of the run; results arrive one by one."""
        outcome = Outcome({}, {}, self.failure, (), {}, dict(self.texts))
        for index, job in enumerate(run.jobs[: self.num_jobs]):
            tell(f"job {index + 1} of {len(run.jobs)}: {job.label}")
            times_s = self.times_s(job)
            if times_s is None:
                outcome.not_run[index] = f"{job.label} was not run: as recorded"
                continue
            backend = Recorded(
                run.num_ranks,
                {job.workload.num_bytes: times_s},
                job.algorithm,
                name=run.backend,
                executor="builtin" if job.schedule is None else "point-to-point",
                timing="cuda-graph" if job.graph else "",
                expected_s=self.estimate_s,
            )
            found = measure(
                backend,
                job.workload,
                num_iterations=job.num_iterations,
                num_warmups=job.num_warmups,
                check=job.check,
                protocol=job.protocol,
            )
            outcome.measurements[index] = found
            arrived(index, found)
        return outcome
