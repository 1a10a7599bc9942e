"""NICs: how far they are from the GPUs, and whether GPUs are left without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from topo.case import Case, say
from topo.finding import Finding

if TYPE_CHECKING:
    from topo.topology import Device

NIC_SIDE = "nic-side"
NIC_DISTANCE = "nic-distance"

FEWEST_TO_SHARE = 4
"""With fewer NICs some GPUs have none of their own wherever they sit."""

_AT_SWITCH = ("PIX", "PXB")


def one_side(case: Case) -> Iterator[Finding]:
    """Many NICs, all of them on one side of the machine: GPUs of the other side reach none but across sockets."""
    nics = _nics(case)
    lonely = [gpu for gpu in case.gpus if nics and all(case.letters[gpu.id, nic.id] == "SYS" for nic in nics)]
    if not lonely or len(lonely) == len(case.gpus):
        return
    near = next(gpu for gpu in case.gpus if gpu not in lonely)
    names = ", ".join(gpu.name for gpu in lonely)
    enough = len(nics) >= FEWEST_TO_SHARE and 2 * len(nics) >= len(case.gpus)
    sentence = (
        f"{names}: every one of the {len(nics)} NICs is across sockets (SYS), while {near.name} has one on its own"
    )
    quotes, subjects = (case.quote(lonely[0]), case.quote(near)), tuple(gpu.id for gpu in lonely)
    yield say(NIC_SIDE, "finding" if enough else "note", sentence, *quotes, subjects=subjects)


def distance(case: Case) -> Iterator[Finding]:
    """GPUs whose nearest NIC is behind a processor, where others have one behind a switch."""
    nics = _nics(case)
    best = {gpu.id: {case.letters[gpu.id, nic.id] for nic in nics} for gpu in case.gpus}
    near = [gpu for gpu in case.gpus if best[gpu.id] & set(_AT_SWITCH)]
    far = [gpu for gpu in case.gpus if gpu not in near]
    if near and far:
        names = ", ".join(gpu.name for gpu in far)
        sentence = f"{names}: no NIC below the same PCIe switch, as {near[0].name} has one"
        subjects = tuple(gpu.id for gpu in far)
        yield say(NIC_DISTANCE, "note", sentence, case.quote(far[0]), case.quote(near[0]), subjects=subjects)


def _nics(case: Case) -> list[Device]:
    """The NICs whose way to every GPU is shown."""
    nics = case.topology.of_kind("nic") if case.topology else ()
    return [nic for nic in nics if case.gpus and all(case.letters[gpu.id, nic.id] for gpu in case.gpus)]


def has_nics(case: Case) -> bool:
    """Whether the topology shows NICs beside GPUs."""
    return bool(_nics(case))
