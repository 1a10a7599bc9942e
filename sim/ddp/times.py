"""How long each layer's forward and backward take: from operations and a GPU's rate, or as measured."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sim.ddp.model import BACKWARD_PER_FORWARD
from topo.errors import CaptureError, NameChoiceError, UnitError
from topo.words import counted

if TYPE_CHECKING:
    from sim.ddp.model import Model
    from topo.cluster import Cluster
    from topo.gpu_rates import GpuRate
    from topo.topology import Topology

SCHEMA = "layer-times/1"
ASSUMED_GPU = "A100 SXM4 80GB"
"""What computes where a machine does not say what GPUs it has."""


@dataclass(frozen=True, slots=True)
class LayerTime:
    """One layer's seconds in one pass over one batch."""

    name: str
    forward_s: float
    backward_s: float

    def __post_init__(self) -> None:
        for what, value in (("forward_s", self.forward_s), ("backward_s", self.backward_s)):
            if not 0 <= value < math.inf:
                raise UnitError(f"layer {self.name} has {what} {value}: a finite number of seconds from 0 on is needed")

    def times(self, factor: float) -> LayerTime:
        """The same layer, so many times slower."""
        return LayerTime(self.name, self.forward_s * factor, self.backward_s * factor)


@dataclass(frozen=True, slots=True)
class TimesFile:
    """A `layer-times/1` document: measured seconds per layer, in any order."""

    layers: tuple[LayerTime, ...]


@dataclass(frozen=True, slots=True)
class Compute:
    """A GPU's dense peak, the share of it that a model reaches, and its memory's rate (None: copies cost nothing).

    `assumed` says that the machine did not name its GPU.
    """

    peak_flops_per_s: float
    mfu: float
    gpu: str
    precision: str
    memory_bytes_per_s: float | None = None
    assumed: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.peak_flops_per_s < math.inf:
            raise UnitError(f"--gpu-flops {self.peak_flops_per_s}: more than 0 operations per second are needed")
        if not 0 < self.mfu <= 1:
            raise UnitError(f"--mfu {self.mfu:g}: the share of the peak must be above 0 and at most 1")

    @property
    def flops_per_s(self) -> float:
        """Operations per second that the model gets."""
        return self.peak_flops_per_s * self.mfu


def gpu_of(machine: Topology | Cluster) -> tuple[GpuRate, bool]:
    """The slowest GPU that takes part, by the peaks of its product, and whether that had to be assumed.

    A product is known by its name, else by its compute capability; a machine that tells neither gets ASSUMED_GPU.
    """
    from topo.gpu_rates import gpu_rate, gpu_rate_by_capability
    from topo.topology import Topology

    node = machine if isinstance(machine, Topology) else machine.node
    found: list[GpuRate] = []
    assumed = False
    for device in map(node.device, node.gpu_ids):
        rate = gpu_rate(device.model) if device.model else None
        capability = device.gpu.compute_capability if device.gpu else None
        if rate is None:
            assumed = True
            rate = gpu_rate_by_capability(capability) if capability else None
        if rate is not None:
            found.append(rate)
    if not found:
        rate = gpu_rate(ASSUMED_GPU)
        assert rate is not None, "the table has it"
        return rate, True
    return min(found, key=lambda row: row.peak_flops_per_s("bf16")), assumed


def by_rate(model: Model, compute: Compute, batch: int) -> tuple[LayerTime, ...]:
    """Every layer's times from its operations; backward takes twice what forward does."""
    if batch < 1:
        raise UnitError(f"--batch {batch}: at least one sample is needed")
    forward_s = [model.forward_flops(layer) * batch / compute.flops_per_s for layer in model.layers]
    return tuple(
        LayerTime(layer.name, seconds, BACKWARD_PER_FORWARD * seconds)
        for layer, seconds in zip(model.layers, forward_s, strict=True)
    )


def read_times(path: Path, model: Model) -> tuple[LayerTime, ...]:
    """The times of a `layer-times/1` file in the model's order; CaptureError where a layer is missing or not known."""
    from topo.jsonio import decode
    from topo.textfile import read_file

    found = decode(read_file(path), TimesFile, SCHEMA, str(path))
    by_name = {row.name: row for row in found.layers}
    names = [layer.name for layer in model.layers]
    if len(by_name) < len(found.layers):
        raise CaptureError("a layer is named twice: give each layer's times once", source=str(path))
    try:
        for name in by_name:
            if name not in names:
                raise NameChoiceError(f"layer of {model.name}", name, names)
    except NameChoiceError as error:
        raise CaptureError(str(error), source=str(path)) from None
    missing = [layer.name for layer in model.layers if layer.parameters and layer.name not in by_name]
    if missing:
        raise CaptureError(
            f"no times are given for {len(missing)} of {counted(len(names), 'layer')} of {model.name}, the first is "
            f"{missing[0]}: give forward_s and backward_s of each",
            source=str(path),
        )
    return tuple(by_name.get(name, LayerTime(name, 0.0, 0.0)) for name in names)


def scaled(times: Sequence[LayerTime], forward_s: float | None, backward_s: float | None) -> tuple[LayerTime, ...]:
    """The same layers' times with these totals, where they are given; equal shares where all were 0."""
    totals = {"forward_s": forward_s, "backward_s": backward_s}
    columns = {}
    for name, wanted_s in totals.items():
        column = [float(getattr(row, name)) for row in times]
        if wanted_s is not None:
            whole_s = sum(column)
            column = [wanted_s * (value / whole_s if whole_s else 1 / len(column)) for value in column]
        columns[name] = column
    rows = zip(times, columns["forward_s"], columns["backward_s"], strict=True)
    return tuple(LayerTime(row.name, forward, backward) for row, forward, backward in rows)


def parse_flops(text: str) -> float:
    """Operations per second of `312T`, `312TFLOPS`, `0.99P` or `3.12e14`; UnitError for anything else."""
    match = re.fullmatch(r"([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]{1,2})?)\s*([GTP]?)(?:FLOPS?|FLOP/s)?", text.strip())
    if match is None or not float(match[1]):
        raise UnitError(f"cannot read {text!r} as operations per second: expected such as 312T, 989TFLOPS or 3.12e14")
    return float(match[1]) * {"": 1.0, "G": 1e9, "T": 1e12, "P": 1e15}[match[2]]
