"""`topo validate verdicts`."""

from __future__ import annotations

from pathlib import Path

import click

from topo.cli_common import Output, note, output_options
from validate.cli_options import published_options


@click.command(short_help="How often verdicts err on published runs.")
@published_options
@output_options("table", "json", "csv", "md")
def verdicts(data: Path | None, machines: Path | None, output: Output) -> None:
    """Judge published runs as topo validate compare does, and count how often it errs.

    Rows of healthy runs that are LOW are false alarms; degraded runs are to have some, with the right suspect. Runs
    that cannot be predicted are left out.
    """
    from sim.cli_options import with_progress
    from topo.jsonio import encode_document
    from validate.published.runs import runs_in, shipped_runs
    from validate.verdicts import SCHEMA, counts, counts_table, document, judge, sentences

    runs = shipped_runs() if data is None else runs_in(data).runs
    judged = tuple(judge(with_progress(runs, "judging runs"), machines))
    output.emit(counts_table(counts(judged)), lambda: encode_document(SCHEMA, document(judged)))
    for sentence in sentences(judged):
        note(sentence)
