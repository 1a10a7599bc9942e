"""The graph search: which speeds, path kinds and patterns are tried, and in which order (src/graph/search.cc)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sim.planners.nccl_2_30 import facts
from sim.planners.nccl_2_30.attempt import PERFECT, Attempt
from sim.planners.nccl_2_30.graphs import Graph, GraphChannel, Pattern, Request, Solution, Trial
from sim.planners.nccl_2_30.ground import Ground
from sim.planners.nccl_2_30.kinds import GIGA, NodeKind, PathKind
from sim.planners.nccl_2_30.options import NcclOptions
from sim.planners.nccl_2_30.paths import Path
from sim.planners.nccl_2_30.shortcuts import Purse, Shortcuts, Visits

SLOWER_IS_NO_USE = 0.49
"""A slower speed is tried only while it is more than this share of the best found."""
NO_DUPLICATE_BELOW = 25 * GIGA
NO_DUPLICATE_BELOW_SM90 = 50 * GIGA


def search_graph(ground: Ground, request: Request, options: NcclOptions) -> Graph:
    """The graph that NCCL finds for a request; without any solution NCCL's one slow channel, or no channels."""
    solution = _Search(ground, request, options).solve()
    if not solution.num_channels and not request.collnet and request.pattern != Pattern.NVLS:
        solution = _fallback(ground, solution)
    return _named(ground, solution)


class _Search:
    """One graph's search. The steps keep NCCL's order, since each starts from what the one before left."""

    def __init__(self, ground: Ground, request: Request, options: NcclOptions) -> None:
        domain = ground.domain
        system = domain.system
        self._request = request
        self._ground = ground
        self._shortcuts = Shortcuts(ground)
        self._inter = domain.inter
        self._total = domain.total_bytes_per_s
        self._sm = system.min_compute_capability
        self._amd = system.arch == "x86_64" and system.vendor == "AuthenticAMD"
        crossable = request.pattern in (Pattern.RING, Pattern.BALANCED_TREE)
        several = len(system.of_kind(NodeKind.NET)) > 1
        self._cross_nic = options.cross_nic if several and crossable else 0
        single = ground.num_gpus == 1
        pattern = Pattern.TREE if single and request.pattern != Pattern.RING else request.pattern
        self._speeds = _since(facts.INTER_SPEEDS if self._inter else facts.INTRA_SPEEDS, self._sm)
        self._best_intra, self._worst_intra = _kind_range(
            path for row, paths in enumerate(domain.paths.gpu_gpu) for column, path in enumerate(paths) if row != column
        )
        if single:
            self._best_intra, self._worst_intra = PathKind.LOC, PathKind.SYS
        self._best_inter, self._worst_inter = _kind_range(path for row in domain.paths.gpu_net for path in row)
        if not self._inter:
            self._best_inter = PathKind.PIX
        if self._sm < 90:
            self._worst_inter = PathKind.SYS
        self._index = self._first_speed(domain.max_bytes_per_s, len(system.of_kind(NodeKind.DEVICE)))
        self._same_start = pattern != Pattern.NVLS
        speed = self._speeds[self._index]
        self._trial = Trial(
            pattern=pattern,
            cross_nic=1 if self._cross_nic == 1 else 0,
            kind_intra=self._best_intra,
            kind_inter=self._best_inter,
            same_channels=self._same_start,
            intra_bytes_per_s=speed,
            inter_bytes_per_s=speed,
            min_channels=request.min_channels,
            max_channels=request.max_channels,
        )
        nothing = Solution(
            pattern=pattern,
            cross_nic=self._trial.cross_nic,
            kind_intra=self._best_intra,
            kind_inter=self._best_inter,
            same_channels=self._same_start,
            intra_bytes_per_s=0.0,
            inter_bytes_per_s=0.0,
            num_hops=0,
            latency_inter_s=0.0,
            orders=(),
            nets=(),
        )
        self._attempt = Attempt(ground, self._trial, nothing, collnet=request.collnet)

    def _first_speed(self, max_bytes_per_s: float, num_devices: int) -> int:
        total = self._total
        if num_devices > 1 and self._request.pattern != Pattern.RING:
            total *= num_devices / (num_devices - 1)
        for index, speed in enumerate(self._speeds):
            if speed <= max_bytes_per_s and speed * self._request.min_channels <= total:
                return index
        return len(self._speeds) - 1

    def solve(self) -> Solution:
        """Both passes and the duplication between them."""
        self._first_pass()
        self._duplicate()
        self._second_pass()
        return self._attempt.best

    def _first_pass(self) -> None:
        """Relax one thing at a time until a solution is good enough or nothing is left to relax."""
        purse, trial = Purse(), self._trial
        while True:
            budget = _budget(trial)
            left = self._known_visits()
            if left is None:
                if self._attempt.best.num_channels and purse.overdrawn(self._visits_left):
                    return
                visits = self._attempt.run(budget)
                if visits == PERFECT:
                    return
                left = (visits, visits)
                self._shortcuts.remember(trial, visits)
            if self._saturated():
                return
            purse.spend(budget)
            if trial.same_channels and not (self._amd and trial.kind_intra == PathKind.SYS):
                trial.same_channels = False
                continue
            purse.give_back(left, trial)
            trial.same_channels = self._same_start
            if purse.certainly_overdrawn and self._attempt.best.num_channels:
                return
            if not self._relax():
                return

    def _known_visits(self) -> Visits | None:
        """The visits that the present trial has left where it need not be run, else None."""
        known = self._shortcuts.known(self._trial)
        if known is not None:
            return known, known
        return (0, _budget(self._trial)) if self._shortcuts.hopeless(self._trial, self._attempt.best) else None

    def _visits_left(self, trial: Trial) -> int:
        """The visits that a trial has left which cannot change the best: run aside, unless an equal one was."""
        known = self._shortcuts.known(trial)
        if known is None:
            aside = Attempt(self._ground, trial, self._attempt.best, collnet=self._request.collnet)
            known = aside.run(_budget(trial))
            self._shortcuts.remember(trial, known)
        return known

    def _saturated(self) -> bool:
        best = self._attempt.best
        return best.num_channels * best.inter_bytes_per_s >= self._total

    def _relax(self) -> bool:
        """Change the first thing that may be changed, set back what was changed before it; False at the end."""
        trial, best = self._trial, self._attempt.best
        found = best.num_channels > 0
        if self._sm >= 90 and trial.pattern == Pattern.BALANCED_TREE:
            trial.pattern = Pattern.TREE
            return True
        trial.pattern = best.pattern
        worst_intra = trial.kind_inter if self._inter else self._worst_intra
        if trial.kind_intra < worst_intra and (not found or trial.kind_intra < best.kind_intra):
            trial.kind_intra = PathKind(trial.kind_intra + 1)
            return True
        trial.kind_intra = self._best_intra
        useful = not found or trial.kind_inter < max(best.kind_inter, PathKind.PXN)
        if self._inter and trial.kind_inter < self._worst_inter and useful:
            trial.kind_inter = PathKind(trial.kind_inter + 1)
            return True
        trial.kind_inter = self._best_inter
        if self._cross_nic == 2 and trial.cross_nic == 0 and best.pattern in (Pattern.RING, Pattern.BALANCED_TREE):
            trial.cross_nic = 2
            return True
        trial.cross_nic = 1 if self._cross_nic == 1 else 0
        return self._slow_down()

    def _slow_down(self) -> bool:
        best, following = self._attempt.best, self._index + 1
        if following == len(self._speeds):
            return False
        speed = self._speeds[following]
        if best.num_channels and speed / best.inter_bytes_per_s <= SLOWER_IS_NO_USE:
            return False
        self._index = following
        self._trial.intra_bytes_per_s = self._trial.inter_bytes_per_s = speed
        return True

    def _duplicate(self) -> None:
        """Run every channel twice at half the speed where a channel is fast enough for that."""
        best, limit = self._attempt.best, self._request.max_channels
        num = best.num_channels
        fast = best.intra_bytes_per_s >= NO_DUPLICATE_BELOW
        crowded = self._sm > 80 and best.intra_bytes_per_s < NO_DUPLICATE_BELOW_SM90 and num > 4
        if not num or best.pattern == Pattern.NVLS or not fast or crowded:
            return
        wanted = min(2 * num, limit)
        times = -(-wanted // num)
        self._attempt.best = replace(
            best,
            orders=best.orders + best.orders[: wanted - num],
            nets=best.nets + best.nets[: wanted - num],
            intra_bytes_per_s=best.intra_bytes_per_s / times,
            inter_bytes_per_s=best.inter_bytes_per_s / times,
        )

    def _second_pass(self) -> None:
        """Keep the number of channels and look for more speed."""
        trial, best = self._trial, self._attempt.best
        trial.pattern, trial.cross_nic = best.pattern, best.cross_nic
        trial.kind_intra, trial.kind_inter = best.kind_intra, best.kind_inter
        trial.same_channels = best.same_channels
        trial.latency_inter_s = best.latency_inter_s
        self._attempt.ledger.num_hops = best.num_hops
        trial.min_channels = best.num_channels
        self._index = next(
            (index for index, speed in enumerate(self._speeds) if speed <= best.inter_bytes_per_s),
            len(self._speeds) - 1,
        )
        trial.intra_bytes_per_s = trial.inter_bytes_per_s = self._speeds[self._index]
        left = PERFECT
        while left != 0 and self._index > 0 and self._speed_up():
            if best.pattern == Pattern.RING and self._shortcuts.hopeless(trial, self._attempt.best):
                return
            left = self._attempt.run(_budget(trial))

    def _speed_up(self) -> bool:
        """Raise what may be raised for the pattern of the best solution; False where nothing may."""
        trial, best = self._trial, self._attempt.best
        faster = self._speeds[self._index - 1]
        intra, inter = trial.intra_bytes_per_s, trial.inter_bytes_per_s
        if best.pattern == Pattern.RING:
            trial.intra_bytes_per_s = trial.inter_bytes_per_s = faster
        elif best.pattern == Pattern.NVLS and inter == best.inter_bytes_per_s and inter < 2 * intra:
            trial.min_channels = trial.max_channels = best.num_channels
            trial.inter_bytes_per_s = faster
        elif intra == best.intra_bytes_per_s and intra < 2 * inter:
            trial.intra_bytes_per_s = faster
        else:
            return False
        self._index -= 1
        return True


def _budget(trial: Trial) -> int:
    return facts.VISITS_SAME_CHANNELS if trial.same_channels else facts.VISITS


def _since(table: Iterable[tuple[int, tuple[float, ...]]], compute_capability: int) -> tuple[float, ...]:
    return next(speeds for since, speeds in table if compute_capability >= since)


def _kind_range(paths: Iterable[Path]) -> tuple[PathKind, PathKind]:
    """The best and the worst kind of these paths."""
    kinds = {path.kind for path in paths} or {PathKind.DIS}
    return min(kinds), max(kinds)


def _fallback(ground: Ground, nothing: Solution) -> Solution:
    """NCCL's last resort: one channel in GPU order at 0.1 GB/s."""
    last = ground.num_gpus - 1
    has_nets = bool(ground.domain.system.of_kind(NodeKind.NET))
    slow = 0.1 * GIGA
    nets = tuple(ground.select_nets(gpu, None)[0] for gpu in (0, last)) if has_nets else (-1, -1)
    return replace(
        nothing,
        intra_bytes_per_s=slow,
        kind_intra=PathKind.SYS,
        inter_bytes_per_s=slow if has_nets else 0.0,
        kind_inter=PathKind.SYS if has_nets else PathKind.DIS,
        orders=(tuple(range(ground.num_gpus)),),
        nets=(nets if ground.domain.inter else (),),
    )


def _named(ground: Ground, solution: Solution) -> Graph:
    """The solution with ranks and NIC ids in place of indices."""
    system = ground.domain.system
    gpus, nets = system.of_kind(NodeKind.GPU), system.of_kind(NodeKind.NET)
    return Graph(
        pattern=solution.pattern,
        cross_nic=solution.cross_nic,
        kind_intra=solution.kind_intra,
        kind_inter=solution.kind_inter,
        same_channels=solution.same_channels,
        intra_bytes_per_s=solution.intra_bytes_per_s,
        inter_bytes_per_s=solution.inter_bytes_per_s,
        latency_inter_s=solution.latency_inter_s,
        num_hops=solution.num_hops,
        channels=tuple(
            GraphChannel(
                ranks=tuple(gpus[gpu].rank for gpu in order),
                nets=tuple(nets[net].net_id if net >= 0 else -1 for net in ends),
            )
            for order, ends in zip(solution.orders, solution.nets, strict=True)
        ),
    )
