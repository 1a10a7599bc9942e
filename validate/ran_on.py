"""Where a measurement says it ran, beside the machine that it is held against: other GPUs, another number of hosts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from topo.gpu_models import gpu_model
from topo.topology import Topology
from topo.words import counted
from validate.compare import Difference
from validate.measurement_set import RanOn
from validate.words import listed

if TYPE_CHECKING:
    from topo.cluster import Cluster
    from validate.measurement_set import MeasurementSet

_MEMORY = re.compile(r" \d+GB$")


def ran_on(found: MeasurementSet) -> RanOn:
    """Where the run was, as its file says it: by itself, else by its topology, else by the state of its GPUs."""
    if found.ran_on is not None:
        return found.ran_on
    if found.topology is not None and found.topology.of_kind("gpu"):
        return _of_machine(found.topology)
    return RanOn(tuple(dict.fromkeys(state.name for state in found.gpus if state.name)))


def strangers(found: MeasurementSet, machine: Topology | Cluster) -> list[str]:
    """What a user must know where the run's machine is not the one that is predicted; empty where it may be."""
    run, here = ran_on(found), _of_machine(machine)
    other = [name for name in run.gpus if all(_differs(name, own) for own in here.gpus)] if here.gpus else []
    has_moved = None not in (run.num_hosts, here.num_hosts) and run.num_hosts != here.num_hosts
    if not (other or has_moved):
        return []
    sides = [[listed(other), listed(here.gpus)]] if other else []
    sides += [[counted(run.num_hosts or 0, "host"), counted(here.num_hosts or 0, "host")]] if has_moved else []
    was, now = (" and ".join(words) for words in zip(*sides, strict=True))
    what = f"{found.name} was measured on {was}, {machine.name} has {now}"
    if not has_moved and all(any(_is_alike(name, own) for own in here.gpus) for name in other):
        return [f"{what}: of one generation with as many links, so that they are predicted alike"]
    advice = "; other hosts by --nodes and --gpus" if has_moved else ""
    return [
        f"{what}: another machine is predicted than was measured, so errors, verdicts and suspects tell how the two "
        f"differ, and nothing of the run{advice}"
    ]


def moved(before: MeasurementSet, after: MeasurementSet) -> tuple[Difference, ...]:
    """What differs between two runs' machines; what a side says nothing of is not compared."""
    was, now = ran_on(before), ran_on(after)
    found = []
    if was.gpus and now.gpus and _kinds(was.gpus) != _kinds(now.gpus):
        found.append(Difference("GPU", listed(was.gpus), listed(now.gpus)))
    if was.num_hosts and now.num_hosts and was.num_hosts != now.num_hosts:
        found.append(Difference("number of hosts", str(was.num_hosts), str(now.num_hosts)))
    return tuple(found)


def _of_machine(machine: Topology | Cluster) -> RanOn:
    """The GPUs that take part, by model or else by what CUDA calls their generation, and their hosts."""
    node, count = (machine, 1) if isinstance(machine, Topology) else (machine.node, machine.count)
    gpus = [node.device(gpu_id) for gpu_id in node.gpu_ids]
    names = [
        gpu.model or (f"sm{gpu.gpu.compute_capability}" if gpu.gpu and gpu.gpu.compute_capability else None)
        for gpu in gpus
    ]
    known = () if None in names else tuple(dict.fromkeys(name for name in names if name))
    return RanOn(known, len({gpu.host for gpu in gpus}) * count)


def _kinds(names: Sequence[str]) -> set[str]:
    return {_kind(name) for name in names}


def _kind(name: str) -> str:
    """The product that a name is of, whatever memory it has: nothing that is predicted here depends on that."""
    model = gpu_model(name)
    return _MEMORY.sub("", model.name) if model else name


def _differs(one: str, other: str) -> bool:
    """Whether two names are known to be of different products; a generation (sm90) is one of many."""
    capabilities = [_capability(name) for name in (one, other)]
    if None in capabilities:
        return False
    if any(name.startswith("sm") for name in (one, other)):
        return capabilities[0] != capabilities[1]
    return _kind(one) != _kind(other)


def _is_alike(one: str, other: str) -> bool:
    """Whether two products have in common what times are predicted from: generation, links and PCIe."""
    models = [gpu_model(name) for name in (one, other)]
    facts = [(row.compute_capability, row.nvlink_links, row.pcie_generation) for row in models if row]
    return len(facts) == len(models) and facts[0] == facts[1]


def _capability(name: str) -> str | None:
    """CUDA's generation of a GPU as `sm90`, of AMD's the product; None for a name that nobody knows."""
    if re.fullmatch(r"sm\d+", name):
        return name
    model = gpu_model(name)
    if model is None:
        return None
    return model.name if model.compute_capability is None else f"sm{model.compute_capability}"
