"""What a table of nccl-tests shows of a machine's health: wrong results, and a rate far below the simulated one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sim.collective import collective as find_collective
from topo.case import Case, say
from topo.errors import TopoError
from topo.finding import Finding
from topo.words import counted

if TYPE_CHECKING:
    from topo.captures import Text
    from topo.readers.nccl_tests import NcclTestsRow, NcclTestsTable

WRONG_RESULTS = "wrong-results"
LOW_BUSBW = "low-busbw"

LEAST_BYTES = 64 * 2**20
"""Below, latencies decide, of which the simulation knows less."""

LOW_SHARE = 0.6
"""Healthy machines reach more than this share of the simulated rate at large sizes, whatever the algorithm."""

_COLLECTIVE = "all_reduce"


def look_at_tests(case: Case, table: NcclTestsTable, text: Text) -> Iterator[Finding]:
    """Findings and notes on one table of nccl-tests that ran on the machine."""
    wrong = [row for row in table.set_aside if "wrong results" in row.reason or "error of" in row.reason]
    for row in wrong:
        yield say(
            WRONG_RESULTS,
            "finding",
            f"nccl-tests counts {row.reason} at {row.num_bytes} bytes",
            text.quote(row.line),
        )
    if table.footer and table.footer.complaint and not wrong:
        yield say(
            WRONG_RESULTS,
            "finding",
            f"nccl-tests counts {table.footer.complaint}, though no row has wrong results",
            text.quote(table.footer.line),
        )
    why = _why_not(case, table)
    rows = [row for row in table.rows if row.num_bytes >= LEAST_BYTES]
    if why or not rows:
        reason = why or f"no size of at least {LEAST_BYTES // 2**20} MiB was measured"
        yield say(LOW_BUSBW, "note", f"rates of nccl-tests are not compared: {reason}")
        return
    try:
        yield _compared(case, max(rows, key=lambda row: row.num_bytes), text)
    except TopoError as error:
        yield say(LOW_BUSBW, "note", f"rates of nccl-tests are not compared: {error}")


def _why_not(case: Case, table: NcclTestsTable) -> str:
    """Why the table tells nothing beside this machine, "" where it does."""
    if case.topology is None:
        return "no topology was given"
    if table.num_ranks is None:
        return "the text does not say how many ranks there were"
    if table.num_ranks != case.topology.num_ranks:
        return f"they are of {counted(table.num_ranks, 'rank')}, the topology has {case.topology.num_ranks}"
    if table.collective is None and not _looks_like_all_reduce(table, table.num_ranks):
        return "the text does not name its collective"
    if table.collective not in (None, _COLLECTIVE):
        return f"they are of {table.collective}, not {_COLLECTIVE}"
    return ""


def _looks_like_all_reduce(table: NcclTestsTable, num_ranks: int) -> bool:
    """Whether what a nameless table prints can only be that: it reduces, and busbw is algbw times its factor."""
    factor = find_collective(_COLLECTIVE).busbw_factor(num_ranks)
    largest = max(table.rows, key=lambda row: row.num_bytes, default=None)
    if largest is None or num_ranks < 2 or largest.redop in (None, "none"):
        return False
    found = largest.out_of_place
    return abs(found.busbw_bytes_per_s - factor * found.algbw_bytes_per_s) <= 0.01 * found.busbw_bytes_per_s


def _compared(case: Case, row: NcclTestsRow, text: Text) -> Finding:
    """The largest size beside what is simulated of NCCL's choice."""
    from sim.predict import predict
    from sim.workload import Workload

    assert case.topology is not None, "only what has a topology is compared"
    run = predict(case.topology, Workload(_COLLECTIVE, row.num_bytes))
    expected, measured = run.busbw_bytes_per_s or 0.0, row.out_of_place.busbw_bytes_per_s
    share = measured / expected
    sentence = (
        f"measured busbw {measured / 1e9:.1f} GB/s at {row.num_bytes} bytes is {share:.0%} of the {expected / 1e9:.1f} "
        f"that {run.algorithm} is simulated to reach"
    )
    limit = f", limited by {run.limiting.link}" if run.limiting else ""
    if share < LOW_SHARE:
        return say(LOW_BUSBW, "finding", f"{sentence}: LOW{limit}", text.quote(row.line))
    return say(LOW_BUSBW, "note", sentence, text.quote(row.line))
