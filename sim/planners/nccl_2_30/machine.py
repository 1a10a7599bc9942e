"""What NCCL's cost model and its rules know of a communicator besides its graphs."""

from __future__ import annotations

from dataclasses import dataclass

from sim.planners.nccl_2_30 import tuner_facts as facts


@dataclass(frozen=True, slots=True)
class Machine:
    """What the cost model knows of the communicator besides its graphs."""

    num_nodes: int
    num_ranks: int
    max_ranks_per_node: int
    min_compute_capability: int
    max_compute_capability: int
    cpu_arch: str | None
    cpu_vendor: str | None
    nvls: bool = False
    collnet: bool = False

    @property
    def ranks_per_node(self) -> int:
        """Ranks per node, as NCCL divides them."""
        return self.num_ranks // self.num_nodes

    @property
    def amd(self) -> bool:
        """Whether the CPUs are x86 of AMD."""
        return self.cpu_arch == "x86_64" and self.cpu_vendor == "AuthenticAMD"

    @property
    def generation(self) -> int:
        """0 before Ampere, 1 Ampere, 2 Hopper, 3 Blackwell."""
        return sum(self.min_compute_capability >= since for since in facts.GENERATIONS)

    @property
    def scale(self) -> int:
        """0 for one node, 1 for two, 2 for more."""
        return min(self.num_nodes, 3) - 1
