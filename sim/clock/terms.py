"""The terms of the clock: what each one is, where its fit starts, and how far it may lie from there.

Start values are read off published runs of nccl-tests (the shipped measurements) or are data-sheet rates; the fit moves
them within `spread`. What an SM does takes so many of its cycles, so that those terms start from the clocks of data
sheets. No term stands for what the topology or the plan already says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

GENERATIONS = ("volta", "ampere", "hopper", "blackwell", "pcie")
"""Kinds of machines by what joins their GPUs: a generation of NVLink, or PCIe."""
NVLS_GENERATIONS = ("hopper", "blackwell")
FABRICS = ("infiniband", "slingshot", "efa", "efa-classic", "tcpx")
"""Kinds of networks by the software that moves their data."""

US, KIB, MIB, GB = 1e-6, 1024.0, 1048576.0, 1e9


@dataclass(frozen=True, slots=True)
class Term:
    """One parameter, always positive.

    `start` is in SI units; `spread` is the standard deviation of its logarithm before any run was seen,
    `machine_spread` that of one machine about the profile's value. All kinds of one thing may be off by a factor that
    they have in common, of standard deviation `shared`.
    """

    name: str
    unit: str
    start: float
    spread: float
    machine_spread: float
    meaning: str
    shared: float = 0.0


def _one(name: str, unit: str, start: float, spread: float, machine_spread: float, meaning: str) -> tuple[Term, ...]:
    return (Term(name, unit, start, spread, machine_spread, meaning),)


def _each(
    stem: str,
    kinds: Sequence[str],
    unit: str,
    starts: Iterable[float],
    spread: float,
    machine_spread: float,
    meaning: str,
    shared: float = 0.0,
) -> tuple[Term, ...]:
    return tuple(
        Term(f"{stem}.{kind}", unit, start, spread, machine_spread, meaning, shared)
        for kind, start in zip(kinds, starts, strict=True)
    )


def _s(*microseconds: float) -> tuple[float, ...]:
    return tuple(value * US for value in microseconds)


def _gb(*values: float) -> tuple[float, ...]:
    return tuple(value * GB for value in values)


SM_HZ = (1.53e9, 1.41e9, 1.98e9, 1.92e9, 2.52e9)
"""Highest clocks of the SMs by data sheet: V100, A100, H100, B200, and L40S for cards on PCIe."""


def _cycles(count: float) -> tuple[float, ...]:
    return tuple(count / clock for clock in SM_HZ)


def _bytes_a_cycle(count: float) -> tuple[float, ...]:
    return tuple(count * clock for clock in SM_HZ)


_LAUNCH = (
    *_one("floor", "s", 4.2 * US, 0.1, 0.2, "launching on one GPU, of several that one process drives in turn"),
    *_one("floor_channel", "s", 0.03 * US, 0.5, 0.3, "what each further channel adds to that"),
    *_one("floor_channel_old", "s", 0.26 * US, 0.15, 0.2, "the same before NCCL 2.12"),
    *_each("launch", GENERATIONS, "s", _s(6, 8.2, 4.8, 7.4, 5), 0.2, 0.2, "kernel launch as the GPU sees it"),
)
_LL_BYTES = (1.8 * GB, *_bytes_a_cycle(3.25)[1:])
"""The runs on Volta are of an old NCCL, whose LL was slower."""
_SIMPLE_HOP = (*_cycles(21e3)[:-1], 5 * US)
"""PCIe cards synchronise by the host's memory."""
_RING = (
    *_each("ll_hop", GENERATIONS, "s", _s(0.7, 0.98, 0.78, 1.3, 1.1), 0.2, 0.1, "one hop of an empty LL message"),
    *_each("ll_rate", GENERATIONS, "B/s", _LL_BYTES, 0.12, 0.05, "LL payload of one channel", 0.15),
    *_each("ll_lines", GENERATIONS, "s", _s(1.5, 1.5, 1, 0.7, 0.7), 0.3, 0.1, "what full lines of LL add once", 0.3),
    *_one("ll_gather", "s", 0.2 * US, 0.4, 0.1, "what they add to a hop of an all-gather, which stores twice"),
    *_each("ll128_hop", GENERATIONS, "s", _cycles(4600), 0.15, 0.1, "one hop of LL128", 0.15),
    *_each("ll128_rate", GENERATIONS, "B/s", _bytes_a_cycle(10), 0.12, 0.05, "LL128 payload of one channel", 0.15),
    *_each("ll128_share", GENERATIONS, "1", (0.85, 0.65, 0.84, 0.86, 0.85), 0.07, 0.05, "LL128's share of a link"),
    *_each("simple_hop", GENERATIONS, "s", _SIMPLE_HOP, 0.12, 0.1, "one step of Simple with its fence", 0.15),
    *_each("simple_rate", GENERATIONS, "B/s", _bytes_a_cycle(15.2), 0.1, 0.05, "Simple payload of one channel", 0.15),
    *_each(
        "link_share",
        GENERATIONS,
        "1",
        (0.97, 1.01, 1.035, 1.14, 0.95),
        0.015,
        0.03,
        "what a link carries over NCCL's figure",
    ),
    *_each("ramp", GENERATIONS, "B", [m * MIB for m in (0.3, 4, 4, 8, 0.1)], 0.4, 0.3, "bytes that slow a link"),
    *_one("tail", "1", 0.25, 0.3, 0.1, "steps that the first load and the last store add to a ring"),
    *_one("ll_overlap", "1", 1.3, 0.2, 0.05, "how far LL's hop hides behind its bytes: 1 not at all"),
    *_one("ll128_overlap", "1", 1.1, 0.2, 0.05, "the same of LL128"),
    *_one("simple_overlap", "1", 1.7, 0.2, 0.05, "the same of Simple"),
    *_one("shm_rate", "B/s", 2.3 * GB, 0.2, 0.3, "one channel through the host's memory"),
)
_P2P = (
    *_each("p2p_launch", GENERATIONS, "s", _s(13, 13, 8.3, 10.8, 12), 0.3, 0.2, "grouped sends and receives"),
    *_each("p2p_share", GENERATIONS, "1", (0.91, 0.91, 0.93, 0.86, 0.9), 0.05, 0.03, "share of a GPU's links"),
    *_each("p2p_step", GENERATIONS, "s", _s(6, 5.5, 7.5, 7, 6), 0.2, 0.1, "what a pair adds once its message is no LL"),
    *_one("p2p_half", "B", 20 * KIB, 0.3, 0.1, "bytes of a pair at which half of that is seen"),
    *_one("p2p_four", "1", 0.92, 0.05, 0.03, "share of four ranks' links that all-to-all reaches beside eight"),
    *_one("p2p_launch_old", "s", 10.9 * US, 0.2, 0.2, "grouped sends and receives before NCCL 2.12, per GPU"),
)
_NVLS = (
    *_each("nvls_loop", NVLS_GENERATIONS, "s", _s(9.3, 12), 0.15, 0.1, "one loop of NVLS, empty", 0.15),
    *_each("nvls_rate", NVLS_GENERATIONS, "B/s", _gb(483, 745), 0.05, 0.03, "bus rate of many loops, 8 GPUs"),
    *_each("nvls_launch", NVLS_GENERATIONS, "s", _s(4, 7), 0.5, 0.2, "start of NVLS"),
    *_one("nvls_overlap", "1", 1.8, 0.2, 0.05, "how far that hides behind the loop's bytes: 1 not at all"),
    *_one("nvls_fill", "1", 2.0, 0.2, 0.3, "loops that fill the pipeline of NVLS"),
    *_one("nvls_large", "1", 1.14, 0.05, 0.02, "gain of NVLS from 8 GiB on Blackwell, of unknown cause"),
)
_TREE = (
    *_one("tree_rate.1", "B/s", 12.9 * GB, 0.1, 0.05, "algbw of one channel of a tree but for its steps, one node"),
    *_one("tree_rate.2", "B/s", 13.0 * GB, 0.05, 0.05, "the same over two nodes"),
    *_one("tree_rate.3", "B/s", 9.3 * GB, 0.1, 0.05, "the same over three nodes"),
    *_one("tree_rate.4", "B/s", 7.3 * GB, 0.05, 0.05, "the same over four and more"),
    *_one("tree_wait.1", "1", 1.0, 0.15, 0.1, "steps of Simple that a tree's chunk costs beside its bytes, one node"),
    *_one("tree_wait.2", "1", 0.5, 0.15, 0.1, "the same over two nodes"),
    *_one("tree_wait.3", "1", 0.75, 0.15, 0.1, "the same over three nodes"),
    *_one("tree_wait.4", "1", 1.0, 0.15, 0.1, "the same over four and more"),
    *_one("tree_ll128_share", "1", 0.32, 0.2, 0.1, "algbw of an LL128 tree on one node as share of its links"),
    *_one("tree_ll128_fill", "1", 0.5, 0.5, 0.2, "chunks' times that fill the pipeline of an LL128 tree, per hop"),
    *_one("tree_ll128_away", "1", 1.0, 0.3, 0.2, "the same, per hop over the network"),
    *_one("tree_ll128_hop", "1", 1.15, 0.2, 0.1, "hop of an LL128 tree over that of a ring"),
)
_NET = (
    *_each("net_ll", FABRICS, "s", _s(6, 6.2, 25.6, 71, 35), 0.08, 0.2, "one hop of LL over the network"),
    *_each("net_ll128", FABRICS, "s", _s(10, 33, 30, 75, 40), 0.3, 0.2, "the same of LL128"),
    *_each("net_simple", FABRICS, "s", _s(10, 35, 30, 75, 40), 0.3, 0.2, "the same of Simple in a ring"),
    *_each(
        "net_tree", FABRICS, "s", _s(6, 6.2, 25.6, 71, 35), 0.3, 0.2, "the same of Simple in a tree, beside its step"
    ),
    *_each(
        "net_kib", FABRICS, "s", _s(0.4, 0.8, 0.8, 0.8, 0.8), 0.4, 0.2, "one KiB of LL on such a hop, not pipelined"
    ),
    *_each("net_share", FABRICS, "1", (0.975, 0.9, 0.95, 0.84, 0.943), 0.03, 0.03, "share of the NICs' rate"),
    *_one("net_power", "1", 0.9, 0.15, 0.05, "how LL's bytes on a hop grow with their number"),
    *_one("host_bridge_share", "1", 0.8, 0.1, 0.05, "share that is left where NICs hang on the host bridge"),
    *_one("rendezvous", "s", 6 * US, 0.3, 0.2, "handshake of libfabric from 4 KiB on"),
    *_one("nvls_tree_launch", "s", 45 * US, 0.3, 0.2, "start of NVLSTree"),
    *_one("nvls_tree_fill", "1", 5.7, 0.3, 0.1, "loops that fill the pipeline of NVLSTree"),
)

TERMS: tuple[Term, ...] = (*_LAUNCH, *_RING, *_P2P, *_NVLS, *_TREE, *_NET)
"""All terms, in the order of a parameter vector."""
INDEX = {term.name: place for place, term in enumerate(TERMS)}
"""Place of each term in a parameter vector."""
