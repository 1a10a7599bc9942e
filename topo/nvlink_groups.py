"""NV# letters -> which GPUs are linked directly, which over an NVSwitch, and what generation the counts point to.

The rule. GPUs joined by NV# form groups. A group is joined by an NVSwitch where its counts cannot be direct links:

* some GPU would need more than MAX_LINKS links in all (8 GPUs of NV12: 84; no GPU has more than 18), or
* it is all GPUs of the machine and two of them would share more than MAX_LINKS_TO_ONE_PEER: a part of a larger box
  (a pair beside other GPUs is two cards with bridges, which carry up to 18 on H200 NVL), and
* each count is what a switch gives: the links of that end which has fewer. One GPU of eight with two links down is
  NV16 to all others, which are NV18 among themselves; its port has 16 lanes.

All others are direct links: 4 GPUs of NV4 need 4 x 3 = 12, which an A100 has; so do NV6 x 3 = 18 of a GH200 node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

MAX_LINKS = 18
"""Most NVLinks of one GPU: H100 and B200 (their data sheets)."""

MAX_LINKS_TO_ONE_PEER = 12
"""Most NVLinks that two GPUs which are the whole machine are taken to share without a switch: A100's and H100 NVL's."""

Counts = Mapping[tuple[str, str], int]
"""NVLinks of each pair of GPUs that shows any, each pair once."""


@dataclass(frozen=True, slots=True)
class NvlinkGroup:
    """GPUs joined by NVLink: `lanes` per GPU to one NVSwitch, or `pairs` of direct links; the other is empty.

    `compute_capability` is what the counts point to (None: nothing), `assumption` the sentence that says so, empty
    where the GPUs' products are known.
    """

    gpus: tuple[str, ...]
    pairs: tuple[tuple[str, str, int], ...]
    lanes: tuple[tuple[str, int], ...]
    compute_capability: int | None
    assumption: str


def nvlink_groups(
    gpus: Sequence[str],
    counts: Counts,
    *,
    own_cpu_memory: bool = False,
    capabilities: Mapping[str, int | None] | None = None,
) -> tuple[NvlinkGroup, ...]:
    """The groups in the order of their first GPU; GPUs without NVLinks are in none.

    `own_cpu_memory` says that two GPUs or more of one CPU are NUMA nodes of it, which only Grace-Blackwell has.
    `capabilities` are those of GPUs whose product is known.
    """
    groups = (
        _group(members, counts, is_all=len(members) == len(gpus), own_cpu_memory=own_cpu_memory)
        for members in _components(gpus, counts)
    )
    return tuple(_with_known(group, capabilities or {}) for group in groups)


def _with_known(group: NvlinkGroup, capabilities: Mapping[str, int | None]) -> NvlinkGroup:
    """The group at the capability of its GPUs' products, where one of them is known; nothing is assumed then."""
    known = [capability for gpu in group.gpus if (capability := capabilities.get(gpu)) is not None]
    return replace(group, compute_capability=min(known), assumption="") if known else group


def _components(gpus: Sequence[str], counts: Counts) -> list[tuple[str, ...]]:
    group_of = {gpu: {gpu} for gpu in gpus}
    for one, other in counts:
        merged = group_of[one] | group_of[other]
        group_of.update(dict.fromkeys(merged, merged))
    unique = {id(group): group for group in group_of.values() if len(group) > 1}
    return [tuple(gpu for gpu in gpus if gpu in group) for group in unique.values()]


def _group(members: tuple[str, ...], counts: Counts, *, is_all: bool, own_cpu_memory: bool) -> NvlinkGroup:
    inside = {pair: count for pair, count in counts.items() if pair[0] in members}
    lanes = {gpu: max(count for pair, count in inside.items() if gpu in pair) for gpu in members}
    needed = max(sum(count for pair, count in inside.items() if gpu in pair) for gpu in members)
    too_many = needed > MAX_LINKS or (is_all and max(inside.values()) > MAX_LINKS_TO_ONE_PEER)
    switched = too_many and all(count == min(lanes[one], lanes[other]) for (one, other), count in inside.items())
    capability, assumption = _generation(len(members), max(inside.values()), needed, switched, own_cpu_memory)
    return NvlinkGroup(
        gpus=members,
        pairs=() if switched else tuple((one, other, count) for (one, other), count in inside.items()),
        lanes=tuple(lanes.items()) if switched else (),
        compute_capability=capability,
        assumption=assumption,
    )


def _generation(num_gpus: int, most: int, needed: int, switched: bool, own_cpu_memory: bool) -> tuple[int | None, str]:
    """The compute capability (times ten) that the counts point to, and the sentence that tells the assumption."""
    if switched or most > MAX_LINKS_TO_ONE_PEER:
        return _switched_generation(most, own_cpu_memory)
    if num_gpus == 2:
        return {
            1: (None, "NV1 of one pair fits several generations: 25 GB/s per link is assumed"),
            2: (75, "NV2 of one pair is taken for a bridge of Turing cards (25 GB/s per link)"),
            3: (70, "NV3 of one pair is taken for V100 on POWER9, or a bridge with links down (25 GB/s per link)"),
            4: (
                86,
                "NV4 of one pair is taken for a bridge of Ampere cards such as A6000 (14 GB/s per link); A100 has 25",
            ),
            12: (80, "NV12 of one pair is taken for A100 (25 GB/s per link, as H100 has); a switch would look alike"),
        }.get(most, (None, f"NV{most} of one pair fits several generations: 25 GB/s per link is assumed"))
    if num_gpus >= 4 and needed == 4 and most == 1:
        return 60, "4 links of NV1 per GPU are taken for P100 (20 GB/s per link)"
    if needed <= 6:
        return 70, f"{needed} links per GPU are taken for V100 (25 GB/s per link)"
    if needed <= 12:
        return 80, f"{needed} links per GPU are taken for A100 (25 GB/s per link)"
    return 90, f"{needed} links per GPU are taken for Hopper (25 GB/s per link)"


def _switched_generation(most: int, own_cpu_memory: bool) -> tuple[int | None, str]:
    if most > MAX_LINKS_TO_ONE_PEER and own_cpu_memory:
        return 100, f"NV{most} with several GPUs as NUMA nodes of one CPU is Grace-Blackwell (50 GB/s per link)"
    if most > MAX_LINKS_TO_ONE_PEER:
        return 90, f"NV{most} fits Hopper (25 GB/s per link) and Blackwell (50): Hopper is assumed"
    if most > 6:
        return 80, f"NV{most} over an NVSwitch is taken for A100 (25 GB/s per link)"
    return 70, f"NV{most} over an NVSwitch is taken for V100 (25 GB/s per link)"
