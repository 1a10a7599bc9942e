"""NCCL's graph XML: every capture by what its index says, and what is no graph is refused with its line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support import NO_CORPUS, corpus_dir, corpus_files
from topo.errors import CaptureError
from topo.readers import nccl_graph, nccl_xml

FILES = corpus_files("nccl-graph/*.xml")
needs_files = pytest.mark.skipif(not FILES, reason=NO_CORPUS)
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)

GRAPH = (
    '<graph id="0" pattern="4" crossnic="2" nchannels="1" speedintra="20.6" speedinter="12" latencyinter="75" '
    'typeintra="NVL" typeinter="PIX" samechannels="1">\n'
    '<channel>\n<net dev="0"/>\n<gpu dev="0"/>\n<gpu dev="0x1000001"/>\n<net dev="0xb"/>\n</channel>\n</graph>'
)
WHOLE = f'<graphs version="1">\n{GRAPH}\n</graphs>\n'


@needs_files
@every_file
def test_a_capture_holds_what_its_index_says(path: Path) -> None:
    root = corpus_dir()
    assert root is not None
    rows = (root / "nccl-graph" / "index.tsv").read_text(encoding="utf-8").splitlines()
    row = next(row for row in rows if row.startswith(path.name))
    file = nccl_graph.read(path.read_text(encoding="utf-8"), path.name)
    known = re.findall(r"id(\d+) pattern(\d+) nchannels=(\d+) channels=(\d+) (\w+)/(\w+) bw ([\d.]+)/([\d.]+)", row)
    assert len(file.graphs) == len(known)
    numbers = {name: number for number, name in nccl_graph.PATTERNS.items()}
    for graph, (graph_id, pattern, announced, held, intra, inter, fast, slow) in zip(file.graphs, known, strict=True):
        assert (graph.id, numbers[graph.pattern]) == (int(graph_id), int(pattern))
        assert (graph.num_channels, len(graph.channels)) == (int(announced), int(held))
        assert (graph.type_intra, graph.type_inter) == (intra, inter)
        assert graph.bandwidth_intra_bytes_per_s == float(fast) * 1e9
        assert graph.bandwidth_inter_bytes_per_s == float(slow) * 1e9
        assert (graph.latency_inter_s is None) == ("latencyinter" not in path.read_text(encoding="utf-8"))
    if found := re.search(r"net devs ([\w,]+)", row):
        nets = {net for graph in file.graphs for channel in graph.channels for net in channel.nets}
        base = 16 if re.search(r"[a-f]", found[1]) else 10
        assert nets == {int(net, base) for net in found[1].split(",")}


@needs_files
@every_file
def test_a_ring_holds_each_gpu_once(path: Path) -> None:
    for graph in nccl_graph.read(path.read_text(encoding="utf-8")).graphs:
        for channel in graph.channels:
            assert set(channel.gpus) == set(graph.channels[0].gpus)
            assert len(channel.nets) in (0, 2)


@needs_files
def test_no_other_format_is_claimed() -> None:
    root = corpus_dir()
    assert root is not None
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.parent.name != "nccl-graph":
            assert not nccl_graph.sniff(path.read_text(encoding="utf-8", errors="replace")), path
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert nccl_graph.sniff(text)
        assert not nccl_xml.sniff(text)


def test_a_channel_keeps_its_order_lines_and_hosts() -> None:
    (graph,) = nccl_graph.read(WHOLE).graphs
    (channel,) = graph.channels
    assert [(part.kind, part.number, part.system, part.line) for part in channel.parts] == [
        ("net", 0, 0, 4),
        ("gpu", 0, 0, 5),
        ("gpu", 1, 1, 6),
        ("net", 11, 0, 7),
    ]
    assert (graph.pattern, graph.cross_nic, graph.latency_inter_s, graph.same_channels) == ("ring", 2, 75e-6, True)


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        GRAPH,
        "\ufeff" + WHOLE,
        '<?xml version="1.0"?>\n' + GRAPH,
        "<!-- mine -->\n" + GRAPH,
        WHOLE.replace(' version="1"', ""),
        WHOLE.replace('<gpu dev="0"/>', '<gpu dev="0" rank="3"/>'),
    ],
)
def test_a_file_reads_the_same_without_its_root(text: str) -> None:
    assert nccl_graph.sniff(text)
    (graph,) = nccl_graph.read(text).graphs
    assert (graph.channels[0].gpus, graph.channels[0].nets) == ((0, 1), (0, 11))


def test_several_graphs_without_a_root() -> None:
    assert [graph.id for graph in nccl_graph.read(GRAPH + "\n" + GRAPH.replace('id="0"', 'id="1"')).graphs] == [0, 1]


def test_lines_are_those_of_the_fragment() -> None:
    with pytest.raises(CaptureError, match=r"f\.xml, line 5: "):
        nccl_graph.read("\n" + GRAPH.replace('<gpu dev="0"/>', '<gpu dev="x"/>'), "f.xml")


def test_a_rank_stands_for_a_gpu_without_a_device() -> None:
    (graph,) = nccl_graph.read(WHOLE.replace('gpu dev="0"', 'gpu rank="5"')).graphs
    assert (graph.channels[0].parts[1].by, graph.channels[0].gpus) == ("rank", (5, 1))


def test_hexadecimal_without_its_0x_is_noted_and_refused_where_it_has_two_readings() -> None:
    noted = nccl_graph.read(WHOLE.replace("0xb", "b"))
    assert noted.graphs[0].channels[0].nets == (0, 11)
    assert "line 7" in noted.notes[0]
    with pytest.raises(CaptureError, match=r'line 7: dev="b" .* dev="10" in line 4 has two readings'):
        nccl_graph.read(WHOLE.replace("0xb", "b").replace('net dev="0"', 'net dev="10"'))


def test_a_wrong_number_of_channels_is_noted() -> None:
    file = nccl_graph.read(WHOLE.replace('nchannels="1"', 'nchannels="4"'))
    assert file.notes == ("line 2: graph 0 announces 4 channels and holds 1",)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("</graphs>", "", "not well-formed"),
        ('<gpu dev="0"/>', '<gpu dev="0"/><gpu dev="0"/>', "GPU dev 0 stands twice"),
        ('<gpu dev="0"/>', "<gpu/>", 'rank="">: expected a number'),
        ('<gpu dev="0"/>', '<gpu dev="-1"/>', "expected a number"),
        ('<gpu dev="0"/>', "<nic/>", "<nic> inside <channel>"),
        ('<gpu dev="0"/>', '<gpu dev="0"><net dev="1"/></gpu>', "holds other elements"),
        ('pattern="4"', 'pattern="9"', "pattern 9: known are 1, 2"),
        ('pattern="4"', "", 'pattern="">: expected a whole number'),
        ('speedintra="20.6"', 'speedintra="inf"', "expected a number, 0 or more"),
        ('speedintra="20.6"', 'speedintra="-1"', "expected a number, 0 or more"),
        ('typeintra="NVL"', 'typeintra="nvl"', "known are LOC"),
        ('version="1"', 'version="7"', "known is version 1"),
        ("<channel>", "<channel/><channel>", "a channel without a <gpu>"),
        ("graphs", "grafs", "expected <graphs>"),
        (GRAPH, "", "no <graph>"),
        ("<graphs ", '<!DOCTYPE g [<!ENTITY a "x">]><graphs ', "DTD or entities"),
    ],
)
def test_what_is_no_graph_is_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(CaptureError, match=re.escape(words)) as caught:
        nccl_graph.read(WHOLE.replace(old, new), "g.xml")
    assert str(caught.value).startswith("g.xml")


def test_the_summary_is_plain_json() -> None:
    summary = json.loads(json.dumps(nccl_graph.summary(nccl_graph.read(WHOLE))))
    assert summary["graphs"][0]["channels"] == [{"gpus": [0, 1], "nets": [0, 11]}]
    assert summary["graphs"][0]["pattern"] == "ring"
