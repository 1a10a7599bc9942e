"""Which gradients travel together, as torch's DistributedDataParallel decides it.

Gradients are taken one by one, never split. A bucket is closed once it has reached its cap, so that it may be larger
than that: by the parameter that closed it. The first bucket has a cap of its own (1 MiB), to begin sending early.
Each type of element has its own buckets. (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from sim.ddp.model import Model, Parameter
from sim.workload import ELEMENT_BYTES
from topo.errors import UnitError

MIB = 2**20
DEFAULT_CAP_MB = 25.0
DEFAULT_FIRST_CAP_MB = 1.0
MOST_CAP_MB = 2.0**20
"""A TiB: no GPU holds a bucket of it."""


@dataclass(frozen=True, slots=True)
class Caps:
    """When a bucket is full, in torch's MB, which are MiB; fractions count, whole bytes are cut off as torch does."""

    cap_mb: float = DEFAULT_CAP_MB
    first_cap_mb: float = DEFAULT_FIRST_CAP_MB

    def __post_init__(self) -> None:
        for what, value in (("bucket cap", self.cap_mb), ("cap of the first bucket", self.first_cap_mb)):
            if not (math.isfinite(value) and value * MIB >= 1 and value <= MOST_CAP_MB):
                raise UnitError(
                    f"a {what} of {value:g} MB: more than 0 and at most {MOST_CAP_MB:.0f} (MiB, torch's MB) is needed"
                )

    @property
    def num_bytes(self) -> int:
        """The cap of every bucket but the first."""
        return int(self.cap_mb * MIB)

    @property
    def first_num_bytes(self) -> int:
        """The cap of the first bucket."""
        return int(self.first_cap_mb * MIB)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Gradients that travel together, in the order in which they were put in."""

    parameters: tuple[Parameter, ...]
    dtype: str

    @property
    def num_elements(self) -> int:
        """How many gradients it holds."""
        return sum(row.num_elements for row in self.parameters)

    @property
    def num_bytes(self) -> int:
        """Bytes of its gradients, before any compression."""
        return self.num_elements * ELEMENT_BYTES[self.dtype]


def buckets_of(model: Model, caps: Caps, *, rebuilt: bool = True) -> tuple[Bucket, ...]:
    """The buckets in the order in which they are launched.

    After the first step torch fills buckets in the order in which gradients became ready. Without that (`rebuilt`
    False: it finds unused parameters) it fills them in declared order and launches them from the last to the first,
    so that the small one comes last.
    """
    if rebuilt:
        return fill(model, model.ready, caps)
    place = {row.name: number for number, row in enumerate(model.named_parameters)}
    filled = fill(model, model.named_parameters, caps)
    return tuple(sorted(filled, key=lambda bucket: -min(place[row.name] for row in bucket.parameters)))


def fill(model: Model, parameters: Iterable[Parameter], caps: Caps) -> tuple[Bucket, ...]:
    """Buckets filled in the order given, in the order in which they close.

    What stays open at the end follows, the type that was seen last first: so torch's hash map of types is walked
    (with GNU's library, for two types).
    """
    full: list[Bucket] = []
    open_rows: dict[str, list[Parameter]] = {}
    open_bytes: dict[str, int] = {}
    cap_bytes: dict[str, int] = {}
    for row in parameters:
        dtype = model.dtype_of(row)
        open_rows.setdefault(dtype, []).append(row)
        open_bytes[dtype] = open_bytes.get(dtype, 0) + model.bytes_of(row)
        if open_bytes[dtype] >= cap_bytes.get(dtype, caps.first_num_bytes):
            full.append(Bucket(tuple(open_rows[dtype]), dtype))
            open_rows[dtype] = []
            open_bytes[dtype] = 0
            cap_bytes[dtype] = caps.num_bytes
    rest = [(dtype, rows) for dtype, rows in reversed(open_rows.items()) if rows]
    return (*full, *(Bucket(tuple(rows), dtype) for dtype, rows in rest))
