"""The front door: a machine and a workload in, a prediction out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sim.engines import engine as find_engine
from sim.planners.topology import Options, plan
from sim.prediction import LinkLoad, Prediction, Span
from sim.profile import load_profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.engines.network import Network
    from sim.engines.run import Run
    from sim.plan import Plan
    from sim.profile import Profile
    from sim.workload import Workload
    from topo.cluster import Cluster
    from topo.topology import Topology

AUTO_CANDIDATES = ("ring", "tree")
"""What `auto` chooses from: the faster one as simulated."""


def predict(
    machine: Topology | Cluster,
    workload: Workload,
    *,
    algorithm: str = "auto",
    profile: Profile | None = None,
    options: Options | None = None,
    engine: str = "auto",
    spans: bool = False,
) -> Prediction:
    """The simulated run of the workload; with `algorithm="auto"` that of the faster of ring and tree.

    `profile` None takes the machine's default. `spans` keeps the times of every transfer.
    """
    profile = profile or load_profile("auto", synthetic=machine.synthetic)
    if algorithm == "auto":
        runs = (
            predict(machine, workload, algorithm=name, profile=profile, options=options, engine=engine, spans=spans)
            for name in AUTO_CANDIDATES
        )
        return min(runs, key=lambda run: run.duration_s)
    return run_plan(
        machine, workload, plan(machine, workload, algorithm, profile, options), profile, engine=engine, spans=spans
    )


def run_plan(
    machine: Topology | Cluster,
    workload: Workload,
    plan: Plan,
    profile: Profile,
    *,
    engine: str = "auto",
    spans: bool = False,
) -> Prediction:
    """The simulated run of one plan on a machine."""
    from sim.engines.network import network_of

    name = "event" if engine == "auto" else engine
    simulate = find_engine(name)
    network = network_of(machine, profile, plan.helpers)
    run = simulate(plan.schedule(), network, workload)
    return Prediction(
        workload=workload,
        num_ranks=plan.num_ranks,
        algorithm=plan.algorithm,
        protocol=plan.protocol,
        num_channels=plan.num_channels,
        engine=name,
        profile=profile.name,
        duration_s=run.duration_s,
        link_loads=_loads(network, run),
        spans=_spans(run) if spans else (),
    )


def _loads(network: Network, run: Run) -> tuple[LinkLoad, ...]:
    """What every link that carried anything carried."""
    used = np.flatnonzero(run.link_bytes)
    whole = run.duration_s or 1.0
    return tuple(
        LinkLoad(
            network.link_ids[index],
            float(run.link_bytes[index]),
            float(network.bandwidth_bytes_per_s[index]),
            float(run.link_busy_s[index] / whole),
        )
        for index in used.tolist()
    )


def _spans(run: Run) -> tuple[Span, ...]:
    columns: Sequence[list[float]] = (run.start_s.tolist(), run.sent_s.tolist(), run.landed_s.tolist())
    return tuple(Span(row, *times) for row, times in enumerate(zip(*columns, strict=True)))
