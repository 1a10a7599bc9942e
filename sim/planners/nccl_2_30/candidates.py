"""In which order the search tries the next GPU (ncclTopoSearchNextGpuSort in src/graph/search.cc)."""

from __future__ import annotations

from collections.abc import Iterable

from sim.planners.nccl_2_30.graphs import Pattern
from sim.planners.nccl_2_30.ground import Ground
from sim.planners.nccl_2_30.kinds import GIGA
from sim.planners.nccl_2_30.paths import local_nodes


class Candidates:
    """Orders of GPUs on one ground; `left` is what every link still has, as the search changes it."""

    def __init__(self, ground: Ground, left: list[float]) -> None:
        self._left = left
        self._pci_edges = ground.pci_edges
        self._paths = ground.domain.paths
        self._num_gpus = ground.num_gpus
        self._near_net = [local_nodes(row) for row in self._paths.net_gpu]
        self._ways_in = [
            [(-int(path.bandwidth_bytes_per_s // GIGA), len(path.hops)) for path in row] for row in self._paths.net_gpu
        ]
        self._scores = [self._scores_from(gpu) for gpu in range(self._num_gpus)]
        self._neighbours: dict[tuple[int, Pattern], tuple[int, ...]] = {}

    def near_net(self, net: int) -> tuple[int, ...]:
        """The GPUs that are local to a NIC."""
        return self._near_net[net]

    def _scores_from(self, gpu: int) -> list[tuple[int, int, int, int]]:
        """(-bandwidth, hops, cyclic distance, GPU) of every GPU with a path, best first."""
        scores = []
        for distance in range(1, self._num_gpus):
            other = (gpu + distance) % self._num_gpus
            path = self._paths.gpu_gpu[gpu][other]
            if path.hops:
                scores.append((-int(path.bandwidth_bytes_per_s // GIGA), len(path.hops), distance, other))
        return sorted(scores)

    def intra(self, gpu: int, used: int) -> Iterable[int]:
        """Unused GPUs by how well they are reached from this one."""
        return [score[3] for score in self._scores[gpu] if not used >> score[3] & 1]

    def towards_net(self, gpu: int, used: int, net: int, *, reverse: bool) -> Iterable[int]:
        """Unused GPUs by how well the channel's start NIC reaches them, then as `intra`.

        `reverse` asks for the opposite order if nothing inside the domain tells them apart.
        """
        free = [score for score in self._scores[gpu] if not used >> score[3] & 1]
        if len(free) < 2:
            return [score[3] for score in free]
        left, ways_in = self._left, self._ways_in[net]
        rows = []
        for score in free:
            up, down = self._pci_edges[score[3]]
            rate, hops = ways_in[score[3]]
            rows.append((rate, -int(min(left[up], left[down]) // GIGA), hops, score))
        rows.sort()
        if reverse and all(score[:2] == free[0][:2] for score in free):
            rows.reverse()
        return [row[3][3] for row in rows]

    def neighbours(self, gpu: int, pattern: Pattern, used: int) -> Iterable[int]:
        """With an NVSwitch, only the GPUs next to this one by index."""
        key = (gpu, pattern)
        if key not in self._neighbours:
            self._neighbours[key] = self._find_neighbours(gpu, pattern)
        return [other for other in self._neighbours[key] if not used >> other & 1]

    def _find_neighbours(self, gpu: int, pattern: Pattern) -> tuple[int, ...]:
        before, after = (gpu - 1) % self._num_gpus, (gpu + 1) % self._num_gpus
        order = {Pattern.RING: (before, after), Pattern.BALANCED_TREE: (after, before)}.get(pattern, (after,))
        return tuple(other for other in dict.fromkeys(order) if self._paths.gpu_gpu[gpu][other].hops)
