"""What will run: algorithm, channels with their orders, chunks and servers, and which planner said so."""

from __future__ import annotations

from dataclasses import dataclass

from sim.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to run a collective; `ALGORITHMS[plan.algorithm].build(plan)` is its schedule.

    `rings[c]` is the order of the ranks in channel c (trees are laid over the same orders). `num_chunks` are the
    pipeline chunks per tree or server; a ring cuts its buffer by itself. `servers` are agents: ranks, or helpers
    from `num_ranks` on, of which `helpers[i]` names the device that agent `num_ranks + i` runs on.
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

    @property
    def num_channels(self) -> int:
        """How many channels run side by side."""
        return len(self.rings)

    def schedule(self) -> Schedule:
        """The schedule of this plan."""
        from sim.algorithms import algorithm

        return algorithm(self.algorithm).build(self)


def in_order(algorithm: str, num_ranks: int, *, num_channels: int = 1, num_chunks: int = 1) -> Plan:
    """The plan that takes ranks in their natural order, for a machine on which any order is as good."""
    return Plan(
        algorithm=algorithm,
        num_ranks=num_ranks,
        rings=(tuple(range(num_ranks)),) * num_channels,
        num_chunks=num_chunks,
        planner="natural order",
    )
