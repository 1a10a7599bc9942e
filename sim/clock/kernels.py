"""The time of each kernel in closed form, for any number of parameter vectors at once.

Sizes are those of nccl-tests. A ring's step costs a hop and its bytes, which overlap the more the larger the exponent
of `overlapped` is: 1 adds them, 2 is what Simple does. Sources of the forms: the step times of published runs are the
same for all-reduce, all-gather and reduce-scatter and for 2 to 8 ranks, so that they hang on the bytes of one step
alone; NVLS is a pipeline of loops over its chunks (src/device/all_reduce.h of NCCL 2.30.7); a tree's hop stores and
forwards what LL carries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from sim.clock.jobs import KERNELS, Floats, Jobs
from sim.clock.parts import (
    LL_CHUNK_BYTES,
    Values,
    floor_s,
    gpu_net_rate,
    host_ll_s,
    link_rate,
    net_ll_s,
    net_rate,
    overlapped,
    ramp,
    ring_rate,
    softly_above,
    softmin,
)
from sim.clock.terms import GENERATIONS, KIB, MIB
from sim.slots import SLOTS_PER_CONNECTION

LL_LINES_BYTES = 4 * KIB
"""What the threads of a channel move at once."""
STEP_BYTES = 512 * KIB
"""A step of NCCL's default buffer for Simple: a tree's chunk where the plan states none."""
NVLS_LARGE_BYTES = 8192 * MIB
NVLS_BUS_SHARE = ((1, 4, 5, 6, 7, 8), (0.50, 0.79, 0.859, 0.905, 0.954, 1.0))
"""NVLS on fewer GPUs of a Hopper machine, as share of its bus rate on 8: its algbw hardly hangs on their number."""
NVLS_DOMAIN_SHARE = 423 / 480 / 1.75
"""NVLS over an NVLink domain of several trays, in algbw, beside 8 GPUs of one."""
BLACKWELL = GENERATIONS.index("blackwell")


def times_s(values: Floats, jobs: Jobs) -> Floats:
    """Seconds of every job, shape (..., jobs), under terms of shape (..., len(TERMS))."""
    times = np.empty((*values.shape[:-1], len(jobs)))
    for kernel in np.flatnonzero(np.bincount(jobs.kernel)):
        rows = np.flatnonzero(jobs.kernel == kernel)
        v = Values(values, jobs.take(rows))
        with np.errstate(over="ignore"):
            times[..., rows] = softly_above(floor_s(v), _KERNELS[KERNELS[kernel]](v))
    return times


def _ring_ll(v: Values) -> Floats:
    """A ring of LL: what waits on its way around, and the bytes that each rank moves meanwhile, hide each other."""
    jobs = v.jobs
    part = jobs.num_bytes / jobs.num_ranks
    in_channel = part / jobs.num_channels
    filled = np.minimum(in_channel / LL_LINES_BYTES, 1.0)
    serial = part / ring_rate(v, "ll")
    hop = v["ll_hop"] + np.where(jobs.gathers, v["ll_gather"], 0.0) * filled
    waiting = jobs.steps * hop + jobs.net_steps * net_ll_s(v, in_channel)
    moving = overlapped(waiting, jobs.steps * serial, v["ll_overlap"])
    return v["launch"] + v["ll_lines"] * filled + moving + v["tail"] * serial


def _ring(protocol: str) -> Callable[[Values], Floats]:
    """A ring of LL128 or Simple, step by step."""

    def time(v: Values) -> Floats:
        jobs = v.jobs
        serial = jobs.num_bytes / jobs.num_ranks / ring_rate(v, protocol)
        hops = v[f"{protocol}_hop"], v[f"{protocol}_hop"] + v[f"net_{protocol}"]
        inside, between = (overlapped(hop, serial, v[f"{protocol}_overlap"]) for hop in hops)
        found: Floats = (
            v["launch"] + (jobs.steps - jobs.net_steps) * inside + jobs.net_steps * between + v["tail"] * serial
        )
        return found

    return time


def _chain(protocol: str) -> Callable[[Values], Floats]:
    """Broadcast or reduce: iterations follow each other through the chain, so that one hop at most is seen.

    Between nodes not even that, since nobody waits for it: what the host spends on LL's bytes is left.
    """

    def time(v: Values) -> Floats:
        jobs = v.jobs
        host = host_ll_s(v, jobs.num_bytes / jobs.num_channels) if protocol == "ll" else 0.0
        hop = np.where(jobs.several, host, v[f"{protocol}_hop"])
        found: Floats = v["launch"] + hop + jobs.num_bytes / ring_rate(v, protocol)
        return found

    return time


def _levels(jobs: Jobs) -> Floats:
    """Levels of the double binary tree over nodes that a message passes; real, since both trees share the load."""
    found: Floats = np.log2(jobs.num_nodes)
    return found


def _tree_ll(v: Values) -> Floats:
    jobs = v.jobs
    part = jobs.num_bytes / jobs.num_channels
    forward = np.minimum(part, LL_CHUNK_BYTES) / v["ll_rate"]
    inside = 2 * (jobs.ranks_per_node - 1) * (v["ll_hop"] + forward)
    between = 2 * _levels(jobs) * (net_ll_s(v, part) + forward)
    return v["launch"] + inside + between + jobs.num_bytes / ring_rate(v, "ll")


def _by_nodes(jobs: Jobs, *values: Floats | float) -> Floats:
    """The value for one node, two, three, or more."""
    found: Floats = np.where(
        jobs.num_nodes == 1,
        values[0],
        np.where(jobs.num_nodes == 2, values[1], np.where(jobs.num_nodes == 3, values[2], values[3])),
    )
    return found


def _chunk_bytes(jobs: Jobs) -> Floats:
    """A tree's chunk: a step of the buffer where the plan states none."""
    found: Floats = np.where(jobs.chunk_bytes > 0, jobs.chunk_bytes, STEP_BYTES)
    return found


def _tree_work(v: Values) -> Floats:
    """Algbw that the SMs of all channels reach in a tree, by how many neighbours a rank serves."""
    return v.jobs.num_channels * _by_nodes(v.jobs, *(v[f"tree_rate.{nodes}"] for nodes in (1, 2, 3, 4)))


def _tree_net_rate(v: Values) -> Floats:
    """Algbw of the NICs in a tree: from three nodes on some send what they have more than once."""
    return net_rate(v) * _by_nodes(v.jobs, 1.0, 1.0, 0.75, 0.5)


def _tree_ll128(v: Values) -> Floats:
    jobs = v.jobs
    over_net = softmin(_tree_net_rate(v) * 0.9, _tree_work(v), 4)
    rate = np.where(jobs.several, over_net, link_rate(v) * v["tree_ll128_share"])
    inside, between = 2 * (jobs.ranks_per_node - 1), 2 * _levels(jobs)
    hops = inside * v["tree_ll128_hop"] * v["ll128_hop"] + between * v["net_ll128"]
    chunk = np.minimum(_chunk_bytes(jobs), jobs.num_bytes / jobs.num_channels)
    fill = (v["tree_ll128_fill"] * inside + v["tree_ll128_away"] * between) * chunk / (rate / jobs.num_channels)
    return v["launch"] + hops + fill + overlapped(_credits_s(v), jobs.num_bytes / rate, 4.0)


def _credits_s(v: Values) -> Floats:
    """How long a channel of an LL128 tree waits for slots of its buffer: all are free at first, then a way and back."""
    jobs = v.jobs
    buffers = jobs.num_bytes / jobs.num_channels / (SLOTS_PER_CONNECTION * _chunk_bytes(jobs))
    found: Floats = np.where(jobs.several, np.maximum(buffers - 1, 0) * 2 * v["net_ll128"], 0.0)
    return found


def _tree_simple(v: Values) -> Floats:
    """Chunks move on when they have arrived; each costs a rank its bytes and some of a step for its neighbours."""
    jobs = v.jobs
    chunk = np.minimum(_chunk_bytes(jobs), jobs.num_bytes / jobs.num_channels)
    # On one node a tree is a chain, in which all but its ends serve two neighbours.
    shared = np.where(jobs.num_ranks > 2, 2.0, 1.0)
    carried = np.where(jobs.several, softmin(_tree_net_rate(v), link_rate(v)), link_rate(v) / shared)
    moving = chunk * jobs.num_channels / softmin(_tree_work(v), carried)
    inside = 2 * (jobs.ranks_per_node - 1) * (v["simple_hop"] + chunk / v["simple_rate"])
    nic = np.maximum(jobs.nic_bytes_per_s, 1.0) * v["net_share"]
    between = np.where(jobs.several, 2 * _levels(jobs) * (v["net_tree"] + v["simple_hop"] + chunk / nic), 0.0)
    waits = _by_nodes(jobs, *(v[f"tree_wait.{nodes}"] for nodes in (1, 2, 3, 4)))
    each = v["simple_hop"] * waits + moving
    return v["launch"] + inside + between + jobs.num_bytes / jobs.num_channels / chunk * each


def _nvls_rate(v: Values) -> Floats:
    """Bus rate of NVLS at many loops, as share of which it counts in a domain of so many GPUs."""
    jobs = v.jobs
    gpus = jobs.ranks_per_node
    large = np.where(jobs.num_bytes >= NVLS_LARGE_BYTES, v["nvls_large"], 1.0)
    domain = np.where(gpus > 8, 2 * (gpus - 1) / gpus * NVLS_DOMAIN_SHARE, 1.0)
    found: Floats = v["nvls_rate"] * np.where(
        jobs.native == BLACKWELL, large * domain, np.interp(gpus, *NVLS_BUS_SHARE)
    )
    return found


def _loop_bytes(jobs: Jobs) -> Floats:
    found: Floats = jobs.num_channels * jobs.num_heads * jobs.chunk_bytes
    return found


def _nvls(v: Values) -> Floats:
    jobs = v.jobs
    loop = np.minimum(_loop_bytes(jobs), jobs.num_bytes)
    bus = loop * 2 * (jobs.num_ranks - 1) / jobs.num_ranks
    one = overlapped(v["nvls_loop"], bus / _nvls_rate(v), v["nvls_overlap"])
    return v["nvls_launch"] + (jobs.num_bytes / loop + v["nvls_fill"]) * one


def _in_network_rate(v: Values, net_share: Floats | float) -> Floats:
    """Algbw of what is reduced in the NVSwitch of each node and then between nodes."""
    gpus = np.maximum(v.jobs.ranks_per_node, 1.5)
    return softmin(_nvls_rate(v) / (2 * (gpus - 1) / gpus), net_rate(v) * net_share)


def _nvls_tree(v: Values) -> Floats:
    jobs = v.jobs
    loop = _loop_bytes(jobs)
    rate = _in_network_rate(v, np.where(jobs.num_nodes == 2, 1.0, 0.5))
    loops = np.maximum(jobs.num_bytes / loop, 1) + v["nvls_tree_fill"]
    return v["launch"] + v["nvls_tree_launch"] + loops * loop / rate


def _collnet(v: Values) -> Floats:
    return v["launch"] + v["nvls_tree_launch"] + v.jobs.num_bytes / _in_network_rate(v, 1.0) * ramp(v)


def _pairs_rate(v: Values) -> Floats:
    jobs = v.jobs
    rate = jobs.gpu_bytes_per_s * v["p2p_share"]
    found: Floats = np.where(jobs.through_host, softmin(rate, v["shm_rate"] * jobs.all_channels), rate)
    return found


def _pairs(v: Values, serial: Floats, pair_bytes: Floats) -> Floats:
    """Grouped sends and receives: one launch, then the step that messages beyond LL need, overlapped by the bytes."""
    jobs = v.jobs
    step = v["p2p_step"] * pair_bytes / (pair_bytes + v["p2p_half"])
    times = v["p2p_launch"] + np.where(jobs.several, v["net_ll"], 0.0) + np.hypot(step, serial)
    old = np.where(jobs.old, v["p2p_launch_old"] * np.maximum(jobs.gpus_per_process, 1), 0.0)
    return softly_above(old, times)


def _all_to_all(v: Values) -> Floats:
    jobs = v.jobs
    few = np.where(jobs.num_ranks <= 4, v["p2p_four"], 1.0)
    inside = jobs.bus_bytes / (_pairs_rate(v) * few) * ramp(v)
    away = jobs.num_bytes * (jobs.num_ranks - jobs.ranks_per_node) / jobs.num_ranks
    between = away / gpu_net_rate(v)
    return _pairs(v, np.where(jobs.several, between, inside), jobs.num_bytes / jobs.num_ranks)


def _send_recv(v: Values) -> Floats:
    jobs = v.jobs
    # From each node one rank sends to another, over a NIC of its own or over its part of several.
    inside = np.where(jobs.ranks_per_node > 1, jobs.num_bytes / _pairs_rate(v) * ramp(v), 0.0)
    nic = np.maximum(gpu_net_rate(v), np.minimum(jobs.nic_bytes_per_s * v["net_share"], net_rate(v)))
    return _pairs(v, np.where(jobs.several, np.maximum(jobs.num_bytes / nic, inside), inside), jobs.num_bytes)


_KERNELS: Mapping[str, Callable[[Values], Floats]] = {
    "ring/ll": _ring_ll,
    **{f"ring/{protocol}": _ring(protocol) for protocol in ("ll128", "simple")},
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
