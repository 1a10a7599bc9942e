"""`nvidia-smi topo -m`: real captures first, then every way of writing a matrix, then what must be refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import NO_CORPUS, calls, corpus_files
from tests.topo.matrices import STYLES, Matrix, matrices, tabbed
from topo.errors import CaptureError
from topo.readers.limits import MAX_MATRIX_CHARS
from topo.readers.nvidia_smi_topo import MatrixFacts, read, sniff

EXPECTED = [(path, json.loads(path.read_text())) for path in corpus_files("nvidia-smi/*.expected.json")]
MATRICES = [(path, want) for path, want in EXPECTED if want["kind"] in ("topo_m", "topo_mp")]
OTHERS = [(path, want) for path, want in EXPECTED if want["kind"] not in ("topo_m", "topo_mp")]
ERRORS = [(path, want) for path, want in OTHERS if want["kind"] == "error"]


def capture(expected: Path) -> Path:
    return expected.with_name(expected.name.replace(".expected.json", ".txt"))


def text_of(expected: Path) -> str:
    return capture(expected).read_text(encoding="utf-8")


def name_of(value: object) -> str:
    return value.name[:3] if isinstance(value, Path) else ""


def letters_in(facts: MatrixFacts, pairs: list[list[str]]) -> list[list[str | None]]:
    return [[one, other, facts.letters(one, other)] for one, other, _ in pairs]


def modern(pairs: list[list[str]]) -> list[list[str]]:
    return [[one, other, "SYS" if letters == "SOC" else letters] for one, other, letters in pairs]


@pytest.mark.corpus
@pytest.mark.parametrize(("expected", "want"), MATRICES, ids=name_of)
def test_captures(expected: Path, want: dict[str, Any]) -> None:
    facts = read(text_of(expected), capture(expected).name)
    assert len(facts.gpus) == want["gpus"]
    assert list(facts.nics) == want["nics"]
    assert letters_in(facts, want["pairs"]) == modern(want["pairs"])
    assert letters_in(facts, want["gpu_nic"]) == modern(want["gpu_nic"])
    assert dict(facts.cpu_affinity) == want["cpu_affinity"]
    assert dict(facts.numa) == want["numa"]
    assert dict(facts.gpu_numa_id) == want["gpu_numa_id"]
    assert dict(facts.nic_legend) == want["nic_legend"]
    assert facts.complete == want["complete"]
    assert sniff(text_of(expected))


@pytest.mark.corpus
@pytest.mark.parametrize(("expected", "want"), OTHERS, ids=name_of)
def test_captures_of_anything_else_are_refused(expected: Path, want: dict[str, Any]) -> None:
    with pytest.raises(CaptureError) as refused:
        read(text_of(expected), capture(expected).name)
    assert str(refused.value).startswith(f"{capture(expected).name}, line ")
    assert "\n" not in str(refused.value)
    # Another vendor's letters in the same table get their sentence from this reader; no other format does.
    assert sniff(text_of(expected)) == (want["kind"] == "other_vendor")


@pytest.mark.corpus
@pytest.mark.parametrize(("expected", "want"), ERRORS, ids=name_of)
def test_a_failure_is_quoted(expected: Path, want: dict[str, Any]) -> None:
    assert not want["valid"]
    with pytest.raises(CaptureError, match="printed a failure instead"):
        read(text_of(expected), "capture.txt")


DRESSINGS: dict[str, Callable[[str], str]] = {
    "expanded": str.expandtabs,
    "no-break blanks": lambda text: text.expandtabs().replace(" ", "\u00a0"),
    "one line": lambda text: " ".join(text.split()),
    "legend lost": lambda text: text.split("Legend")[0],
    "stripped": str.strip,
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "CR": lambda text: text.replace("\n", "\r"),
    "blank lines": lambda text: text.replace("\n", "\n\n"),
    "twice": lambda text: text + "\n\n" + text,
    "window title": lambda text: "\x1b]0;user@host\x07" + text,
    "spelt escapes": lambda text: "\t^[[4m" + text.lstrip("\t").replace("\n", "\\x1b[0m\n", 1),
    "JSON": lambda text: json.dumps({"stdout": text}),
    "fence": lambda text: f"My topology:\n```\n{text}\n```\nGPU0 and GPU1 are slow. GPU0 NODE is what I expect.",
    "after nvidia-smi": lambda text: (
        "+---+\n| NVIDIA-SMI 550.54 |\n|   0  NVIDIA H100  On | 00000000:1B:00.0 Off |\n" + text
    ),
    "indented": lambda text: each(text, "      {}"),
    "quoted": lambda text: each(text, "> {}"),
    "numbered": lambda text: each(text, "{number:6d}\t{}"),
    "grep -n": lambda text: each(text, "{number}:{}"),
    "mpirun": lambda text: each(text, "[1,0]<stdout>:{}"),
    "ray": lambda text: each(text, "(worker pid=1234, ip=10.0.0.1) {}"),
    "logger": lambda text: each(text, "[2026-01-01 00:00:00,123] INFO {}"),
    "journal": lambda text: each(text, "Jan 01 10:00:00 host app[123]: {}"),
    "trailing blanks": lambda text: each(text, "{} \t  "),
}


def each(text: str, form: str) -> str:
    return "\n".join(form.format(line, number=number) for number, line in enumerate(text.splitlines(), start=1))


@pytest.mark.corpus
@pytest.mark.parametrize("dressing", DRESSINGS)
def test_what_surrounds_a_capture_does_not_matter(dressing: str) -> None:
    if not MATRICES:
        pytest.skip(NO_CORPUS)
    for expected, _ in MATRICES:
        plain = read(text_of(expected))
        dressed = read(DRESSINGS[dressing](text_of(expected)))
        assert (dressed.names, dressed.cells, dressed.numa) == (plain.names, plain.cells, plain.numa), expected.name
        assert dressed.cpu_affinity == plain.cpu_affinity
        assert dressed.complete == plain.complete


@pytest.mark.corpus
@pytest.mark.parametrize(("expected", "want"), MATRICES, ids=name_of)
def test_captures_cut_anywhere_never_lie(expected: Path, want: dict[str, Any]) -> None:
    """Whatever is cut off a capture's end, the pairs still read are those of the whole one."""
    text = text_of(expected)
    whole = dict(read(text).cells)
    end = text.find("Legend")
    for cut in range(0, len(text) if end < 0 else end, 37):
        try:
            facts = read(text[:cut])
        except CaptureError:
            continue
        assert {pair: whole.get(pair, letters) for pair, letters in facts.cells if letters} == {
            pair: letters for pair, letters in facts.cells if letters
        }


@given(matrix=matrices(), style=st.sampled_from(STYLES))
def test_every_style_gives_the_same_letters(matrix: Matrix, style: Callable[[Matrix], str]) -> None:
    facts = read(style(matrix))
    assert facts.names == matrix.names
    assert {pair: matrix.letters[pair] for pair, _ in facts.cells} == dict(facts.cells)
    assert facts.complete
    assert sniff(style(matrix))
    if facts.numa:
        assert dict(facts.numa) == {gpu: str(node) for gpu, node in matrix.numa.items()}
        assert dict(facts.cpu_affinity) == {gpu: f"{node * 8}-{node * 8 + 7}" for gpu, node in matrix.numa.items()}


@given(matrix=matrices(), style=st.sampled_from(STYLES), data=st.data())
def test_a_lost_row_makes_it_incomplete(matrix: Matrix, style: Callable[[Matrix], str], data: st.DataObject) -> None:
    text = tabbed(matrix)
    if len(matrix.names) < 3:
        return
    lost = data.draw(st.sampled_from(matrix.names[1:]))
    facts = read("\n".join(line for line in text.splitlines() if not line.startswith(f"{lost}\t")))
    assert not facts.complete
    assert lost not in dict(facts.row_lines)
    assert all(facts.letters(*pair) == matrix.letters[pair] for pair, _ in facts.cells)


TWO = (
    "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tPIX\t0-3\t0\t\tN/A\n"
    "GPU1\tPIX\t X \t0-3\t0\t\tN/A\n"
)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "empty"),
        ("\ufeff \r\n", 1, "empty"),
        ("\x00\x01\x02GPU0", 1, "binary"),
        ("\x07\x06" * 900, 1, "binary"),
        ("<!DOCTYPE html><html><pre>" + TWO, 1, "HTML"),
        ("<system version='1'/>", 1, "no path matrix"),
        ("GPU0 is fast, GPU1 is not", 1, "no path matrix"),
        ("bash: nvidia-smi: command not found", 1, "'bash: nvidia-smi: command not found'"),
        ("\nNo devices were found\n", 2, "No devices were found"),
        ("\tGPU0\tGPU1\n\n", 1, "names 2 devices but no row"),
        (TWO.replace("GPU1\tPIX", "GPU1\tPHB"), 3, "not symmetric: GPU0-GPU1 is PIX in line 2 and PHB in line 3"),
        (TWO.replace("PIX", "MX"), 2, "unknown path letters 'MX'"),
        (TWO.replace("PIX", "NV0"), 2, "unknown path letters 'NV0'"),
        (TWO + TWO.splitlines()[2], 4, "two rows are called GPU1"),
        (TWO.replace("GPU1\tPIX\t X ", "GPU1\tPIX\tPIX"), 3, "shifted"),
        (TWO.replace("GPU1\tPIX\t X ", "GPU1\t X \tPIX"), 3, "X stands under GPU0"),
        (TWO.replace("GPU0\t X \tPIX", "GPU0\t X \tPIX\tPIX"), 2, "more than 2 path cells"),
        (TWO.replace("GPU1\tPIX\t X ", "GPU2\tPIX\tSYS\t X "), 3, "row GPU2 is not among the 2 devices"),
        (TWO.replace("GPU0\t X \tPIX", "GPU0\t X "), 2, "has 1 path cells"),
        (TWO.replace("GPU0\t X \tPIX\t0-3\t0\t\tN/A", "GPU0\t X "), 2, "has 1 path cells"),
        (TWO.replace("GPU1", "GU1").replace("PIX", "NV4"), 2, "GPU0-GU1 is NV4, yet only GPUs"),
        (TWO + "\n" + TWO.replace("PIX", "PHB"), 6, "two different matrices"),
        ("\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n", 1, "topo -p2p"),
        ("\t" + "\t".join(f"GPU{number}" for number in range(5000)) + "\nGPU0\tX\n", 1, "names 5000 devices"),
    ],
)
def test_refused(text: str, line: int, says: str) -> None:
    with pytest.raises(CaptureError) as refused:
        read(text, "box.txt")
    assert str(refused.value).startswith(f"box.txt, line {line}: ")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["x" * (50 * 2**20), "GPU0 X PIX\n" * 5_000_000], ids=["junk", "rows"])
def test_what_is_too_large_is_refused_unread(text: str) -> None:
    def refused() -> None:
        with pytest.raises(CaptureError, match="too many"):
            read(text, "big.txt")
        assert not sniff(text)

    assert calls(refused) < 1000


@pytest.mark.parametrize("piece", ["GPU0 ", "GPU0 X ", "GPU0\n", "GPU0 NODE\n", "X ", "CPU Affinity "])
def test_the_work_of_junk_grows_with_its_length(piece: str) -> None:
    def work(length: int) -> int:
        def refused() -> None:
            with pytest.raises(CaptureError):
                read(piece * (length // len(piece)))

        return calls(refused)

    assert work(MAX_MATRIX_CHARS // 16) < 5 * work(MAX_MATRIX_CHARS // 64)


def test_a_lost_gpu_is_noted_beside_the_matrix() -> None:
    facts = read("Unable to determine the device handle for GPU2: 0000:34:00.0: Unknown Error\n" + TWO)
    assert facts.letters("GPU0", "GPU1") == "PIX"
    assert "GPU2: 0000:34:00.0" in facts.notes[0]


def test_mp_beside_m_adds_nothing_and_contradicts_nothing() -> None:
    assert read(TWO + TWO.replace("PIX", "NV4")).letters("GPU0", "GPU1") == "NV4"


def test_old_letters() -> None:
    facts = read(TWO.replace("PIX", "SOC"))
    assert facts.letters("GPU1", "GPU0") == "SYS"
    assert read(TWO.replace("PIX", "PSB")).letters("GPU0", "GPU1") == "PIX"


def test_cells_without_letters_are_not_shown() -> None:
    facts = read(TWO.replace("PIX", "N/A"))
    assert facts.letters("GPU0", "GPU1") is None
    assert not facts.complete


def test_an_empty_field_is_a_cell_that_is_not_shown() -> None:
    facts = read("\tGPU0\tGPU1\tGPU2\nGPU0\t X \t\tSYS\nGPU1\tPIX\t X \tSYS\nGPU2\tSYS\tSYS\t X \n")
    assert facts.letters("GPU0", "GPU1") == "PIX"
    assert facts.letters("GPU0", "GPU2") == "SYS"
    assert not facts.complete


def test_a_header_that_is_lost_is_read_off_the_diagonal() -> None:
    facts = read("\n".join(TWO.splitlines()[1:]))
    assert facts.names == ("GPU0", "GPU1")
    assert facts.letters("GPU0", "GPU1") == "PIX"


@pytest.mark.parametrize(
    "remark", ["GPU0 and GPU1 are joined", "GPU1 SYS to the NIC is expected", "GPU0", "  ^ see GPU0 above", "12"]
)
@pytest.mark.parametrize("place", [0, 1, 3])
def test_remarks_around_the_matrix_do_not_matter(remark: str, place: int) -> None:
    lines = TWO.splitlines()
    lines.insert(place, remark)
    assert dict(read("\n".join(lines)).cells) == {("GPU0", "GPU1"): "PIX"}


@pytest.mark.parametrize(
    ("place", "failure"),
    [
        (0, "Failed to initialize NVML: Driver/library version mismatch"),
        (2, "Failed to initialize NVML: Unknown Error"),
        (3, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
    ],
)
def test_a_failure_beside_the_matrix_is_told_with_its_line(place: int, failure: str) -> None:
    lines = TWO.splitlines()
    lines.insert(place, failure)
    facts = read("\n".join(lines))
    assert dict(facts.cells) == {("GPU0", "GPU1"): "PIX"}
    assert [note for note in facts.notes if f"line {place + 1}: {failure}" in note]


def test_a_command_of_another_tool_that_is_missing_says_nothing_of_the_matrix() -> None:
    assert read(TWO + "bash: rocm-smi: command not found\n").notes == ()
