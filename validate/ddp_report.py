"""Replayed steps as a table, as sentences, and as the `validate-ddp/1` document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from topo.cores import num_cores
from topo.table import Column, Table
from topo.words import counted
from validate.words import listed

if TYPE_CHECKING:
    from validate.ddp import DdpRow, DdpSession

SCHEMA = "validate-ddp/1"
COLUMNS = (
    Column("cap\nMB", "bucket_cap_mb", ".10g"),
    Column("buckets", "num_buckets"),
    Column("predicted\nms", "predicted_ms", ",.1f"),
    Column("measured\nms", "measured_ms", ",.1f"),
    Column("±\n%", "relative_spread_percent", ".1f"),
    Column("error\n%", "relative_error_percent", "+.1f"),
    Column("verdict", "verdict"),
    Column("exposed\npredicted", "predicted_exposed_ms", ",.1f"),
    Column("exposed\nmeasured", "measured_exposed_ms", ",.1f"),
)


def report_table(session: DdpSession) -> Table:
    """One row per cap; times in milliseconds, predicted and measured in columns of their own."""
    request = session.request
    rows = tuple(
        (
            row.prediction.caps.cap_mb,
            len(row.prediction.buckets),
            row.prediction.step_s * 1e3,
            row.measurement.median_s * 1e3,
            None if row.measurement.relative_spread is None else row.measurement.relative_spread * 100,
            row.relative_error * 100,
            row.verdict,
            row.prediction.exposed_s * 1e3,
            row.measured_exposed_s * 1e3,
        )
        for row in session.rows
    )
    title = (
        f"steps of {request.model.name} over {request.num_ranks} {request.backend} processes, forward and backward "
        "replayed: predicted, and measured"
    )
    return Table(COLUMNS, rows, title)


def sentences(session: DdpSession) -> Iterator[str]:
    """What a reader must know beside the numbers."""
    request = session.request
    if session.rows:
        alone_s = session.rows[0].alone.median_s
        given_s = sum(row.forward_s + row.backward_s for row in request.times)
        yield (
            f"costs of collectives: {session.source}; forward and backward idle for {given_s * 1e3:,.1f} ms, without "
            f"synchronising a step took {alone_s * 1e3:,.1f} ms, and what it takes beyond that is exposed"
        )
        yield (
            f"error % = predicted / measured - 1, OK within {request.tolerance:.0%}; LOW: measured slower than "
            "predicted; HIGH: faster"
        )
    yield from _best(session)
    if request.backend == "gloo":
        yield (
            f"on loopback {request.num_ranks} processes share {counted(num_cores(), 'core')} with all else that runs "
            "here: on a busy machine errors grow, run again"
        )
    for row in session.rows:
        if not row.same_buckets:
            yield (
                f"at {row.prediction.caps.cap_mb:g} MB this torch made buckets of {listed(row.bucket_bytes)} bytes, "
                f"predicted are {listed([bucket.num_bytes for bucket in row.prediction.buckets])}"
            )
    yield from session.findings
    if session.failure is not None:
        yield f"{session.failure}; {counted(len(session.rows), 'result')} so far kept"


def _best(session: DdpSession) -> Iterator[str]:
    predicted, measured = session.predicted_best, session.measured_best
    if predicted is None or measured is None or len(session.rows) < 2:
        return
    agree = "they agree" if session.same_best else "they disagree"
    yield (
        f"best is {predicted.prediction.caps.cap_mb:g} MB as predicted, {measured.prediction.caps.cap_mb:g} MB as "
        f"measured: {agree} (steps within 2 % of each other count as equal)"
    )


def report_json(session: DdpSession) -> str:
    """The `validate-ddp/1` document, with all samples."""
    from topo.jsonio import encode_document

    request = session.request
    predicted, measured = session.predicted_best, session.measured_best
    return encode_document(
        SCHEMA,
        {
            "model": {"name": request.model.name, "num_bytes": request.model.num_bytes},
            "backend": request.backend,
            "num_ranks": request.num_ranks,
            "compression": request.compression,
            "costs": session.source,
            "tolerance": request.tolerance,
            "forward_s": sum(row.forward_s for row in request.times),
            "backward_s": sum(row.backward_s for row in request.times),
            "alone_s": session.rows[0].alone.median_s if session.rows else None,
            "rows": [_plain(row) for row in session.rows],
            "predicted_best_mb": predicted.prediction.caps.cap_mb if predicted else None,
            "measured_best_mb": measured.prediction.caps.cap_mb if measured else None,
            "same_best": session.same_best,
            "findings": list(session.findings),
            "failure": session.failure,
        },
    )


def _plain(row: DdpRow) -> dict[str, Any]:
    predicted = row.prediction
    return {
        "bucket_cap_mb": predicted.caps.cap_mb,
        "first_bucket_cap_mb": predicted.caps.first_cap_mb,
        "buckets": [{"num_bytes": bucket.num_bytes} for bucket in predicted.buckets],
        "measured_buckets": [{"num_bytes": num_bytes} for num_bytes in row.bucket_bytes],
        "predicted_s": predicted.step_s,
        "measured_s": row.measurement.median_s,
        "relative_error": row.relative_error,
        "verdict": row.verdict,
        "predicted_exposed_s": predicted.exposed_s,
        "measured_exposed_s": row.measured_exposed_s,
        "predicted_communication_s": predicted.communication_s,
        "correct": row.measurement.correct,
        "samples_s": list(row.measurement.samples_s),
    }
