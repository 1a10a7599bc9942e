"""Measurements that belong together, and what a user adds where their file is silent."""

from __future__ import annotations

from dataclasses import dataclass

from sim.collective import collective
from sim.profile import Profile
from sim.workload import ELEMENT_BYTES, REDUCTIONS, Workload
from topo.topology import Topology
from validate.gpu_state import GpuState
from validate.library_files import LibraryText
from validate.loopback import PointToPoint
from validate.measurement import Measurement

DTYPES = {
    "float": "float32",
    "half": "float16",
    "double": "float64",
    "uint32": "int32",
    "uint64": "int64",
    "f8e4m3": "uint8",
    "f8e5m2": "uint8",
    "fp8_e4m3": "uint8",
    "fp8_e5m2": "uint8",
    "unknown": "uint8",
}
"""nccl-tests' names in ours; where a type is not known here, whole numbers of the same width stand for it."""


@dataclass(frozen=True, slots=True)
class RanOn:
    """The kinds of GPUs by their names as a file spells them, and the number of hosts; None where it is silent."""

    gpus: tuple[str, ...] = ()
    num_hosts: int | None = None


@dataclass(frozen=True, slots=True)
class MeasurementSet:
    """Measurements that belong together, with the machine they ran on as far as it is known.

    `failure` says why some of what was asked for is missing. `remarks` are sentences about how the file was read.
    `findings` are sentences about what must not be overlooked: rows set aside because their result is wrong or their
    numbers contradict each other, with file and line; of such rows alone a set may consist. `gpus` are the GPUs before
    and after the run, `library_texts` what NCCL wrote beside it, `ran_on` what another tool's file tells of its
    machine.
    """

    name: str
    measurements: tuple[Measurement, ...]
    topology: Topology | None = None
    profile: Profile | None = None
    point_to_point: PointToPoint | None = None
    failure: str | None = None
    remarks: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    gpus: tuple[GpuState, ...] = ()
    library_texts: tuple[LibraryText, ...] = ()
    ran_on: RanOn | None = None

    @property
    def wrong(self) -> tuple[str, ...]:
        """One sentence for each measurement whose result is not what it must be."""
        return tuple(
            f"WRONG result: {row.algorithm} {row.workload.collective} of {row.workload.num_bytes} bytes"
            for row in self.measurements
            if row.correct is False
        )


@dataclass(frozen=True, slots=True)
class Hints:
    """What the user says of a file; None leaves it open.

    `num_ranks` is stated for this file; `machine_ranks`, what the machine it is compared with has, counts only where
    nothing else tells.
    """

    collective: str | None = None
    num_ranks: int | None = None
    machine_ranks: int | None = None


def workload_of(name: str, num_bytes: int, dtype: str, reduction: str | None) -> Workload:
    """The workload in our names; a custom or missing reduction counts as a sum, which moves the same bytes."""
    known = DTYPES.get(dtype, dtype)
    whole = known in ELEMENT_BYTES and num_bytes % ELEMENT_BYTES[known] == 0
    return Workload(
        collective(name).name,
        num_bytes,
        known if whole else "uint8",
        reduction if reduction in REDUCTIONS else "sum",
    )
