"""What will run: algorithm, channels with their orders, chunks and servers, and which planner said so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.bundles import bundled

if TYPE_CHECKING:
    from sim.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Tree:
    """One channel's tree over all ranks: `up[rank]` is the parent (-1 at the root), `down[rank]` the children."""

    up: tuple[int, ...]
    down: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to run a collective; `ALGORITHMS[plan.algorithm].build(plan)` is its schedule.

    `rings[c]` is the order of the ranks in channel c. `trees[c]` is its tree; without any, trees are laid over the
    orders. `num_chunks` are the pipeline chunks per tree or server; a ring cuts its buffer by itself. `servers` are
    agents: ranks, or helpers from `num_ranks` on, of which `helpers[i]` names the device that agent `num_ranks + i`
    runs on. `chunk_bytes` is the chunk that the planner's library cuts a channel's data into (None: not said).
    `instead_of` is what that library would take, where this stands in for an algorithm that has no schedule here.
    `groups` are the ranks of each node, in one order in all of them, for algorithms that tell nodes apart.
    """

    algorithm: str
    num_ranks: int
    rings: tuple[tuple[int, ...], ...]
    collective: str = "all_reduce"
    num_chunks: int = 1
    servers: tuple[int, ...] = (0,)
    helpers: tuple[str, ...] = ()
    protocol: str = "simple"
    planner: str = "topology"
    trees: tuple[Tree, ...] = ()
    chunk_bytes: int | None = None
    instead_of: str | None = None
    groups: tuple[tuple[int, ...], ...] = ()

    @property
    def num_channels(self) -> int:
        """How many channels run side by side."""
        return len(self.rings or self.trees)

    @property
    def shape(self) -> Plan:
        """The plan with equal channels bundled and without what no schedule hangs on: equal shapes run alike."""
        by_trees = self.algorithm == "tree" and self.trees
        return Plan(
            algorithm=self.algorithm,
            num_ranks=self.num_ranks,
            rings=() if by_trees else bundled(self.rings),
            collective=self.collective,
            num_chunks=self.num_chunks,
            servers=self.servers,
            helpers=self.helpers,
            trees=bundled(self.trees) if by_trees else (),
            groups=self.groups,
        )

    def schedule(self) -> Schedule:
        """The schedule of this plan."""
        from sim.algorithms import algorithm

        row = algorithm(self.algorithm)
        row.require(self.num_ranks)
        return row.build(self)


def in_order(
    algorithm: str, num_ranks: int, *, collective: str | None = None, num_channels: int = 1, num_chunks: int = 1
) -> Plan:
    """The plan that takes ranks in their natural order, for a machine on which any order is as good.

    `collective` None is the first of those that the algorithm runs. What needs a switch is given that of a description.
    """
    from sim.algorithms import algorithm as find_algorithm

    row = find_algorithm(algorithm)
    return Plan(
        algorithm=algorithm,
        num_ranks=num_ranks,
        rings=(tuple(range(num_ranks)),) * num_channels,
        collective=collective or row.collectives[0],
        helpers=("SW0",) if row.in_switch else (),
        num_chunks=num_chunks,
        planner="natural order",
    )
