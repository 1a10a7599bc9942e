"""Files of measurements: our own document, published runs (`measurement/1`), and what nccl-tests prints or writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sim.collective import COLLECTIVES, collective
from sim.profile import Profile
from sim.workload import ELEMENT_BYTES, Workload
from topo.errors import CaptureError, MeasurementError
from topo.readers.nccl_tests_table import NcclTestsTable
from topo.topology import Topology
from validate import published
from validate.loopback import PointToPoint
from validate.measurement import Measurement, Setting
from validate.words import counted

SCHEMA = "measurements/1"
DERIVED = ("rows", "backend", "collective", "num_ranks")
"""Keys that are computed when our document is written, and ignored when it is read."""

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

TRUSTED_BYTES_PER_S = 1e9
"""Bandwidths are printed with two decimals of GB/s: below this a ratio of two of them says little."""


@dataclass(frozen=True, slots=True)
class MeasurementSet:
    """Measurements that belong together, with the machine they ran on as far as it is known.

    `failure` says why some of what was asked for is missing. `remarks` are sentences about rows that were set aside.
    """

    name: str
    measurements: tuple[Measurement, ...]
    topology: Topology | None = None
    profile: Profile | None = None
    point_to_point: PointToPoint | None = None
    failure: str | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hints:
    """What the user adds where a file is silent; None leaves it open."""

    collective: str | None = None
    num_ranks: int | None = None


def read_measurements(path: Path, hints: Hints | None = None) -> MeasurementSet:
    """The measurements in a file of any format named above; CaptureError or MeasurementError where there are none."""
    from topo.textfile import read_file

    return parse_measurements(read_file(path), str(path), hints or Hints())


def parse_measurements(text: str, source: str, hints: Hints) -> MeasurementSet:
    """The measurements in a text; the format is found out from the text."""
    from topo.jsonio import decode, schema_of
    from topo.readers import nccl_tests, nccl_tests_json

    schema = schema_of(text)
    if schema == SCHEMA:
        return decode(text, MeasurementSet, SCHEMA, source, derived=DERIVED)
    if schema == published.SCHEMA:
        return from_published(published.read(text, source), source)
    if nccl_tests_json.sniff(text):
        return from_nccl_tests(nccl_tests_json.read(text, source), hints)
    if nccl_tests.sniff(text):
        return from_nccl_tests(nccl_tests.read(text, source), hints)
    what = f"a document of schema {schema!r}" if schema else "in no known format"
    raise CaptureError(
        f"{what}: read are nccl-tests (its text, or JSON by -J), measurement/1, and what topo validate run writes",
        source=source,
    )


def from_published(found: published.Published, source: str) -> MeasurementSet:
    """A published run, one measurement for each size."""
    software = (Setting("nccl", found.software.nccl),) if found.software.nccl else ()
    environment = tuple(Setting(name, str(value)) for name, value in found.software.env.items())
    measurements = tuple(
        Measurement(
            _workload(found.collective, sample.num_bytes, found.dtype, found.reduction),
            found.num_ranks,
            backend="nccl-tests",
            executor="builtin",
            algorithm=found.algorithm or "builtin",
            samples_s=(sample.time_s,),
            software=software,
            environment=environment,
            provenance=found.source,
        )
        for sample in found.samples
    )
    if not measurements:
        raise CaptureError("it has no samples", source=source)
    return MeasurementSet(f"{found.id}-{found.name}", measurements)


def from_nccl_tests(table: NcclTestsTable, hints: Hints) -> MeasurementSet:
    """A table of nccl-tests, out-of-place times; rows that it sets aside are named in the remarks."""
    remarks = tuple(f"line {row.line} is set aside: {row.reason}" for row in table.set_aside if row.num_bytes)
    if not table.rows:
        raise CaptureError(
            f"no row is a measurement: {'; '.join(remarks) or 'all are of 0 bytes'}", source=table.source
        )
    num_ranks = _ranks_of(table, hints)
    name = _collective_of(table, num_ranks, hints)
    _check_factor(table, name, num_ranks)
    software = (Setting("nccl", table.nccl_version),) if table.nccl_version else ()
    measurements = tuple(
        Measurement(
            _workload(name, row.num_bytes, row.dtype, row.redop),
            num_ranks,
            backend="nccl-tests",
            executor="builtin",
            algorithm="builtin",
            samples_s=(row.out_of_place.time_s,),
            num_warmups=table.num_warmups or 0,
            correct=None if row.out_of_place.wrong is None else True,
            software=software,
            provenance=f"{table.source}, line {row.line}: mean over iterations, out of place",
        )
        for row in table.rows
    )
    return MeasurementSet(Path(table.source).stem, measurements, remarks=remarks)


def _workload(name: str, num_bytes: int, dtype: str, reduction: str | None) -> Workload:
    """The workload in our names; a custom or missing reduction counts as a sum, which moves the same bytes."""
    known = DTYPES.get(dtype, dtype)
    whole = known in ELEMENT_BYTES and num_bytes % ELEMENT_BYTES[known] == 0
    return Workload(
        collective(name).name,
        num_bytes,
        known if whole else "uint8",
        reduction if reduction in ("sum", "avg", "min", "max") else "sum",
    )


def _ranks_of(table: NcclTestsTable, hints: Hints) -> int:
    if table.num_ranks is not None:
        return table.num_ranks
    if hints.num_ranks is None:
        raise MeasurementError(f"{table.source} does not say how many ranks ran: add --ranks N or --topology TOPOLOGY")
    return hints.num_ranks


def _collective_of(table: NcclTestsTable, num_ranks: int, hints: Hints) -> str:
    """The collective that is stated, else the user's, else the only one whose columns and busbw fit."""
    if table.collective is not None:
        stated = collective(table.collective).name
        if hints.collective is not None and collective(hints.collective).name != stated:
            raise MeasurementError(f"{table.source} holds {stated}, but --collective {hints.collective} was given")
        return stated
    if hints.collective is not None:
        return collective(hints.collective).name
    fitting = [name for name in COLLECTIVES if _fits(table, name, num_ranks)]
    if len(fitting) != 1:
        among = f", its numbers fit {', '.join(fitting)}" if fitting else ""
        raise MeasurementError(f"{table.source} does not name its collective{among}: add --collective NAME")
    return fitting[0]


def _fits(table: NcclTestsTable, name: str, num_ranks: int) -> bool:
    reduces = any(row.redop not in (None, "none") for row in table.rows)
    rooted = any(row.root is not None and row.root >= 0 for row in table.rows)
    row = COLLECTIVES[name]
    ratio = _ratio(table)
    near = ratio is None or _agree(ratio, row.busbw_factor(num_ranks))
    return near and row.reduces == reduces and (name in ("broadcast", "reduce")) == rooted


def _agree(ratio: float, factor: float) -> bool:
    """Whether a printed ratio is the factor, as far as its digits go."""
    return abs(ratio - factor) <= 0.005 + 0.005 * factor


def _ratio(table: NcclTestsTable) -> float | None:
    """Busbw over algbw as printed, where they are printed with enough digits."""
    halves = [row.out_of_place for row in table.rows if row.out_of_place.algbw_bytes_per_s >= TRUSTED_BYTES_PER_S]
    return median(half.busbw_bytes_per_s / half.algbw_bytes_per_s for half in halves) if halves else None


def _check_factor(table: NcclTestsTable, name: str, num_ranks: int) -> None:
    """Busbw over algbw must be the collective's factor for that many ranks; else one of the two is wrong."""
    ratio = _ratio(table)
    if ratio is None:
        return
    factor = COLLECTIVES[name].busbw_factor(num_ranks)
    if not _agree(ratio, factor):
        over = f"{name} over {counted(num_ranks, 'rank')}"
        raise MeasurementError(
            f"{table.source}: busbw / algbw is {ratio:.3f}, but {over} has {factor:.3f}: "
            "check the number of ranks (--ranks, --topology, --nodes) and the collective"
        )
