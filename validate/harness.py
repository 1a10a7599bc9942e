"""Times a workload on a backend: warm-ups, then iterations one by one, then the correctness pass on its own."""

from __future__ import annotations

from sim.workload import Workload
from validate.backends import Backend
from validate.measurement import LibraryChoice, Measurement, kept_environment


def measure(
    backend: Backend,
    workload: Workload,
    *,
    num_iterations: int = 20,
    num_warmups: int = 5,
    check: bool = True,
    provenance: str = "",
    protocol: str | None = None,
) -> Measurement:
    """The measurement of one workload, the same on every process that takes part.

    All processes meet before each iteration; an iteration takes as long as on the slowest of them. Timing and
    correctness are separate passes, so that neither disturbs the other.
    """
    backend.load(workload)
    for _ in range(num_warmups):
        backend.time_once()
    samples_s = backend.slowest([backend.time_once() for _ in range(num_iterations)])
    estimate_s = backend.estimate_s()
    return Measurement(
        workload=workload,
        num_ranks=backend.num_ranks,
        backend=backend.name,
        executor=backend.executor,
        algorithm=backend.algorithm,
        samples_s=samples_s,
        num_warmups=num_warmups,
        correct=backend.is_correct() if check else None,
        software=backend.software(),
        environment=kept_environment(),
        provenance=provenance,
        protocol=protocol,
        timing=backend.timing,
        choice=None if estimate_s is None else LibraryChoice(estimate_s=estimate_s),
    )
