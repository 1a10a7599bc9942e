"""NICs and processors of a topology with what /sys and NCCL's log say of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

from topo import catalog
from topo.matrix_notes import CPU_RATES
from topo.merging.draft import Draft
from topo.topology import CpuFacts, Device, NicFacts

if TYPE_CHECKING:
    from topo.captures import Captures


def set_nics(draft: Draft, captures: Captures) -> None:
    """Rates and addresses of NICs that /sys knows by the same name, where the topology lacks them."""
    known = {
        device.name: device
        for output in captures.of("sysfs")
        for device in output.facts.of_kind("nic")
        if device.nic is not None
    }
    for nic in draft.devices("nic"):
        facts = nic.nic or NicFacts()
        found = known.get(facts.os_name or nic.name)
        if found is None or found.nic is None:
            continue
        rate = facts.bandwidth_bytes_per_s or found.nic.bandwidth_bytes_per_s
        numa_node = found.numa_node if nic.numa_node is None else nic.numa_node
        draft.put(
            replace(nic, pci=nic.pci or found.pci, numa_node=numa_node, nic=replace(facts, bandwidth_bytes_per_s=rate))
        )


def set_processors(draft: Draft, captures: Captures) -> None:
    """What processors are, and their links' rates with it, where only /sys tells."""
    known = {cpu.numa_node: cpu for output in captures.of("sysfs") for cpu in output.facts.of_kind("cpu")}
    told: set[str] = set()
    for cpu in draft.devices("cpu"):
        found = known.get(cpu.numa_node)
        if cpu.vendor is None and found is not None and found.vendor is not None:
            said = found.cpu or CpuFacts()
            affinity = (cpu.cpu.affinity if cpu.cpu else None) or said.affinity
            facts = replace(said, affinity=affinity)
            draft.put(replace(cpu, vendor=found.vendor, model=cpu.model or found.model, cpu=facts))
            told.add(cpu.id)
    for one, other in permutations(sorted(told), 2):
        link = draft.link(one, other, "cpu")
        if link is not None:
            draft.set_rate(link, _between(draft.device(one)), link.lanes)
    if told and told == {cpu.id for cpu in draft.devices("cpu")}:
        draft.drop_notes(CPU_RATES)


def _between(cpu: Device) -> float:
    facts = cpu.cpu or CpuFacts()
    return catalog.cpu_link_bytes_per_s(cpu.vendor, facts.family, facts.model)
