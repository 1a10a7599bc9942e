"""The standing table of errors in docs/accuracy.md: every fit, collective and class of machine, and the worst runs.

Run by `make accuracy`; the tests hold what stands there to what comes out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.marks import put_between
from topo.table import Cell, Column, Table
from validate.scoring.errors import REGIMES
from validate.scoring.fits import FITS
from validate.scoring.front import load, score_all
from validate.scoring.report import class_of, collective_of, errors_table, worst_table
from validate.scoring.score import ALL, Scores

MARK = "accuracy"


def all_scores() -> tuple[Scores, ...]:
    """The shipped healthy runs under each fit, by models as they are shipped and by those that know no such machine."""
    found = load()
    return tuple(score_all(found, None, fit, left_out) for left_out in (False, True) for fit in FITS)


def fits_table(scores: Sequence[Scores]) -> Table:
    """Each model's errors over all rows, by regime and by what it may see of a run."""
    models = scores[0].models
    columns = [
        Column("learned from", "known"),
        Column("fit", "fit"),
        Column("regime", "regime"),
        Column("rows", "num_rows"),
    ]
    for name in models:
        columns += [Column(f"{name} median", f"{name}_median", ",.1f"), Column("p90", f"{name}_p90", ",.0f")]
    rows: list[tuple[Cell, ...]] = []
    for one in scores:
        found = {name: one.errors(name, _everything)[ALL] for name in models}
        for regime in REGIMES:
            known = "other classes" if one.cross_validated else "all runs"
            cells: list[Cell] = [known, one.fit, regime, found[one.ours][regime].num_rows]
            for name in models:
                errors = found[name][regime]
                cells += [100 * errors.median_abs_error, 100 * errors.p90_abs_error]
            rows.append(tuple(cells))
    return Table(tuple(columns), tuple(rows))


def _everything(_case: object) -> str:
    return "every run"


def text_of(scores: Sequence[Scores]) -> str:
    """What stands between the marks."""
    first = next(one for one in scores if one.cross_validated)
    parts = [
        f"{len(first.runs)} runs, {first.num_rows:,} rows.\n",
        "### By what a model learned from, and what it may see of a run\n",
        fits_table(scores).markdown(),
        "### By collective, the class of machine left out, nothing fitted to the run\n",
        _table(first, collective_of, "collective"),
        "### By class of machine, that class left out, nothing fitted to the run\n",
        _table(first, class_of, "machine class"),
        "### The worst ten runs, their class left out\n",
        worst_table(first).markdown(),
    ]
    return "\n".join(parts)


def _table(scores: Scores, key: Callable[..., str], heading: str) -> str:
    return errors_table(scores, key, heading).markdown()


def main(document: Path) -> None:
    """Put the tables between the marks of the document."""
    put_between(document, MARK, text_of(all_scores()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
