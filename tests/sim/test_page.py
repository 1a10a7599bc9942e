"""The page as a text: self-contained, small, safe with any name, and holding the same numbers as the JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import playback as followed
from sim.algorithms import ALGORITHMS
from sim.page import data as drawn
from sim.page.document import as_script_data, page
from sim.page.machine import draw_used
from tests.sim.pages import GIB, LESSON, MIB, STAR, Parsed, data_of, document, made, played_on, simulated
from tests.support import examples
from topo.cli import main
from topo.load import load_topology
from topo.presets import preset
from topo.topology import Topology

NAMESPACE = "http://www.w3.org/2000/svg"
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">\'"&<!--\u2028'


def test_it_needs_nothing_from_outside() -> None:
    text = made()
    assert set(re.findall(r"https?://[^\"'\s<>)]*", text)) == {NAMESPACE}
    parser = Parsed()
    parser.feed(text)
    assert not [tags for tags in parser.tags if tags[0] in ("img", "iframe", "object", "embed", "base", "form")]
    outside = [attributes.get(name) for _, attributes in parser.tags for name in ("src", "href", "action", "srcset")]
    assert {value for value in outside if value is not None} == {"data:,"}
    assert "@import" not in text
    assert "url(" not in text


def test_only_its_own_script_may_run() -> None:
    parser = Parsed()
    parser.feed(made())
    assert len(parser.scripts) == 2
    digest = base64.b64encode(hashlib.sha256(parser.scripts[1].encode()).digest()).decode()
    (policy,) = [row["content"] for tag, row in parser.tags if tag == "meta" and "http-equiv" in row]
    assert policy == f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert not [name for _, attributes in parser.tags for name in attributes if name.startswith("on")]


def test_sizes_keep_their_bounds() -> None:
    assert len(made("dgx-h100", ("ring", "tree", "parameter-server")).encode()) < 2 * MIB
    assert len(made(STAR.replace("8", "64", 1)).encode()) < 5 * MIB


def test_its_numbers_are_those_of_the_json() -> None:
    assert data_of(made())["simulate"] == document()


def test_its_table_shows_them() -> None:
    parser = Parsed()
    parser.feed(made())
    cells = [row for tag, row in parser.tags if tag == "td" and "data-key" in row]
    for key, of_json in (
        ("num_bytes", lambda row: row["num_bytes"]),
        ("algorithm", lambda row: row["algorithm"]),
        ("time_us", lambda row: row["time_s"] * 1e6),
        ("busbw_gb_per_s", lambda row: row["busbw_bytes_per_s"] / 1e9),
        ("limiting_link", lambda row: row["limiting_link"]),
    ):
        shown = [row["data-value"] for row in cells if row["data-key"] == key]
        assert shown == [str(of_json(row)) for row in document()["rows"]]


def test_the_chart_holds_every_size_of_every_algorithm() -> None:
    parser = Parsed()
    parser.feed(made())
    marks = {(row["data-x"], row["data-y"]) for tag, row in parser.tags if tag == "path" and "data-x" in row}
    for row in document()["rows"]:
        size = repr(float(row["num_bytes"]))
        assert (size, repr(row["busbw_bytes_per_s"] / 1e9)) in marks
        assert (size, repr(row["time_s"])) in marks


def test_the_played_times_are_those_of_the_json() -> None:
    played = data_of(made())["runs"]
    largest = [row for row in document()["rows"] if row["num_bytes"] == GIB]
    for run, row in zip(played, largest, strict=True):
        assert run["duration_us"] == pytest.approx(row["time_s"] * 1e6, rel=1e-7)
        assert max(run["rows"]["landed"]) == pytest.approx(run["duration_us"])


def test_every_link_of_a_run_has_its_stroke() -> None:
    for machine, nodes in (("dgx-h100", 1), ("pcie-8gpu", 1), ("dgx1-v100", 1), ("dgx-h100", 2)):
        text = made(machine, ("parameter-server",), (MIB,), nodes)
        strokes = set(re.findall(r'class="connection" data-id="([^"]*)"', text))
        (run,) = data_of(text)["runs"]
        # What copies reach is no connection of the drawing, and its row of the timeline says what it is.
        links = [link["stroke"].replace(">", "&gt;") for link in run["links"] if "SHM" not in link["id"]]
        assert set(links) <= strokes


@pytest.mark.parametrize("fabric", ["flat", "rail", "fat-tree:2,nodes_per_leaf=1"])
def test_links_of_any_fabric_are_found_in_the_drawing(fabric: str) -> None:
    machine = load_topology("dgx-h100", nodes=2, fabric=fabric)
    simulator, predictions, _ = simulated(machine, ("parameter-server",), (MIB,))
    ids = [load.link for load in predictions[0].link_loads]
    drawing = draw_used(simulator.machine, ids, ())
    assert set(ids) <= set(drawing.stroke_of)


SHOWN_ON = (("switch:2,bandwidth=200GB/s", 1), ("ring:3,bandwidth=1GB/s", 1), ("pcie-4gpu", 1), ("dgx-h100", 1))
SHOWN = [(*way, "auto") for way in played_on((*SHOWN_ON, ("dgx-h100", 2)))]
# The NICs of a preset do not say that they reduce, which NCCL's planner asks for.
SHOWN += [(*way, "topology") for way in played_on((("dgx-a100", 2),), "topology") if way[2] == "collnet-direct"]


def test_every_algorithm_is_shown_on_some_machine() -> None:
    assert {algorithm for _, _, algorithm, *_ in SHOWN} == set(ALGORITHMS)


@pytest.mark.parametrize(("machine", "nodes", "algorithm", "collective", "planner"), SHOWN)
def test_every_algorithm_can_be_shown(machine: str, nodes: int, algorithm: str, collective: str, planner: str) -> None:
    text = made(machine, (algorithm,), (MIB,), nodes, collective, planner)
    assert data_of(text)["runs"][0]["rows"]["start"]


def test_one_rank_has_a_page_without_transfers() -> None:
    text = made(STAR.replace("8", "1", 1), ("ring",), (MIB,))
    assert data_of(text)["runs"][0]["rows"]["start"] == []


def test_a_run_too_large_is_summed_up_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "MOST_TRANSFERS", 50)
    text = page(*simulated(load_topology("dgx-h100"), LESSON, (MIB,)))
    assert [run is None for run in data_of(text)["runs"]] == [True, False]
    assert "too many to play" in text
    assert text.count('data-run="') == 1


def test_what_is_drawn_coarser_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "MOST_DRAWN", 30)
    text = page(*simulated(load_topology("dgx-h100"), ("ring",), (MIB,)))
    assert "2 of 8 chunks are followed, since 112 transfers are too many to draw" in text
    assert data_of(text)["runs"][0]["num_chunks"] == 2


def test_what_cannot_be_played_is_summed_up() -> None:
    simulator, predictions, names = simulated(load_topology("dgx-h100"), LESSON, (MIB,))
    text = page(simulator, [replace(predictions[0], algorithm="by-hand"), predictions[1]], ["auto", names[1]])
    assert "There is no schedule of by-hand here that could be played" in text
    assert [run is None for run in data_of(text)["runs"]] == [True, False]


def test_a_stretched_run_says_so() -> None:
    simulator, predictions, names = simulated(load_topology(STAR), ("ring",), (MIB,))
    longer = replace(predictions[0], duration_s=1.5 * predictions[0].duration_s, engine="kernels")
    text = page(simulator, [longer], names)
    assert "the kernels engine predicts 34.76 us without timing each transfer" in text.replace("The k", "the k")
    (run,) = data_of(text)["runs"]
    assert max(run["rows"]["landed"]) == pytest.approx(longer.duration_s * 1e6)


def broken(machine: Topology, one: str, other: str) -> Topology:
    """The machine whose links between two devices are down."""
    links = (
        replace(link, state="inactive") if {link.src, link.dst} == {one, other} else link for link in machine.links
    )
    return replace(machine, links=tuple(links))


def test_a_link_that_is_down_is_drawn_and_named() -> None:
    parser = Parsed()
    text = page(*simulated(broken(preset("dgx1-v100"), "GPU0", "GPU1"), ("ring",), (MIB,)))
    parser.feed(text)
    lines = [found["class"].split() for tag, found in parser.tags if tag == "path" and found.get("class")]  # type: ignore[union-attr]
    assert any({"link", "down"} <= set(classes) for classes in lines)
    assert "down, carries nothing: GPU0-GPU1." in text
    assert any(found.get("aria-label") == "a dashed line" for _, found in parser.tags)
    assert "carries nothing" not in made("dgx1-v100", ("ring",), (MIB,))


def test_the_headline_says_whether_a_link_limits_both_ways() -> None:
    """What all send to a server comes back from it, while the ring goes round one way."""
    server = made("pcie-8gpu", ("parameter-server",), (MIB,))
    assert "limiting link GPU0-SHM, both ways, needs" in server
    assert "MB each way" in server
    assert "both ways" not in made("ring:8,bandwidth=1GB/s", ("ring",), (MIB,))


def test_of_many_nodes_two_are_drawn() -> None:
    text = made("dgx-h100", ("parameter-server",), (MIB,), 32)
    assert "2 of 32 nodes are drawn" in text


def hostile(name: str) -> Topology:
    """A machine whose every name is that text."""
    machine = preset("t4-x2")
    devices = tuple(replace(device, label=name, model=name) for device in machine.devices)
    return replace(machine, devices=devices, name=name)


@given(st.text(max_size=40))
@settings(max_examples=examples(10))
def test_names_stay_text(name: str) -> None:
    self_contained = page(*simulated(hostile(name), ("ring",), (MIB,)))
    parser = Parsed()
    parser.feed(self_contained)
    assert len(parser.scripts) == 2
    assert json.loads(parser.data)["runs"][0]["agents"] == [name or "GPU0", name or "GPU1"]
    self_contained.encode()


def test_a_hostile_name_opens_no_element() -> None:
    parser = Parsed()
    parser.feed(page(*simulated(hostile(HOSTILE), ("ring",), (MIB,))))
    assert [tag for tag, _ in parser.tags].count("script") == 2
    assert "img" not in {tag for tag, _ in parser.tags}
    assert json.loads(parser.data)["runs"][0]["agents"] == [HOSTILE, HOSTILE]


def test_data_cannot_leave_its_script() -> None:
    text = as_script_data({"a": HOSTILE})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": HOSTILE}


def test_the_option_writes_the_page_and_the_table(tmp_path: Path) -> None:
    target = tmp_path / "x.html"
    arguments = ["simulate", "dgx-h100", "--algorithm", "ring,parameter-server", "--size", "1M", "--page", str(target)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "parameter-server" in result.stdout
    assert target.read_text().startswith("<!doctype html>")
