"""The time of each kernel in closed form, for any number of parameter vectors at once.

Sizes are those of nccl-tests. A ring's step costs a hop and its bytes, which overlap the more the larger the exponent
of `_overlapped` is: 1 adds them, 2 is what Simple does. Sources of the forms: the step times of published runs are the
same for all-reduce, all-gather and reduce-scatter and for 2 to 8 ranks, so that they hang on the bytes of one step
alone; NVLS is a pipeline of loops over its chunks (src/device/all_reduce.h of NCCL 2.30.7); a tree's hop stores and
forwards what LL carries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from sim.clock.jobs import KERNELS, Floats, Jobs
from sim.clock.terms import FABRICS, GENERATIONS, INDEX, KIB, MIB, NVLS_GENERATIONS

LL_CHUNK_BYTES = 32 * KIB
"""Payload of LL's chunk: beyond it a hop's bytes are pipelined."""
TREE_CHUNK_BYTES = 512 * KIB
LL_SHARE, LL128_NET_SHARE = 0.5, 0.92
"""LL sends a flag with every 4 bytes; LL128 one in 16 words, and NCCL counts 0.92 for it (src/graph/tuning.cc)."""
EAGER_BYTES = 4 * KIB
NVLS_LARGE_BYTES = 8192 * MIB
NVLS_BUS_SHARE = ((1, 4, 5, 6, 7, 8), (0.50, 0.79, 0.859, 0.905, 0.954, 1.0))
"""NVLS on fewer GPUs of a Hopper machine, as share of its bus rate on 8: its algbw hardly hangs on their number."""
NVLS_DOMAIN_SHARE = 423 / 480 / 1.75
"""NVLS over an NVLink domain of several trays, in algbw, beside 8 GPUs of one."""
FLOOR_EXPONENT = 8
"""The floor is a maximum with a soft edge."""
EDR_BYTES_PER_S = 12.5e9
"""The InfiniBand for which `net_kib` is stated; faster cards take less in proportion."""
INFINIBAND, SLINGSHOT = FABRICS.index("infiniband"), FABRICS.index("slingshot")
BLACKWELL = GENERATIONS.index("blackwell")

_PLACES = {
    stem: np.array([INDEX[f"{stem}.{kind}"] for kind in kinds])
    for kinds in (GENERATIONS, FABRICS)
    for stem in {name.rpartition(".")[0] for name in INDEX}
    if all(f"{stem}.{kind}" in INDEX for kind in kinds)
} | {
    stem: np.array([INDEX[f"{stem}.{'blackwell' if kind == 'blackwell' else 'hopper'}"] for kind in GENERATIONS])
    for stem in {name.rpartition(".")[0] for name in INDEX}
    if all(f"{stem}.{kind}" in INDEX for kind in NVLS_GENERATIONS) and f"{stem}.volta" not in INDEX
}
_BY_FABRIC = {name.rpartition(".")[0] for name in INDEX if name.endswith(f".{FABRICS[0]}")}


class _Values:
    """The terms of a parameter vector (or of many, along leading axes) as they hold for each job."""

    def __init__(self, values: Floats, jobs: Jobs) -> None:
        self._values = values
        self.jobs = jobs

    def __getitem__(self, stem: str) -> Floats:
        """The term, by the generation or network of each job where it has one; shape (..., jobs) or (..., 1)."""
        if stem in INDEX:
            return self._values[..., INDEX[stem], None]
        kind = self.jobs.fabric if stem in _BY_FABRIC else self.jobs.generation
        found: Floats = self._values[..., _PLACES[stem][kind]]
        return found


def times_s(values: Floats, jobs: Jobs) -> Floats:
    """Seconds of every job, shape (..., jobs), under terms of shape (..., len(TERMS))."""
    times = np.empty((*values.shape[:-1], len(jobs)))
    for kernel in np.flatnonzero(np.bincount(jobs.kernel)):
        rows = np.flatnonzero(jobs.kernel == kernel)
        v = _Values(values, jobs.take(rows))
        with np.errstate(over="ignore"):
            times[..., rows] = _softly_above(_floor(v), _KERNELS[KERNELS[kernel]](v))
    return times


def _softly_above(floor: Floats, times: Floats) -> Floats:
    found: Floats = times * (1 + (floor / times) ** FLOOR_EXPONENT) ** (1 / FLOOR_EXPONENT)
    return found


def _overlapped(hop: Floats, serial: Floats, exponent: Floats) -> Floats:
    found: Floats = (hop**exponent + serial**exponent) ** (1 / exponent)
    return found


def _softmin(first: Floats, second: Floats, exponent: float) -> Floats:
    found: Floats = (first**-exponent + second**-exponent) ** (-1 / exponent)
    return found


def _floor(v: _Values) -> Floats:
    """What a process needs to launch on all its GPUs in turn, while the GPUs wait."""
    jobs = v.jobs
    channels = np.minimum(np.minimum(24, jobs.all_channels), jobs.num_bytes / (32 * KIB))
    each = np.where(jobs.old, v["floor_channel_old"], v["floor_channel"])
    found: Floats = jobs.gpus_per_process * (v["floor"] + each * np.maximum(0, channels - 1))
    return found


def _link_rate(v: _Values) -> Floats:
    """Bus rate of a ring inside a node."""
    jobs = v.jobs
    rate = jobs.link_bytes_per_s * v["link_share"]
    found: Floats = np.where(jobs.through_host, np.minimum(rate, v["shm_rate"] * jobs.all_channels), rate)
    return found


def _net_rate(v: _Values) -> Floats:
    """Bus rate of a ring between nodes; endless on one node."""
    jobs = v.jobs
    share = v["net_share"] * np.where(jobs.host_bridge, v["host_bridge_share"], 1.0)
    found: Floats = jobs.net_bytes_per_s * np.where(jobs.several, share, 1.0)
    return found


def _ramp(v: _Values) -> Floats:
    """How much slower than its asymptote a link is at this size."""
    found: Floats = 1 + np.sqrt(v["ramp"] / v.jobs.num_bytes)
    return found


def _rate(v: _Values, protocol: str) -> Floats:
    """What all channels together carry over one hop: by their own work, by the links and by the NICs."""
    channels = v.jobs.num_channels
    link, net = _link_rate(v), _net_rate(v)
    if protocol == "ll":
        return _softmin(v["ll_rate"] * channels, np.minimum(link, net) * LL_SHARE, 4)
    if protocol == "ll128":
        return _softmin(v["ll128_rate"] * channels, np.minimum(link * v["ll128_share"], net * LL128_NET_SHARE), 4)
    return np.minimum(_softmin(link, v["simple_rate"] * channels, 3) / _ramp(v), net)


def _net_ll(v: _Values, num_bytes: Floats) -> Floats:
    """One hop of LL over the network that carries so many bytes in a channel."""
    kib = np.minimum(num_bytes, LL_CHUNK_BYTES) / KIB
    handshake = (v.jobs.fabric == SLINGSHOT) & (num_bytes >= EAGER_BYTES)
    slower = np.where(v.jobs.fabric == INFINIBAND, EDR_BYTES_PER_S / np.maximum(v.jobs.nic_bytes_per_s, 1.0), 1.0)
    each = v["net_kib"] * slower * kib ** v["net_power"]
    found: Floats = v["net_ll"] + each + np.where(handshake, v["rendezvous"], 0.0)
    return found


def _ring(protocol: str) -> Callable[[_Values], Floats]:
    def time(v: _Values) -> Floats:
        jobs = v.jobs
        part = jobs.num_bytes / jobs.num_ranks
        serial = part / _rate(v, protocol)
        hop = v[f"{protocol}_hop"]
        over_net = _net_ll(v, part / jobs.num_channels) if protocol == "ll" else v[f"net_{protocol}"]
        inside, between = (_overlapped(h, serial, v[f"{protocol}_overlap"]) for h in (hop, hop + over_net))
        found: Floats = (
            v["launch"] + (jobs.steps - jobs.net_steps) * inside + jobs.net_steps * between + v["tail"] * serial
        )
        return found

    return time


def _chain(protocol: str) -> Callable[[_Values], Floats]:
    """Broadcast or reduce: iterations follow each other through the chain, so that one hop at most is seen."""

    def time(v: _Values) -> Floats:
        hop = np.where(v.jobs.several, 0.0, v[f"{protocol}_hop"])
        found: Floats = v["launch"] + hop + v.jobs.num_bytes / _rate(v, protocol)
        return found

    return time


def _levels(jobs: Jobs) -> Floats:
    """Levels of the double binary tree over nodes that a message passes; real, since both trees share the load."""
    found: Floats = np.log2(jobs.num_nodes)
    return found


def _tree_ll(v: _Values) -> Floats:
    jobs = v.jobs
    part = jobs.num_bytes / jobs.num_channels
    forward = np.minimum(part, LL_CHUNK_BYTES) / v["ll_rate"]
    inside = 2 * (jobs.ranks_per_node - 1) * (v["ll_hop"] + forward)
    between = 2 * _levels(jobs) * (_net_ll(v, part) + forward)
    return v["launch"] + inside + between + jobs.num_bytes / _rate(v, "ll")


def _tree_ll128(v: _Values) -> Floats:
    jobs = v.jobs
    over_net = np.minimum(_net_rate(v) * 0.9, jobs.num_channels * v["ll128_rate"])
    rate = np.where(jobs.several, over_net, _link_rate(v) * v["tree_ll128_share"])
    inside, between = 2 * (jobs.ranks_per_node - 1), 2 * _levels(jobs)
    hops = inside * v["tree_ll128_hop"] * v["ll128_hop"] + between * v["net_ll128"]
    chunk = np.minimum(jobs.chunk_bytes, jobs.num_bytes / jobs.num_channels)
    fill = v["tree_ll128_fill"] * (inside + between) * chunk / (rate / jobs.num_channels)
    return v["launch"] + hops + fill + jobs.num_bytes / rate


def _tree_simple(v: _Values) -> Floats:
    jobs = v.jobs
    nodes = jobs.num_nodes
    link = _link_rate(v)
    work = jobs.num_channels * np.where(
        nodes == 1,
        v["tree_rate.1"],
        np.where(nodes == 2, v["tree_rate.2"], np.where(nodes == 3, v["tree_rate.3"], v["tree_rate.4"])),
    )
    net = np.minimum(_net_rate(v) * np.where(nodes == 2, 1.0, np.where(nodes == 3, 0.75, 0.5)), link)
    rate = np.minimum(work, np.where(jobs.several, net, link / 2))
    hops = 2 * (jobs.ranks_per_node - 1)
    chunk = np.minimum(TREE_CHUNK_BYTES, jobs.num_bytes / jobs.num_channels)
    fill = np.hypot(hops * v["simple_hop"] / 2, hops * chunk / (link / jobs.all_channels))
    slower = np.where(jobs.several, _ramp(v), 1.0)
    return v["launch"] + fill + 2 * _levels(jobs) * v["net_tree"] + jobs.num_bytes / rate * slower


def _nvls_rate(v: _Values) -> Floats:
    """Bus rate of NVLS at many loops, as share of which it counts in a domain of so many GPUs."""
    jobs = v.jobs
    gpus = jobs.ranks_per_node
    large = np.where(jobs.num_bytes >= NVLS_LARGE_BYTES, v["nvls_large"], 1.0)
    domain = np.where(gpus > 8, 2 * (gpus - 1) / gpus * NVLS_DOMAIN_SHARE, 1.0)
    found: Floats = v["nvls_rate"] * np.where(
        jobs.generation == BLACKWELL, large * domain, np.interp(gpus, *NVLS_BUS_SHARE)
    )
    return found


def _loop_bytes(jobs: Jobs) -> Floats:
    found: Floats = jobs.num_channels * jobs.num_heads * jobs.chunk_bytes
    return found


def _nvls(v: _Values) -> Floats:
    jobs = v.jobs
    loop = _loop_bytes(jobs)
    bus = loop * 2 * (jobs.num_ranks - 1) / jobs.num_ranks
    one = np.maximum(v["nvls_loop"] + bus / v["nvls_loop_rate"], bus / _nvls_rate(v))
    return v["nvls_launch"] + (np.maximum(jobs.num_bytes / loop, 1) + v["nvls_fill"]) * one


def _in_network_rate(v: _Values, net_share: Floats | float) -> Floats:
    """Algbw of what is reduced in the NVSwitch of each node and then between nodes."""
    gpus = np.maximum(v.jobs.ranks_per_node, 1.5)
    return np.minimum(_nvls_rate(v) / (2 * (gpus - 1) / gpus), _net_rate(v) * net_share)


def _nvls_tree(v: _Values) -> Floats:
    jobs = v.jobs
    loop = _loop_bytes(jobs)
    rate = _in_network_rate(v, np.where(jobs.num_nodes == 2, 1.0, 0.5))
    loops = np.maximum(jobs.num_bytes / loop, 1) + v["nvls_tree_fill"]
    return v["launch"] + v["nvls_tree_launch"] + loops * loop / rate


def _collnet(v: _Values) -> Floats:
    return v["launch"] + v["nvls_tree_launch"] + v.jobs.num_bytes / _in_network_rate(v, 1.0) * _ramp(v)


def _pairs_rate(v: _Values) -> Floats:
    jobs = v.jobs
    rate = jobs.gpu_bytes_per_s * v["p2p_share"]
    found: Floats = np.where(
        jobs.through_host & ~jobs.several, np.minimum(rate, v["shm_rate"] * jobs.all_channels), rate
    )
    return found


def _pairs(v: _Values, serial: Floats, pair_bytes: Floats) -> Floats:
    """Grouped sends and receives: one launch, then the step that messages beyond LL need, overlapped by the bytes."""
    jobs = v.jobs
    step = v["p2p_step"] * pair_bytes / (pair_bytes + v["p2p_half"])
    times = v["p2p_launch"] + np.where(jobs.several, v["net_ll"], 0.0) + np.hypot(step, serial)
    old = np.where(jobs.old, v["p2p_launch_old"] * np.maximum(jobs.gpus_per_process, 1), 0.0)
    return _softly_above(old, times)


def _all_to_all(v: _Values) -> Floats:
    jobs = v.jobs
    few = np.where(jobs.num_ranks <= 4, v["p2p_four"], 1.0)
    inside = jobs.bus_bytes / (_pairs_rate(v) * few) * _ramp(v)
    away = jobs.num_bytes * (jobs.num_ranks - jobs.ranks_per_node) / jobs.num_ranks
    between = away / (_net_rate(v) / jobs.ranks_per_node)
    return _pairs(v, np.where(jobs.several, between, inside), jobs.num_bytes / jobs.num_ranks)


def _send_recv(v: _Values) -> Floats:
    jobs = v.jobs
    inside = jobs.num_bytes / _pairs_rate(v) * _ramp(v)
    between = jobs.num_bytes / (_net_rate(v) / jobs.ranks_per_node)
    return _pairs(v, np.where(jobs.several, between, inside), jobs.num_bytes)


_KERNELS: Mapping[str, Callable[[_Values], Floats]] = {
    **{f"ring/{protocol}": _ring(protocol) for protocol in ("ll", "ll128", "simple")},
    **{f"chain/{protocol}": _chain(protocol) for protocol in ("ll", "ll128", "simple")},
    "tree/ll": _tree_ll,
    "tree/ll128": _tree_ll128,
    "tree/simple": _tree_simple,
    "nvls/simple": _nvls,
    "nvls-tree/simple": _nvls_tree,
    "collnet/simple": _collnet,
    "all-to-all": _all_to_all,
    "send-recv": _send_recv,
}
