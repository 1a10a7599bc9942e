"""What the times of kernels are made of: terms as they hold for each job, rates of links and networks, one LL hop.

Rates are those of all channels together, in bytes per second of bus volume.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim.clock.jobs import Floats, Jobs
from sim.clock.terms import FABRICS, GENERATIONS, INDEX, KIB, TERMS

LL_CHUNK_BYTES = 32 * KIB
"""Payload of LL's chunk: beyond it a hop's bytes are pipelined."""
LL_SHARE, LL128_NET_SHARE = 0.5, 0.92
"""LL sends a flag with every 4 bytes; LL128 one in 16 words, and NCCL counts 0.92 for it (src/graph/tuning.cc)."""
EAGER_BYTES = 4 * KIB
FLOOR_EXPONENT = 8
"""The floor is a maximum with a soft edge."""
EDGE = 16
"""The same where one of two rates limits: a sharp edge would be a place where fits get stuck."""
SLINGSHOT = FABRICS.index("slingshot")

_OF_SWITCHES = {
    name.removesuffix(".hopper")
    for name in INDEX
    if name.endswith(".hopper") and name.replace("hopper", "volta") not in INDEX
}
_SLOWER = {
    term.name.removesuffix(".pcie"): {"s": np.maximum, "B/s": np.minimum}[term.unit]
    for term in TERMS
    if term.name.endswith(".pcie") and term.unit in ("s", "B/s")
}
_PLACES = {
    stem: np.array([INDEX[f"{stem}.{kind}"] for kind in kinds])
    for kinds in (GENERATIONS, FABRICS)
    for stem in {name.rpartition(".")[0] for name in INDEX}
    if all(f"{stem}.{kind}" in INDEX for kind in kinds)
} | {
    stem: np.array([INDEX[f"{stem}.{'blackwell' if kind == 'blackwell' else 'hopper'}"] for kind in GENERATIONS])
    for stem in _OF_SWITCHES
}
_BY_FABRIC = {name.rpartition(".")[0] for name in INDEX if name.endswith(f".{FABRICS[0]}")}


class Values:
    """The terms of a parameter vector (or of many, along leading axes) as they hold for each job."""

    def __init__(self, values: Floats, jobs: Jobs) -> None:
        self._values = values
        self.jobs = jobs
        self._at_home = bool((jobs.native == jobs.generation).all())

    def __getitem__(self, stem: str) -> Floats:
        """The term, by the generation or network of each job where it has one; shape (..., jobs) or (..., 1).

        What a GPU does costs it no less over PCIe than over its own NVLinks: of both generations the slower one holds.
        What its NVSwitches reduce is always its own generation's.
        """
        if stem in INDEX:
            return self._values[..., INDEX[stem], None]
        jobs = self.jobs
        if stem in _BY_FABRIC:
            return self._of(stem, jobs.fabric)
        if stem in _OF_SWITCHES:
            return self._of(stem, jobs.native)
        found = self._of(stem, jobs.generation)
        slower = _SLOWER.get(stem)
        if slower is None or self._at_home:
            return found
        both: Floats = slower(found, self._of(stem, jobs.native))
        return both

    def _of(self, stem: str, kind: npt.NDArray[np.intp]) -> Floats:
        found: Floats = self._values[..., _PLACES[stem][kind]]
        return found


def softly_above(floor: Floats, times: Floats) -> Floats:
    """The longer one, and somewhat more where both are alike."""
    found: Floats = times * (1 + (floor / times) ** FLOOR_EXPONENT) ** (1 / FLOOR_EXPONENT)
    return found


def overlapped(hop: Floats, serial: Floats, exponent: Floats | float) -> Floats:
    """Both together, of which the shorter one is seen the less the larger the exponent is."""
    found: Floats = (hop**exponent + serial**exponent) ** (1 / exponent)
    return found


def softmin(first: Floats, second: Floats, exponent: float = EDGE) -> Floats:
    """The smaller one, and somewhat less where both are alike."""
    lower, higher = np.minimum(first, second), np.maximum(first, second)
    found: Floats = lower * (1 + (lower / higher) ** exponent) ** (-1 / exponent)
    return found


def floor_s(v: Values) -> Floats:
    """What a process needs to launch on all its GPUs in turn, while the GPUs wait."""
    jobs = v.jobs
    channels = np.minimum(np.minimum(24, jobs.all_channels), jobs.num_bytes / (32 * KIB))
    each = np.where(jobs.old, v["floor_channel_old"], v["floor_channel"])
    found: Floats = jobs.gpus_per_process * (v["floor"] + each * np.maximum(0, channels - 1))
    return found


def link_rate(v: Values) -> Floats:
    """Bus rate of a ring inside a node."""
    jobs = v.jobs
    rate = jobs.link_bytes_per_s * v["link_share"]
    found: Floats = np.where(jobs.through_host, softmin(rate, v["shm_rate"] * jobs.all_channels), rate)
    return found


def net_rate(v: Values) -> Floats:
    """Bus rate of a ring between nodes; endless on one node."""
    found: Floats = v.jobs.net_bytes_per_s * _reached(v)
    return found


def gpu_net_rate(v: Values) -> Floats:
    """What one GPU's part of its node's NICs moves; endless on one node."""
    found: Floats = v.jobs.nics_bytes_per_s / v.jobs.ranks_per_node * _reached(v)
    return found


def _reached(v: Values) -> Floats:
    """The share of NICs' rates that is reached."""
    share = v["net_share"] * np.where(v.jobs.host_bridge, v["host_bridge_share"], 1.0)
    found: Floats = np.where(v.jobs.several, share, 1.0)
    return found


def ramp(v: Values) -> Floats:
    """How much slower than its asymptote a link is at this size."""
    found: Floats = 1 + np.sqrt(v["ramp"] / v.jobs.bus_bytes)
    return found


def ring_rate(v: Values, protocol: str) -> Floats:
    """What all channels together carry over one hop: by their own work, by the links and by the NICs."""
    channels = v.jobs.num_channels
    link, net = link_rate(v), net_rate(v)
    if protocol == "ll":
        return softmin(v["ll_rate"] * channels, softmin(link, net) * LL_SHARE, 4)
    if protocol == "ll128":
        return softmin(v["ll128_rate"] * channels, softmin(link * v["ll128_share"], net * LL128_NET_SHARE), 4)
    return softmin(softmin(link / ramp(v), v["simple_rate"] * channels, 3), net)


def net_ll_s(v: Values, num_bytes: Floats) -> Floats:
    """One hop of LL over the network that carries so many bytes in a channel."""
    found: Floats = v["net_ll"] + host_ll_s(v, num_bytes)
    return found


def host_ll_s(v: Values, num_bytes: Floats) -> Floats:
    """What the host spends on these bytes of such a hop.

    LL's lines lie in the host's memory, where a core reads every flag before they are sent (sendProxyProgress,
    src/transport/net.cc), so that bytes cost the host's time whatever the NIC's rate is.
    """
    kib = np.minimum(num_bytes, LL_CHUNK_BYTES) / KIB
    handshake = (v.jobs.fabric == SLINGSHOT) & (num_bytes >= EAGER_BYTES)
    found: Floats = v["net_kib"] * kib ** v["net_power"] + np.where(handshake, v["rendezvous"], 0.0)
    return found
