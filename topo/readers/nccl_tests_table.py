"""What a run of nccl-tests says, whichever way it was printed: the table that its readers give."""

from __future__ import annotations

from dataclasses import dataclass

ERROR_LIMITS = {"half": 1e-2, "bfloat16": 1e-2, "float": 1e-5, "double": 1e-12}
"""Up to which error releases before 2.13 call a result right (their column `error`); 0 for whole numbers."""

ALGBW_RESOLUTION = 0.01e9
"""The last printed digit of a bandwidth, bytes per second."""

DTYPES = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16"),
    *("f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"),
)
"""Names of types as nccl-tests prints them."""

BEGINNINGS = frozenset(dtype[:length] for dtype in DTYPES for length in range(1, len(dtype) + 1))
"""What is left of these names where a line ends within one."""

_WIDTHS = {"64": 8, "double": 8, "32": 4, "bfloat16": 2, "half": 2, "float": 4}


@dataclass(frozen=True, slots=True)
class NcclTestsHalf:
    """One half of a row: seconds, bandwidths, and what the check found (None where it was off).

    `resolution_s` is the value of the last digit of the time as printed. `samples_s` are the single iterations, where
    the run was told to keep them (-J with -I); their mean is `time_s`.
    """

    time_s: float
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    wrong: float | None
    resolution_s: float = 0.0
    samples_s: tuple[float, ...] = ()

    def is_consistent(self, num_bytes: int) -> bool:
        """Whether algbw is what time and size give, as far as the digits printed can tell (algbw has two decimals)."""
        fastest = max(self.time_s - self.resolution_s, 0.0)
        slowest = self.time_s + self.resolution_s
        low = num_bytes / slowest - ALGBW_RESOLUTION if slowest > 0 else 0.0
        high = num_bytes / fastest + ALGBW_RESOLUTION if fastest > 0 else float("inf")
        return low <= self.algbw_bytes_per_s <= high


@dataclass(frozen=True, slots=True)
class NcclTestsRow:
    """One row as printed; `redop` and `root` are None where the table has no such column, or leaves it empty."""

    line: int
    num_bytes: int
    count: int
    dtype: str
    redop: str | None
    root: int | None
    out_of_place: NcclTestsHalf
    in_place: NcclTestsHalf | None


@dataclass(frozen=True, slots=True)
class SetAside:
    """A row that is no measurement, and why."""

    line: int
    num_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Footer:
    """What stands below the rows: how many results of the whole run are out of bounds, and whether it has failed."""

    line: int
    num_out_of_bounds: int
    has_failed: bool

    @property
    def complaint(self) -> str | None:
        """Why the run is not to be trusted, as a phrase; None where it is."""
        if not (self.num_out_of_bounds or self.has_failed):
            return None
        many = f"{self.num_out_of_bounds} result{'' if self.num_out_of_bounds == 1 else 's'} out of bounds"
        return f"{many}{' (FAILED)' if self.has_failed else ''}"


@dataclass(frozen=True, slots=True)
class NcclTestsTable:
    """One table. What the text does not state is None; `collective` is the program's name without `_perf`.

    `gpu_names` are the kinds of GPUs as they are listed, `num_hosts` counts the hosts where every rank names its own.
    """

    source: str
    rows: tuple[NcclTestsRow, ...]
    set_aside: tuple[SetAside, ...] = ()
    collective: str | None = None
    num_ranks: int | None = None
    num_warmups: int | None = None
    num_iterations: int | None = None
    tests_version: str | None = None
    nccl_version: str | None = None
    footer: Footer | None = None
    gpus_per_process: int | None = None
    gpu_names: tuple[str, ...] = ()
    num_hosts: int | None = None


def width_of(dtype: str) -> int:
    """Bytes of an element, by what its type's name has in it."""
    return next((width for word, width in _WIDTHS.items() if word in dtype), 1)


def reason_to_set_aside(num_bytes: int, dtype: str, halves: tuple[NcclTestsHalf, ...]) -> str | None:
    """Why a row is no measurement, as a phrase; None for one that is."""
    if num_bytes == 0:
        return "0 bytes: nothing is moved"
    wrong = max((half.wrong for half in halves if half.wrong is not None), default=0.0)
    if wrong >= 1:
        return f"{wrong:g} wrong results"
    if wrong > ERROR_LIMITS.get(dtype, 0.0):
        return f"an error of {wrong:g} in the results"
    for half in halves:
        if not half.is_consistent(num_bytes):
            return (
                f"time {half.time_s * 1e6:g} us and algbw {half.algbw_bytes_per_s / 1e9:g} GB/s contradict each other"
            )
    return None
