"""A training step to be replayed by real processes: gradients of given sizes that appear at given times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sim.ddp.buckets import Caps
from sim.ddp.model import Model
from sim.ddp.times import LayerTime
from sim.workload import ELEMENT_BYTES
from topo.errors import MeasurementError

Synchronisation = Literal["ddp", "none"]
"""`ddp` synchronises by DistributedDataParallel; `none` is the same step under its `no_sync`, for compute alone."""


@dataclass(frozen=True, slots=True)
class Gradient:
    """One parameter's gradient: how many elements it has, and after how many seconds of backward it is there."""

    num_elements: int
    ready_s: float


@dataclass(frozen=True, slots=True)
class Replay:
    """What a process replays: forward of so many seconds, then gradients in the order in which they become ready."""

    gradients: tuple[Gradient, ...]
    forward_s: float
    caps: Caps
    dtype: str = "float32"
    compression: str | None = None
    synchronisation: Synchronisation = "ddp"

    def __post_init__(self) -> None:
        times = [row.ready_s for row in self.gradients]
        if not times or times != sorted(times) or not all(map(math.isfinite, (*times, self.forward_s))):
            raise MeasurementError("a replay needs gradients in the order of finite times at which they are ready")

    @property
    def num_elements(self) -> int:
        """Elements of all gradients."""
        return sum(row.num_elements for row in self.gradients)

    @property
    def num_bytes(self) -> int:
        """Bytes of all gradients."""
        return self.num_elements * ELEMENT_BYTES[self.dtype]

    @property
    def backward_s(self) -> float:
        """Seconds until the last gradient."""
        return self.gradients[-1].ready_s


def replay_of(
    model: Model,
    times: Sequence[LayerTime],
    caps: Caps,
    *,
    compression: str | None = None,
    synchronisation: Synchronisation = "ddp",
) -> Replay:
    """The replay of a model whose layers take these times; MeasurementError for gradients of several types."""
    dtypes = {model.dtype_of(row) for row in model.parameters}
    if len(dtypes) > 1:
        raise MeasurementError(f"{model.name} has gradients of {' and '.join(sorted(dtypes))}: a replay takes one type")
    gradients = []
    ready_s = 0.0
    for layer, row in zip(reversed(model.layers), reversed(times), strict=True):
        ready_s += row.backward_s
        gradients += [Gradient(parameter.num_elements, ready_s) for parameter in layer.ready]
    forward_s = sum(row.forward_s for row in times)
    return Replay(tuple(gradients), forward_s, caps, dtypes.pop(), compression, synchronisation)


def replay_to_plain(replay: Replay) -> dict[str, Any]:
    """The replay as plain values, ready for JSON."""
    return {
        "gradients": [[row.num_elements, row.ready_s] for row in replay.gradients],
        "forward_s": replay.forward_s,
        "caps": [replay.caps.cap_mb, replay.caps.first_cap_mb],
        "dtype": replay.dtype,
        "compression": replay.compression,
        "synchronisation": replay.synchronisation,
    }


def replay_from_plain(plain: Mapping[str, Any]) -> Replay:
    """The replay that `replay_to_plain` wrote."""
    return Replay(
        tuple(Gradient(*row) for row in plain["gradients"]),
        plain["forward_s"],
        Caps(*plain["caps"]),
        plain["dtype"],
        plain["compression"],
        plain["synchronisation"],
    )
