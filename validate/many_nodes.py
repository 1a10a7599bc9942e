"""The lines that start a run on several nodes, by each launcher that is known here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

RENDEZVOUS_PORT = 29500
HOST = "HOST"


def lines(words: Sequence[str], num_nodes: int, ranks_per_node: int) -> str:
    """One line for each launcher, with a comment above; `words` are those behind `topo`.

    Only srun tells by itself on which host rank 0 runs; to the others it has to be said.
    """
    own = shlex.join(word for word in words if word != "--dry-run")
    many = num_nodes * ranks_per_node
    return "\n".join(
        (
            f"# one of these, for {many} processes on {num_nodes} nodes; {HOST} stands for the first node's name",
            f"srun --nodes {num_nodes} --ntasks-per-node {ranks_per_node} topo {own}",
            f"mpirun -np {many} --map-by ppr:{ranks_per_node}:node -x MASTER_ADDR={HOST} topo {own}",
            "# torchrun: the same line on every node",
            f"torchrun --nnodes {num_nodes} --nproc-per-node {ranks_per_node} --rdzv-backend c10d "
            f"--rdzv-endpoint {HOST}:{RENDEZVOUS_PORT} -m topo.start {own}",
            "",
        )
    )
