"""Drawings: whole and well-formed, every part there once and in its place, red where a link is degraded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import NO_CORPUS, corpus_files
from topo.cluster import Cluster
from topo.errors import TopoError
from topo.fabric import parse_fabric
from topo.load import load_topology
from topo.presets import PRESETS, preset, synthetic
from topo.topology import Device, Link, Topology
from topo.writers import write
from topo.writers.svg_links import connections, stroke_width

SVG = "{http://www.w3.org/2000/svg}"
CAPTURES = [*corpus_files("nccl-xml/*.xml"), *corpus_files("nvidia-smi/*.txt")]


def drawn(topology: Topology) -> Element:
    """The picture, parsed."""
    return fromstring(write(topology, "svg"))


def groups(picture: Element, css: str) -> list[Element]:
    """The elements of devices (`device`) or links (`connection`)."""
    return [element for element in picture.iter(f"{SVG}g") if css in element.attrib["class"].split()]


def words_of(element: Element) -> str:
    return " ".join(text.text or "" for text in element.iter(f"{SVG}text"))


def strokes(picture: Element) -> Iterator[tuple[str, Element]]:
    """The id and the path of each link."""
    for group in groups(picture, "connection"):
        for path in group.iter(f"{SVG}path"):
            yield group.attrib["data-id"], path


def rectangles(picture: Element) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of the devices that hold nothing."""
    found = [element for element in picture.iter(f"{SVG}rect") if element.attrib["class"] == "leaf"]
    numbers = [[float(element.attrib[key]) for key in ("x", "y", "width", "height")] for element in found]
    return [(x, y, x + width, y + height) for x, y, width, height in numbers]


@pytest.mark.parametrize("name", PRESETS)
def test_every_device_and_link_is_there(name: str) -> None:
    machine = preset(name)
    picture = drawn(machine)
    shown = [device.id for device in machine.devices if device.kind != "host_memory"]
    devices = [group.attrib["data-id"] for group in groups(picture, "device")]
    assert set(devices) == set(shown)
    memory = {device.id for device in machine.of_kind("host_memory")}
    pairs = [pair for pair in connections(machine) if memory.isdisjoint((pair.link.src, pair.link.dst))]
    assert sorted(link_id for link_id, _ in strokes(picture)) == sorted(pair.link.id for pair in pairs)
    ids = [element.attrib["id"] for element in picture.iter() if "id" in element.attrib]
    assert len(ids) == len(set(ids))
    assert not [element for element in picture.iter() if "bad" in element.attrib.get("class", "").split()]


@pytest.mark.parametrize("name", PRESETS)
def test_devices_lie_apart_and_on_the_page(name: str) -> None:
    picture = drawn(preset(name))
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    boxes = rectangles(picture)
    assert all(0 <= left < right <= width and 0 <= top < bottom <= height for left, top, right, bottom in boxes)
    for a, b in combinations(boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


@pytest.mark.corpus
@pytest.mark.skipif(not CAPTURES, reason=NO_CORPUS)
@pytest.mark.parametrize("file", CAPTURES, ids=lambda file: file.stem)
def test_every_capture_can_be_drawn(file: Path) -> None:
    try:
        machine = load_topology(str(file))
    except TopoError:
        return
    assert isinstance(machine, Topology)
    devices = {group.attrib["data-id"] for group in groups(drawn(machine), "device")}
    assert set(machine.gpu_ids) <= devices


@pytest.mark.parametrize("name", ["dgx-h100", "switch:64,bandwidth=1GB/s"])
def test_gpus_that_take_no_part_look_so(name: str) -> None:
    machine = load_topology(name)
    assert isinstance(machine, Topology)
    picture = drawn(machine.take_ranks((0, 1)))
    idle = groups(picture, "idle")
    assert groups(picture, "gpu")[-1] in idle
    assert {"GPU0", "GPU1"}.isdisjoint(group.attrib["data-id"] for group in idle)
    assert all("no rank" in words_of(group) or " x" in words_of(group) for group in idle)
    assert all("not taking part" in (group[0].text or "") for group in idle)
    assert not groups(drawn(machine), "idle")


def test_wider_is_faster() -> None:
    links = [Link("a", "b", "nvlink", rate * 1e9) for rate in (1, 16, 32, 64, 450, 900)]
    widths = [stroke_width(link) for link in links]
    assert widths == sorted(widths)
    assert widths[1:] == [2, 2.8284271247461903, 4, 10.606601717798213, 15]
    assert stroke_width(Link("a", "b", "local", 5000e9)) == 1


def _changed(name: str, one: str, other: str, **changes: object) -> Element:
    """The drawing of a preset in which a link is not as it was, in both directions."""
    machine = preset(name)
    links = tuple(
        replace(link, **changes) if {link.src, link.dst} == {one, other} else link  # type: ignore[arg-type]
        for link in machine.links
    )
    return drawn(replace(machine, links=links))


@pytest.mark.parametrize(
    ("name", "one", "other", "changes", "label", "is_dashed"),
    [
        ("dgx-h100", "GPU3", "NVS0", {"bandwidth_bytes_per_s": 400e9, "lanes": 16}, "400 GB/s", False),
        ("dgx-h100", "GPU3", "NVS0", {"state": "inactive"}, "down", True),
        ("dgx-h100", "GPU5", "numa1/switch1", {"bandwidth_bytes_per_s": 4e9}, "4 GB/s", False),
        ("dgx1-v100", "GPU0", "GPU4", {"state": "inactive"}, "down", True),
    ],
)
def test_a_degraded_link_is_red_and_says_its_rate(
    name: str, one: str, other: str, changes: dict[str, object], label: str, is_dashed: bool
) -> None:
    bad = [group for group in groups(_changed(name, one, other, **changes), "connection") if words_of(group)]
    assert [(group.attrib["data-id"], words_of(group)) for group in bad] == [(f"{one}->{other}", label)]
    (path,) = bad[0].iter(f"{SVG}path")
    assert ("bad" in path.attrib["class"], "down" in path.attrib["class"]) == (True, is_dashed)


def test_uneven_directions_are_degraded() -> None:
    machine = preset("dgx1-v100")
    links = tuple(
        replace(link, bandwidth_bytes_per_s=25e9) if (link.src, link.dst) == ("GPU2", "GPU3") else link
        for link in machine.links
    )
    bad = [words_of(group) for group in groups(drawn(replace(machine, links=links)), "connection") if words_of(group)]
    assert bad == ["25 GB/s there, 50 GB/s back"]


@given(st.text(max_size=30), st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30))
def test_hostile_names_stay_text(name: str, label: str, device_id: str) -> None:
    machine = preset("t4-x2")
    devices = tuple(replace(device, label=label) if device.kind == "gpu" else device for device in machine.devices)
    other = Device(f"#{device_id}", "nic", label=label)
    links = (*machine.links, Link(other.id, "numa0", "pcie", 1e9), Link("numa0", other.id, "pcie", 1e9))
    picture = drawn(replace(machine, devices=(*devices, other), links=links, name=name))
    tags = {element.tag.removeprefix(SVG) for element in picture.iter()}
    assert tags <= {"svg", "title", "desc", "style", "rect", "text", "g", "path"}
    assert len(groups(picture, "gpu")) == 2
    assert not [
        e for e in picture.iter() if re.search(r"\s", e.attrib.get("id", "")) or any(k[:2] == "on" for k in e.attrib)
    ]


def test_a_script_in_a_name_is_no_script() -> None:
    machine = preset("t4-x2")
    devices = tuple(replace(device, label='</title><script>"\x00\ud800') for device in machine.devices)
    text = write(replace(machine, devices=devices), "svg")
    assert "<script" not in text
    assert "&lt;/title&gt;&lt;script&gt;" in text


def test_many_alike_devices_are_drawn_as_one() -> None:
    many = drawn(synthetic("switch:1000,bandwidth=100GB/s"))
    (box,) = groups(many, "gpu")
    assert words_of(box) == "GPU0..GPU999 1000 x"
    assert len(groups(many, "connection")) == 1
    ring = drawn(synthetic("ring:1000,bandwidth=100GB/s"))
    assert not groups(ring, "connection")
    assert "Network: 100 GB/s each way" in words_of(ring)


def test_a_rack_is_one_nvlink_domain_in_rows() -> None:
    picture = drawn(preset("gb200-nvl72"))
    assert 1 < float(picture.attrib["width"]) / float(picture.attrib["height"]) < 2
    assert len(groups(picture, "host")) == 18
    bars = groups(picture, "nvswitch")
    assert len(bars) == 6
    assert {bar.attrib["data-id"] for bar in bars} == {"NVS0"}


@pytest.mark.parametrize(
    ("fabric", "switches", "num_uplinks"),
    [("flat", ["fabric"], 0), ("fat-tree:2", ["leaf0", "leaf1", "spine"], 2), ("rail", None, 8)],
)
def test_the_network_of_a_cluster(fabric: str, switches: list[str] | None, num_uplinks: int) -> None:
    picture = drawn(Cluster(preset("dgx-h100"), 4, parse_fabric(fabric)).explicit())
    shown = [group.attrib["data-id"] for group in groups(picture, "net_switch")]
    assert shown == (switches or [*(f"rail{number}" for number in range(8)), "spine"])
    links = [link_id for link_id, _ in strokes(picture) if link_id.endswith("->spine")]
    assert len(links) == num_uplinks
    nic = next(group for group in groups(picture, "nic") if group.attrib["data-id"] == "node3/mlx5_7")
    assert words_of(nic) == f"mlx5_7 400 Gb/s → {shown[-2] if num_uplinks else 'fabric'}"


def test_it_can_be_read_in_light_and_in_dark() -> None:
    text = write(preset("t4-x2"), "svg")
    light, _, dark = text.partition("@media (prefers-color-scheme: dark)")
    assert ".page { fill: #ffffff; }" in light
    assert ".page { fill: #0d1117; }" in dark
    styled = set(re.findall(r"^\.?([a-z0-9_-]+)", light[light.index("<style>") :], re.MULTILINE))
    assert {"nvlink", "xgmi", "c2c", "pcie", "cpu-link", "network", "local", "bad", "down"} <= styled
