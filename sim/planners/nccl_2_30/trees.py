"""Double binary trees over nodes (src/graph/trees.cc of NCCL 2.30.7)."""

from __future__ import annotations

from dataclasses import dataclass, replace

NOBODY = -1


@dataclass(frozen=True, slots=True)
class Place:
    """Where one node sits in a binary tree over nodes; `second_child` says which child of its parent it is."""

    up: int
    down: tuple[int, int]
    second_child: bool


def binary_tree(node: int, num_nodes: int) -> Place:
    """The node's place in the binary tree whose root is node 0 and whose leaves are the odd nodes."""
    bit = node & -node
    if node == 0:
        largest = 1 << (num_nodes - 1).bit_length() >> 1
        return Place(NOBODY, (NOBODY, largest if num_nodes > 1 else NOBODY), False)
    up = node ^ bit | bit << 1
    if up >= num_nodes:
        up = node ^ bit
    low = bit >> 1
    if low == 0:
        return Place(up, (NOBODY, NOBODY), node > up)
    second, half = node + low, low
    while second >= num_nodes:
        half >>= 1
        second = node + half if half else NOBODY
    return Place(up, (node - low, second), node > up)


def double_tree(node: int, num_nodes: int) -> tuple[Place, Place]:
    """The node's places in both trees: the second is the first mirrored, or shifted by one for odd numbers."""
    first = binary_tree(node, num_nodes)
    if num_nodes % 2:
        place = binary_tree((node - 1) % num_nodes, num_nodes)

        def back(other: int) -> int:
            return (other + 1) % num_nodes
    else:
        place = binary_tree(num_nodes - 1 - node, num_nodes)

        def back(other: int) -> int:
            return num_nodes - 1 - other

    def known(other: int) -> int:
        return NOBODY if other == NOBODY else back(other)

    return first, replace(place, up=known(place.up), down=(known(place.down[0]), known(place.down[1])))


def floor_log2(value: int) -> int:
    """The exponent of the largest power of two that is not above the value."""
    return value.bit_length() - 1
