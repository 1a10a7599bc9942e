"""`rocm-smi --showtopo`: real captures first, then the ways people leave such tables, then what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import corpus_files
from topo import catalog, paths
from topo.errors import CaptureError
from topo.readers.rocm_facts import Kind
from topo.readers.rocm_smi import read, sniff
from topo.readers.rocm_topology import to_topology

EXPECTED = [(path, json.loads(path.read_text())) for path in corpus_files("nvidia-smi/*.expected.json")]
CAPTURES = [(path, want) for path, want in EXPECTED if want["kind"] == "rocm_topo"]
TITLES: dict[Kind, str] = {
    "weight": "Weight between two GPUs",
    "hops": "Hops between two GPUs",
    "type": "Link Type between two GPUs",
}
Cells = dict[tuple[int, int], str]


def text_of(expected: Path) -> str:
    return expected.with_name(expected.name.replace(".expected.json", ".txt")).read_text(encoding="utf-8")


def name_of(value: object) -> str:
    return value.name[:3] if isinstance(value, Path) else ""


def table(title: str, num_gpus: int, cells: Cells, own: str = "0") -> str:
    """One table as rocm-smi prints it."""
    names = [f"GPU{number}" for number in range(num_gpus)]
    rows = [
        [f"{name:7}", *(own if i == k else cells[min(i, k), max(i, k)] for k in range(num_gpus))]
        for i, name in enumerate(names)
    ]
    lines = [
        "       " + "".join(f"{name:13}" for name in names),
        *(row[0] + "".join(f"{c:13}" for c in row[1:]) for row in rows),
    ]
    return f"{f' {title} ':=^90}\n" + "\n".join(lines) + "\n\n"


def all_alike(num_gpus: int, cell: str) -> Cells:
    return {(one, other): cell for one in range(num_gpus) for other in range(one + 1, num_gpus)}


def hive(num_gpus: int = 4, *, nodes: int = 1) -> str:
    """A whole output of GPUs that XGMI joins, `nodes` NUMA nodes with as many GPUs each."""
    said = "".join(
        f"GPU[{number}]\t\t: (Topology) Numa {what}: {number * nodes // num_gpus}\n"
        for number in range(num_gpus)
        for what in ("Node", "Affinity")
    )
    cells = zip(TITLES.values(), ("15", "1", "XGMI"), strict=True)
    tables = [table(title, num_gpus, all_alike(num_gpus, cell)) for title, cell in cells]
    return "".join(tables) + f"{' Numa Nodes ':=^90}\n{said}{' End of ROCm SMI Log ':=^90}\n"


@pytest.mark.corpus
@pytest.mark.parametrize(("expected", "want"), CAPTURES, ids=name_of)
def test_captures(expected: Path, want: dict[str, Any]) -> None:
    text = text_of(expected)
    facts = read(text, expected.name)
    assert sniff(text)
    assert len(facts.gpus) == want["gpus"]
    for kind in TITLES:
        shown = facts.table(kind)
        assert {f"{one}-{other}": cell for (one, other), cell in (shown.cells if shown else ())} == want[kind]
    assert {gpu.label: gpu.numa_node for gpu in facts.gpus} == want["numa_node"]
    assert {gpu.label: gpu.numa_affinity for gpu in facts.gpus} == want["numa_affinity"]


@pytest.mark.corpus
@pytest.mark.parametrize(("expected", "want"), CAPTURES, ids=name_of)
def test_captures_become_topologies_that_say_the_same(expected: Path, want: dict[str, Any]) -> None:
    topology = to_topology(read(text_of(expected), expected.name))
    assert topology.num_ranks == want["gpus"]
    assert topology.complete == ("XXXX" not in want["type"].values())
    for pair, link_type in want["type"].items():
        one, other = pair.split("-")
        letters = paths.letters(topology, one, other)
        assert (letters == "XGMI") == (link_type == "XGMI")
        assert ((one, other) in topology.hidden_pairs) == (link_type == "XXXX")


@pytest.mark.corpus
def test_two_hives_on_two_nodes(corpus: Path) -> None:
    (path,) = corpus.glob("nvidia-smi/100-*.txt")
    topology = to_topology(read(path.read_text(encoding="utf-8"), path.name))
    assert paths.letters(topology, "GPU0", "GPU4") == "SYS"
    assert {gpu.numa_node for gpu in topology.of_kind("gpu")} == {0, 1}
    xgmi = [link for link in topology.links if link.kind == "xgmi"]
    assert len(xgmi) == 2 * 2 * 6
    assert {link.bandwidth_bytes_per_s for link in xgmi} == {catalog.xgmi_bytes_per_s("gfx90a")}


@pytest.mark.corpus
def test_what_rocm_smi_complains_of_is_kept(corpus: Path) -> None:
    (path,) = corpus.glob("nvidia-smi/013-*.txt")
    facts = read(path.read_text(encoding="utf-8"), path.name)
    assert [note.line for note in facts.notes] == [6, 7]
    assert facts.table("weight") is None
    assert any("line 7: ERROR: GPU[1] : Cannot read Link Weight" in words for words in to_topology(facts).remarks)


def test_a_hive() -> None:
    topology = to_topology(read(hive(8, nodes=2), "rocm.txt"))
    assert [device.id for device in topology.of_kind("cpu")] == ["numa0", "numa1"]
    assert paths.path_bandwidth(topology, "GPU0", "GPU7") == catalog.xgmi_bytes_per_s("gfx942")
    assert "seven neighbours" in " ".join(topology.remarks)
    assert (topology.complete, topology.provenance[0].name) == (True, "rocm.txt")


def test_named_products_set_the_rates() -> None:
    named = hive(2) + "GPU[0]\t\t: Card series: \t\tAMD Instinct MI100\nGPU[0]\t\t: PCI Bus: 0000:0C:00.0\n"
    topology = to_topology(read(named))
    assert paths.path_bandwidth(topology, "GPU0", "GPU1") == catalog.xgmi_bytes_per_s("gfx908")
    device = topology.device("GPU0")
    assert (device.model, device.pci.bus_id if device.pci else None) == ("AMD Instinct MI100", "0000:0c:00.0")
    assert not any("which GPUs these are" in words for words in topology.remarks)


@pytest.mark.parametrize(("words", "architecture"), [("gfx942", "gfx942"), ("gfx9010", "gfx90a"), ("gfx90a", "gfx90a")])
def test_architectures(words: str, architecture: str) -> None:
    assert read(hive(2) + f"GPU[1]\t\t: GFX Version: \t\t{words}\n").gpus[1].architecture == architecture


def test_bandwidths_tell_how_many_links_there_are() -> None:
    cells = {(0, 1): "50000-200000", (0, 2): "50000-50000", (1, 2): "0-0"}
    types = {(0, 1): "XGMI", (0, 2): "XGMI", (1, 2): "PCIE"}
    text = table(TITLES["type"], 3, types) + table("Bandwidth", 3, cells, own="N/A")
    facts = read(text)
    assert facts.cell("bandwidth", "GPU1", "GPU0") == "50000-200000"
    topology = to_topology(facts)
    assert {(link.src, link.dst): link.lanes for link in topology.links if link.kind == "xgmi"} == {
        ("GPU0", "GPU1"): 4,
        ("GPU1", "GPU0"): 4,
        ("GPU0", "GPU2"): 1,
        ("GPU2", "GPU0"): 1,
    }


def test_a_pair_over_another_gpu_has_no_link_of_its_own() -> None:
    text = table(TITLES["hops"], 3, {(0, 1): "1", (1, 2): "1", (0, 2): "2"}) + table(
        TITLES["type"], 3, all_alike(3, "XGMI")
    )
    topology = to_topology(read(text))
    assert paths.letters(topology, "GPU0", "GPU1") == "XGMI"
    assert paths.letters(topology, "GPU0", "GPU2") == "PHB"
    assert any("GPU0-GPU2" in words for words in topology.remarks)


def test_a_machine_that_tells_no_numa_node() -> None:
    text = table(TITLES["type"], 2, all_alike(2, "PCIE")) + "GPU[0] : (Topology) Numa Node: -1\n"
    topology = to_topology(read(text))
    assert [device.id for device in topology.of_kind("cpu")] == ["cpu0"]
    assert any("NUMA nodes of some GPUs are not shown" in words for words in topology.remarks)


def test_access_is_a_table_too() -> None:
    facts = read(table("Link accessibility between two GPUs", 2, {(0, 1): "False"}, own="True"))
    assert facts.cell("access", "GPU0", "GPU1") == "False"
    with pytest.raises(CaptureError, match="no link types between the GPUs: give the whole output"):
        to_topology(facts)


def test_the_json_form() -> None:
    system = {
        f"(Topology) {what} between DRM devices {one} and {other}": cell
        for one, other in ((0, 1), (0, 2), (1, 2))
        for what, cell in (("Weight", "15"), ("Hops", "1"), ("Link type", "XGMI"))
    }
    text = json.dumps({"card0": {}, "system": system}, indent=2)
    assert sniff(text)
    facts = read(text)
    assert [gpu.label for gpu in facts.gpus] == ["GPU0", "GPU1", "GPU2"]
    assert (facts.complete, facts.cell("hops", "GPU2", "GPU1")) == (True, "1")
    assert to_topology(facts).num_ranks == 3


def test_one_gpu() -> None:
    text = table(TITLES["weight"], 1, {}) + "GPU[0]\t\t: (Topology) Numa Node: 0\n"
    assert to_topology(read(text)).num_ranks == 1


STYLES: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: "\ufeff" + text,
    lambda text: "\n".join(" ".join(line.split()) for line in text.split("\n")),
    lambda text: "\n".join("\t".join(line.split()) for line in text.split("\n")),
    lambda text: "".join("# " + line for line in text.splitlines(keepends=True)),
    lambda text: "".join("    " + line for line in text.splitlines(keepends=True)),
    lambda text: "".join("2026-01-02T03:04:05Z 0: " + line for line in text.splitlines(keepends=True)),
    lambda text: "user@box:~$ rocm-smi --showtopo\n" + text + "user@box:~$\n",
    lambda text: text.replace("GPU[", "GPU ").replace("]\t\t:", "          :"),
    lambda text: text.replace("=\n", "=\nWARNING: AMD GPU device(s) is/are in a low-power state\n", 1),
    lambda text: text.replace("       GPU0", "       \x1b[1mGPU0").replace("XGMI  ", "\x1b[32mXGMI\x1b[0m  "),
]


@st.composite
def machines(draw: st.DrawFn) -> tuple[int, dict[Kind, Cells]]:
    num_gpus = draw(st.integers(2, 9))
    pairs = list(all_alike(num_gpus, ""))
    words: dict[Kind, st.SearchStrategy[str]] = {
        "weight": st.sampled_from(["15", "30", "40", "72"]),
        "hops": st.sampled_from(["1", "2", "3"]),
        "type": st.sampled_from(["XGMI", "PCIE", "XXXX"]),
    }
    return num_gpus, {kind: {pair: draw(cells) for pair in pairs} for kind, cells in words.items()}


@given(machine=machines(), style=st.sampled_from(STYLES))
def test_every_way_of_writing_gives_the_same_tables(
    machine: tuple[int, dict[Kind, Cells]], style: Callable[[str], str]
) -> None:
    num_gpus, tables = machine
    text = "".join(table(TITLES[kind], num_gpus, cells) for kind, cells in tables.items())
    text += "".join(f"GPU[{number}]\t\t: (Topology) Numa Node: {number % 2}\n" for number in range(num_gpus))
    assert sniff(style(text))
    facts = read(style(text))
    for kind, cells in tables.items():
        assert {pair: facts.cell(kind, f"GPU{pair[0]}", f"GPU{pair[1]}") for pair in cells} == cells
    assert [gpu.numa_node for gpu in facts.gpus] == [number % 2 for number in range(num_gpus)]
    assert to_topology(facts).num_ranks == num_gpus


WHOLE = hive(3)


@given(cut=st.integers(0, len(WHOLE)))
def test_a_cut_text_never_lies(cut: int) -> None:
    try:
        facts = read(WHOLE[:cut])
    except CaptureError:
        return
    wanted = {"weight": "15", "hops": "1", "type": "XGMI"}
    for shown in facts.tables:
        assert {cell for _, cell in shown.cells} <= {wanted[shown.kind], None}


HOPS, TYPES = table(TITLES["hops"], 3, all_alike(3, "1")), table(TITLES["type"], 2, all_alike(2, "XGMI"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: no table of GPUs"),
        ("ROCm System Management Interface\n", "line 1: no table of GPUs"),
        (TYPES.replace("GPU1   XGMI", "GPU1   PCIE"), "line 4: .* not symmetric"),
        (HOPS.replace("GPU1   1            0", "GPU1   0            1"), "line 4: cells of row GPU1 are lost"),
        (HOPS + TYPES, "line 8: this table is of 2 GPUs, that in line 2 of 3"),
        (hive(2) + hive(2).replace("15", "40"), r"line 23: two tables of weight \(the other in line 2\)"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        read(text, "rocm.txt")


@pytest.mark.parametrize("text", ["", "XGMI", "PCIE x16 GPU0", "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n", "{}"])
def test_what_is_something_else_is_not_claimed(text: str) -> None:
    assert not sniff(text)
