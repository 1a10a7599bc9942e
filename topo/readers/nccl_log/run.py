"""A log's main communicator in the form that a topology carries it."""

from __future__ import annotations

from topo.nccl_run import NcclRun, RunTree
from topo.readers.nccl_log.facts import NcclLog


def run_of(log: NcclLog) -> NcclRun:
    """The main communicator's rings and trees, and the transports of the whole log."""
    main = log.main
    return NcclRun(
        num_ranks=main.num_ranks if main else None,
        num_nodes=main.num_nodes if main else None,
        num_channels=main.num_channels if main else None,
        version=log.versions[0] if log.versions else None,
        rings=tuple(ring.ranks for ring in main.rings) if main else (),
        ring_channels=tuple(ring.channel for ring in main.rings) if main else (),
        trees=tuple(RunTree(tree.up, tree.down) for tree in main.trees) if main else (),
        tree_channels=tuple(tree.channel for tree in main.trees) if main else (),
        transports=log.transports,
    )
