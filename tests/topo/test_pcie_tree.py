"""Letters -> smallest PCIe tree: known machines by eye, then random trees and random nonsense."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tests.topo.matrices import Matrix, matrices
from topo.pcie_tree import LEVELS, Bridge, Node, PcieTree, Shortcut, Switch, smallest_tree


def tree_of(rows: str, **places: tuple[str | None, str | None]) -> PcieTree:
    """The tree of devices a, b, c, ... from the upper triangle of their letters, `-` for a pair not known."""
    triangle = [row.split() for row in rows.strip().splitlines()]
    names = "abcdefgh"[: len(triangle) + 1]
    known = {
        (names[row], names[row + 1 + column]): cell
        for row, cells in enumerate(triangle)
        for column, cell in enumerate(cells)
    }
    return smallest_tree(names, lambda one, other: known.get((one, other), known.get((other, one))), places)


def test_one_device() -> None:
    assert smallest_tree(["a"], lambda one, other: None).nodes == (Node((Bridge(("a",)),)),)


def test_pix_is_one_switch() -> None:
    assert tree_of("PIX").nodes == (Node((Bridge((), (Switch(("a", "b")),)),)),)


def test_pxb_is_two_switches_and_no_third() -> None:
    tree = tree_of("PIX PXB PXB\nPXB PXB\nPIX")
    assert tree.nodes == (Node((Bridge((), (Switch(("a", "b"), (Switch(("c", "d")),)),)),)),)


def test_phb_shares_a_bridge_without_switches() -> None:
    assert tree_of("PHB PHB\nPHB").nodes == (Node((Bridge(("a", "b", "c")),)),)


def test_node_is_two_bridges_and_sys_two_nodes() -> None:
    tree = tree_of("NODE SYS\nSYS")
    assert tree.nodes == (Node((Bridge(("a",)), Bridge(("b",)))), Node((Bridge(("c",)),)))


def test_hidden_pairs_go_by_their_relation_to_others() -> None:
    """a-b is hidden; both are PIX to c, so all three share a switch."""
    assert tree_of("- PIX\nPIX").nodes == (Node((Bridge((), (Switch(("a", "b", "c")),)),)),)


def test_hidden_pairs_are_kept_apart_by_others() -> None:
    """a-b is hidden; c is PIX to a and NODE to b, so b cannot share a's host bridge."""
    assert tree_of("- PIX\nNODE").nodes == (Node((Bridge((), (Switch(("a", "c")),)), Bridge(("b",)))),)


def test_hidden_pairs_follow_their_numa_node() -> None:
    tree = tree_of("- - -\n- -\n-", a=("0", None), b=("1", None), c=("0", None), d=("1", None))
    assert [node.all_devices() for node in tree.nodes] == [("a", "c"), ("b", "d")]


def test_letters_outrank_stated_numa_nodes() -> None:
    tree = tree_of("SYS", a=("0", None), b=("0", None))
    assert len(tree.nodes) == 2
    tree = tree_of("NODE", a=("0", None), b=("1", None))
    assert len(tree.nodes) == 1


def test_a_device_that_states_nothing_follows_the_one_before() -> None:
    tree = tree_of("SYS -\n-", a=("0", None), b=("1", None))
    assert [node.all_devices() for node in tree.nodes] == [("a",), ("b", "c")]


def test_letters_that_no_tree_explains_become_a_shortcut() -> None:
    """a and b are NODE to each other, yet both PHB to c."""
    tree = tree_of("NODE PHB\nPHB")
    assert tree.shortcuts == (Shortcut("b", "c", "PHB"),)
    assert tree.nodes == (Node((Bridge(("a", "c")), Bridge(("b",)))),)


@given(matrices(max_gpus=6))
def test_every_tree_is_explained_without_shortcuts(matrix: Matrix) -> None:
    tree = smallest_tree(matrix.names, lambda one, other: matrix.letters[one, other])
    assert tree.shortcuts == ()
    assert sorted(name for node in tree.nodes for name in node.all_devices()) == sorted(matrix.names)


@given(st.lists(st.sampled_from([*LEVELS, None]), min_size=28, max_size=28))
def test_any_letters_have_a_tree_whose_shortcuts_are_nearer_than_it(cells: list[str | None]) -> None:
    names = "abcdefgh"
    known = dict(zip(combinations(names, 2), cells, strict=True))
    tree = smallest_tree(names, lambda one, other: known.get((one, other), known.get((other, one))))
    assert sorted(name for node in tree.nodes for name in node.all_devices()) == list(names)
    assert all(known[pair.one, pair.other] == pair.letters for pair in tree.shortcuts)
