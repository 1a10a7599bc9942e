"""Breadth-first paths between the nodes of the system graph (src/graph/paths.cc of NCCL 2.30.7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sim.planners.nccl_2_30.facts import LOCAL_BYTES_PER_S
from sim.planners.nccl_2_30.kinds import LinkKind, NodeKind, PathKind
from sim.planners.nccl_2_30.system import System
from topo.errors import TopologyError


class Path(NamedTuple):
    """How one node reaches another: the worst thing on the way, the slowest hop, and the edges in travel order."""

    kind: PathKind
    bandwidth_bytes_per_s: float
    hops: tuple[int, ...]


NO_PATH = Path(PathKind.DIS, 0.0, ())

_STEP_KIND = {
    LinkKind.LOC: PathKind.LOC,
    LinkKind.NVL: PathKind.NVL,
    LinkKind.C2C: PathKind.C2C,
    LinkKind.PCI: PathKind.PIX,
    LinkKind.SYS: PathKind.SYS,
    LinkKind.NET: PathKind.LOC,
}
_JOIN_AT_CPU = frozenset((PathKind.C2C, PathKind.PHB))


class _Step(NamedTuple):
    """One edge seen from the node that is already reached: it is travelled backwards, from `far` to that node."""

    far: int
    kind: PathKind
    is_nvlink: bool
    bandwidth_bytes_per_s: float
    back: int
    enters_gpu: bool
    enters_device: bool


class PathFinder:
    """Finds all paths that lead to one node; what does not depend on that node is prepared once."""

    def __init__(self, system: System, *, through_gpus: bool = True) -> None:
        self._system = system
        self._through_gpus = through_gpus
        self._steps = [self._steps_of(number) for number in range(len(system.nodes))]
        self._is_device = [node.kind == NodeKind.DEVICE for node in system.nodes]

    def _steps_of(self, number: int) -> list[_Step]:
        nodes = self._system.nodes
        steps = []
        for edge_number in self._system.leaving[number]:
            edge = self._system.edges[edge_number]
            ends = (nodes[edge.src].kind, nodes[edge.dst].kind)
            kind = _STEP_KIND[edge.kind]
            if edge.kind == LinkKind.PCI:
                if ends == (NodeKind.PCI, NodeKind.PCI):
                    kind = PathKind.PXB
                elif NodeKind.CPU in ends:
                    kind = PathKind.PHB
            steps.append(
                _Step(
                    far=edge.dst,
                    kind=kind,
                    is_nvlink=edge.kind == LinkKind.NVL,
                    bandwidth_bytes_per_s=edge.bandwidth_bytes_per_s,
                    back=edge.reverse,
                    enters_gpu=edge.kind == LinkKind.LOC and ends[1] == NodeKind.GPU,
                    enters_device=edge.kind == LinkKind.NVL and ends[1] == NodeKind.DEVICE,
                )
            )
        return steps

    def to(self, target: int) -> list[Path]:
        """The path from every node (by number) to the target; NO_PATH where there is none."""
        found = [NO_PATH] * len(self._steps)
        found[target] = Path(PathKind.LOC, float(LOCAL_BYTES_PER_S), ())
        own_device = self._system.nodes[target].device
        free_hops = 2 if own_device >= 0 else 1
        level = [target]
        while level:
            following: dict[int, None] = {}
            for near in level:
                path = found[near]
                blocked = self._is_device[near] and near not in (target, own_device)
                passes = self._through_gpus and len(path.hops) <= free_hops
                crosses = self._is_device[near] and path.kind == PathKind.NVL and len(path.hops) == free_hops
                for step in self._steps[near]:
                    if blocked and not (step.enters_gpu or (passes and step.enters_device)):
                        continue
                    kind = PathKind.NVB if crosses and step.is_nvlink else step.kind
                    if _improve(found, step, path, max(kind, path.kind)):
                        following[step.far] = None
            level = list(following)
        return found


def _improve(found: list[Path], step: _Step, onward: Path, kind: PathKind) -> bool:
    """Replace the path of `step.far` if the way over this step is better; whether it did."""
    old = found[step.far]
    if kind > old.kind:
        return False
    bandwidth = min(step.bandwidth_bytes_per_s, onward.bandwidth_bytes_per_s)
    if kind == old.kind:
        if bandwidth < old.bandwidth_bytes_per_s:
            return False
        if bandwidth == old.bandwidth_bytes_per_s and len(onward.hops) + 1 >= len(old.hops):
            return False
    if step.back < 0 and not old.hops:
        raise TopologyError(
            "an NVLink (or a link between PCIe switches) is stated by only one of its two ends: state it at both"
        )
    first = step.back if step.back >= 0 else old.hops[0]
    found[step.far] = Path(kind, bandwidth, (first, *onward.hops))
    return True


def join(first: Path, second: Path, *, at_gpu: bool = False) -> Path:
    """One path after the other; NO_PATH where either is missing. Kinds join to the worse, with two exceptions."""
    if PathKind.DIS in (first.kind, second.kind):
        return NO_PATH
    kind = max(first.kind, second.kind)
    if at_gpu:
        kind = PathKind.PXN
    elif {first.kind, second.kind} == _JOIN_AT_CPU:
        kind = PathKind.P2C
    bandwidth = min(first.bandwidth_bytes_per_s, second.bandwidth_bytes_per_s)
    return Path(kind, bandwidth, first.hops + second.hops)


def local_nodes(paths: Sequence[Path]) -> tuple[int, ...]:
    """The best reached of several nodes: highest bandwidth, then best kind; all equal ones, by index."""
    if not paths:
        return ()
    best = min((-path.bandwidth_bytes_per_s, path.kind) for path in paths)
    return tuple(index for index, path in enumerate(paths) if (-path.bandwidth_bytes_per_s, path.kind) == best)


def table(finder_paths: Iterable[Sequence[Path]], numbers: Sequence[int]) -> list[list[Path]]:
    """`table[i][j]`: from the i-th of the numbered nodes to the j-th target."""
    columns = [[paths[number] for number in numbers] for paths in finder_paths]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in numbers]
