"""The networks of one machine under one profile: for each protocol, for NCCL's kernels, and for stated latencies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.engines.host_copies import HostCopies, with_host_copies
from sim.engines.network import network_of
from sim.engines.routes import Reach
from sim.latencies import states_latency
from sim.planners.options import P2P_DISABLE, P2P_LEVEL, Options
from sim.profile import IDEAL, as_nccl_counts
from topo.topology import Topology

if TYPE_CHECKING:
    from sim.engines.network import Network
    from sim.planners.nccl_2_30.planner import NcclPlan
    from sim.profile import Profile
    from topo.cluster import Cluster


@dataclass(frozen=True)
class Networks:
    """Each is built once, when it is asked for.

    `nccl` gives what NCCL plans on the machine, None where it plans nothing. `starts_s` is how much later than the
    first each rank starts; None: all together.
    """

    machine: Topology | Cluster
    profile: Profile
    options: Options
    nccl: Callable[[], NcclPlan | None]
    starts_s: npt.NDArray[np.float64] | None = None
    _known: dict[tuple[tuple[str, ...], Profile, Reach], Network] = field(default_factory=dict, init=False)

    def under(self, protocol: str, helpers: tuple[str, ...] = (), nccl: NcclPlan | None = None) -> Network:
        """The network under a protocol, with agents on these further devices, as NCCL's plan reaches it."""
        profile = self.profile.under(protocol)
        reach = _reach(self.machine, self.options, nccl)
        key = (helpers, profile, reach)
        if key not in self._known:
            network = self._with_copies(network_of(self.machine, profile, helpers, reach))
            if self.starts_s is not None:
                network = replace(network, start_s=np.append(self.starts_s, np.zeros(len(helpers))))
            self._known[key] = network
        return self._known[key]

    @cached_property
    def counted(self) -> Network:
        """Links at the rates that NCCL counts with: what its kernels are held against."""
        return self._with_copies(counted_network(self.machine, self.options, self.nccl()))

    @cached_property
    def switched(self) -> Network:
        """The same for what NVSwitches reduce, which reaches them whatever GPUs may do with each other's memory."""
        reach = _reach(self.machine, self.options, self.nccl())
        if reach.peers and self._copies is None:
            return self.counted
        return network_of(self.machine, as_nccl_counts(self.machine), reach=replace(reach, peers=True))

    @cached_property
    def stated(self) -> Network | None:
        """Routes with the latencies that were stated, and no others; None where none was."""
        if not states_latency(self.machine):
            return None
        return network_of(self.machine, IDEAL, reach=_reach(self.machine, self.options, self.nccl()))

    def _with_copies(self, network: Network) -> Network:
        """The network as copies through the host's memory use it, where the profile knows how fast NCCL's are."""
        if self._copies is None:
            return network
        return with_host_copies(network, self._copies, _node(self.machine).gpu_ids, self.machine.num_ranks)

    @cached_property
    def _copies(self) -> HostCopies | None:
        nccl, kernels = self.nccl(), self.profile.kernels
        if nccl is None or kernels is None:
            return None
        from sim.clock.facts import pairs_through_host

        through = pairs_through_host(nccl, _node(self.machine).num_ranks)
        return HostCopies(through, kernels.value("shm_rate") * nccl.wiring.num_channels) if through.any() else None


def counted_network(machine: Topology | Cluster, options: Options, nccl: NcclPlan | None) -> Network:
    """A machine's links at the rates that NCCL's traffic gets, reached as its plan does."""
    return network_of(machine, as_nccl_counts(machine), reach=_reach(machine, options, nccl))


def _reach(machine: Topology | Cluster, options: Options, nccl: NcclPlan | None) -> Reach:
    """How ranks reach each other: NCCL may split a host; a topology of several hosts has links of its own between."""
    apart = nccl.parts if nccl and len(nccl.parts) == _node(machine).num_ranks else ()
    return Reach(_reaches_peers(options), apart, pxn=nccl is not None and not nccl.options.pxn_disable)


def _node(machine: Topology | Cluster) -> Topology:
    return machine if isinstance(machine, Topology) else machine.node


def _reaches_peers(options: Options) -> bool:
    """Whether NCCL's variables leave GPUs of one machine each other's memory."""
    said = {name: value for name, value in options.environment if name in (P2P_DISABLE, P2P_LEVEL)}
    if not said:
        return True
    from sim.planners.nccl_2_30.kinds import PathKind
    from sim.planners.nccl_2_30.options import NcclOptions

    read = NcclOptions.from_environment(said)
    return not read.p2p_disable and read.p2p_level != PathKind.LOC
