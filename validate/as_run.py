"""What a measured run fixed on purpose, in the planner's terms: a prediction must not be of something else.

Forced algorithms, protocols and channels are followed. Settings that make a machine slower than it could be (no P2P, no
InfiniBand) are not: that a row is LOW because of them is what a comparison is for.
"""

from __future__ import annotations

from collections.abc import Iterator
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


def fixed_by(found: Measurement) -> tuple[tuple[str, str], ...]:
    """The variables that say what was fixed, as far as the planner knows them."""
    from sim.planners.nccl_2_30 import NcclOptions

    said: dict[str, str] = {row.name: row.value for row in found.environment if row.name in ON_PURPOSE}
    if found.protocol is not None:
        said["NCCL_PROTO"] = found.protocol
    if found.num_channels is not None:
        said.update(dict.fromkeys(("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"), str(found.num_channels)))

    def known() -> Iterator[tuple[str, str]]:
        for name, value in said.items():
            try:
                NcclOptions.from_environment({name: value})
            except TopoError:
                continue
            yield name, value

    return tuple(known())


@dataclass(slots=True)
class Simulators:
    """The simulators of one machine, one for each set of fixed variables.

    Where NCCL's planner cannot plan the machine, or knows no way under the variables, what they fix is left open.
    """

    machine: Topology | Cluster
    profile: Profile | None
    _made: dict[tuple[tuple[str, str], ...], Simulator] = field(default_factory=dict)

    def run(self, found: Measurement, algorithm: str) -> Prediction:
        """The prediction of what was measured."""
        fixed = fixed_by(found)
        try:
            return self.under(fixed).run(found.workload, algorithm)
        except TopoError:
            if not fixed:
                raise
            return self.under(()).run(found.workload, algorithm)

    def under(self, fixed: tuple[tuple[str, str], ...]) -> Simulator:
        """The simulator under these variables."""
        from sim.predict import Simulator

        if fixed not in self._made:
            self._made[fixed] = Simulator(self.machine, self.profile, Options(environment=fixed))
        return self._made[fixed]
