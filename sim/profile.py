"""Physical parameters that no topology states: what share of a link's rate arrives, and what a hop costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sim.clock.profile import KernelProfile
from topo.errors import CaptureError, NameChoiceError
from topo.topology import LinkKind, Topology

if TYPE_CHECKING:
    from topo.cluster import Cluster

LEAST_EFFICIENCY = 1e-6
"""A smaller share of a link's rate is a slip of the keyboard, and rates under it would overflow times."""


@dataclass(frozen=True, slots=True)
class Transport:
    """One kind of link as software uses it.

    `efficiency` is the share of the nominal bandwidth that payload reaches; `hop_latency_s` is what one transfer
    costs beyond its bytes, sender to receiver, where this kind is the slowest class on its route.
    """

    kind: LinkKind
    efficiency: float = 1.0
    hop_latency_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Hop:
    """What a hop over one kind of link costs under a protocol."""

    kind: LinkKind
    hop_latency_s: float


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a protocol differs from what a profile says by itself.

    `payload_share` of what travels is data, the rest flags; `hops` and `launch_overhead_s` stand in for the profile's.
    """

    name: str
    payload_share: float
    launch_overhead_s: float
    hops: tuple[Hop, ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """Parameters of one software stack on one class of hardware, with where they come from.

    `launch_overhead_s` is paid once per collective. `gpu_reduce_bytes_per_s` and `host_reduce_bytes_per_s` bound
    how fast incoming bytes are reduced into a buffer, None where that never limits. All of it is meant for the Simple
    protocol; `protocols` says what others change. `kernels` times NCCL's own kernels, where the profile was fitted.
    """

    name: str
    provenance: str
    transports: tuple[Transport, ...]
    launch_overhead_s: float = 0.0
    gpu_reduce_bytes_per_s: float | None = None
    host_reduce_bytes_per_s: float | None = None
    protocols: tuple[Protocol, ...] = ()
    kernels: KernelProfile | None = None

    def __post_init__(self) -> None:
        self._refuse_twice("transports", (row.kind for row in self.transports))
        self._refuse_twice("protocols", (row.name for row in self.protocols))
        for row in self.transports:
            if not LEAST_EFFICIENCY <= row.efficiency <= 1 or not 0 <= row.hop_latency_s < float("inf"):
                raise CaptureError(
                    f"profile {self.name}: {row.kind} has efficiency {row.efficiency} and hop latency "
                    f"{row.hop_latency_s} s; expected an efficiency from {LEAST_EFFICIENCY:g} to 1 and a latency of 0 "
                    "or more"
                )
        if not 0 <= self.launch_overhead_s < float("inf"):
            raise CaptureError(f"profile {self.name}: launch overhead {self.launch_overhead_s} s must be 0 or more")
        for protocol in self.protocols:
            self._refuse_twice(f"hops of {protocol.name}", (hop.kind for hop in protocol.hops))
            if not LEAST_EFFICIENCY <= protocol.payload_share <= 1:
                raise CaptureError(
                    f"profile {self.name}: {protocol.name} has payload share {protocol.payload_share}, expected "
                    f"{LEAST_EFFICIENCY:g} to 1"
                )
            self.under(protocol.name)
        for bound in (self.gpu_reduce_bytes_per_s, self.host_reduce_bytes_per_s):
            if bound is not None and not 0 < bound < float("inf"):
                raise CaptureError(f"profile {self.name}: reduce rate {bound} B/s must be positive and finite")

    def _refuse_twice(self, what: str, names: Iterable[str]) -> None:
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise CaptureError(f"profile {self.name}: {name} stands twice among its {what}, keep one of the two")
            seen.add(name)

    def knows(self, protocol: str) -> bool:
        """Whether the profile says anything of a protocol of its own."""
        return any(row.name == protocol for row in self.protocols)

    def under(self, protocol: str) -> Profile:
        """The profile with a protocol's terms in place; the same where it says nothing of that protocol."""
        terms = next((row for row in self.protocols if row.name == protocol), None)
        if terms is None:
            return self
        latency_s = {hop.kind: hop.hop_latency_s for hop in terms.hops}
        transports = tuple(
            Transport(row.kind, row.efficiency * terms.payload_share, latency_s.get(row.kind, row.hop_latency_s))
            for row in self.transports
        )
        return replace(self, transports=transports, launch_overhead_s=terms.launch_overhead_s, protocols=())

    def transport(self, kind: LinkKind) -> Transport:
        """The parameters of that link kind; links taken as given where the profile is silent."""
        return next((row for row in self.transports if row.kind == kind), Transport(kind))


_LIKE_PCIE: tuple[LinkKind, ...] = ("c2c", "pcie", "cpu")

IDEAL = Profile("ideal", "links exactly as the topology gives them: no protocol, no launch overhead", ())


def nccl_constants(machine: Topology | Cluster) -> Profile:
    """The profile of NCCL's own tables for the parts of this machine, not fitted to any measurement.

    Efficiencies are the rates that NCCL counts (src/graph/topo.h) over the nominal ones of the machine's GPUs and
    CPUs; hop latencies and launch overheads are those of Ring by protocol (src/graph/tuning.cc), payload shares those
    of the protocols' lines: LL 4 of 8 bytes, LL128 120 of 128 (src/include/device.h).
    """
    from topo import catalog

    node = machine if isinstance(machine, Topology) else machine.node
    capabilities = [device.gpu.compute_capability for device in node.devices if device.gpu]
    lowest = min((sm for sm in capabilities if sm is not None), default=None)
    nvlink = catalog.nvlink_effective_bytes_per_s(lowest) / catalog.nvlink_bytes_per_s(lowest)
    pcie = catalog.pcie_effective_bytes_per_s(4, 16) / catalog.pcie_bytes_per_s(4, 16)
    return Profile(
        name="nccl-constants",
        provenance="NCCL 2.30: link rates of src/graph/topo.h, Ring latencies of src/graph/tuning.cc; no fit",
        transports=(
            Transport("nvlink", nvlink, 3.4e-6),
            Transport("c2c", hop_latency_s=5.7e-6),
            Transport("pcie", pcie, 5.7e-6),
            Transport("cpu", _between_cpus(node), 5.7e-6),
            Transport("network", hop_latency_s=14e-6),
        ),
        launch_overhead_s=8.4e-6,
        protocols=(
            Protocol("ll", 1 / 2, 6.6e-6, _hops(0.6e-6, 1.0e-6, 2.7e-6)),
            Protocol("ll128", 120 / 128, 14e-6, _hops(1.9e-6, 2.5e-6, 4.0e-6)),
        ),
    )


def as_nccl_counts(machine: Topology | Cluster) -> Profile:
    """NCCL's constants with the PCIe of what crosses it: where GPUs have NVLinks, that is what goes to NICs alone."""
    from sim.clock.facts import PCIE_BESIDE_NCCL, generation_of

    base = nccl_constants(machine)
    if generation_of(machine) == "pcie":
        return base
    return replace(
        base,
        transports=tuple(
            replace(row, efficiency=min(1.0, row.efficiency * PCIE_BESIDE_NCCL)) if row.kind == "pcie" else row
            for row in base.transports
        ),
    )


def _hops(nvlink_s: float, pcie_s: float, network_s: float) -> tuple[Hop, ...]:
    """A hop's latency by the classes that NCCL tells apart; C2C and CPU links count as PCIe."""
    return (
        Hop("nvlink", nvlink_s),
        *(Hop(kind, pcie_s) for kind in _LIKE_PCIE),
        Hop("network", network_s),
    )


def _between_cpus(node: Topology) -> float:
    """The share of its CPU links that NCCL counts for GPU traffic across them."""
    from topo import catalog

    cpu = next(iter(node.of_kind("cpu")), None)
    if cpu is None:
        return 1.0
    facts = (cpu.vendor, cpu.cpu.family if cpu.cpu else None, cpu.cpu.model if cpu.cpu else None)
    return min(1.0, catalog.cpu_link_effective_bytes_per_s(*facts) / catalog.cpu_link_bytes_per_s(*facts))


def fitted(machine: Topology | Cluster) -> Profile:
    """The shipped profile, fitted to published runs, as it holds for this machine.

    Its `kernels` time what NCCL runs. The rates and latencies beside them are for schedules that NCCL has no kernel
    for, made of its sends and receives: links carry what an all-to-all gets out of them, a step costs one of Simple.
    """
    from sim.clock.facts import fabric_of, generation_of
    from sim.clock.profile import load_kernels

    kernels, base = load_kernels(), as_nccl_counts(machine)
    generation, fabric = generation_of(machine), fabric_of(machine)

    def hops(protocol: str, net: str) -> tuple[Hop, ...]:
        inside = kernels.value(f"{protocol}_hop.{generation}")
        # What a GPU does for a step costs it the same over any link, and waiting for PCIe may cost more.
        over_pcie = max(inside, kernels.value(f"{protocol}_hop.pcie"))
        return _hops(inside, over_pcie, inside + kernels.value(f"{net}.{fabric}"))

    latency_s = {hop.kind: hop.hop_latency_s for hop in hops("simple", "net_simple")}
    share = dict.fromkeys(_LIKE_PCIE, kernels.value("p2p_share.pcie"))
    if generation != "pcie":
        share["pcie"] = kernels.value(f"net_share.{fabric}")
    share |= {"nvlink": kernels.value(f"p2p_share.{generation}"), "network": kernels.value(f"net_share.{fabric}")}
    launch_s = kernels.value(f"p2p_launch.{generation}")
    return replace(
        base,
        name=kernels.name,
        provenance=kernels.provenance,
        transports=tuple(
            Transport(row.kind, min(1.0, row.efficiency * share[row.kind]), latency_s[row.kind])
            for row in base.transports
        ),
        launch_overhead_s=launch_s,
        protocols=tuple(
            Protocol(row.name, row.payload_share, launch_s, hops(row.name, f"net_{row.name}")) for row in base.protocols
        ),
        kernels=kernels,
    )


PROFILES = ("auto", "ideal", "nccl-constants", "nccl-fitted")
"""The profiles that have a name."""


def load_profile(text: str, machine: Topology | Cluster) -> Profile:
    """The profile that `--profile` names for a machine: one of PROFILES, or a JSON file.

    `auto` is `ideal` on a synthetic description, whose rates have no hardware behind them, `nccl-fitted` on a machine
    whose GPUs NCCL knows, else `nccl-constants`.
    """
    if text == "auto":
        text = "ideal" if machine.synthetic else "nccl-fitted" if _has_known_gpus(machine) else "nccl-constants"
    if text == IDEAL.name:
        return IDEAL
    if text == "nccl-constants":
        return nccl_constants(machine)
    if text == "nccl-fitted":
        return fitted(machine)
    path = Path(text)
    if not path.is_file():
        raise NameChoiceError("profile (or file)", text, PROFILES)
    from topo.jsonio import decode
    from topo.textfile import read_file

    return decode(read_file(path), Profile, "profile/1", str(path))


def _has_known_gpus(machine: Topology | Cluster) -> bool:
    node = machine if isinstance(machine, Topology) else machine.node
    return any(device.gpu is not None and device.gpu.compute_capability for device in node.devices)
