"""From what a user says of a model and its layers to a request: texts are read and checked here, once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sim.ddp.models import load_model
from sim.ddp.schedules import SCHEDULES
from sim.ddp.study import Request, caps_of
from sim.ddp.times import Compute, LayerTime, by_rate, gpu_of, parse_flops, read_times, scaled
from sim.workload import Workload
from topo.units import parse_duration

if TYPE_CHECKING:
    from sim.ddp.model import Model
    from sim.predict import Simulator
    from topo.cluster import Cluster
    from topo.topology import Topology

ALL = "all"

A_BUCKET_BYTES = 1 << 20
"""A size for which to ask what can run: none of the algorithms hangs on it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a user says; None leaves it to the model or the machine."""

    model: str
    caps: str = "25"
    first_bucket_cap_mb: float = 1.0
    find_unused_parameters: bool = False
    gradient_as_bucket_view: bool = False
    compress: str | None = None
    batch: int | None = None
    dtype: str | None = None
    layer_times: Path | None = None
    forward: str | None = None
    backward: str | None = None
    ways: str = "ddp"
    algorithm: str = "auto"
    accumulate: int = 1
    gpu_flops: str | None = None
    precision: str = "bf16"
    mfu: float | None = None


def request_of(simulator: Simulator, options: Options) -> Request:
    """The request for a simulator's machine; every TopoError of a text that cannot be read names it."""
    machine = simulator.machine
    model = _model(options)
    batch = options.batch or model.batch
    compute = _compute(machine, model, options)
    times = layer_times(model, options, compute, batch)
    measured = options.layer_times is not None or (options.forward is not None and options.backward is not None)
    return Request(
        model=model,
        times=times,
        batch=batch,
        caps=caps_of(options.caps, options.first_bucket_cap_mb),
        ways=tuple(SCHEDULES) if options.ways == ALL else tuple(name.strip() for name in options.ways.split(",")),
        algorithms=simulator.names(options.algorithm, Workload("all_reduce", A_BUCKET_BYTES)),
        compression=options.compress,
        accumulation=options.accumulate,
        bucket_views=options.gradient_as_bucket_view,
        rebuilt=not options.find_unused_parameters,
        compute=None if measured else compute,
        memory_bytes_per_s=compute.memory_bytes_per_s,
    )


def layer_times(model: Model, options: Options, compute: Compute, batch: int) -> tuple[LayerTime, ...]:
    """The layers' times: as measured or from operations, then made to fit the totals that are given."""
    if options.layer_times is not None:
        times = read_times(options.layer_times, model)
    else:
        times = by_rate(model, compute, batch)
    return scaled(times, *map(_seconds, (options.forward, options.backward)))


def _seconds(text: str | None) -> float | None:
    return None if text is None else parse_duration(text)


def replayed_times(model: Model, path: Path | None, forward: str | None, backward: str | None) -> tuple[LayerTime, ...]:
    """The times of a file, or REPLAYED shared among layers by their operations; made to fit totals that are given."""
    if path is None:
        times = by_rate(model, _ANY_RATE, 1)
        forward, backward = forward or REPLAYED[0], backward or REPLAYED[1]
    else:
        times = read_times(path, model)
    return scaled(times, *map(_seconds, (forward, backward)))


REPLAYED = ("100ms", "400ms")
"""Forward and backward where nothing is said: long enough for the gradients of a ResNet to travel over loopback."""

_ANY_RATE = Compute(1e12, 1.0, "any GPU", "fp32")
"""Shares of a total are the same at any rate."""


def _model(options: Options) -> Model:
    """The model, in the type that was asked for."""
    model = load_model(options.model)
    return model if options.dtype is None else replace(model, dtype=options.dtype)


def _compute(machine: Topology | Cluster, model: Model, options: Options) -> Compute:
    """The rate of the machine's GPUs for the model, or the rate that was given."""
    rate, assumed = gpu_of(machine)
    mfu = model.mfu if options.mfu is None else options.mfu
    memory = None if assumed else rate.memory_bytes_per_s
    peak = rate.peak_flops_per_s(options.precision)
    if options.gpu_flops is not None:
        return Compute(parse_flops(options.gpu_flops), mfu, "the given GPU", options.precision, memory)
    return Compute(peak, mfu, rate.product, options.precision, memory, assumed)
