"""How many channels fit through the one link by which each GPU leaves to everything, for trees that join domains.

In such a tree the first GPU of a channel (in a balanced one the first two) feeds the NIC besides the next GPU, and the
last feeds nobody. Where a GPU has a single way out for both, as on PCIe, that leaves fewer channels than the sum of all
links would let through.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sim.planners.nccl_2_30.graphs import Pattern, Trial
from sim.planners.nccl_2_30.ground import Ground, Route
from sim.planners.nccl_2_30.kinds import RESOLUTION_BYTES_PER_S, PathKind

HEADS = {Pattern.BALANCED_TREE: 2, Pattern.TREE: 1}
"""How many GPUs of a channel feed the NIC; together they feed it once."""
MOST_STEPS = 20_000
"""Counts of channels that would take longer to rule out than this many additions are not ruled out."""


@dataclass(frozen=True, slots=True)
class Trunk:
    """A link that all ways out of a GPU cross, its rate, and the least that a way to a GPU and to a NIC charges it."""

    bytes_per_s: float
    share_to_gpu: float
    share_to_net: float


class Trunks:
    """The trunks of all GPUs of a ground, by the kinds of path that a try allows."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._rates = [edge.bandwidth_bytes_per_s for edge in ground.domain.system.edges]
        self._found: dict[tuple[PathKind, PathKind], tuple[Trunk, ...]] = {}

    def most_channels(self, trial: Trial, most: int) -> int:
        """No try like this has more channels than that; `most` where the trunks bind no closer."""
        heads, num_gpus = HEADS.get(trial.pattern, 0), self._ground.num_gpus
        if not heads or num_gpus <= heads:
            return most
        trunks = self._of(trial.kind_intra, trial.kind_inter)
        while trunks and most and num_gpus * heads * most * most <= MOST_STEPS and not fit(trunks, trial, most):
            most -= 1
        return most

    def _of(self, kind_intra: PathKind, kind_inter: PathKind) -> tuple[Trunk, ...]:
        """One trunk per GPU; none at all where a GPU has several ways out."""
        key = kind_intra, kind_inter
        if key not in self._found:
            found = [self._trunk(gpu, *key) for gpu in range(self._ground.num_gpus)]
            self._found[key] = tuple(trunk for trunk in found if trunk) if all(found) else ()
        return self._found[key]

    def _trunk(self, gpu: int, kind_intra: PathKind, kind_inter: PathKind) -> Trunk | None:
        row = self._ground.gpu_gpu[gpu]
        to_gpus = _charges(row[:gpu] + row[gpu + 1 :], kind_intra)
        to_nets = _charges(self._ground.gpu_net[gpu], kind_inter)
        both = [*to_gpus, *to_nets]
        if not to_gpus or not to_nets:
            return None
        common = [edge for edge in both[0] if all(edge in charges for charges in both)]
        if not common:
            return None
        edge = min(common, key=self._rates.__getitem__)
        return Trunk(
            self._rates[edge],
            min(charges[edge] for charges in to_gpus),
            min(charges[edge] for charges in to_nets),
        )


def _charges(routes: Iterable[Route | None], worst: PathKind) -> list[dict[int, float]]:
    """What each allowed route charges which edge."""
    return [dict(route.charges) for route in routes if route is not None and route.kind <= worst]


def fit(trunks: Iterable[Trunk], trial: Trial, num_channels: int) -> bool:
    """Whether so many channels can share out their first, inner and last places without overloading a trunk.

    `fewest_last[h]` is in how many places of all channels the GPUs looked at so far must be the last one at least, if
    they are a head in h: the less a trunk has, the more often its GPU has to be last.
    """
    heads = HEADS[trial.pattern]
    wanted = heads * num_channels
    impossible = num_channels + 1
    fewest_last = [0] + [impossible] * wanted
    for trunk in trunks:
        own = _last_by_head(trunk, trial, num_channels, heads)
        fewest_last = [
            min(
                (fewest_last[total - head] + last for head, last in enumerate(own) if head <= total), default=impossible
            )
            for total in range(wanted + 1)
        ]
    return fewest_last[wanted] <= num_channels


def _last_by_head(trunk: Trunk, trial: Trial, num_channels: int, heads: int) -> list[int]:
    """How often a GPU has to be last if it is a head in 0, 1, 2, ... channels, up to what its trunk carries."""
    onward = trial.intra_bytes_per_s * trunk.share_to_gpu
    head = onward + trial.inter_bytes_per_s / heads * trunk.share_to_net
    carried = trunk.bytes_per_s + RESOLUTION_BYTES_PER_S * 2 * num_channels
    found = []
    for times in range(num_channels + 1):
        left = carried - times * head
        if left < 0:
            break
        found.append(max(0, num_channels - times - int(left // onward)))
    return found
