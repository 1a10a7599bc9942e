"""What a measured run fixed on purpose, in the planner's terms: a prediction must not be of something else.

Forced algorithms, protocols and channels are followed, and what the run's own NCCL does not do. Settings that make a
machine slower than it could be (no P2P, no InfiniBand) are not: that a row is LOW because of them is what a comparison
is for. Settings that can open a way as well as close one are followed where they make the prediction faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from sim.planners import AUTO
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

BLACKWELL = 100
LAST_WITHOUT_LL128 = (2, 29, 2)
"""Up to this version published runs on Blackwell jump from LL to Simple; those of 2.29.7 use LL128 in between."""


def fixed_by(found: Measurement, compute_capability: int | None = None) -> Pairs:
    """The variables that say what was fixed, as far as the planner knows them.

    `compute_capability` is that of the machine's GPUs, None where it is not known.
    """
    said: dict[str, str] = {row.name: row.value for row in found.environment if row.name in ON_PURPOSE}
    if found.protocol is not None:
        said["NCCL_PROTO"] = found.protocol
    if found.num_channels is not None:
        said.update(dict.fromkeys(("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"), str(found.num_channels)))
    if compute_capability is not None and compute_capability >= BLACKWELL and _is_before_ll128(found):
        said.setdefault("NCCL_PROTO", "^LL128")
    return tuple(_known(said.items()))


def either_way_of(found: Measurement) -> Pairs:
    """The variables of EITHER_WAY that were set, as far as the planner knows them."""
    return tuple(_known((row.name, row.value) for row in found.environment if row.name in EITHER_WAY))


def version_of(found: Measurement) -> tuple[int, ...] | None:
    """The numbers of the NCCL that ran; None where nobody says."""
    from validate.published.settings import nccl_version

    return nccl_version(next((row.value for row in found.software if row.name == "nccl"), None))


def _is_before_ll128(found: Measurement) -> bool:
    version = version_of(found)
    return version is not None and version <= LAST_WITHOUT_LL128


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
        fixed = fixed_by(found, self.compute_capability)
        if algorithm == AUTO:
            fixed = (*fixed, *self._of_old_version(found, fixed))
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

    def _of_old_version(self, found: Measurement, fixed: Pairs) -> Pairs:
        """What an NCCL chose whose cost model is another one, as settings; nothing where it is that of the planner."""
        from validate.published.old_nccl import SINCE, as_chosen_by

        version, names = version_of(found), dict(fixed)
        nccl = None if version is None or version >= SINCE else self.under(fixed).planner.nccl
        if nccl is None or {"NCCL_ALGO", "NCCL_PROTO"} & set(names):
            return ()
        work = found.workload
        try:
            chosen = as_chosen_by(nccl, version).choose(
                work.collective, work.num_bytes, dtype=work.dtype, reduction=work.reduction
            )
        except TopoError:
            return ()
        return ("NCCL_ALGO", chosen.algorithm), ("NCCL_PROTO", chosen.protocol)

    def under(self, fixed: Pairs) -> Simulator:
        """The simulator under these variables."""
        from sim.predict import Simulator

        if fixed not in self._made:
            environment = tuple({**dict(fixed), **dict(self.settings)}.items())
            self._made[fixed] = Simulator(self.machine, self.profile, Options(environment=environment))
        return self._made[fixed]

    @cached_property
    def compute_capability(self) -> int | None:
        """The lowest of the GPUs that take part; None where one of them does not say."""
        from topo.edit import node_of

        node = node_of(self.machine)
        gpus = [node.device(name).gpu for name in node.gpu_ids]
        found = [gpu.compute_capability for gpu in gpus if gpu and gpu.compute_capability]
        return min(found) if found and len(found) == len(gpus) else None
