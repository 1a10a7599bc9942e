"""What a sweep may ask for: every axis, the numbering of points, and one sentence for what cannot be."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.sweep_pieces import pieces_of
from sim.sweep_spec import AXES, SHARING, Spec, parse_spec, read_spec
from topo.errors import CaptureError

GRID = """
topology = ["dgx-h100", "dgx-a100"]
nodes = "1-3"
size = { begin = "1K", end = "1M", factor = 4 }
changes = ["", "break nvlink; p2p off"]
env = ["", "NCCL_ALGO=Ring NCCL_PROTO=LL"]
channels = [1, 2]
"""


def values_of(spec: Spec, axis: str) -> tuple[object, ...]:
    return spec.values[tuple(AXES).index(axis)]


def test_axes_are_read_and_the_others_have_their_defaults() -> None:
    spec = parse_spec(GRID)
    assert spec.num_points == 2 * 3 * 6 * 2 * 2 * 2
    assert values_of(spec, "nodes") == range(1, 4)
    assert values_of(spec, "size") == tuple(1024 * 4**step for step in range(6))
    assert values_of(spec, "profile") == ("auto",)
    assert values_of(spec, "protocol") == (None,)


def test_points_are_counted_with_the_last_axis_fastest() -> None:
    spec = parse_spec(GRID)
    grid = list(itertools.product(*spec.values))
    assert [tuple(spec.point(number).values()) for number in range(spec.num_points)] == grid
    assert list(spec.point(0)) == list(AXES)


def test_points_that_share_a_machine_stand_side_by_side() -> None:
    spec = parse_spec(GRID)
    keys = [tuple(spec.point(number)[name] for name in SHARING) for number in range(spec.num_points)]
    assert len(list(itertools.groupby(keys))) == len(set(keys)) == spec.num_points // spec.num_sharing


def test_a_grid_of_any_size_costs_nothing() -> None:
    spec = parse_spec(
        f'topology = "dgx-h100"\nnodes = "1-1000"\nseed = "1-1000"\njitter = "1us"\nsize = {list(range(1, 1001))}'
    )
    assert spec.num_points == 10**9
    assert spec.point(10**9 - 1)["seed"] == 1000


def test_a_range_is_not_written_out() -> None:
    spec = parse_spec(f'topology = "dgx-h100"\nnodes = "1-1000000"\nseed = "0-{10**17}"\njitter = "1us"')
    assert spec.num_points == 10**6 * (10**17 + 1)
    assert spec.point(spec.num_points - 1)["seed"] == 10**17
    assert len(spec.id) == 12


@pytest.mark.parametrize("text", ["", "\n \n", "# nothing\n"])
def test_a_file_that_asks_for_nothing_says_what_it_needs(text: str, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(text)
    with pytest.raises(CaptureError, match="no topology: add one"):
        read_spec(tmp_path / "grid.toml")


def test_a_sweep_is_known_by_what_it_asks_for() -> None:
    assert parse_spec(GRID).id == parse_spec(f"# the same\n{GRID}").id
    assert parse_spec(GRID).id != parse_spec(GRID.replace("factor = 4", "factor = 2")).id


def test_starts_that_are_spread_have_a_seed() -> None:
    spec = parse_spec('topology = "dgx-h100"\njitter = "20us"')
    assert values_of(spec, "seed") == (0,)
    assert spec.jitter_s == pytest.approx(20e-6)
    late = parse_spec('topology = "dgx-h100"\nseed = [1, 2]\nlate_ranks = 1\nlate_by = "2ms"')
    assert (late.late_ranks, late.late_by_s) == (1, 2e-3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no topology"),
        ('topology = "dgx-h100"\nnode = 2', "unknown axis 'node': did you mean 'nodes'"),
        ('topology = "dgx-h100"\nnodes = 0', "nodes: 0: a whole number from 1"),
        ('topology = "dgx-h100"\nnodes = true', "nodes: True is no whole number"),
        ('topology = "dgx-h100"\nnodes = "4-2"', "write 2-4"),
        ('topology = "dgx-h100"\nnodes = "1-100000000000"', "100000000000: a whole number from 1 to 1000000"),
        (f'topology = "dgx-h100"\nnodes = "1-{10**20}"', "at most 18 digits"),
        ('topology = "dgx-h100"\nsize = { begin = "1M", end = "1K" }', "let end be at least begin"),
        ('topology = "dgx-h100"\nsize = { begin = 1, end = 9, factor = 1 }', "factor = 1 never end"),
        ('topology = "dgx-h100"\njitter = "1e300s"', "jitter: 1e300s: expected at most a day"),
        ('topology = "dgx-h100"\nlate_ranks = 1\nlate_by = "1e300s"', "late_by: 1e300s: expected at most a day"),
        ('topology = "dgx-h100"\nnodes = []', "nodes: no value"),
        ('topology = "dgx-h100"\nnodes = [2, 2]', "nodes: 2 stands twice"),
        ('topology = "dgx-h100"\nsize = "1X"', "size: cannot read '1X' as a size"),
        ('topology = "dgx-h100"\nsize = 0', "at least 1 byte"),
        ('topology = "dgx-h100"\nsize = { begin = "1K" }', "needs begin and end"),
        ('topology = "dgx-h100"\nsize = { begin = "1K", end = "1G", step = 2 }', "unknown key 'step'"),
        ('topology = "dgx-h100"\nchanges = ["brek nvlink"]', "did you mean 'break'"),
        ('topology = "dgx-h100"\nchanges = ["nodes 2,4"]', "use the axis nodes"),
        ('topology = "dgx-h100"\nfabric = ["ral"]', "did you mean 'rail'"),
        ('topology = "dgx-h100"\nenv = ["PATH=x"]', "begins with NCCL_"),
        ("topology = 5", "topology: 5 is no text"),
        ('topology = "dgx-h100"\nseed = [1]', "seeds change nothing"),
        ('topology = "dgx-h100"\nlate_ranks = 1', "late_ranks and late_by go together"),
        ('topology = "dgx-h100"\njitter = "20"', "jitter: cannot read '20'"),
        ('topology = "dgx-h100', "no TOML"),
    ],
)
def test_what_cannot_be_is_one_sentence_with_its_file_and_axis(text: str, says: str) -> None:
    with pytest.raises(CaptureError) as refused:
        parse_spec(text, "grid.toml")
    assert str(refused.value).startswith("grid.toml: ")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.integers(1, 40), st.integers(1, 300), st.integers(1, 8), st.sets(st.integers(0, 500)))
def test_pieces_hold_every_point_that_is_left_once_and_in_order(
    num_nodes: int, num_sizes: int, num_workers: int, done: set[int]
) -> None:
    spec = parse_spec(f'topology = "dgx-h100"\nnodes = "1-{num_nodes}"\nsize = {list(range(1, num_sizes + 1))}')
    pieces = list(pieces_of(spec, done, num_workers))
    assert [number for piece in pieces for number in piece.numbers] == [
        number for number in range(spec.num_points) if number not in done
    ]
    assert all(piece.points for piece in pieces)
    assert done or len(pieces) >= min(num_workers, spec.num_points)
