"""Tables of nccl-tests as measurements: what they leave open, and rows that must not be overlooked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim.collective import COLLECTIVES
from tests.support import NO_CORPUS, corpus_files
from topo.errors import CaptureError, MeasurementError
from validate.documents import Hints, MeasurementSet, parse_measurements, read_measurements

TITLES = "#  size  count  type  redop  root  time  algbw  busbw  #wrong"
RANKS = "#  Rank  0 Group  0 Pid 1 on a device  0 [0x1] X\n#  Rank  7 Group  0 Pid 8 on a device  7 [0x8] X"
ONE_RANK = "#  Rank  0 Group  0 Pid 1 on a device  0 [0x1] X"
GOOD = "1000000 250000 float sum -1 100 10.0 17.5 0"
TABLES = corpus_files("nccl-tests/*-*.txt")


def table(row: str, *, head: str = RANKS) -> str:
    return f"{head}\n{TITLES}\n{row}\n"


def parse(text: str, collective: str | None = None, num_ranks: int | None = None) -> MeasurementSet:
    return parse_measurements(text, "run.txt", Hints(collective, num_ranks))


def test_a_table_that_names_all_needs_no_hints() -> None:
    head = f"# Collective test starting: all_reduce_perf\n{RANKS}"
    found = parse(table("1000000 250000 float sum -1 1000 1.00 1.75 0", head=head))
    (row,) = found.measurements
    assert (row.workload.collective, row.workload.dtype, row.num_ranks) == ("all_reduce", "float32", 8)
    assert (row.backend, row.algorithm, row.correct, row.samples_s) == ("nccl-tests", "builtin", True, (1e-3,))


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ("1000000 250000 float sum -1 100 10.0 17.5 0", "all_reduce"),
        ("1000000 250000 float sum -1 100 10.0 8.75 0", "reduce_scatter"),
        ("1000000 250000 float none 0 100 10.0 10.0 0", "broadcast"),
        ("1000000 250000 float sum 0 100 10.0 10.0 0", "reduce"),
    ],
)
def test_a_collective_that_only_one_row_of_the_table_fits_is_found(row: str, name: str) -> None:
    assert parse(table(row)).measurements[0].workload.collective == name


@pytest.mark.parametrize(
    ("text", "hints", "complaint"),
    [
        (table("1000000 31250 float none -1 100 10.0 8.75 0"), {}, "fit all_gather, all_to_all: add --collective"),
        (table("1000000 250000 float sum -1 100 10.0 17.5 0", head="#"), {}, "how many ranks ran: add --ranks"),
        (
            table("1000000 250000 float sum -1 100 10.0 17.5 0", head="#"),
            {"collective": "all_reduce", "num_ranks": 16},
            "busbw / algbw is 1.750, but all_reduce over 16 ranks has 1.875",
        ),
        (
            table("1000000 250000 float sum -1 100 10.0 17.5 0", head=f"x/all_reduce_perf -b 8\n{RANKS}"),
            {"collective": "broadcast"},
            "holds all_reduce, but --collective broadcast was given",
        ),
    ],
)
def test_what_the_file_leaves_open_is_asked_for_and_what_it_contradicts_refused(
    text: str, hints: dict, complaint: str
) -> None:
    with pytest.raises(MeasurementError, match=complaint):
        parse(text, **hints)


def test_a_wrong_result_is_a_finding_with_file_and_line() -> None:
    found = parse(table(f"{GOOD}\n{GOOD[:-1]}3"))
    assert found.findings == ("run.txt, line 5: 1000000 bytes: 3 wrong results; the row is set aside",)
    assert (len(found.measurements), found.remarks) == (1, ())
    alone = parse(table(f"{GOOD[:-1]}3"))
    assert (alone.measurements, len(alone.findings)) == ((), 1)


def test_a_failed_footer_is_a_finding_even_where_no_row_is_wrong() -> None:
    footer = "# Out of bounds values : 2 FAILED"
    found = parse(table(f"{GOOD}\n{footer}"))
    assert found.findings == (
        "run.txt, line 5: nccl-tests counts 2 results out of bounds (FAILED), though no row has wrong results: run it "
        "again",
    )
    assert len(found.measurements) == 1
    assert len(parse(table(f"{GOOD}\n{GOOD[:-1]}3\n{footer}")).findings) == 1


def test_the_librarys_number_is_its_release() -> None:
    head = f"# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22907\n{RANKS}"
    assert parse(table(GOOD, head=head)).measurements[0].software[0].value == "2.29.7"


def test_a_table_of_nothing_but_0_bytes_is_no_measurement() -> None:
    with pytest.raises(CaptureError, match="no row is a measurement: all are of 0 bytes"):
        parse(table("0 0 float sum -1 0.3 0.00 0.00 0"))


def test_results_of_the_json_are_counted_as_such() -> None:
    half = {"time": 100.0, "alg_bw": 10.0, "bus_bw": 17.5, "nwrong": 3}
    result = {"size": 1000000, "count": 250000, "type": "float", "redop": "sum", "root": -1, "out_of_place": half}
    document = {"nccl_version": 23000, "results": [{**result, "in_place": half}]}
    assert parse(json.dumps(document)).findings[0].startswith("run.txt, result 1: 1000000 bytes: 3 wrong results")


@pytest.mark.parametrize(
    ("edited", "words"),
    [
        ("2000000 500000 float sum -1 100 20.0 17.5 0", "busbw 17.5 GB/s and algbw 20 GB/s contradict each other"),
        ("2000000 500000 float sum -1 100 20.0 35.1 0", "all_reduce over 8 ranks has 1.75 times algbw"),
        ("2000 500 float sum -1 100 0.02 0.09 0", "busbw 0.09 GB/s and algbw 0.02 GB/s"),
        ("2000000 500000 float sum -1 100 10.0 17.5 0", "time 100 us and algbw 10 GB/s contradict each other"),
    ],
)
def test_a_row_that_contradicts_itself_is_a_finding(edited: str, words: str) -> None:
    found = parse(table(f"{GOOD}\n{edited}"), "all_reduce")
    (finding,) = found.findings
    assert finding.startswith("run.txt, line 5: ")
    assert words in finding
    assert [row.workload.num_bytes for row in found.measurements] == [1000000]


@pytest.mark.parametrize("row", ["1000000 250000 float sum -1 100 10.0 10.0 0", "1000 250 float sum -1 10 0.10 0.50 0"])
def test_where_every_row_contradicts_the_ranks_the_table_is_refused(row: str) -> None:
    with pytest.raises(MeasurementError, match=r"but all_reduce over 8 ranks has 1\.750: check the number of ranks"):
        parse(table(row), "all_reduce")


@pytest.mark.corpus
@pytest.mark.skipif(not TABLES, reason=NO_CORPUS)
def test_of_real_tables_only_rows_with_wrong_results_are_findings() -> None:
    findings = []
    for path in TABLES:
        published = sorted(path.parent.parent.glob(f"measurements/{path.name[:3]}-*.json"))
        if not published:
            continue
        stated = json.loads(published[0].read_text())
        if stated["collective"] in COLLECTIVES:
            findings += read_measurements(path, Hints(stated["collective"], stated["num_ranks"])).findings
    assert findings
    assert all("wrong results" in finding for finding in findings)


def test_ranks_given_are_taken_where_the_bandwidths_bear_them_out() -> None:
    found = parse(table(GOOD, head=ONE_RANK), "all_reduce", 8)
    assert found.measurements[0].num_ranks == 8
    assert found.remarks == ("it lists 1 rank; --ranks 8 is taken instead, since busbw / algbw is 1.750",)
    with pytest.raises(MeasurementError, match=r"over 1 rank has 0\.000: check the number of ranks"):
        parse(table(GOOD, head=ONE_RANK), "all_reduce")


@pytest.mark.parametrize(
    ("row", "head", "collective", "num_ranks"),
    [
        (GOOD, RANKS, "all_reduce", 4),
        ("1000000 250000 float none 0 100 10.0 10.0 0", RANKS, "broadcast", 4),
        ("1000 250 float sum -1 100 0.01 0.02 0", ONE_RANK, "all_reduce", 8),
    ],
)
def test_ranks_given_against_the_list_are_refused_where_nothing_bears_them_out(
    row: str, head: str, collective: str, num_ranks: int
) -> None:
    with pytest.raises(MeasurementError, match=f"run.txt lists . ranks?, but --ranks {num_ranks} was given"):
        parse(table(row, head=head), collective, num_ranks)


def test_the_machine_tells_the_ranks_only_where_nothing_else_does(tmp_path: Path) -> None:
    silent = tmp_path / "run.txt"
    silent.write_text(table(GOOD, head="#"))
    assert read_measurements(silent, Hints("all_reduce", None, 8)).measurements[0].num_ranks == 8
    with pytest.raises(MeasurementError, match=r"over 16 ranks has 1\.875"):
        read_measurements(silent, Hints("all_reduce", None, 16))
    assert parse_measurements(table(GOOD), "run.txt", Hints("all_reduce", None, 16)).measurements[0].num_ranks == 8
