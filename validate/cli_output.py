"""What `topo validate` prints: the table or document on stdout, sentences on stderr, and the exit status they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from topo.cli_common import Output, note
from topo.jsonio import encode, encode_document, to_plain
from topo.table import Table
from topo.words import counted
from validate import sentences
from validate.compare import CHANGE_TOLERANCE, changes, differences
from validate.documents import SCHEMA, Hints, MeasurementSet, read_measurements
from validate.held_out import held_out
from validate.predicting import hold_against
from validate.ran_on import moved, strangers
from validate.report import comparison_rows, comparison_table, delta_rows, delta_table
from validate.suspects import Machine

if TYPE_CHECKING:
    from sim.profile import Profile
    from topo.cluster import Cluster
    from topo.topology import Topology
    from validate.session import Request, Session

FINDING = 1


def print_session(session: Session, request: Request, output: Output, *, gates: bool) -> int:
    """Print a run; the exit status: 1 where it failed or a result is wrong, and for a LOW row if verdicts decide."""
    found, comparisons = session.found, session.comparisons
    table, document = _of_session(session, request, output)
    low = gates and any(row is not None and row.verdict == "LOW" for row in comparisons)
    status = FINDING if found.failure is not None or found.wrong or found.findings or low else 0
    try:
        _emit(output, table, document)
    except click.UsageError as error:
        # What took long to measure is not lost because a disk is full.
        note(f"{error.format_message()}: it stands on standard output instead")
        _emit(Output(output.format), table, document)
        status = FINDING
    _note_all(sentences.of_session(session, request.backend, gates=gates))
    return status


def saver(request: Request, output: Output) -> Callable[[Session], None] | None:
    """Writes what there is so far into -o FILE; None where there is no file that could be written anew.

    That it cannot be written is said once, and is no reason to end a run.
    """
    path = output.path
    if path is None or (path.exists() and not path.is_file()):
        return None
    complained: list[str] = []

    def save(session: Session) -> None:
        table, document = _of_session(session, request, output)
        try:
            _emit(output, table, document)
        except click.UsageError as error:
            if not complained:
                complained.append(error.format_message())
                note(f"{complained[0]}: the run goes on")

    return save


def _of_session(session: Session, request: Request, output: Output) -> tuple[Table, Callable[[], str]]:
    """The table of a run, and what gives its document."""
    found, comparisons = session.found, session.comparisons
    name = request.workloads[0].collective
    processes = f"{request.num_ranks} {request.backend} processes"
    derived = {
        "backend": request.backend,
        "collective": name,
        "num_ranks": request.num_ranks,
        "rows": comparison_rows(found.measurements, comparisons),
        "held_out": [to_plain(row) for row in held_out([row for row in comparisons if row is not None])],
    }
    title = f"{name} over {processes}: predicted on {found.name}, and measured"
    table = comparison_table(title, found.measurements, comparisons, output.format)
    return table, lambda: encode(found, SCHEMA, derived=derived)


@dataclass(frozen=True, slots=True)
class Against:
    """What a file is held against: a machine under a profile, and from where on a row is LOW (None: the default)."""

    machine: Topology | Cluster
    profile: Profile | None
    algorithm: str | None = None
    tolerance: float | None = None
    min_ratio: float | None = None


def print_comparison(file: Path, hints: Hints, against: Against, output: Output) -> int:
    """Print FILE beside the prediction; the exit status: 1 for a finding in FILE and for a LOW row."""
    found = _read(file, hints)
    machine = against.machine
    comparisons = hold_against(found, machine, against.profile, against.algorithm, against.tolerance, against.min_ratio)
    others = strangers(found, machine)
    used = comparisons[0].prediction.profile if comparisons else None
    name = found.measurements[0].workload.collective if found.measurements else None
    head = {
        "source": str(file),
        "topology": machine.name,
        "collective": name,
        "num_ranks": machine.num_ranks,
        "profile": used,
        "tolerance": against.tolerance,
        "min_ratio": against.min_ratio,
        "remarks": [*found.remarks, *others],
        "findings": list(found.findings),
    }
    ranks = counted(machine.num_ranks, "rank")
    title = f"{name} on {machine.name}, {ranks}: predicted, profile {used}, and measured, {file}"
    rows = comparison_rows(found.measurements, comparisons)
    table = comparison_table(title, found.measurements, comparisons, output.format)
    _emit(output, table, lambda: encode_document("validate-compare/1", {**head, "rows": rows}))
    findings = _findings(found, file)
    _note_all((*others, *sentences.of_comparisons(comparisons, Machine(machine, against.profile)), *findings))
    return FINDING if findings or any(row.verdict == "LOW" for row in comparisons) else 0


def print_changes(before: Path, after: Path, hints: Hints, tolerance: float | None, output: Output) -> int:
    """Print what changed from one measurement to the other; the exit status: 1 for a finding and for a SLOWER row."""
    within = CHANGE_TOLERANCE if tolerance is None else tolerance
    sides = [(_read(path, hints), path) for path in (before, after)]
    (before_set, _), (after_set, _) = sides
    earlier, later = before_set.measurements, after_set.measurements
    deltas = changes(earlier, later, within) if earlier and later else ()
    findings = [sentence for found, path in sides for sentence in _findings(found, path)]
    environment = (*moved(before_set, after_set), *differences(earlier, later))
    head = {
        "before": str(before),
        "after": str(after),
        "tolerance": within,
        "findings": findings,
        "differences": [to_plain(row) for row in environment],
    }
    table = delta_table(f"{before} before, {after} after", deltas, output.format)
    _emit(output, table, lambda: encode_document("validate-changes/1", {**head, "rows": delta_rows(deltas)}))
    _note_all((*sentences.of_changes(deltas), *sentences.of_differences(environment), *findings))
    return FINDING if findings or any(delta.verdict == "SLOWER" for delta in deltas) else 0


def _read(file: Path, hints: Hints) -> MeasurementSet:
    """The file's measurements, its remarks said."""
    found = read_measurements(file, hints)
    incomplete = (f"the run ended early: {found.failure}",) if found.failure else ()
    _note_all(f"{file}: {remark}" for remark in (*found.remarks, *incomplete))
    return found


def _findings(found: MeasurementSet, file: Path) -> tuple[str, ...]:
    """What is wrong in a file: rows that were set aside name their place themselves."""
    return (*found.findings, *(f"{file}: {sentence}" for sentence in found.wrong))


def _emit(output: Output, table: Table, document: Callable[[], str]) -> None:
    """Write the table or document; of a table for people without a row nothing."""
    if table.rows or output.format in ("json", "csv"):
        output.emit(table, document)


def _note_all(remarks: Iterable[str]) -> None:
    for sentence in remarks:
        note(sentence)
