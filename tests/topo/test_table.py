"""Tables: whole in every width, plain in pipes, numbers in full for programs."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.table import Cell, Column, Table
from topo.units import format_size

SIZES = Table(
    (
        Column("size", "num_bytes", show=format_size),
        Column("algorithm", "algorithm"),
        Column("time us", "time_us", ",.2f"),
        Column("algbw\nGB/s", "algbw_gb_per_s", ".2f"),
        Column("limiting link", "limiting_link"),
    ),
    (
        (65536, "parameter-server", 17.67, 3.71, "GPU0->NVS0"),
        (1 << 30, "ring", 40555.61, 26.48, "a link of several words"),
        (1 << 20, "ring", None, None, None),
    ),
    "all_reduce on dgx-h100, 8 ranks: simulated, profile nccl-constants, engine event and steady",
)
FOLDED_TITLE = (
    "all_reduce on dgx-h100, 8 ranks: simulated, profile nccl-constants,",
    "  engine event and steady",
)


class Screen(io.StringIO):
    """A standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def on_a_screen(table: Table, width: int, monkeypatch: pytest.MonkeyPatch, **environment: str) -> list[str]:
    """What people see on a terminal of that width, without its bold letters."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Screen())
        for name, value in {"COLUMNS": str(width), "TERM": "xterm", **environment}.items():
            patch.setenv(name, value)
        text = table.text(terminal=True)
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


def test_a_table_shows_numbers_to_people_and_whole_to_programs() -> None:
    table = Table(
        (Column("time (us)", "time_us"), Column("what", "what"), Column("n", "count")),
        ((1234.5678, "a|b", 3), (None, "c,d", 12)),
        title="Times",
    )
    assert table.csv() == 'time_us,what,count\n1234.5678,a|b,3\n,"c,d",12\n'
    assert table.markdown() == (
        "| time (us) | what | n |\n| ---: | --- | ---: |\n| 1235 | a\\|b | 3 |\n| - | c,d | 12 |\n"
    )
    assert table.text(terminal=False) == "Times\ntime (us)  what   n\n     1235  a|b    3\n        -  c,d   12\n"


def test_a_formatter_is_for_people_alone() -> None:
    assert SIZES.csv().splitlines()[1:] == [
        "65536,parameter-server,17.67,3.71,GPU0->NVS0",
        "1073741824,ring,40555.61,26.48,a link of several words",
        "1048576,ring,,,",
    ]
    assert "| 64 KiB | parameter-server | 17.67 | 3.71 | GPU0->NVS0 |" in SIZES.markdown()
    assert "| algbw GB/s |" in SIZES.markdown().splitlines()[0]
    assert SIZES.text(terminal=False).splitlines()[3].startswith("64 KiB  parameter-server  ")


@pytest.mark.parametrize("columns", [None, "", "20", "0", "-1", "wide", "80"])
def test_in_a_pipe_a_row_is_a_line_where_80_columns_hold_it(
    columns: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert SIZES.text(terminal=True).splitlines() == [
        *FOLDED_TITLE,
        "  size  algorithm           time us  algbw GB/s  limiting link",
        "64 KiB  parameter-server      17.67        3.71  GPU0->NVS0",
        " 1 GiB  ring              40,555.61       26.48  a link of several words",
        " 1 MiB  ring                      -           -  -",
    ]


@pytest.mark.parametrize(("columns", "is_whole"), [("87", False), ("88", True), ("200", True)])
def test_a_pipe_is_wider_where_the_environment_says_so(
    columns: str, is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    wide = Table((Column("one", "one"), Column("other", "other")), (("one " * 10 + "name", "another " * 5 + "one"),))
    assert (len(wide.text(terminal=False).splitlines()) == 2) == is_whole


NARROWED = {
    70: """
                                        algbw
  size  algorithm           time us      GB/s  limiting link
64 KiB  parameter-server      17.67      3.71  GPU0->NVS0
 1 GiB  ring              40,555.61     26.48  a link of several words
 1 MiB  ring                      -         -  -
""",
    64: """
                                   algbw
  size algorithm          time us   GB/s limiting link
64 KiB parameter-server     17.67   3.71 GPU0->NVS0
 1 GiB ring             40,555.61  26.48 a link of several words
 1 MiB ring                     -      - -
""",
    60: """
  size  algorithm        time us  algbw GB/s  limiting link
64 KiB  parameter-         17.67        3.71  GPU0->NVS0
        server
 1 GiB  ring           40,555.61       26.48  a link of
                                              several words
 1 MiB  ring                   -           -  -
""",
    40: """
       algorith           algbw limiting
  size m          time us  GB/s link
64 KiB paramete     17.67  3.71 GPU0->
       r-                       NVS0
       server
 1 GiB ring     40,555.61 26.48 a link
                                of
                                several
                                words
 1 MiB ring             -     - -
""",
}


@pytest.mark.parametrize("width", NARROWED)
def test_on_a_screen_it_is_narrowed_step_by_step(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.rstrip() for line in on_a_screen(replace(SIZES, title=""), width, monkeypatch)]
    assert lines == NARROWED[width].strip("\n").split("\n")


def test_a_dumb_terminal_has_its_width_too(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = on_a_screen(SIZES, 200, monkeypatch, TERM="dumb")
    wide = Table((Column("x", "x"), Column("y", "y")), (("a" * 90, "b" * 90),))
    assert "40,555.61       26.48  a link of several words" in lines[3]
    assert on_a_screen(wide, 200, monkeypatch, TERM="dumb")[1] == f"{'a' * 90}  {'b' * 90}"


def test_without_rows_the_titles_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(SIZES.columns, ())
    assert table.text(terminal=False) == "size  algorithm  time us  algbw GB/s  limiting link\n"
    assert on_a_screen(table, 80, monkeypatch)[0].split() == table.text(terminal=False).split()


cells = st.one_of(
    st.text(st.sampled_from("ab-> "), min_size=1, max_size=60).filter(str.strip),
    st.integers(0, 10**9),
    st.floats(0, 1e9),
    st.none(),
)
tables = st.integers(1, 5).flatmap(
    lambda count: st.builds(
        Table,
        st.tuples(*[st.builds(Column, st.sampled_from(["time us", "GB\ns", "a long title"]), st.just("key"))] * count),
        st.lists(st.tuples(*[cells] * count), min_size=1, max_size=4).map(tuple),
    )
)


def numbers(table: Table) -> list[tuple[Column, Cell]]:
    """The cells of columns that hold numbers and nothing else."""
    columns = list(zip(*table.rows, strict=True))
    whole = [number for number, column in enumerate(columns) if not any(isinstance(cell, str) for cell in column)]
    return [(table.columns[number], row[number]) for row in table.rows for number in whole]


@given(table=tables, width=st.integers(10, 120))
def test_nothing_is_cut_in_any_width(table: Table, width: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        lines = on_a_screen(table, width, patch)
    assert "…" not in "".join(lines)
    for column, cell in numbers(table):
        assert any(column.shown(cell) in line.split() for line in lines)
    letters = sorted("".join("".join(column.line for column in table.columns).split()))
    for row in table.rows:
        letters += "".join(column.shown(cell) for column, cell in zip(table.columns, row, strict=True)).split()
    assert sorted("".join(lines).replace(" ", "")) == sorted("".join(letters).replace(" ", ""))


names = st.lists(
    st.sampled_from(["GPU0->", "fat-", "node3/", "mlx5_0 ", "parameter-", "and "]), min_size=1, max_size=12
)
long_cells = st.one_of(names.map("".join).map(str.strip), st.integers(0, 10**9), st.floats(0, 1e9), st.none())
named_tables = st.integers(1, 6).flatmap(
    lambda count: st.builds(
        Table,
        st.tuples(*[st.builds(Column, st.sampled_from(["time us", "GB\ns"]), st.just("key"))] * count),
        st.lists(st.tuples(*[long_cells] * count), min_size=1, max_size=4).map(tuple),
        st.sampled_from(["", SIZES.title, "phrase, " * 20, "word " * 40]),
    )
)


@given(named_tables)
def test_in_a_pipe_a_table_has_80_columns_and_every_part_of_a_name_is_whole(table: Table) -> None:
    lines = table.text(terminal=False).splitlines()
    assert max(map(len, lines)) <= 80
    for word in table.title.split():
        assert any(word in line.split() for line in lines)
    for column, cell in numbers(table):
        assert any(column.shown(cell) in line.split() for line in lines)
    for cell in (cell for row in table.rows for cell in row if isinstance(cell, str)):
        for part in re.findall(r"[A-Za-z0-9_]+(?:->|-|/)?", cell):
            assert any(part in line for line in lines)


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1"])
def test_no_name_becomes_a_formula_in_a_spreadsheet(name: str) -> None:
    written = Table((Column("name", "name"), Column("count", "count")), ((name, -1),)).csv()
    assert written == f"name,count\n'{name},-1\n"


ASIDE = Table(
    (
        Column("change", "change"),
        Column("time\nchange", "time_change", ".1f"),
        Column("channels", "num_channels", aside="channels: {}"),
        Column("remark", "remark", aside="{}"),
    ),
    (
        ("break GPU0-GPU1", 5.9, 10, "EXTRAPOLATED"),
        ("remove mlx5_0", None, 10, "EXTRAPOLATED"),
        ("late GPU3 by 20us", 69.6, 11, "beside the baseline by its schedule, transfer by transfer, in 28.74 us"),
        ("p2p off", 70.0, None, None),
    ),
)


def test_columns_go_aside_as_numbered_notes_where_the_table_is_too_wide_for_a_pipe() -> None:
    assert ASIDE.text(terminal=False).splitlines() == [
        "change             time change  note",
        "break GPU0-GPU1            5.9  [1]",
        "remove mlx5_0                -  [1]",
        "late GPU3 by 20us         69.6  [2]",
        "p2p off                   70.0  -",
        "[1] channels: 10, EXTRAPOLATED",
        "[2] channels: 11, beside the baseline by its schedule, transfer by transfer, in",
        "    28.74 us",
    ]


def test_titles_take_two_lines_where_notes_alone_do_not_make_it_fit() -> None:
    name = "x" * 59
    wide = Table(ASIDE.columns, ((name, 5.9, 10, "EXTRAPOLATED"),))
    lines = wide.text(terminal=False).splitlines()
    assert lines[0] == f"change{' ' * 55}time change  note"
    longer = Table(ASIDE.columns, ((f"{name}{name}", 5.9, 10, "EXTRAPOLATED"),)).text(terminal=False).splitlines()
    assert [line.split() for line in longer[:2]] == [["time"], ["change", "change", "note"]]


def test_what_goes_aside_at_last_stays_where_the_others_notes_are_enough() -> None:
    columns = (*ASIDE.columns, Column("link", "link", aside="link {}", at_last=True))
    short, long = ("GPU0->NVS0", "-> ".join(["node3/GPU0"] * 5))
    for link, is_there in ((short, True), (long, False)):
        rows = tuple((*row, link) for row in ASIDE.rows)
        head, *lines = Table(columns, rows).text(terminal=False).splitlines()
        assert ("link" in head.split()) == is_there
        assert any(f"link {link.split()[0]}" in line for line in lines) != is_there


def test_nothing_goes_aside_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "remark" in on_a_screen(ASIDE, 140, monkeypatch)[0]
    narrow = on_a_screen(ASIDE, 60, monkeypatch)
    assert narrow[-1] == "    transfer by transfer, in 28.74 us"
    assert max(map(len, narrow)) <= 60
    assert ASIDE.csv().splitlines()[0] == "change,time_change,num_channels,remark"
    assert "remark" in ASIDE.markdown()
