"""What a path matrix leaves open, contradicts, or has assumed for it, a note each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topo.catalog import PCIE_WIDTH
from topo.finding import INCONSISTENT, Finding, notes

if TYPE_CHECKING:
    from topo.nvlink_groups import NvlinkGroup
    from topo.pcie_tree import PcieTree
    from topo.readers.nvidia_smi_topo import MatrixFacts

NVLINK_GENERATION = "nvlink-generation"
PCIE_RATES = "pcie-rates"
CPU_RATES = "cpu-rates"
"""Rules of what is assumed: a further source that tells it takes the note away."""


@dataclass(frozen=True, slots=True)
class Understood:
    """A matrix with what was made of it.

    `node_of` is the id of each device's NUMA node here, `numbers` the NUMA node that a device states; `placed` are the
    devices that state a NUMA node or CPU list; `memory_nodes` the GPUs whose memory is a NUMA node.
    """

    facts: MatrixFacts
    tree: PcieTree
    groups: tuple[NvlinkGroup, ...]
    node_of: Mapping[str, str]
    numbers: Mapping[str, int]
    placed: frozenset[str]
    memory_nodes: tuple[str, ...]
    pcie_generation: int


def stated(text: str | None) -> str | None:
    """A cell of an affinity column; None where it says nothing."""
    return None if text in (None, "", "N/A") else text


def all_notes(known: Understood) -> tuple[Finding, ...]:
    """The reader's own remarks, contradictions, what is hidden, and what is assumed."""
    said = [*_torn_nodes(known), *_mixed_nodes(known), *_hidden(known)]
    return (*notes(known.facts.notes), *notes(_odd_pairs(known), INCONSISTENT), *notes(said), *_assumed(known))


def _odd_pairs(known: Understood) -> Iterator[str]:
    for number, pair in enumerate(known.tree.shortcuts):
        yield (
            f"{pair.one}-{pair.other} is {pair.letters}, which no tree explains beside the other letters: the two have "
            f"an attachment of their own (odd{number})"
        )


def _torn_nodes(known: Understood) -> Iterator[str]:
    """NUMA nodes whose devices state one number, and SYS between them."""
    nodes_of: dict[int, set[str]] = {}
    for name, number in known.numbers.items():
        nodes_of.setdefault(number, set()).add(known.node_of[name])
    for number, nodes in nodes_of.items():
        if len(nodes) > 1:
            names = ", ".join(name for name, other in known.numbers.items() if other == number)
            yield (
                f"{names} state NUMA node {number}, yet are SYS from each other: nodes of their own here (a virtual "
                "machine hides the real tree)"
            )


def _mixed_nodes(known: Understood) -> Iterator[str]:
    """Devices that state different numbers, and letters that join them within one NUMA node."""
    for node in known.tree.nodes:
        numbers = {name: number for name, number in known.numbers.items() if name in node.all_devices()}
        if len(set(numbers.values())) > 1:
            words = ", ".join(map(str, sorted(set(numbers.values()))))
            yield f"{', '.join(numbers)} state NUMA nodes {words}, yet letters join them in one: letters are kept"


def _hidden(known: Understood) -> Iterator[str]:
    from topo.pcie_tree import LEVELS

    facts = known.facts
    if any((facts.pcie_letters(*pair) or "").startswith("NV") for pair, _ in facts.cells):
        yield "PCIe paths of GPU pairs with NVLinks are not shown: -m prints NV# in their place, -mp the paths"
    dark = [
        name
        for name in facts.gpus
        if not any(facts.pcie_letters(name, other) in LEVELS for other in facts.names if other != name)
    ]
    if dark and len(facts.names) > 1:
        by = "by NUMA node or CPU list" if known.placed else "on one NUMA node, as none is stated"
        yield f"no PCIe path of {', '.join(dark)} is shown: placed {by}, those of a node on one host bridge"
    for node in known.tree.nodes:
        if known.placed and known.placed.isdisjoint(node.all_devices()):
            names = ", ".join(node.all_devices())
            yield f"{names}: SYS from all that state a NUMA node, so on another one here"


def _assumed(known: Understood) -> Iterator[Finding]:
    found = [
        (NVLINK_GENERATION, f"{', '.join(group.gpus)}: {group.assumption}")
        for group in known.groups
        if group.assumption
    ]
    rate = f"generation {known.pcie_generation} x{PCIE_WIDTH}"
    found.append((PCIE_RATES, f"PCIe rates are not shown: {rate} is assumed at every link"))
    if len(known.tree.nodes) > 1:
        found.append((CPU_RATES, "what joins the NUMA nodes is not shown: the catalog's unknown processor is assumed"))
    yield from (Finding(rule, "note", sentence) for rule, sentence in found)
    if known.memory_nodes:
        gpus = ", ".join(known.memory_nodes)
        remark = f"the memory of {gpus} is a NUMA node (GPU NUMA ID): NVLink-C2C to the CPU is assumed"
        yield from notes([remark])
