"""What NVLink is worth to a training step: the same machine without it, and when that would be fast enough."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sim.ddp.step import predict_step
from sim.workload import ELEMENT_BYTES
from topo.errors import TopologyError
from topo.topology import Topology

if TYPE_CHECKING:
    from sim.ddp.schedules import Cost, Step
    from sim.ddp.step import StepPrediction
    from topo.cluster import Cluster

GOOD_EFFICIENCY = 0.95
"""From here on communication is called hidden."""

SMALLEST_BYTES, LARGEST_BYTES = 2**16, 2**36
MOST_FACTOR = 2.0**20
BETWEEN_GPUS = ("nvlink", "xgmi")


def without_nvlinks(machine: Topology | Cluster) -> Topology | Cluster:
    """The machine with its NVLinks, xGMI links and NVSwitches taken out, everything else as it is.

    TopologyError where it has none, or where its GPUs cannot reach each other without them.
    """
    if not isinstance(machine, Topology):
        return replace(machine, node=_bare(machine.node))
    return _bare(machine)


def _bare(node: Topology) -> Topology:
    switches = {device.id for device in node.devices if device.kind == "nvswitch"}
    links = tuple(
        link
        for link in node.links
        if link.kind not in BETWEEN_GPUS and link.src not in switches and link.dst not in switches
    )
    if len(links) == len(node.links):
        raise TopologyError(f"{node.name} has no NVLink to take out: leave --without-nvlink away")
    devices = tuple(device for device in node.devices if device.id not in switches)
    try:
        return replace(node, devices=devices, links=links, name=f"{node.name} without NVLink", nccl=None)
    except TopologyError as error:
        raise TopologyError(f"{node.name} cannot do without NVLink: {error}") from None


@dataclass(frozen=True, slots=True)
class BreakEven:
    """When communication stops to matter.

    `hidden_bytes` is the all-reduce that takes as long as one backward pass: about so many bytes of gradients it can
    hide; None where even 64 GiB take less. `compute_factor` is how many times longer forward and backward must take
    (by a larger batch, for example) for an efficiency of GOOD_EFFICIENCY; None where no factor is enough.
    """

    hidden_bytes: int | None
    compute_factor: float | None


def break_even(step: Step, found: StepPrediction) -> BreakEven:
    """The break-even points of a step under the way and the buckets of its prediction."""
    return BreakEven(hidden_bytes(step.cost, step.backward_s), compute_factor(step, found))


def hidden_bytes(cost: Cost, seconds: float) -> int | None:
    """Bytes (float32) whose all-reduce takes so long, between powers of two by a straight line; 0 for too few."""
    width = ELEMENT_BYTES["float32"]
    below_bytes, below_s = 0, 0.0
    num_bytes = SMALLEST_BYTES
    while num_bytes <= LARGEST_BYTES:
        taken_s = cost("all_reduce", num_bytes // width, "float32")
        if taken_s > seconds:
            share = max(0.0, seconds - below_s) / (taken_s - below_s) if below_bytes else 0.0
            return round(below_bytes + share * (num_bytes - below_bytes))
        below_bytes, below_s, num_bytes = num_bytes, taken_s, 2 * num_bytes
    return None


def compute_factor(step: Step, found: StepPrediction) -> float | None:
    """By what forward and backward must be multiplied for the good efficiency; at most 1 where it is reached."""

    def is_good(factor: float) -> bool:
        longer = replace(step, times=tuple(row.times(factor) for row in step.times))
        return (
            predict_step(longer, found.caps, way=found.schedule, algorithm=found.algorithm).efficiency
            >= GOOD_EFFICIENCY
        )

    low, high = 1 / MOST_FACTOR, MOST_FACTOR
    if not step.forward_s + step.backward_s or not is_good(high):
        return None
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if is_good(middle) else (middle, high)
    return high
