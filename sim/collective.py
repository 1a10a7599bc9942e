"""What each collective means, one row each: who holds what before and after, bandwidth factor, names elsewhere.

A buffer is cut into chunks. A collective is stated by two masks over (rank, chunk): who contributes to a chunk
before, and who must hold its result after. The result of a chunk is the reduction over its contributors, so that
all-reduce, all-gather, broadcast and all-to-all are one statement, and one proof serves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topo.errors import NameChoiceError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]


ROOT = 0
"""The rank from which a broadcast goes out and in which a reduce ends."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective.

    `before(n, k)` and `after(n, k)` are boolean masks of shape (n ranks, k chunks). `busbw_factor(n)` turns algbw
    into busbw as nccl-tests defines it (doc/PERFORMANCE.md there); the size is max(send, receive) bytes of one rank.
    With `own_buffers` every rank sends a buffer of its own, and the chunks are those of all these buffers.
    """

    name: str
    before: Callable[[int, int], Mask]
    after: Callable[[int, int], Mask]
    busbw_factor: Callable[[int], float]
    reduces: bool
    aliases: tuple[str, ...] = ()
    own_buffers: bool = False


def _all(num_ranks: int, num_chunks: int) -> Mask:
    import numpy as np

    return np.ones((num_ranks, num_chunks), dtype=bool)


def _owner(num_ranks: int, num_chunks: int) -> Mask:
    """Rank r owns the r-th equal part of the chunks."""
    import numpy as np

    owner = np.arange(num_chunks) * num_ranks // num_chunks
    return np.equal.outer(np.arange(num_ranks), owner)


def _root(num_ranks: int, num_chunks: int) -> Mask:
    import numpy as np

    return np.broadcast_to(np.arange(num_ranks)[:, None] == ROOT, (num_ranks, num_chunks)).copy()


def _sender(num_ranks: int, num_chunks: int) -> Mask:
    """Chunk s * n + d travels from rank s to rank d; further chunks repeat the pattern."""
    import numpy as np

    sender = np.arange(num_chunks) % (num_ranks * num_ranks) // num_ranks
    return np.equal.outer(np.arange(num_ranks), sender)


def _receiver(num_ranks: int, num_chunks: int) -> Mask:
    import numpy as np

    return np.equal.outer(np.arange(num_ranks), np.arange(num_chunks) % num_ranks)


def _next(num_ranks: int, num_chunks: int) -> Mask:
    """What rank r owns, rank r + 1 needs."""
    import numpy as np

    return np.roll(_owner(num_ranks, num_chunks), 1, axis=0)


def _share(num_ranks: int) -> float:
    return (num_ranks - 1) / num_ranks


def _twice_share(num_ranks: int) -> float:
    return 2 * _share(num_ranks)


def _one(num_ranks: int) -> float:
    return 1.0


COLLECTIVES: dict[str, Collective] = {
    row.name: row
    for row in (
        Collective("all_reduce", _all, _all, _twice_share, True, ("allreduce", "all_reduce_perf", "MPI_Allreduce")),
        Collective(
            "reduce_scatter",
            _all,
            _owner,
            _share,
            True,
            ("reducescatter", "reduce_scatter_perf", "MPI_Reduce_scatter"),
        ),
        Collective("all_gather", _owner, _all, _share, False, ("allgather", "all_gather_perf", "MPI_Allgather")),
        Collective("broadcast", _root, _all, _one, False, ("bcast", "broadcast_perf", "MPI_Bcast")),
        Collective("reduce", _all, _root, _one, True, ("reduce_perf", "MPI_Reduce")),
        Collective(
            "all_to_all", _sender, _receiver, _share, False, ("alltoall", "alltoall_perf", "MPI_Alltoall"), True
        ),
        Collective("sendrecv", _owner, _next, _one, False, ("send_recv", "sendrecv_perf", "MPI_Sendrecv"), True),
    )
}


def collective(name: str) -> Collective:
    """The row of that name, or of an alias of it; NameChoiceError otherwise."""
    if name in COLLECTIVES:
        return COLLECTIVES[name]
    for row in COLLECTIVES.values():
        if name in row.aliases:
            return row
    raise NameChoiceError("collective", name, COLLECTIVES)
