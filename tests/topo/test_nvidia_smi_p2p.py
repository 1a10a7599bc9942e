"""`nvidia-smi topo -p2p`: real captures first, then the ways people leave such a table, then what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import corpus_files
from topo.errors import CaptureError
from topo.readers.nvidia_smi_p2p import MEANINGS, P2pTable, read, sniff
from topo.readers.topo_header import P2P_MARKS

EXPECTED = [(path, json.loads(path.read_text())) for path in corpus_files("nvidia-smi/*.expected.json")]
TABLES = [(path, want) for path, want in EXPECTED if want["kind"] == "topo_p2p"]

TWO = "\tGPU0\tGPU1\t\n GPU0\tX\tCNS\t\n GPU1\tCNS\tX\t\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"


def text_of(expected: Path) -> str:
    return expected.with_name(expected.name.replace(".expected.json", ".txt")).read_text(encoding="utf-8")


def name_of(value: object) -> str:
    return value.name[:3] if isinstance(value, Path) else ""


def only(text: str) -> P2pTable:
    (table,) = read(text, "p2p.txt").tables
    return table


@pytest.mark.corpus
@pytest.mark.parametrize(("expected", "want"), TABLES, ids=name_of)
def test_captures(expected: Path, want: dict[str, Any]) -> None:
    table = only(text_of(expected))
    assert sniff(text_of(expected))
    assert len(table.names) == want["gpus"]
    assert [[one, other, table.mark(one, other)] for one, other, _ in want["pairs"]] == want["pairs"]
    assert table.complete == want["complete"]
    lines = text_of(expected).splitlines()
    assert all(lines[line - 1].split()[0] == name for name, line in table.row_lines)


@pytest.mark.corpus
def test_a_table_beside_a_path_matrix(corpus: Path) -> None:
    (path,) = corpus.glob("nvidia-smi/066-*.txt")
    table = only(path.read_text(encoding="utf-8"))
    assert (table.capability, table.refused, len(table.names)) == ("rw", (), 4)


def test_a_pair_that_is_refused() -> None:
    facts = read(TWO, "p2p.txt")
    (table,) = facts.tables
    assert table.refused == (("GPU0", "GPU1", "CNS"),)
    assert facts.meanings == (("CNS", "the chipset does not support it"),)
    assert (table.line("GPU1"), table.line("GPU2"), table.capability) == (3, None, None)


def test_each_table_has_the_capability_of_its_command() -> None:
    text = f"$ nvidia-smi topo -p2p r\n{TWO}$ nvidia-smi topo -p2p w\n{TWO.replace('CNS', 'OK')}"
    assert [(table.capability, table.refused[:1]) for table in read(text).tables] == [
        ("r", (("GPU0", "GPU1", "CNS"),)),
        ("w", ()),
    ]


def test_one_direction_may_differ() -> None:
    table = only(TWO.replace("GPU1\tCNS", "GPU1\tOK"))
    assert (table.mark("GPU0", "GPU1"), table.mark("GPU1", "GPU0")) == ("CNS", "OK")
    assert table.refused == (("GPU0", "GPU1", "CNS"),)


def test_a_mark_of_a_newer_driver_is_known_by_its_legend() -> None:
    text = TWO.replace("CNS", "ZZS") + "  CNS  = Chipset not supported\n  ZZS  = Zone not set\n"
    mixed = text.replace("GPU1\tZZS", "GPU1\tCNS")
    assert dict(read(mixed).meanings) == {"CNS": MEANINGS["CNS"], "ZZS": "Zone not set"}


def test_the_marks_are_those_that_the_path_matrix_refuses() -> None:
    assert set(MEANINGS) == P2P_MARKS


STYLES: list[Callable[[list[list[str]]], str]] = [
    lambda rows: "\n".join(" \t".join(row) for row in rows) + "\n",
    lambda rows: "\n".join("  ".join(f"{cell:8}" for cell in row) for row in rows) + "\n",
    lambda rows: "\r\n".join(" ".join(row) for row in rows) + "\r\n",
    lambda rows: "\ufeff" + "\n".join("\t".join(row) for row in rows) + "\n",
    lambda rows: "\n".join("# " + "\t".join(row) for row in rows) + "\n",
    lambda rows: "\n".join("2026-01-02T03:04:05Z rank0: " + "\t".join(row) for row in rows) + "\n",
    lambda rows: (
        "root@box:~# nvidia-smi topo -p2p r\n \t\x1b[4m"
        + "\t".join(rows[0])
        + "\x1b[0m\n"
        + "\n".join("\t".join(r) for r in rows[1:])
        + "\n"
    ),
    lambda rows: (
        "| | "
        + " | ".join(rows[0])
        + " |\n|---|---|\n"
        + "\n".join("| " + " | ".join(row) + " |" for row in rows[1:])
        + "\n"
    ),
    lambda rows: " ".join(cell for row in rows for cell in row) + " Legend: X = Self OK = Status Ok\n",
]


@st.composite
def marked(draw: st.DrawFn) -> tuple[int, dict[tuple[int, int], str]]:
    num_gpus = draw(st.integers(2, 9))
    pairs = [(one, other) for one in range(num_gpus) for other in range(num_gpus) if one != other]
    return num_gpus, {pair: draw(st.sampled_from(sorted(MEANINGS))) for pair in pairs}


@given(marks=marked(), style=st.sampled_from(STYLES))
def test_every_way_of_writing_gives_the_same_table(
    marks: tuple[int, dict[tuple[int, int], str]], style: Callable[[list[list[str]]], str]
) -> None:
    num_gpus, wanted = marks
    names = [f"GPU{number}" for number in range(num_gpus)]
    rows = [names, *([f"GPU{i}", *(wanted.get((i, k), "X") for k in range(num_gpus))] for i in range(num_gpus))]
    table = only(style(rows))
    assert sniff(style(rows))
    assert table.names == tuple(names)
    assert {(int(one[3:]), int(other[3:])): mark for (one, other), mark in table.cells} == wanted
    assert table.complete


@given(cut=st.integers(0, len(TWO)))
def test_a_cut_text_never_lies(cut: int) -> None:
    try:
        table = only(TWO[:cut])
    except CaptureError:
        return
    assert {mark for _, mark in table.cells} <= {"CNS", None}
    assert table.complete == (cut >= TWO.index("X\t\n\nLegend") + 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: no table of peer-to-peer states"),
        ("GPU0 GPU1 are OK today\n", "no table of peer-to-peer states"),
        (
            TWO.replace("GPU0\tX\tCNS", "GPU0\tCNS\tX"),
            "line 2: cells of row GPU0 are lost or shifted: CNS stands under",
        ),
        (TWO.replace("GPU1\tCNS\tX", "GPU0\tX\tCNS"), "line 3: two rows are called GPU0"),
        (TWO.replace("CNS\tX\t", "WAT\tX\tCNS"), "line 3: row GPU1 has 0 cells .* then 'WAT'"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        read(text, "p2p.txt")


def test_a_row_without_its_mark_is_missing() -> None:
    table = only(TWO.replace("X\tCNS\t", "X\t"))
    assert (table.complete, table.row_lines) == (False, (("GPU1", 3),))


@pytest.mark.parametrize("text", ["", "\x00" * 5000 + "GPU0 OK", "a GPU0 is OK", "\tGPU0\tGPU1\nGPU0\t X \tNV4\n"])
def test_what_is_no_such_table_is_not_claimed(text: str) -> None:
    assert not sniff(text)
