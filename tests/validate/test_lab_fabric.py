"""What a lab is to look like, the commands that build it, and that it is discovered as it was stated."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import examples
from tests.validate.fabrics import fabrics
from tests.validate.lab_system import FakeSystem
from topo.errors import CaptureError, EnvironmentMissing, TopologyError
from validate.lab import discover
from validate.lab.commands import SWITCHES, burst_bytes, commands, namespace
from validate.lab.discover import Seen
from validate.lab.fabric import Cable, Fabric, default_fabrics, topology_of
from validate.lab.namespaces import built, own_prefix, remove, remove_leftovers
from validate.lab.spec import parse_fabric

PREFIX = "topolab-1-2-"


@given(fabrics())
@settings(max_examples=examples(25))
def test_any_fabric_is_discovered_as_it_was_stated(fabric: Fabric) -> None:
    system = FakeSystem()
    with built(fabric, PREFIX, system):
        found = discover.read(fabric.name, discover.look(fabric.hosts, PREFIX, system))
    stated = topology_of(fabric)
    assert found.gpu_ids == stated.gpu_ids
    assert set(found.devices) == set(stated.devices)
    assert set(found.links) == set(stated.links)
    assert not system.namespaces


@given(fabrics(), st.data())
@settings(max_examples=examples(25))
def test_a_refusal_at_any_command_leaves_nothing_behind(fabric: Fabric, data: st.DataObject) -> None:
    system = FakeSystem(fails_at=data.draw(st.integers(1, len(commands(fabric, PREFIX)))))
    with pytest.raises(EnvironmentMissing, match="not permitted"), built(fabric, PREFIX, system):
        pytest.fail("it was built in spite of the refusal")
    assert not system.namespaces


@given(fabrics())
@settings(max_examples=examples(10))
def test_nothing_is_made_outside_the_namespaces_of_the_run(fabric: Fabric) -> None:
    for command in commands(fabric, PREFIX):
        words = command.do
        inside = words[words.index("-netns") + 1] if "-netns" in words else words[3]
        assert inside.startswith(PREFIX)
        assert bool(command.undo) == (words[:3] == ("ip", "netns", "add"))
    assert len({command.undo for command in commands(fabric, PREFIX) if command.undo}) == len(fabric.hosts) + 1


def test_only_what_dead_runs_left_is_removed() -> None:
    living, dead = own_prefix(), f"topolab-{2**30}-77-"
    reborn = own_prefix().rsplit("-", 2)[0] + "-1-"
    names = [
        namespace(living, "h0"),
        namespace(dead, "h0"),
        namespace(dead, SWITCHES),
        f"{reborn}h0",
        "vpn",
        "topolab-x",
    ]
    system = FakeSystem({name: {} for name in names})
    assert set(remove_leftovers(system)) == {names[1], names[2], names[3]}
    assert list(system.namespaces) == [names[0], "vpn", "topolab-x"]
    assert remove(living, system) == (names[0],)


def test_removing_takes_the_files_of_the_run_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine, other = tmp_path / f"{PREFIX}abc", tmp_path / "topolab-11-2-abc"
    for folder in (mine, other):
        folder.mkdir()
        (folder / "stage.json").touch()
    remove(PREFIX, FakeSystem())
    assert list(tmp_path.iterdir()) == [other]


def test_the_default_fabrics_are_uniform_one_slow_link_and_two_racks() -> None:
    uniform, slow, racks = default_fabrics(4, 25e6)
    assert {cable.rate_bytes_per_s for cable in uniform.cables} == {25e6}
    assert [cable.rate_bytes_per_s for cable in slow.cables] == [25e6, 25e6, 25e6, pytest.approx(25e6 / 3)]
    assert racks.switches == ("rack0", "rack1")
    assert racks.cables[-1] == Cable("rack0", "rack1", pytest.approx(2 * 25e6 / 3))


@pytest.mark.parametrize("num_hosts", range(2, 17))
def test_every_number_of_hosts_makes_three_fabrics(num_hosts: int) -> None:
    for fabric in default_fabrics(num_hosts, 25e6):
        assert topology_of(fabric).num_ranks == num_hosts


def test_a_burst_is_little_but_holds_a_packet() -> None:
    assert 8 * 1024 < burst_bytes(1e6) < burst_bytes(25e6) < 32 * 1024


SPEC = """
name = "two racks"
hosts = ["a", "b", "c"]
rate = "200mbit"
[[links]]
join = ["a", "left"]
[[links]]
join = ["left", "b"]
rate = "66mbit"
[[links]]
join = ["left", "right"]
rate = "100mbit"
[[links]]
join = ["c", "right"]
"""


def test_a_fabric_is_read_from_toml() -> None:
    cables = (
        Cable("a", "left", 25e6),
        Cable("left", "b", 8.25e6),
        Cable("left", "right", 12.5e6),
        Cable("c", "right", 25e6),
    )
    assert parse_fabric(SPEC, "racks.toml") == Fabric("two racks", ("a", "b", "c"), cables)
    assert parse_fabric(SPEC.replace('name = "two racks"\n', ""), "folder/racks.toml").name == "racks"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("rate =", "ratee =", "unknown key 'ratee': did you mean 'rate'"),
        ("join =", "joins =", "unknown key 'joins': did you mean 'join'"),
        ('rate = "66mbit"', 'rate = "0mbit"', "it must be more than 0"),
        ('rate = "66mbit"', "rate = 66", "link left-b has the rate 66, a number without a unit"),
        ('rate = "66mbit"', 'rate = "66"', "66"),
        ('rate = "200mbit"\n', "", "link a-left has no rate"),
        ('hosts = ["a", "b", "c"]', 'hosts = ["a", "b", "c", "d"]', "nothing joins host 'd'"),
        ('hosts = ["a", "b", "c"]', 'hosts = ["a"]', "a lab has 2 to 16 hosts, 1 were given"),
        ('hosts = ["a", "b", "c"]', 'hosts = ["a", "b", "c", "a"]', "two hosts are called 'a'"),
        ('hosts = ["a", "b", "c"]', "hosts = 3", "hosts is 3: write"),
        ('hosts = ["a", "b", "c"]\n', "", "hosts is missing: write"),
        ('["a", "left"]', '["a", "a"]', "a link joins 'a' to itself"),
        ('["a", "left"]', '["a"]', "a link joins two places, 1 were given"),
        ('["a", "left"]', '["a", "c"]', "link a-c joins two hosts"),
        ('["a", "left"]', '["a", "the left"]', "'the left' is no name for a host or switch"),
        ('["left", "right"]', '["up", "right"]', "no path from host a to c"),
        ('["left", "right"]', '["c", "left"]', "host 'c' has 2 links: a host has one port"),
        ('name = "two racks"', "name = 7", "name is 7: expected words in quotes"),
        ("[[links]]", "[links]", "TOML"),
        ("[[links]]", "[[links", "this is no TOML"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_sentence_with_its_name(old: str, new: str, words: str) -> None:
    with pytest.raises(CaptureError) as caught:
        parse_fabric(SPEC.replace(old, new), "racks.toml")
    assert words in str(caught.value)
    assert str(caught.value).startswith("racks.toml: ")
    assert caught.value.exit_code == 2


def test_a_circle_of_switches_is_refused() -> None:
    cables = [Cable(*ends, 1e6) for ends in (("a", "x"), ("b", "y"), ("x", "y"), ("y", "z"), ("z", "x"))]
    with pytest.raises(TopologyError, match="link z-x closes a circle"):
        Fabric("circle", ("a", "b"), tuple(cables))


@pytest.mark.parametrize(
    ("links", "limits", "words"),
    [
        ("", "[]", "this is no JSON"),
        ("{}", "[]", "expected a JSON list"),
        ("[]", "[]", "h0 has no port eth0 that leads to a bridge"),
    ],
)
def test_what_cannot_be_discovered_is_said(links: str, limits: str, words: str) -> None:
    seen = Seen(links, limits)
    with pytest.raises(CaptureError, match=words):
        discover.read("lab", {SWITCHES: seen, "h0": seen})


def test_a_port_without_a_limit_is_refused() -> None:
    system, fabric = FakeSystem(), default_fabrics(2, 25e6)[0]
    with built(fabric, PREFIX, system):
        del system.namespaces[namespace(PREFIX, "h1")]["eth0"]["rate"]
        with pytest.raises(CaptureError, match="eth0 of h1 has no token bucket with a rate"):
            discover.read(fabric.name, discover.look(fabric.hosts, PREFIX, system))
