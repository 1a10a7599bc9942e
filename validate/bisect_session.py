"""Runs a bisection: on this machine's processes or GPUs, or on hosts of the lab, whose links may be cut on purpose."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from topo.errors import MeasurementError, NameChoiceError
from validate.arrivals import Arrivals, read_arrivals
from validate.bisect import (
    TOLERANCE,
    USUAL_SHARE,
    Bisection,
    all_pairs,
    bisect_run,
    explain,
    held_against,
    links_of,
    predicted_s,
    scale_of,
)
from validate.jobs import BackendName
from validate.lab.fabric import Fabric, topology_of
from validate.lab.namespaces import built, guarded, own_prefix, remove_leftovers, require_lab
from validate.lab.trial import interrupted, staged
from validate.launch import ending_tidily, launch, require_torch, untold
from validate.loopback import PointToPoint, topology
from validate.progress import FOLDER_PREFIX
from validate.stage import Stage

if TYPE_CHECKING:
    from sim.profile import Profile
    from topo.topology import Topology
    from validate.measurement import Measurement

ANY_RATE = 1e9
"""The rate of links of which only their equality is known; the measurement sets the scale."""


@dataclass(frozen=True, slots=True)
class Request:
    """How to measure the pairs. `delays_s` hold ranks up before each meeting, to see whether that is told apart."""

    num_bytes: int
    num_iterations: int = 5
    num_warmups: int = 1
    timeout_s: float = 300.0
    tolerance: float = TOLERANCE
    delays_s: Mapping[int, float] | None = None

    def delays(self, num_ranks: int) -> tuple[float, ...]:
        """The delay of every rank; MeasurementError for a rank that there is not."""
        wanted = self.delays_s or {}
        unknown = [rank for rank in wanted if rank >= num_ranks]
        if unknown:
            raise MeasurementError(
                f"--late {unknown[0]}: there are {num_ranks} ranks, 0 to {num_ranks - 1}: name one of these"
            )
        return tuple(wanted.get(rank, 0.0) for rank in range(num_ranks))


def bisect_machine(
    machine: Topology | None,
    profile: Profile | None,
    num_ranks: int,
    backend: BackendName,
    request: Request,
    *,
    tell: Callable[[str], None] = untold,
) -> Bisection:
    """Every pair of ranks of this machine; without a topology all pairs are taken to be alike."""
    from sim.engines.network import network_of
    from sim.profile import IDEAL

    require_torch()
    stands = machine or topology(PointToPoint(num_ranks, 0.0, 0.0, ANY_RATE, ANY_RATE))
    network = network_of(stands, profile or IDEAL)
    predictions = predicted_s(network, num_ranks, request.num_bytes)
    with ending_tidily(), tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX) as name:
        arrivals = Path(name) / "arrivals.jsonl"
        environment = Stage((), request.delays(num_ranks), str(arrivals)).environment(Path(name))
        measured, arrived, failure = _measure(num_ranks, backend, request, environment, arrivals, tell)
    scale = scale_of(measured, predictions, USUAL_SHARE) if profile is None else None
    found = explain(held_against(measured, predictions, scale or 1.0), links_of(network, num_ranks), request.tolerance)
    return Bisection(stands, request.num_bytes, found, arrived, failure, scale)


def bisect_lab(
    fabric: Fabric, cuts: Mapping[str, float], request: Request, *, tell: Callable[[str], None] = untold
) -> Bisection:
    """Every pair of hosts of a fabric that is built with some cables slower than it states, by the cables' names.

    What is predicted is the fabric as stated. Nothing of it is left behind.
    """
    from sim.engines.network import network_of
    from sim.profile import IDEAL

    require_lab()
    require_torch()
    num_ranks, prefix = len(fabric.hosts), own_prefix()
    stated, real, delays_s = topology_of(fabric), with_cuts(fabric, cuts), request.delays(num_ranks)
    network = network_of(stated, IDEAL)
    predictions = predicted_s(network, num_ranks, request.num_bytes)
    remove_leftovers()
    with ending_tidily(), guarded(prefix), built(real, prefix), staged(real, prefix, delays_s) as (environment, file):
        measured, arrived, failure = _measure(num_ranks, "gloo", request, environment, file, tell)
    scale = scale_of(measured, predictions)
    found = explain(held_against(measured, predictions, scale or 1.0), links_of(network, num_ranks), request.tolerance)
    return Bisection(stated, request.num_bytes, found, arrived, failure, scale)


def with_cuts(fabric: Fabric, cuts: Mapping[str, float]) -> Fabric:
    """The fabric with these cables at these rates; NameChoiceError for a name that is none of them."""
    names = [cable.name for cable in fabric.cables]
    for name in cuts:
        if name not in names:
            raise NameChoiceError("link", name, names)
    cables = (replace(row, rate_bytes_per_s=cuts.get(row.name, row.rate_bytes_per_s)) for row in fabric.cables)
    return replace(fabric, cables=tuple(cables))


def _measure(
    num_ranks: int,
    backend: BackendName,
    request: Request,
    environment: dict[str, str],
    arrivals: Path,
    tell: Callable[[str], None],
) -> tuple[dict[tuple[int, int], Measurement], Arrivals, str | None]:
    """The measurement of each pair, who came late, and what went wrong; results so far where it is interrupted."""
    run = bisect_run(num_ranks, request.num_bytes, backend, request.num_iterations, request.num_warmups)
    found: dict[int, Measurement] = {}
    try:
        failure = launch(
            run, timeout_s=request.timeout_s, environment=environment, tell=tell, arrived=found.__setitem__
        ).failure
    except (KeyboardInterrupt, SystemExit) as ending:
        failure = interrupted(ending)
    pairs = all_pairs(num_ranks)
    return {pairs[number]: row for number, row in sorted(found.items())}, read_arrivals(arrivals), failure
