"""Tables of nccl-tests: every real one against its restatement, and invented ones for what people do to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import corpus_files, examples
from topo.errors import CaptureError
from topo.readers import nccl_tests, nccl_tests_json
from topo.readers.nccl_tests import NcclTestsTable, read, read_all, sniff

TABLES = corpus_files("nccl-tests/*.txt")
TITLES = "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong"
UNITS = "#   (B)  (elements)  (us)  (GB/s)  (GB/s)  (us)  (GB/s)  (GB/s)"
ROW = "1048576  262144  float  sum  -1  100.0  10.49  18.35  0  80.00  13.11  22.94  0"


def table(*lines: str, titles: str = TITLES) -> NcclTestsTable:
    return read("\n".join([titles, UNITS, *lines]), "made.txt")


def restated(path: Path) -> list[dict]:
    """The measurements that restate this table: those whose number is the same."""
    return [json.loads(found.read_text()) for found in corpus_files(f"measurements/{path.name[:3]}-*.json")]


@pytest.mark.corpus
@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_real_tables_give_exactly_the_published_numbers(path: Path) -> None:
    text = path.read_text()
    assert sniff(text)
    found = read(text, path.name)
    assert found.rows
    wrong = {row.num_bytes for row in found.set_aside}
    for measurement in restated(path):
        expected = [
            (row["num_bytes"], row["time_s"]) for row in measurement["samples"] if row["num_bytes"] not in wrong
        ]
        assert [(row.num_bytes, row.out_of_place.time_s) for row in found.rows] == expected
        assert {row.dtype for row in found.rows} == {measurement["dtype"]}
        assert {row.redop for row in found.rows} == {measurement["reduction"]}
        assert found.num_ranks in (None, measurement["num_ranks"])
        assert found.collective in (None, measurement["collective"].replace("all_to_all", "alltoall"))


@pytest.mark.corpus
def test_most_real_tables_state_their_ranks_and_are_restated() -> None:
    if not TABLES:
        pytest.skip("no corpus of captures (set TOPOSCOPE_CORPUS to run these)")
    assert sum(read(path.read_text()).num_ranks is not None for path in TABLES) >= 60
    assert sum(bool(restated(path)) for path in TABLES) >= 75


def test_a_row_says_what_stands_in_it() -> None:
    (row,) = table(ROW).rows
    assert (row.num_bytes, row.count, row.dtype, row.redop, row.root, row.line) == (
        1048576,
        262144,
        "float",
        "sum",
        -1,
        3,
    )
    assert row.out_of_place.time_s == 1e-4
    assert (row.out_of_place.algbw_bytes_per_s, row.out_of_place.busbw_bytes_per_s) == (10.49e9, 18.35e9)
    assert row.in_place is not None
    assert (row.in_place.time_s, row.in_place.wrong) == (8e-5, 0.0)


@pytest.mark.parametrize(
    ("titles", "line", "redop", "root"),
    [
        ("size count type redop time algbw busbw error", "8 2 float sum 10 0.00 0.00 2e-07", "sum", None),
        ("size count type root time algbw busbw error", "8 2 float 3 10 0.00 0.00 N/A", None, 3),
        ("size count type time algbw busbw error", "8 2 float 10 0.00 0.00 0e+00", None, None),
        ("size count type redop time algbw busbw error", "8 2 float 10 0.00 0.00 N/A", None, None),
        ("size count type redop root time algbw busbw #wrong", "8 2 half max 0 10 0.00 0.00 0", "max", 0),
        ("bytes N type op time algbw busbw res", "8 2 float sum 0.01 0.00 0.00 N/A", "sum", None),
    ],
)
def test_columns_are_what_the_titles_say(titles: str, line: str, redop: str | None, root: int | None) -> None:
    (row,) = table(line, titles=f"# {titles}").rows
    assert (row.redop, row.root, row.out_of_place.time_s, row.in_place) == (redop, root, 1e-5, None)


def test_per_iteration_columns_are_passed_over() -> None:
    half = "time algbw busbw #wrong i_min i_max i_p99 i_cv%"
    figures = "100.0 10.49 18.35 0 90 120 119 3.5"
    (row,) = table(
        f"1048576 262144 float sum -1 {figures} {figures}", titles=f"# size count type redop root {half} {half}"
    ).rows
    assert row.in_place is not None
    assert row.in_place.time_s == row.out_of_place.time_s == 1e-4


def test_a_timestamp_behind_the_row_is_passed_over() -> None:
    (row,) = table(f"{ROW}  2026-07-09 12:00:00", titles=f"{TITLES}  timestamp").rows
    assert row.in_place is not None
    assert (row.out_of_place.time_s, row.in_place.time_s) == (1e-4, 8e-5)


@pytest.mark.parametrize(
    ("footer", "complaint"),
    [
        ("# Out of bounds values : 0 OK", None),
        ("# Out of bounds values : 3 FAILED", "3 results out of bounds (FAILED)"),
        ("[1,0]<stdout>:# Out of bounds values : 1 FAILED", "1 result out of bounds (FAILED)"),
    ],
)
def test_the_footer_says_whether_the_run_has_failed(footer: str, complaint: str | None) -> None:
    found = table(ROW, "#", footer, "# Avg bus bandwidth    : 20.6450")
    assert found.footer is not None
    assert (found.footer.line, found.footer.complaint) == (5, complaint)
    assert table(ROW).footer is None


@pytest.mark.parametrize(
    "label", ["", "    ", "#  ", "\x1b[32m", "\x1b[0m  ", "[1,0]<stdout>:", "  [1,0]<stdout>:", " 0: ", "0:", "[0] ",
              "pod-7  ", "Thu Jul 18 15:41:05 2024<stdout>:", "2024-07-18T15:41:05.123Z "]
)  # fmt: skip
def test_labels_in_front_of_lines_do_not_matter(label: str) -> None:
    text = "\n".join(label + line for line in (TITLES, UNITS, ROW))
    assert sniff(text)
    assert read(text).rows[0].out_of_place.time_s == 1e-4


@pytest.mark.parametrize(
    "pieces",
    [
        ["1048576 262144 float sum -1[1,0]<stdout>: 100.0 10.49 18.35 0[1,0]<stdout>: 80.00 13.11 22.94 0"],
        ["1048576 262144 float sum -1[0]  100.0 10.49 18.35 0[0] 80.00 13.11 22.94 0"],
        ["1048576 262144 float sum -1host:12:34 [0] NCCL INFO x 5", "100.0 10.49 18.35 0 80.00 13.11 22.94 0"],
        ["1048576 262144 float sum -1", "host:12:34 [0] NCCL INFO", "100.0 10.49 18.35 0", "80.00 13.11 22.94 0"],
        [ROW + " host:12:34 [0] NCCL INFO"],
    ],
)
def test_rows_cut_in_pieces_are_put_together(pieces: list[str]) -> None:
    (row,) = table(*pieces).rows
    assert row.in_place is not None
    assert (row.root, row.out_of_place.time_s, row.in_place.time_s) == (-1, 1e-4, 8e-5)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("1048576 262144 float sum -1 100.0 10.49", "has 2 figures where its titles announce 8"),
        ("1048576 262144 float sum -1 100.0 10.49 18.35 0", "has 4 figures"),
        (ROW + " 7", "has 9 figures"),
        (
            "1048576 262144 float sum -1 XXXXX XXX.XX XXX.XX 0 XXXXX XXX.XX XXX.XX 0",
            "XXXXX stands where a number belongs",
        ),
        ("1048576 262144 float sum", "without its root"),
        (ROW.replace("float", "fp4"), "a row of 1048576 bytes of type 'fp4', which is unknown here"),
        ("1048576 262144 float sum -1 N/A 10.49 18.35 0 80.00 13.11 22.94 0", "N/A stands for a time"),
        (ROW.replace("1048576  262144", "1'048'576  262'144"), "size and count cannot be read"),
        (ROW.replace("1048576  262144", "1.048.576  262.144"), "size and count cannot be read"),
        (ROW.replace("1048576", "1M"), "size and count cannot be read"),
        (ROW.replace("1048576  262144", "1 024  256"), "a size of 024 bytes for 256 elements"),
        (ROW.replace("1048576", "104857"), "a size of 104857 bytes for 262144 elements of float"),
        (ROW.replace("-1  100.0", "100.0"), "without its root"),
        (ROW.replace("100.0", "10node1:12 [0] NCCL INFO"), "'10node1:12' stands where a number belongs"),
        ("1048576", "figures that belong to no row: a row is cut"),
        ("1048576 262144 flo", "figures that belong to no row: a row is cut"),
    ],
)
def test_what_is_no_whole_row_is_refused_with_its_line(line: str, complaint: str) -> None:
    with pytest.raises(CaptureError, match=complaint) as caught:
        table(ROW, line)
    assert (caught.value.source, caught.value.line) == ("made.txt", 4)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0 0 float sum -1 0.30 0.00 0.00 0 0.26 0.00 0.00 0", "0 bytes"),
        ("1048576 262144 float sum -1 100.0 10.49 18.35 12 80.00 13.11 22.94 0", "12 wrong results"),
        ("1048576 262144 float sum -1 100.0 10.49 18.35 0 80.00 13.11 22.94 4832", "4832 wrong results"),
        ("1048576 262144 float sum -1 100.0 10.49 18.35 1e-03 80.00 13.11 22.94 0", "an error of 0.001"),
        ("1048576 262144 float sum -1 752.324 10.49 18.35 0 80.00 13.11 22.94 0", "contradict each other"),
    ],
)
def test_rows_that_are_no_measurement_are_set_aside_with_the_reason(line: str, reason: str) -> None:
    found = table(ROW, line)
    assert len(found.rows) == 1
    (aside,) = found.set_aside
    assert aside.line == 4
    assert reason in aside.reason


@pytest.mark.parametrize(
    "text",
    ["", "no table at all", "\n".join([TITLES, UNITS]), f"{TITLES}\nXXXXX XXX float sum -1 XXXXX XXX.XX XXX.XX 0"],
)
def test_a_text_without_a_row_is_refused(text: str) -> None:
    with pytest.raises(CaptureError, match="no row of nccl-tests"):
        read(text)


def test_a_row_without_titles_is_refused() -> None:
    with pytest.raises(CaptureError, match="line 1: a row without column titles"):
        read(ROW)


def test_titles_that_are_cut_are_refused() -> None:
    with pytest.raises(CaptureError, match="column titles are cut"):
        table(ROW, titles="#  size  count  type  redop  root  time  algbw  busbw  #wrong  time")


MANGLED = {
    "labels": lambda line: f"[1,0]<stdout>:{line}",
    "numbers": lambda line: f"  12: {line}",
    "times": lambda line: f"2025-11-03T10:11:12.123456Z stdout F {line}",
    "colours": lambda line: f"\x1b[32m{line}\x1b[0m",
    "carriage": lambda line: f"{line}\r",
    "blanks": lambda line: " ".join(line.split()),
    "tabs": lambda line: "\t".join(line.split()),
    "comments": lambda line: f"# {line}",
}


@pytest.mark.parametrize("how", MANGLED)
def test_what_collectors_and_people_do_to_whole_lines_changes_no_number(how: str) -> None:
    lines = [TITLES, UNITS, ROW, ROW.replace("1048576  262144", "2097152  524288").replace("10.49", "20.97")]
    plain, mangled = (read("\n".join(each)) for each in (lines, map(MANGLED[how], lines)))
    assert mangled.rows == plain.rows
    assert mangled.set_aside == plain.set_aside


@given(st.integers(0, len(ROW) - 1), st.integers(0, len(ROW) - 1), st.sampled_from(["\n", "\nnoise 1 2\n", " x "]))
def test_a_row_that_is_cut_open_gives_its_own_numbers_or_none(begin: int, end: int, put: str) -> None:
    cut = ROW[:begin] + put + ROW[max(begin, end) :]
    try:
        found = table(ROW, cut)
    except CaptureError:
        return
    whole = table(ROW).rows[0]
    for row in found.rows[1:]:
        assert (row.num_bytes, row.out_of_place.busbw_bytes_per_s) == (whole.num_bytes, 18.35e9)


def test_cpu_times_are_refused() -> None:
    with pytest.raises(CaptureError, match="CPU times of the calls"):
        table(ROW, titles=TITLES.replace("time", "cputime"))


def test_facts_around_the_table() -> None:
    text = "\n".join(
        [
            "$ mpirun -np 2 ./build/all_reduce_perf -b 1M",
            "# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902",
            "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1",
            "#  Rank  0 Group  0 Pid 12 on node000 device  0 [0000:1b:00] NVIDIA H100",
            "#  Rank 15 Group  0 Pid 13 on node001 device  7 [0000:43:00] NVIDIA H100",
            *(TITLES, UNITS, ROW),
            "$ ./build/broadcast_perf",
        ]
    )
    found = read(text)
    assert (found.collective, found.num_ranks, found.num_warmups, found.num_iterations) == ("all_reduce", 16, 5, 20)
    assert (found.tests_version, found.nccl_version, found.gpus_per_process) == ("2.17.8", "22902", 1)
    assert (found.gpu_names, found.num_hosts) == (("NVIDIA H100",), None), "14 of 16 ranks name no host"


def test_several_tables_are_told_apart_and_one_is_asked_for() -> None:
    first = ["# Collective test starting: all_gather_perf", TITLES, UNITS, ROW]
    second = ["# Collective test starting: broadcast_perf_mpi", TITLES, UNITS, ROW, ROW]
    text = "\n".join([*first, *second])
    assert [(found.collective, len(found.rows)) for found in read_all(text)] == [("all_gather", 1), ("broadcast", 2)]
    with pytest.raises(CaptureError, match="holds 2 tables"):
        read(text, "two.txt")


@pytest.mark.corpus
@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_real_table_that_is_cut_off_gives_whole_rows_or_is_refused(path: Path) -> None:
    text = path.read_text()
    whole = read(text, path.name).rows
    for length in range(1, len(text), max(1, len(text) // examples(5)) | 1):
        try:
            rows = read(text[:length], path.name).rows
        except CaptureError:
            continue
        assert rows == whole[: len(rows)]


@given(st.text(alphabet="0123456789.-# \n[]<>:Xfloatsumhdbyze,N/A_", max_size=300), st.integers(0, 200))
def test_any_text_is_read_or_refused(noise: str, where: int) -> None:
    text = "\n".join([TITLES, UNITS, ROW, ROW])
    try:
        found = read_all(text[:where] + noise + text[where:])
    except CaptureError:
        return
    assert all(row.out_of_place.time_s >= 0 for one in found for row in one.rows)


JSON_RESULT = {
    "size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": -1,
    "out_of_place": {"time": 100.0, "alg_bw": 10.49, "bus_bw": 18.35, "nwrong": 0},
    "in_place": {"time": 80.0, "alg_bw": 13.11, "bus_bw": 22.94, "nwrong": None},
}  # fmt: skip


def json_text(*results: dict) -> str:
    config = {"warmup_iters": 1, "iterations": 20, "devices": [{"rank": 0}, {"rank": 1}]}
    document = {"version": "2.18", "args": ["/opt/all_reduce_perf", "-J", "x"], "env": ["TOKEN=secret"]}
    return json.dumps({**document, "nccl_version": 22907, "config": config, "results": list(results)})


def test_json_gives_the_table_that_the_text_gives() -> None:
    found = nccl_tests_json.read(json_text(JSON_RESULT, {**JSON_RESULT, "size": 0, "count": 0}))
    (row,) = found.rows
    assert (row.out_of_place.time_s, row.out_of_place.busbw_bytes_per_s) == (1e-4, 18.35e9)
    assert (found.collective, found.num_ranks, found.num_iterations, found.nccl_version) == (
        "all_reduce",
        2,
        20,
        "22907",
    )
    assert [aside.num_bytes for aside in found.set_aside] == [0]
    assert "secret" not in repr(found)


@pytest.mark.parametrize("hosts", [("a", "a"), ("a", "b")])
def test_json_tells_gpus_and_hosts_as_the_text_does(hosts: tuple[str, str]) -> None:
    document = json.loads(json_text(JSON_RESULT))
    for device, host in zip(document["config"]["devices"], hosts, strict=True):
        device.update(hostname=host, device_info="NVIDIA H100")
    listed = [f"#  Rank {rank} Pid 1 on {host} device {rank} [0x07] NVIDIA H100" for rank, host in enumerate(hosts)]
    for found in (nccl_tests_json.read(json.dumps(document)), read("\n".join([*listed, TITLES, UNITS, ROW]))):
        assert (found.gpu_names, found.num_hosts) == (("NVIDIA H100",), len(set(hosts)))


def test_json_keeps_single_iterations_and_says_whether_the_run_has_failed() -> None:
    document = json.loads(json_text({**JSON_RESULT, "out_of_place_per_iter": {"times_us": [90.0, 110.0]}}))
    found = nccl_tests_json.read(json.dumps({**document, "out_of_bounds": {"count": 2, "okay": False}}))
    assert found.rows[0].out_of_place.samples_s == (9e-05, 1.1e-4)
    assert found.footer is not None
    assert found.footer.complaint == "2 results out of bounds (FAILED)"


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        ({**JSON_RESULT, "out_of_place": None}, "result 1 cannot be read"),
        ({**JSON_RESULT, "out_of_place": {"cpu_time": 1.0, "alg_bw": 1.0, "bus_bw": 1.0}}, "measure without -C 1"),
        ({"size": 8}, "result 1 cannot be read"),
    ],
)
def test_json_that_cannot_be_read_is_refused(result: dict, complaint: str) -> None:
    with pytest.raises(CaptureError, match=complaint):
        nccl_tests_json.read(json_text(result))


ODD = (None, "", [], {}, True, -1, 1.5, "1,048,576", "x", [1], {"a": 1}, 10**30)


def places(value: object, at: tuple = ()) -> Iterator[tuple]:
    """The way to every value within a JSON value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*at, key)
        yield from places(part, (*at, key))


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_json_that_was_edited_anywhere_is_refused_or_gives_its_own_numbers(odd: object) -> None:
    single = {**JSON_RESULT, "out_of_place_per_iter": {"times_us": [100.0, 100.0]}}
    text = json_text(single)
    whole = nccl_tests_json.read(text).rows[0].out_of_place
    for place in places(json.loads(text)):
        document = json.loads(text)
        inner = document
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = odd
        try:
            found = nccl_tests_json.read(json.dumps(document))
        except CaptureError:
            continue
        for row in found.rows:
            half = row.out_of_place
            assert (half.time_s, half.algbw_bytes_per_s) == (
                whole.time_s,
                whole.algbw_bytes_per_s,
            ) or row.num_bytes == 0


def test_json_and_text_are_told_apart() -> None:
    assert nccl_tests_json.sniff(json_text(JSON_RESULT))
    assert not nccl_tests.sniff(json_text(JSON_RESULT))
    assert not nccl_tests_json.sniff('{"schema": "topology/1"}')
    assert not nccl_tests_json.sniff("{ cut off")
