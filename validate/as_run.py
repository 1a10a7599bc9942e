"""What a measured run fixed on purpose, in the planner's terms: a prediction must not be of something else.

Forced algorithms, protocols and channels are followed, and what the run's own NCCL does not do. Settings that make a
machine slower than it could be (no P2P, no InfiniBand) are not: that a row is LOW because of them is what a comparison
is for. Settings that can open a way as well as close one are followed where they make the prediction faster.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sim.planners.options import Options
from topo.errors import TopoError

if TYPE_CHECKING:
    from sim.predict import Simulator
    from sim.prediction import Prediction
    from sim.profile import Profile
    from topo.cluster import Cluster
    from topo.topology import Topology
    from validate.measurement import Measurement

Pairs = tuple[tuple[str, str], ...]
Version = tuple[int, ...] | None

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


def version_of(found: Measurement) -> Version:
    """The numbers of the NCCL that ran; None where nobody says."""
    from validate.published.settings import nccl_version

    return nccl_version(next((row.value for row in found.software if row.name == "nccl"), None))


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
    """The simulators of one machine, one for each set of fixed variables and version of NCCL.

    Where NCCL's planner cannot plan the machine, or knows no way under what is fixed or what that version does, this is
    left open. `settings` hold for all runs, whatever these fix.
    """

    machine: Topology | Cluster
    profile: Profile | None
    settings: Pairs = ()
    _made: dict[tuple[Pairs, Version], Simulator] = field(default_factory=dict)

    def run(self, found: Measurement, algorithm: str) -> Prediction:
        """The prediction of what was measured."""
        fixed, opened = fixed_by(found), either_way_of(found)
        usual = self._run(found, algorithm, fixed)
        if not opened:
            return usual
        try:
            other = self.under((*fixed, *opened), version_of(found)).run(found.workload, algorithm)
        except TopoError:
            return usual
        return min(usual, other, key=lambda row: row.duration_s)

    def _run(self, found: Measurement, algorithm: str, fixed: Pairs) -> Prediction:
        version = version_of(found)
        less = dict.fromkeys(((fixed, version), (fixed, None), ((), version)))
        for each in less:
            with contextlib.suppress(TopoError):
                return self.under(*each).run(found.workload, algorithm)
        return self.under(()).run(found.workload, algorithm)

    def under(self, fixed: Pairs, version: Version = None) -> Simulator:
        """The simulator under these variables, as that version of NCCL runs."""
        from sim.predict import Simulator

        if (fixed, version) not in self._made:
            environment = tuple({**dict(fixed), **dict(self.settings)}.items())
            options = Options(environment=environment, nccl_version=version)
            self._made[fixed, version] = Simulator(self.machine, self.profile, options)
        return self._made[fixed, version]
