"""`topo doctor`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from topo.cli_common import Output, note, output_options

if TYPE_CHECKING:
    from topo.captures import Text
    from topo.readers.nccl_tests import NcclTestsTable

EXIT_FINDING = 1

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Say what is wrong with a machine, from its captures.")
@click.argument("topology")
@click.option("--nccl-log", type=_FILE, metavar="FILE", help="A log of NCCL (NCCL_DEBUG=INFO) of a run on it.")
@click.option("--nccl-tests", type=_FILE, metavar="FILE", help="Output of nccl-tests of a run on it.")
@output_options("table", "json", "csv", "md")
def doctor(topology: str, nccl_log: Path | None, nccl_tests: Path | None, output: Output) -> int:
    """Say what is wrong with a machine, as far as its captures show it, what it costs, and what to do.

    TOPOLOGY is a file or folder of captures (or a preset, or -): the more kinds of output it holds, the more is
    checked. A finding quotes its evidence with file and line. What is so by design, or cannot be known from these
    captures, is a note. Costs are simulated; fixes are shown, never run. Exit status: 0 without findings, 1 with.
    """
    from sim.doctor import diagnose
    from sim.doctor_report import as_document, as_table, as_text, summary
    from topo.reading import load_case, read_log

    case = load_case(topology)
    if nccl_log is not None:
        case = replace(case, log=read_log(nccl_log))
    tests = _tests(nccl_tests) if nccl_tests else None
    found = diagnose(case, *tests) if tests else diagnose(case)
    name = case.topology.name if case.topology else topology
    if output.format == "table":
        output.write(as_text(name, found))
    else:
        output.emit(as_table(found), lambda: as_document(name, found))
        note(summary(found))
    return EXIT_FINDING if any(row.finding.severity == "finding" for row in found) else 0


def _tests(path: Path) -> tuple[NcclTestsTable, Text]:
    from topo.captures import Text
    from topo.readers import nccl_tests
    from topo.textfile import read_file

    text = Text(read_file(path), str(path))
    return nccl_tests.read(text.content, text.source), text
