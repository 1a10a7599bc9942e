"""Tries that need not be run since they cannot change the result: repetitions, and those that a bound rules out.

Exact: a search with these shortcuts finds what a search without them finds. How many visits a ruled-out try would have
left is not known, so the budget of all visits becomes an interval; such tries are run after all where it matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sim.planners.nccl_2_30.facts import VISITS_IN_ALL
from sim.planners.nccl_2_30.graphs import Pattern, Solution, Trial
from sim.planners.nccl_2_30.ground import Ground
from sim.planners.nccl_2_30.kinds import GIGA, NodeKind, PathKind
from sim.planners.nccl_2_30.paths import Path
from sim.planners.nccl_2_30.trunks import Trunks

_BOUNDED = (Pattern.BALANCED_TREE, Pattern.TREE, Pattern.RING)
Visits = tuple[int, int]
"""The least and the most visits that a try may have left."""


class Purse:
    """The budget of visits for all tries of a graph, at least `low` and at most `high` since NCCL last looked at it."""

    def __init__(self) -> None:
        self._low = self._high = VISITS_IN_ALL
        self._spent = 0
        self._open: list[tuple[Trial, int]] = []

    def spend(self, visits: int) -> None:
        """Take the budget of one try."""
        self._spent += visits

    def give_back(self, visits: Visits, trial: Trial) -> None:
        """Put back what a try has left, which NCCL does before it looks; the trial is kept while that is not known."""
        self._low += visits[0] - self._spent
        self._high += visits[1] - self._spent
        self._spent = 0
        if visits[0] != visits[1]:
            self._open.append((replace(trial), visits[1]))

    def overdrawn(self, left_of: Callable[[Trial], int]) -> bool:
        """Whether nothing is left; asks for the visits left of tries that were not run, where that decides it."""
        while self._low < 0 <= self._high:
            trial, most = self._open.pop(0)
            left = left_of(trial)
            self._low += left
            self._high += left - most
        return self._high < 0

    @property
    def certainly_overdrawn(self) -> bool:
        """Whether nothing is left whatever the tries that were not run would have used."""
        return self._high < 0


class Shortcuts:
    """What is known about the tries of one graph's search on one ground."""

    def __init__(self, ground: Ground) -> None:
        paths, system = ground.domain.paths, ground.domain.system
        self._inter = ground.domain.inter
        self._num_gpus = ground.num_gpus
        gpus, devices = system.of_kind(NodeKind.GPU), {gpu.device for gpu in system.of_kind(NodeKind.GPU)}
        self._boundable = len(gpus) == len(devices)
        self._intra_kinds = _kinds(paths.gpu_gpu, paths.gpu_switch, paths.switch_gpu)
        self._inter_kinds = _kinds(paths.gpu_net, paths.net_gpu)
        self._exits = [_exits(row, [edge.bandwidth_bytes_per_s for edge in system.edges]) for row in paths.gpu_gpu]
        nets = system.of_kind(NodeKind.NET)
        self._ports = [
            max(other.net.bandwidth_bytes_per_s for other in map(nets.__getitem__, group) if other.net)
            for group in dict.fromkeys(ground.net_groups)
        ]
        self._rates = [edge.bandwidth_bytes_per_s for edge in system.edges]
        self._ways_in = [path for row in paths.net_gpu for path in row]
        self._ways_out = [path._replace(hops=path.hops[::-1]) for row in paths.gpu_net for path in row]
        self._cuts: dict[PathKind, tuple[list[list[float]], list[list[float]]]] = {}
        self._intra_hops = _least_hops(paths.gpu_gpu)
        self._inter_hops = _least_hops(paths.net_gpu)
        self._trunks = Trunks(ground)
        self._known: dict[tuple[object, ...], int] = {}
        self._bounds: dict[tuple[object, ...], int] = {}

    def known(self, trial: Trial) -> int | None:
        """The visits that an equal earlier try had left, None where there was none."""
        return self._known.get(self._key(trial))

    def remember(self, trial: Trial, visits: int) -> None:
        """Keep what a try had left. CollNetDirect's hop counter drifts, so no two of its tries are equal."""
        if trial.pattern == Pattern.COLLNET_DIRECT:
            return
        self._known[self._key(trial)] = visits

    def _key(self, trial: Trial) -> tuple[object, ...]:
        """What a try depends on; path kinds that no path has are equal to the next better one."""
        return (
            trial.pattern,
            trial.cross_nic,
            trial.same_channels,
            trial.intra_bytes_per_s,
            max((kind for kind in self._intra_kinds if kind <= trial.kind_intra), default=None),
            max((kind for kind in self._inter_kinds if kind <= trial.kind_inter), default=None),
        )

    def hopeless(self, trial: Trial, best: Solution) -> bool:
        """Whether no solution of this try could replace the best, by what leaves the GPUs and the NICs."""
        speed = trial.intra_bytes_per_s
        if not self._boundable or trial.pattern not in _BOUNDED or speed != trial.inter_bytes_per_s:
            return False
        most = self._most_channels(trial, speed)
        if most < trial.min_channels:
            return True
        now, then = most * speed, best.num_channels * best.intra_bytes_per_s
        if now != then:
            return now < then
        if (trial.pattern, trial.cross_nic) != (best.pattern, best.cross_nic):
            return True
        closed = trial.pattern == Pattern.RING and not self._inter
        hops = self._intra_hops * (self._num_gpus if closed else self._num_gpus - 1)
        if self._inter:
            hops += 2 * self._inter_hops
        return most * hops >= best.num_hops

    def _most_channels(self, trial: Trial, speed: float) -> int:
        """No try at this speed can have more channels; worked out once for all tries that differ in nothing else."""
        key = (trial.pattern, speed, trial.kind_intra, trial.kind_inter, trial.max_channels)
        if key not in self._bounds:
            self._bounds[key] = self._bound(trial, speed)
        return self._bounds[key]

    def _bound(self, trial: Trial, speed: float) -> int:
        most = trial.max_channels
        if self._num_gpus > 1:
            per_gpu = [
                sum(int(rate // speed) for kind, rate in exits if kind <= trial.kind_intra) for exits in self._exits
            ]
            closed = trial.pattern == Pattern.RING and not self._inter
            most = min(most, min(per_gpu) if closed else sum(per_gpu) // (self._num_gpus - 1))
        own = speed // GIGA * GIGA
        if self._inter and own:
            most = min(most, sum(int(rate // own) for rate in self._ports))
        if not self._inter:
            return most
        return self._trunks.most_channels(trial, min(most, self._most_through_nets(trial, speed)))

    def _most_through_nets(self, trial: Trial, speed: float) -> int:
        """What the links near the NICs let through: every channel enters and leaves over each of these cuts once."""
        kind = trial.kind_inter
        if kind not in self._cuts:
            self._cuts[kind] = (_cuts(self._ways_in, kind, self._rates), _cuts(self._ways_out, kind, self._rates))
        ways_in, ways_out = self._cuts[kind]
        most = min((sum(int(rate // speed) for rate in cut) for cut in ways_in), default=0)
        parts = 2 if trial.pattern == Pattern.BALANCED_TREE else 1
        leaving = (sum(int(rate // (speed / parts)) for rate in cut) // parts for cut in ways_out)
        return min(most, min(leaving, default=0))


def _kinds(*tables: Iterable[Iterable[Path]]) -> frozenset[PathKind]:
    return frozenset(path.kind for rows in tables for row in rows for path in row)


def _cuts(paths: Iterable[Path], worst: PathKind, rates: Sequence[float]) -> list[list[float]]:
    """The rates of the distinct links at each distance from the NICs that all allowed paths have."""
    allowed = [path.hops for path in paths if path.kind <= worst and path.kind != PathKind.DIS]
    shortest = min(map(len, allowed), default=0)
    return [[rates[edge] for edge in {hops[distance] for hops in allowed}] for distance in range(shortest)]


def _least_hops(rows: Iterable[Iterable[Path]]) -> int:
    return min((len(path.hops) for row in rows for path in row if path.hops), default=0)


def _exits(row: Iterable[Path], rates: list[float]) -> list[tuple[PathKind, float]]:
    """(best path kind, rate) of the links by which paths to other GPUs leave this one's device."""
    kinds: dict[int, PathKind] = {}
    for path in row:
        if len(path.hops) > 1:
            edge = path.hops[1]
            kinds[edge] = min(path.kind, kinds.get(edge, path.kind))
    return [(kind, rates[edge]) for edge, kind in kinds.items()]
