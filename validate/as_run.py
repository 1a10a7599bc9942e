"""What a measured run fixed on purpose, in the planner's terms: a prediction must not be of something else.

Forced algorithms, protocols and channels are followed, and what the run's own NCCL does not do. Settings that make a
machine slower than it could be (no P2P, no InfiniBand) are not: that a row is LOW because of them is what a comparison
is for. Settings that can open a way as well as close one are followed where they make the prediction faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sim.planners import AUTO
from sim.planners.options import Options
from topo.errors import TopoError

if TYPE_CHECKING:
    from sim.planners.nccl_2_30 import NcclPlan
    from sim.predict import Simulator
    from sim.prediction import Prediction
    from sim.profile import Profile
    from topo.cluster import Cluster
    from topo.topology import Topology
    from validate.measurement import Measurement

Pairs = tuple[tuple[str, str], ...]

ON_PURPOSE = (
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS",
    "NCCL_NTHREADS",
    "NCCL_BUFFSIZE",
)
"""Variables that choose how NCCL runs, and not what it may use of the machine."""

EITHER_WAY = ("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL", "NCCL_CROSS_NIC")
"""Variables that can open a way that NCCL would not take by itself, and close one."""


def fixed_by(found: Measurement) -> Pairs:
    """The variables that say what was fixed, as far as the planner knows them."""
    said: dict[str, str] = {row.name: row.value for row in found.environment if row.name in ON_PURPOSE}
    if found.protocol is not None:
        said["NCCL_PROTO"] = found.protocol
    if found.num_channels is not None:
        said.update(dict.fromkeys(("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"), str(found.num_channels)))
    return tuple(_known(said.items()))


def either_way_of(found: Measurement) -> Pairs:
    """The variables of EITHER_WAY that were set, as far as the planner knows them."""
    return tuple(_known((row.name, row.value) for row in found.environment if row.name in EITHER_WAY))


def version_of(found: Measurement) -> tuple[int, ...] | None:
    """The numbers of the NCCL that ran; None where nobody says."""
    from validate.published.settings import nccl_version

    return nccl_version(next((row.value for row in found.software if row.name == "nccl"), None))


def as_run_by(plan: NcclPlan, found: Measurement, fixed: Pairs) -> NcclPlan:
    """The plan as the NCCL that ran would choose on it, where that is known to differ; a fixed protocol stays."""
    from validate.published.old_nccl import as_chosen_by

    return plan if "NCCL_PROTO" in dict(fixed) else as_chosen_by(plan, version_of(found))


def _known(settings: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    from sim.planners.nccl_2_30 import NcclOptions

    for name, value in settings:
        try:
            NcclOptions.from_environment({name: value})
        except TopoError:
            continue
        yield name, value


@dataclass(frozen=True)
class Simulators:
    """The simulators of one machine, one for each set of fixed variables.

    Where NCCL's planner cannot plan the machine, or knows no way under the variables, what they fix is left open.
    `settings` hold for all runs, whatever these fix.
    """

    machine: Topology | Cluster
    profile: Profile | None
    settings: Pairs = ()
    _made: dict[Pairs, Simulator] = field(default_factory=dict)

    def run(self, found: Measurement, algorithm: str) -> Prediction:
        """The prediction of what was measured."""
        algorithm, fixed = self._by_version(found, algorithm, fixed_by(found))
        usual = self._run(found, algorithm, fixed)
        opened = either_way_of(found)
        if not opened:
            return usual
        try:
            other = self.under((*fixed, *opened)).run(found.workload, algorithm)
        except TopoError:
            return usual
        return min(usual, other, key=lambda row: row.duration_s)

    def _run(self, found: Measurement, algorithm: str, fixed: Pairs) -> Prediction:
        try:
            return self.under(fixed).run(found.workload, algorithm)
        except TopoError:
            if not fixed:
                raise
            return self.under(()).run(found.workload, algorithm)

    def _by_version(self, found: Measurement, algorithm: str, fixed: Pairs) -> tuple[str, Pairs]:
        """What the NCCL that ran chose, where its cost model is known to be another one than the planner's.

        What the run fixed stays: the protocol, and the algorithm where one was named.
        """
        work = found.workload
        try:
            nccl = self.under(fixed).planner.nccl
            then = nccl and as_run_by(nccl, found, fixed)
            if then is None or then is nccl:
                return algorithm, fixed
            chosen = then.choose(
                work.collective,
                work.num_bytes,
                dtype=work.dtype,
                reduction=work.reduction,
                algorithms=None if algorithm == AUTO else (algorithm,),
            )
        except TopoError:
            return algorithm, fixed
        return chosen.algorithm, (*fixed, ("NCCL_PROTO", chosen.protocol))

    def under(self, fixed: Pairs) -> Simulator:
        """The simulator under these variables."""
        from sim.predict import Simulator

        if fixed not in self._made:
            environment = tuple({**dict(fixed), **dict(self.settings)}.items())
            self._made[fixed] = Simulator(self.machine, self.profile, Options(environment=environment))
        return self._made[fixed]
