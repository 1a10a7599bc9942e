"""NCCL's graph XML as it is written: what is read again is the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import NO_CORPUS, corpus_files
from topo.readers import nccl_graph
from topo.readers.nccl_graph import PATH_TYPES, PATTERNS, Graph, GraphChannel, GraphFile, GraphPart
from topo.writers.nccl_graph import render

FILES = corpus_files("nccl-graph/*.xml")


def without_lines(file: GraphFile) -> tuple[Graph, ...]:
    return tuple(
        replace(
            graph,
            line=0,
            channels=tuple(GraphChannel(0, tuple(replace(p, line=0) for p in c.parts)) for c in graph.channels),
        )
        for graph in file.graphs
    )


@pytest.mark.skipif(not FILES, reason=NO_CORPUS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_captures_come_back(path: Path) -> None:
    file = nccl_graph.read(path.read_text(encoding="utf-8"), path.name)
    assert without_lines(nccl_graph.read(render(file))) == without_lines(file)


gpus = st.lists(st.integers(0, 300), min_size=1, max_size=9, unique=True)


@st.composite
def channels(draw: st.DrawFn) -> GraphChannel:
    by = draw(st.sampled_from(["dev", "rank"]))
    system = draw(st.integers(0, 17)) if by == "dev" else 0
    nets = [GraphPart(0, "net", "dev", net, 0) for net in draw(st.lists(st.integers(0, 40), max_size=2))]
    middle = [GraphPart(0, "gpu", by, gpu, system) for gpu in draw(gpus)]  # type: ignore[arg-type]
    return GraphChannel(0, (*nets[:1], *middle, *nets[1:]))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    found = tuple(draw(st.lists(channels(), max_size=3)))
    rate = st.integers(0, 10**7).map(lambda milli: milli / 1000 * 1e9)
    return Graph(
        line=0,
        id=draw(st.integers(0, 4)),
        pattern=draw(st.sampled_from(sorted(PATTERNS.values()))),
        cross_nic=draw(st.integers(0, 2)),
        num_channels=len(found),
        bandwidth_intra_bytes_per_s=draw(rate),
        bandwidth_inter_bytes_per_s=draw(rate),
        latency_inter_s=draw(st.none() | st.integers(0, 10**5).map(lambda tenths: tenths / 10 * 1e-6)),
        type_intra=draw(st.sampled_from(PATH_TYPES)),
        type_inter=draw(st.sampled_from(PATH_TYPES)),
        same_channels=draw(st.booleans()),
        channels=found,
    )


@given(st.lists(graphs(), min_size=1, max_size=3))
def test_any_graphs_come_back(found: list[Graph]) -> None:
    back = nccl_graph.read(render(GraphFile("", tuple(found))))
    assert back.notes == ()
    for written, read in zip(found, without_lines(back), strict=True):
        assert read.bandwidth_intra_bytes_per_s == pytest.approx(written.bandwidth_intra_bytes_per_s, abs=1e3)
        assert read.latency_inter_s == (
            None if written.latency_inter_s is None else pytest.approx(written.latency_inter_s, abs=1e-12)
        )
        alike = {
            name: getattr(written, name)
            for name in ("bandwidth_intra_bytes_per_s", "bandwidth_inter_bytes_per_s", "latency_inter_s")
        }
        assert replace(read, **alike) == written
