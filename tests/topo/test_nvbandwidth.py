"""nvbandwidth: the same matrices from its text and from its JSON, with the direction that the title states."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.errors import CaptureError
from topo.readers.nvbandwidth import read, sniff
from topo.readers.nvbandwidth_facts import MeasuredMatrix, parse_title

D2D = "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)"
READ = "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)"
Rows = list[list[float | None]]


def cell(value: float | None) -> str:
    return "N/A" if value is None else f"{value:.2f}"


def text_of(title: str, rows: Rows, test: str = "device_to_device_memcpy_write_ce") -> str:
    """One test case as nvbandwidth prints it."""
    header = " " * 5 + "".join(f"{column:10}" for column in range(len(rows[0])))
    lines = [f"{number:2}   " + "".join(f"{cell(value):>10}" for value in row) for number, row in enumerate(rows)]
    return f"Running {test}.\n{title}\n{header}\n" + "\n".join(lines) + f"\n\nSUM {test} 123.45\n\n"


def json_of(title: str, rows: Rows, test: str = "device_to_device_memcpy_write_ce") -> str:
    """The same with -j."""
    case = {
        "name": test,
        "status": "Passed",
        "bandwidth_description": title,
        "bandwidth_matrix": [[cell(value) for value in row] for row in rows],
        "sum": 1.0,
    }
    devices = ["0: NVIDIA H100 80GB HBM3 (00000000:0f:00)", "1: NVIDIA H100 80GB HBM3 (00000000:2d:00)"]
    document = {"nvbandwidth": {"Driver Version": "1", "GPU Device list": devices, "testcases": [case]}}
    return json.dumps(document, indent=2) + "\n"


FORMS: list[Callable[[str, Rows], str]] = [text_of, json_of]
TWO: Rows = [[None, 26.3], [21.9, None]]


def only(text: str) -> MeasuredMatrix:
    (matrix,) = read(text, "nvb.txt").matrices
    return matrix


@pytest.mark.parametrize("form", FORMS)
def test_the_title_says_which_way_data_went(form: Callable[[str, Rows], str]) -> None:
    assert sniff(form(D2D, TWO))
    there = only(form(D2D, TWO))
    assert [there.measured(0, 1), there.measured(1, 0)] == pytest.approx([26.3e9, 21.9e9])
    back = only(form(READ, TWO))
    assert [back.measured(0, 1), back.measured(1, 0)] == pytest.approx([21.9e9, 26.3e9])
    assert (there.measured(0, 0), there.measured(0, 9), there.is_between_gpus) == (None, None, True)
    assert there.test == "device_to_device_memcpy_write_ce"


@pytest.mark.parametrize(
    ("words", "row", "column", "arrow", "quantity"),
    [
        (D2D, "gpu", "gpu", "->", "bandwidth"),
        ("memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", "cpu", "gpu", "->", "bandwidth"),
        ("memcpy CE GPU(columns) <- CPU(rows) bandwidth (GB/s)", "cpu", "gpu", "->", "bandwidth"),
        ("memcpy SM GPU(row) <-> GPU(column) Total bandwidth (GB/s)", "gpu", "gpu", "<->", "bandwidth"),
        ("memory latency SM CPU(row) <-> GPU(column) (ns)", "cpu", "gpu", "<->", "latency"),
        ("Device to Device Latency SM GPU(row) <-> GPU(column) (ns)", "gpu", "gpu", "<->", "latency"),
        ("memcpy local GPU(column) bandwidth (GB/s)", None, None, None, "bandwidth"),
    ],
)
def test_titles(words: str, row: str | None, column: str | None, arrow: str | None, quantity: str) -> None:
    title = parse_title(words)
    assert title is not None
    assert (title.row, title.column, title.arrow, title.quantity) == (row, column, arrow, quantity)


@pytest.mark.parametrize("words", ["bandwidth (GB/s)", "GPU(row) -> GPU(column)", "a (row) of seats", ""])
def test_what_is_no_title(words: str) -> None:
    assert parse_title(words) is None


def test_latencies_are_seconds() -> None:
    matrix = only(text_of("Device to Device Latency SM GPU(row) <-> GPU(column) (ns)", [[None, 771.0], [770.0, None]]))
    assert matrix.measured(0, 1) == pytest.approx(771e-9)
    assert not matrix.is_between_gpus


def test_several_tests_in_one_text() -> None:
    host = text_of("memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", [[55.1, 54.9]], "host_to_device_memcpy_ce")
    listed = "Device 0: NVIDIA H100 80GB HBM3 (00000000:0f:00)\nDevice 1: NVIDIA H100 80GB HBM3 (00000000:2d:00)\n\n"
    waived = "Running device_to_device_memcpy_read_sm.\nWaived: \n"
    facts = read(listed + host + waived + text_of(D2D, TWO))
    assert [matrix.test for matrix in facts.matrices] == [
        "host_to_device_memcpy_ce",
        "device_to_device_memcpy_write_ce",
    ]
    assert [(gpu.number, gpu.address, gpu.line) for gpu in facts.gpus] == [
        (0, "0000:0f:00.0", 1),
        (1, "0000:2d:00.0", 2),
    ]
    assert facts.failed == (("device_to_device_memcpy_read_sm", "Waived"),)
    assert facts.between_gpus == (facts.matrices[1],)


def test_the_json_form_lists_its_gpus_and_failures() -> None:
    text = json_of(D2D, TWO).replace('"testcases": [', '"testcases": [{"name": "x", "status": "Waived"},')
    facts = read("warning: mpirun says\n" + text + "done\n")
    assert [gpu.name for gpu in facts.gpus] == ["NVIDIA H100 80GB HBM3"] * 2
    assert facts.failed == (("x", "Waived"),)
    assert facts.matrices[0].line == text.splitlines().index('        "name": "device_to_device_memcpy_write_ce",') + 2


STYLES: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: "\ufeff" + text,
    lambda text: "\n".join(" ".join(line.split()) for line in text.split("\n")),
    lambda text: "$ ./nvbandwidth -t device_to_device_memcpy_write_ce\nnvbandwidth Version: v0.7\n\n" + text,
    lambda text: "".join("# " + line for line in text.splitlines(keepends=True)),
    lambda text: "".join("[1,0]<stdout>:" + line for line in text.splitlines(keepends=True)),
    lambda text: "".join("2026-01-02T03:04:05Z node: " + line for line in text.splitlines(keepends=True)),
    lambda text: text.replace("N/A", "\x1b[33mN/A\x1b[0m"),
]
VALUES = st.floats(0.01, 2000).map(lambda value: round(value, 2))


@st.composite
def matrices(draw: st.DrawFn) -> Rows:
    num_gpus = draw(st.integers(2, 9))
    return [[None if row == column else draw(VALUES) for column in range(num_gpus)] for row in range(num_gpus)]


@given(rows=matrices(), style=st.sampled_from(STYLES))
def test_every_way_of_keeping_a_matrix_gives_the_same(rows: Rows, style: Callable[[str], str]) -> None:
    text = style(text_of(D2D, rows))
    assert sniff(text)
    matrix = only(text)
    assert matrix.cells == only(json_of(D2D, rows)).cells
    for (row, column), value in matrix.cells:
        wanted = rows[row][column]
        assert value == (None if wanted is None else pytest.approx(wanted * 1e9))


@given(cut=st.integers(0, len(text_of(D2D, TWO))))
def test_a_cut_text_never_lies(cut: int) -> None:
    try:
        matrix = only(text_of(D2D, TWO)[:cut])
    except CaptureError:
        return
    assert matrix.measured(0, 1) in (None, pytest.approx(26.3e9))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: no matrix of nvbandwidth"),
        (f"{D2D}\n", "line 1: no matrix of nvbandwidth"),
        (f"Running a_test.\nWaived: no peer\n{D2D}\n", r"its tests failed: a_test Waived no peer\)"),
        (text_of(D2D, TWO).replace("     26.30", ""), "line 4: a row of 1 cells, but line 2 heads 2 columns"),
        ('{"nvbandwidth": {"testcases": [', "line 1: the JSON breaks off"),
        (json_of(D2D, TWO).replace("26.30", "fast"), "the matrix of device_to_device_memcpy_write_ce holds 'fast'"),
        ('{"nvbandwidth": {"error": "no device"}}', "line 1: no matrix"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        read(text, "nvb.txt")


@pytest.mark.parametrize("text", ["", "{}", "0 1 2\n", "GPU(row) GPU(column)\n", '{"bandwidth": 1}'])
def test_what_is_something_else_is_not_claimed(text: str) -> None:
    assert not sniff(text)
