"""Letters and rates of paths, on small graphs drawn by hand."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from topo.errors import RouteError, TopologyError
from topo.paths import letters, letters_from, path, path_bandwidth
from topo.topology import Device, DeviceKind, Link, LinkKind, Topology

KINDS: dict[str, DeviceKind] = {
    "g": "gpu",
    "n": "nic",
    "s": "pcie_switch",
    "b": "host_bridge",
    "c": "cpu",
    "v": "nvswitch",
    "k": "nic_card",
    "w": "net_switch",
}


def graph(*edges: str, ranks: Iterable[str] = ()) -> Topology:
    """Devices named by kind and number, and edges such as `g0-s0` or `g0=g1 nvlink 4 100`: kind, lanes, bytes/s."""
    devices: dict[str, Device] = {}
    links: list[Link] = []
    for edge in edges:
        ends, *rest = edge.split()
        one, other = ends.split("-")
        for name in (one, other):
            devices.setdefault(name, Device(name, KINDS[name[0]]))
        kind: LinkKind = rest[0] if rest else "pcie"  # type: ignore[assignment]
        lanes = int(rest[1]) if len(rest) > 1 else 1
        rate = float(rest[2]) if len(rest) > 2 else 10.0
        links += [Link(one, other, kind, rate, lanes), Link(other, one, kind, rate, lanes)]
    return Topology(tuple(devices.values()), tuple(links), tuple(ranks))


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        (["g0-g1 nvlink 4"], "NV4"),
        (["g0-v0 nvlink 18", "g1-v0 nvlink 16"], "NV16"),
        (["g0-v0 nvlink 6", "g1-v0 nvlink 6", "g0-v1 nvlink 6", "g1-v1 nvlink 6"], "NV12"),
        (["g0-g1 nvlink 2", "g0-s0", "g1-s0"], "NV2"),
        (["g0-g1 xgmi"], "XGMI"),
        (["g0-g1"], "PIX"),
        (["g0-s0", "g1-s0"], "PIX"),
        (["g0-s0", "s0-s1", "s1-g1"], "PXB"),
        (["g0-b0", "g1-b0"], "PHB"),
        (["g0-s0", "s0-b0", "b0-s1", "s1-g1"], "PHB"),
        (["g0-c0", "g1-c0"], "PHB"),
        (["g0-s0", "s0-c0", "c0-g1"], "PHB"),
        (["g0-c0 c2c", "c0-b0", "b0-g1"], "PHB"),
        (["g0-c0 nvlink 3", "c0-g1 nvlink 3"], "PHB"),
        (["g0-b0", "b0-c0", "c0-b1", "b1-g1"], "NODE"),
        (["g0-c0", "c0-c1 cpu", "c1-g1"], "SYS"),
        (["g0-b0", "b0-c0", "c0-c1 cpu", "c1-c2 cpu", "c2-b2", "b2-g1"], "SYS"),
        (["g0-s0", "s0-n0", "n0-w0 network", "w0-n1 network", "n1-s1", "s1-g1"], "NET"),
        (["g0-w0 network", "w0-g1 network"], "NET"),
        (["g0-s0", "s0-g2", "g2-s1", "s1-g1"], None),
        (["g0-b0", "b0-n0", "n0-b1", "b1-g1"], "NET"),
        (["g0-v0 nvlink 4", "g1-s0"], None),
    ],
)
def test_letters(edges: list[str], expected: str | None) -> None:
    topology = graph(*edges)
    assert letters(topology, "g0", "g1") == expected
    assert letters(topology, "g1", "g0") == expected


def test_a_card_is_no_switch() -> None:
    topology = graph("n0-k0 local", "n1-k0 local", "k0-s0", "g0-s0")
    assert letters(topology, "n0", "n1") == "PIX"
    assert letters(topology, "g0", "n0") == "PIX"


def test_the_nearest_of_several_paths_counts() -> None:
    topology = graph("g0-c0", "c0-c1 cpu", "c1-g1", "g0-s0", "s0-s1", "s1-g1")
    assert letters(topology, "g0", "g1") == "PXB"


def test_inactive_links_do_not_count() -> None:
    up = graph("g0-g1 nvlink 4", "g0-s0", "g1-s0")
    down = Topology(
        up.devices,
        tuple(
            Link(a.src, a.dst, a.kind, 1.0, a.lanes, state="inactive") if a.kind == "nvlink" else a for a in up.links
        ),
        (),
    )
    assert letters(down, "g0", "g1") == "PIX"


def test_one_search_serves_a_row() -> None:
    topology = graph("g0-s0", "g1-s0", "s0-b0", "b0-g2", "g3-v0 nvlink 1")
    assert letters_from(topology, "g0", ["g1", "g2", "g3"]) == {"g1": "PIX", "g2": "PHB", "g3": None}


def test_bandwidth_is_the_slowest_link() -> None:
    topology = graph("g0-s0 pcie 16 30", "s0-b0 pcie 16 20", "b0-c0 pcie 32 60", "c0-c1 cpu 1 25", "c1-g1 pcie 16 30")
    assert path_bandwidth(topology, "g0", "g1") == 20.0
    assert [link.id for link in path(topology, "g0", "g1")] == ["g0->s0", "s0->b0", "b0->c0", "c0->c1", "c1->g1"]


def test_bandwidth_of_nvlinks_adds_up_over_parallel_ways() -> None:
    assert path_bandwidth(graph("g0-g1 nvlink 4 100"), "g0", "g1") == 100.0
    switches = ["g0-v0 nvlink 9 225", "g1-v0 nvlink 9 225", "g0-v1 nvlink 9 225", "g1-v1 nvlink 8 200"]
    assert path_bandwidth(graph(*switches), "g0", "g1") == 425.0


def test_no_path_is_an_error_with_both_names() -> None:
    topology = graph("g0-s0", "g1-s1")
    with pytest.raises(RouteError, match="no path joins g0 and g1"):
        path_bandwidth(topology, "g0", "g1")
    with pytest.raises(RouteError, match="g0 to itself"):
        path(topology, "g0", "g0")
    with pytest.raises(TopologyError, match="no device 'g9'"):
        letters(topology, "g0", "g9")
