"""A table of nccl-tests as measurements: ranks and collective found out, each row held against its own numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from sim.collective import COLLECTIVES, collective
from topo.errors import CaptureError, MeasurementError
from topo.readers.nccl_tests_table import ALGBW_RESOLUTION, NcclTestsHalf, NcclTestsRow, NcclTestsTable
from topo.words import counted
from validate.measurement import Measurement, Setting
from validate.measurement_set import Hints, MeasurementSet, RanOn, workload_of

TRUSTED_BYTES_PER_S = 1e9
"""Bandwidths are printed with two decimals of GB/s: below this a ratio of two of them says little."""


def from_nccl_tests(table: NcclTestsTable, hints: Hints, *, place: str = "line") -> MeasurementSet:
    """The rows as measurements, out-of-place times; those that cannot stand are findings.

    A finding is a row whose results are wrong or whose numbers contradict each other. `place` is what `line` counts.
    CaptureError where there is no row at all; MeasurementError where ranks or collective stay open or are contradicted.
    """
    where = f"{table.source}, {place}" if table.source else place
    findings = [
        f"{where} {row.line}: {row.num_bytes} bytes: {row.reason}; the row is set aside"
        for row in table.set_aside
        if row.num_bytes
    ]
    findings += _footer(table, where)
    if not table.rows:
        if not findings:
            raise CaptureError("no row is a measurement: all are of 0 bytes", source=table.source)
        return MeasurementSet(Path(table.source).stem, (), findings=tuple(findings))
    num_ranks = _ranks_of(table, hints)
    name = _collective_of(table, num_ranks, hints)
    remarks = _contradicted(table, name, num_ranks)
    reasons = {row.line: _contradiction(row, name, num_ranks) for row in table.rows}
    _check_factor(table, name, num_ranks, reasons)
    findings += [
        f"{where} {row.line}: {row.num_bytes} bytes: {reasons[row.line]}; the row is set aside"
        for row in table.rows
        if reasons[row.line]
    ]
    measurements = tuple(
        _measurement(table, row, name, num_ranks, where) for row in table.rows if not reasons[row.line]
    )
    # Where the user corrects the list of ranks, it is of another run, and so are its hosts.
    hosts = table.num_hosts if table.num_ranks == num_ranks else None
    return MeasurementSet(
        Path(table.source).stem,
        measurements,
        remarks=remarks,
        findings=tuple(findings),
        ran_on=RanOn(table.gpu_names, hosts),
    )


def _footer(table: NcclTestsTable, where: str) -> list[str]:
    """That the run says of itself that it has failed, where no single row does."""
    complaint = table.footer.complaint if table.footer else None
    said = any("wrong" in row.reason or "error" in row.reason for row in table.set_aside)
    if complaint is None or said or table.footer is None:
        return []
    return [
        f"{where} {table.footer.line}: nccl-tests counts {complaint}, though no row has wrong results: run it again"
    ]


def _measurement(table: NcclTestsTable, row: NcclTestsRow, name: str, num_ranks: int, where: str) -> Measurement:
    samples = "single iterations" if row.out_of_place.samples_s else "mean over iterations"
    return Measurement(
        workload_of(name, row.num_bytes, row.dtype, row.redop),
        num_ranks,
        backend="nccl-tests",
        executor="builtin",
        algorithm="builtin",
        samples_s=row.out_of_place.samples_s or (row.out_of_place.time_s,),
        num_warmups=table.num_warmups or 0,
        correct=None if row.out_of_place.wrong is None else True,
        software=(Setting("nccl", _release(table.nccl_version)),) if table.nccl_version else (),
        gpus_per_process=table.gpus_per_process,
        provenance=f"{where} {row.line}: {samples}, out of place",
    )


def _release(version: str) -> str:
    """2.29.7 where the library's number stands for it, 22907; anything else as it is."""
    if not version.isdigit() or int(version) < 20900:
        return version
    whole, patch = divmod(int(version), 100)
    return f"{whole // 100}.{whole % 100}.{patch}"


def _ranks_of(table: NcclTestsTable, hints: Hints) -> int:
    """How many ranks ran: the user's word, else the file's, else what the machine has."""
    found = hints.num_ranks or table.num_ranks or hints.machine_ranks
    if found is None:
        raise MeasurementError(f"{table.source} does not say how many ranks ran: add --ranks N or --topology TOPOLOGY")
    return found


def _contradicted(table: NcclTestsTable, name: str, num_ranks: int) -> tuple[str, ...]:
    """What to say where the user has contradicted the file's list of ranks: its bandwidths decide who is right.

    MeasurementError where they do not tell, or tell that the list is right.
    """
    if table.num_ranks in (None, num_ranks):
        return ()
    lists = f"lists {counted(table.num_ranks or 0, 'rank')}"
    ratio, factor = _ratio(table), COLLECTIVES[name].busbw_factor
    if ratio is None or _agree(ratio, factor(table.num_ranks or 0)) or not _agree(ratio, factor(num_ranks)):
        raise MeasurementError(
            f"{table.source} {lists}, but --ranks {num_ranks} was given, which its bandwidths do not bear out: "
            "leave --ranks out, or give the whole output"
        )
    return (f"it {lists}; --ranks {num_ranks} is taken instead, since busbw / algbw is {ratio:.3f}",)


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


def _ratio(table: NcclTestsTable, at_least: float = TRUSTED_BYTES_PER_S) -> float | None:
    """Busbw over algbw as printed, the median of the rows with enough digits; None where there is none."""
    halves = [row.out_of_place for row in table.rows]
    trusted = [half for half in halves if half.algbw_bytes_per_s > 0 and half.algbw_bytes_per_s >= at_least]
    return median(half.busbw_bytes_per_s / half.algbw_bytes_per_s for half in trusted) if trusted else None


def _check_factor(table: NcclTestsTable, name: str, num_ranks: int, reasons: Mapping[int, str | None]) -> None:
    """Busbw over algbw is the factor of collective and ranks; where most rows deny it, one of the two is wrong."""
    rows = [row for row in table.rows if row.out_of_place.algbw_bytes_per_s >= TRUSTED_BYTES_PER_S] or table.rows
    if sum(reasons[row.line] is not None for row in rows) <= len(rows) / 2:
        return
    ratio = _ratio(table, 0.0)
    found = "not constant" if ratio is None else f"{ratio:.3f}"
    factor = COLLECTIVES[name].busbw_factor(num_ranks)
    raise MeasurementError(
        f"{table.source}: busbw / algbw is {found}, but {name} over {counted(num_ranks, 'rank')} has {factor:.3f}: "
        "check the number of ranks (--ranks, --topology, --nodes) and the collective"
    )


def _contradiction(row: NcclTestsRow, name: str, num_ranks: int) -> str | None:
    """Why a row cannot be: no positive time, or a busbw that cannot belong to its algbw as far as digits can tell."""
    factor = COLLECTIVES[name].busbw_factor(num_ranks)
    for half in _halves(row):
        if half.time_s <= 0:
            return f"a time of {half.time_s * 1e6:g} us, expected a positive one"
        expected = factor * half.algbw_bytes_per_s
        if abs(half.busbw_bytes_per_s - expected) > ALGBW_RESOLUTION * (1 + factor):
            return (
                f"busbw {half.busbw_bytes_per_s / 1e9:g} GB/s and algbw {half.algbw_bytes_per_s / 1e9:g} GB/s "
                f"contradict each other, {name} over {counted(num_ranks, 'rank')} has {factor:.4g} times algbw"
            )
    return None


def _halves(row: NcclTestsRow) -> Iterator[NcclTestsHalf]:
    yield row.out_of_place
    if row.in_place is not None:
        yield row.in_place
