"""What is asked for: which collective, how many bytes, of which type. The only place where size enters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.collective import collective
from topo.errors import NameChoiceError, UnitError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

ELEMENT_BYTES = {
    "int8": 1,
    "uint8": 1,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
}
"""Bytes of one element by dtype, in torch's names."""

REDUCTIONS = ("sum", "avg", "min", "max")


@dataclass(frozen=True, slots=True)
class Workload:
    """A collective over `num_bytes` (nccl-tests' size: the larger of one rank's send and receive buffer)."""

    collective: str
    num_bytes: int
    dtype: str = "float32"
    reduction: str = "sum"

    def __post_init__(self) -> None:
        collective(self.collective)
        if self.dtype not in ELEMENT_BYTES:
            raise NameChoiceError("dtype", self.dtype, ELEMENT_BYTES)
        if self.reduction not in REDUCTIONS:
            raise NameChoiceError("reduction", self.reduction, REDUCTIONS)
        if self.num_bytes < 1:
            raise UnitError(
                f"size {self.num_bytes} bytes: a collective moves at least one element, use a positive size"
            )
        if self.num_bytes % self.element_bytes:
            below = self.num_bytes - self.num_bytes % self.element_bytes
            around = f"{below} or {below + self.element_bytes}" if below else f"{self.element_bytes}"
            raise UnitError(
                f"size {self.num_bytes} bytes is no whole number of {self.dtype} elements of {self.element_bytes} "
                f"bytes: use {around}, or another --dtype"
            )

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def num_elements(self) -> int:
        """Elements of the whole buffer."""
        return self.num_bytes // self.element_bytes

    def chunk_bytes(self, num_chunks: int) -> npt.NDArray[np.int64]:
        """Bytes of each chunk, shape (num_chunks,): whole elements, differing by at most one, possibly none."""
        import numpy as np

        share, rest = divmod(self.num_elements, num_chunks)
        elements = np.full(num_chunks, share, dtype=np.int64)
        elements[:rest] += 1
        return elements * self.element_bytes
