"""A calibration as a table, a document and a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topo.cli_common import Column, Table
from topo.units import format_size
from topo.words import counted

if TYPE_CHECKING:
    from sim.series import Chart
    from validate.calibrate import Calibration

COLUMNS = (
    Column("term", "term"),
    Column("unit", "unit"),
    Column("shipped", "shipped", ".4g"),
    Column("fitted", "fitted", ".4g"),
    Column("from", "low", ".4g"),
    Column("to", "high", ".4g"),
    Column("what it is", "meaning"),
)
SCHEMA = "calibration/1"


def table_of(found: Calibration) -> Table:
    """Every term that the measurements moved, with its 95 % confidence interval."""
    rows = tuple(
        (term.name, term.unit, term.shipped, term.value, term.low, term.high, term.meaning) for term in found.terms
    )
    title = (
        f"{found.profile.name}: {counted(len(found.rows), 'row')}, each predicted by the fit to all others within "
        f"{100 * found.median_abs_error:.1f} % (median)"
    )
    return Table(COLUMNS, rows, title)


def document_of(found: Calibration) -> str:
    """The `calibration/1` document: terms, rows with what the fit without each says of it, and remarks."""
    from topo.jsonio import encode_document

    return encode_document(
        SCHEMA,
        {
            "profile": found.profile.name,
            "median_abs_error": found.median_abs_error,
            "terms": found.terms,
            "rows": [
                {
                    "source": row.source,
                    "collective": row.collective,
                    "algorithm": row.algorithm,
                    "num_bytes": row.num_bytes,
                    "measured_s": row.measured_s,
                    "predicted_s": row.predicted_s,
                    "relative_error": row.predicted_s / row.measured_s - 1,
                }
                for row in found.rows
            ],
            "remarks": found.remarks,
        },
    )


def charts_of(found: Calibration) -> tuple[Chart, ...]:
    """Measured over predicted time by size: 1 where the fit without a row meets it."""
    from sim.series import Chart, Point, Series

    names = dict.fromkeys(f"{row.collective} {row.algorithm}" for row in found.rows)
    series = tuple(
        Series(
            name,
            tuple(
                Point(float(row.num_bytes), row.ratio)
                for row in found.rows
                if f"{row.collective} {row.algorithm}" == name
            ),
            is_measured=True,
        )
        for name in names
    )
    return (Chart("size", "measured / predicted", series, show_x=lambda value: format_size(int(value))),)
