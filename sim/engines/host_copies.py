"""Copies through the host's memory: what GPUs move to each other where NCCL lets them not reach each other directly.

A channel's thread block writes to the host's memory and the receiver's reads from there (src/transport/shm.cc of NCCL
2.30.7). That is slower than the PCIe links that it crosses, so that it is a link of its own here: what a GPU writes,
and what it reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.engines.indexing import offsets

if TYPE_CHECKING:
    from sim.engines.network import Network
    from sim.engines.routes import Pairs, Routes

SHM = "SHM"
"""What NCCL calls this transport in its logs; `GPU0->SHM` is what a GPU writes, `SHM->GPU0` what it reads."""


@dataclass(frozen=True, eq=False)
class HostCopies:
    """`through[a, b]`: GPU a of a node sends to GPU b of it through the host's memory, at most so fast in all."""

    through: npt.NDArray[np.bool_]
    bytes_per_s: float


def with_host_copies(network: Network, copies: HostCopies, names: tuple[str, ...], num_ranks: int) -> Network:
    """The network with two further links for each rank, which what passes the host's memory crosses besides.

    `names` are the GPUs of one host, of which there are as many as the ranks need.
    """
    per_host, num_links = len(names), len(network.bandwidth_bytes_per_s)
    own = network.link_id, network.routes

    def link_id(index: int) -> str:
        if index < num_links:
            return own[0](index)
        rank, reads = divmod(index - num_links, 2)
        gpu = names[rank % per_host] if num_ranks == per_host else f"node{rank // per_host}/{names[rank % per_host]}"
        return f"{SHM}->{gpu}" if reads else f"{gpu}->{SHM}"

    def routes(src: Pairs, dst: Pairs) -> Routes:
        ranks = (src < num_ranks) & (dst < num_ranks) & (src // per_host == dst // per_host)
        copied = ranks & copies.through[src % per_host, dst % per_host]
        further = np.stack([2 * src[copied], 2 * dst[copied] + 1], axis=1).ravel() + num_links
        return own[1](src, dst).followed_by(offsets(2 * copied), further.astype(np.int32))

    rates = np.concatenate([network.bandwidth_bytes_per_s, np.full(2 * num_ranks, copies.bytes_per_s)])
    return replace(network, link_id=link_id, bandwidth_bytes_per_s=rates, routes=routes)
