"""From a run, by whatever engine, to a Prediction: the one place that builds one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.prediction import LinkLoad, Prediction, Span

if TYPE_CHECKING:
    from sim.engines.network import Network
    from sim.engines.run import Run
    from sim.plan import Plan
    from sim.workload import Workload

MOST_LINKS = 1024
"""Links of which a prediction lists each; of more it lists the first of each kind."""


def prediction_of(
    plan: Plan, workload: Workload, network: Network, run: Run, *, engine: str, profile: str
) -> Prediction:
    """The prediction for a plan that was run over a network, by the engine and under the profile of these names."""
    return Prediction(
        workload=workload,
        num_ranks=plan.num_ranks,
        algorithm=plan.algorithm,
        protocol=plan.protocol,
        num_channels=plan.num_channels,
        engine=engine,
        profile=profile,
        duration_s=run.duration_s,
        link_loads=_loads(network, run),
        spans=_spans(run),
        planner=plan.planner,
        instead_of=plan.instead_of,
    )


def _loads(network: Network, run: Run) -> tuple[LinkLoad, ...]:
    """What every link that carried anything carried; beyond MOST_LINKS those that are alike stand together."""
    used = np.flatnonzero(run.link_bytes)
    counts = np.ones(len(used), dtype=np.int64)
    if len(used) > MOST_LINKS:
        kind = np.zeros(len(used), dtype=np.int64)
        for facts in (run.link_bytes, network.bandwidth_bytes_per_s, run.link_busy_s):
            values, value = np.unique(facts[used], return_inverse=True)
            kind = np.unique(kind * len(values) + value, return_inverse=True)[1]
        _, first, counts = np.unique(kind, return_index=True, return_counts=True)
        in_order = np.argsort(first)
        used, counts = used[first[in_order]], counts[in_order]
    whole = run.duration_s or 1.0
    return tuple(
        LinkLoad(
            network.link_id(index),
            float(run.link_bytes[index]),
            float(network.bandwidth_bytes_per_s[index]),
            float(run.link_busy_s[index] / whole),
            count,
        )
        for index, count in zip(used.tolist(), counts.tolist(), strict=True)
    )


def _spans(run: Run) -> tuple[Span, ...]:
    if run.spans is None:
        return ()
    columns = (run.spans.start_s, run.spans.sent_s, run.spans.landed_s)
    return tuple(Span(row, *times) for row, times in enumerate(zip(*(c.tolist() for c in columns), strict=True)))
