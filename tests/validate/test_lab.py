"""The lab for real: namespaces, processes in them, and that nothing is left whatever ends a run.

Where this machine cannot build a lab, the command must say so with exit status 3, and that is what is tested.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support import ROOT
from topo.cli import main
from topo.errors import EnvironmentMissing
from validate.lab import namespaces
from validate.lab.fabric import uniform
from validate.lab.namespaces import LEADING, built, guarded, own_prefix, require_lab

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: no processes are started")

SPEC = """
name = "three hosts"
hosts = ["a", "b", "c"]
rate = "400mbit"
[[links]]
join = ["a", "s"]
[[links]]
join = ["b", "s"]
[[links]]
join = ["c", "t"]
[[links]]
join = ["s", "t"]
"""
QUICK = ("--size", "512K", "-n", "2", "-w", "0")


def validate(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["validate", *arguments], prog_name="topo")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "three.toml"
    path.write_text(SPEC)
    return path


@pytest.fixture(scope="module")
def can_build() -> bool:
    """Whether this machine can build a lab; it is built, and removed again."""
    try:
        require_lab()
        with guarded(own_prefix()), built(uniform(2, 25e6), own_prefix()):
            return True
    except EnvironmentMissing:
        return False


def refused(result: Result) -> None:
    assert result.exit_code == 3
    assert result.stderr.startswith("topo: error: ")
    assert result.stderr.count("\n") == 1


def ours() -> list[str]:
    return [name for name in namespaces.namespaces() if name.startswith(LEADING)]


def test_a_lab_is_discovered_predicted_and_measured(can_build: bool, spec: Path) -> None:
    result = validate("lab", str(spec), *QUICK, "--format", "json", "--tolerance", "1")
    if not can_build:
        refused(result)
        return
    assert result.exit_code in (0, 1), result.stderr
    document = json.loads(result.stdout)
    assert document["schema"] == "validate-lab/1"
    assert document["failure"] is None
    names = ["ring", "tree", "parameter-server", "builtin"]
    assert [(row["fabric"], row["algorithm"]) for row in document["rows"]] == [("three hosts", name) for name in names]
    for row in document["rows"]:
        assert row["relative_error"] == pytest.approx(row["predicted_s"] / row["measured_s"] - 1)
        assert row["verdict"] in ("OK", "LOW", "HIGH")
        assert row["correct"] is True
        assert row["measured_s"] > 512 * 1024 / 50e6
    (fabric,) = document["fabrics"]
    links = {(link["src"], link["dst"]): link["bandwidth_bytes_per_s"] for link in fabric["topology"]["links"]}
    assert links[("s", "t")] == links[("t", "s")] == links[("a", "s")] == 50e6
    assert 0.5 < fabric["point_to_point"]["both_ways_share"] <= 1
    assert len(fabric["late_s"]) == 3
    assert document["held_out"][0]["low"] is not None
    assert not [name for name in ours() if name.startswith(own_prefix())]


def test_a_cut_link_is_found_and_a_late_rank_is_not_taken_for_one(can_build: bool) -> None:
    arguments = ("--lab", "--hosts", "3", "--cut", "h2-sw=66mbit", "--late", "1=200ms", "-n", "2")
    result = validate("bisect", *arguments, "--format", "json")
    if not can_build:
        refused(result)
        return
    assert result.exit_code == 1, result.stderr
    document = json.loads(result.stdout)
    assert {link for suspect in document["suspects"] for link in suspect["links"]} >= {"h2->sw", "sw->h2"}
    assert all(2 < suspect["measured_over_predicted"] < 4.5 for suspect in document["suspects"])
    assert document["late_ranks"] == ["h1"]
    assert document["late_s"][1] == pytest.approx(0.2, abs=0.05)
    assert "slow link" in result.stderr
    assert "late rank 1 (h1)" in result.stderr


def test_a_killed_rank_ends_the_lab_with_results_kept(
    can_build: bool, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOPOSCOPE_FAULT", "kill:1:after=7")
    result = validate("lab", str(spec), *QUICK)
    if not can_build:
        refused(result)
        return
    assert result.exit_code == 1
    assert "rank 1 died without a word" in result.stderr
    assert "1 comparison so far kept, everything of the lab is removed" in result.stderr
    assert not [name for name in ours() if name.startswith(own_prefix())]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_a_lab_nothing_is_left(
    can_build: bool, spec: Path, tmp_path: Path, number: signal.Signals
) -> None:
    if not can_build:
        refused(validate("lab", str(spec)))
        return
    files = tmp_path / "files"
    files.mkdir()
    with begun(spec, files) as process:
        mine = f"{LEADING}-{process.pid}-"
        wait_until(lambda: bool(list(files.glob("*/progress-2.json"))))
        inside = [pid for name in ours() if name.startswith(mine) for pid in pids(name)]
        process.send_signal(number)
        status = process.wait(timeout=60)
        assert status == (-signal.SIGKILL if number == signal.SIGKILL else 1)
        wait_until(lambda: not [name for name in ours() if name.startswith(mine)])
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inside))
        wait_until(lambda: not list(files.iterdir()))


class begun:  # noqa: N801
    """A lab in a program of its own, ended with the block."""

    def __init__(self, spec: Path, files: Path) -> None:
        self._command = [sys.executable, "-m", "topo.cli", "validate", "lab", str(spec), "-n", "100000", "--size", "4M"]
        self._environment = {**os.environ, "TMPDIR": str(files), "PYTHONPATH": str(ROOT)}

    def __enter__(self) -> subprocess.Popen[bytes]:
        code = "import sys; sys.argv[0] = 'topo'; from topo.cli import main; main()"
        command = [sys.executable, "-c", code, *self._command[3:]]
        self._process = subprocess.Popen(
            command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def pids(name: str) -> list[int]:
    done = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def wait_until(true: Callable[[], bool], within_s: float = 90.0) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, "it has not come in time"
        time.sleep(0.05)


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """For tests of what a machine lacks: nothing is ever run."""

    def run(command: object) -> str:
        raise AssertionError(f"{command} was run")

    monkeypatch.setattr(namespaces, "run", run)
    return monkeypatch


@pytest.mark.parametrize("command", [("lab",), ("bisect", "--lab")])
@pytest.mark.parametrize(
    ("patch", "value", "words"),
    [
        ("sys.platform", "darwin", "the lab is made of Linux network namespaces, and this is darwin"),
        ("shutil.which", lambda name: None, "the lab needs ip of iproute2"),
        ("os.geteuid", lambda: 1000, "the lab makes network namespaces, which only root may"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_made(
    refusing: pytest.MonkeyPatch, command: tuple[str, ...], patch: str, value: object, words: str
) -> None:
    refusing.setattr("shutil.which", lambda name: f"/usr/sbin/{name}")
    refusing.setattr("os.geteuid", lambda: 0)
    refusing.setattr(patch, value)
    result = validate(*command)
    refused(result)
    assert words in result.stderr


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("mount --make-shared /run/netns failed: Operation not permitted", "run it privileged"),
        ("Error: Specified qdisc kind is unknown.", "sch_tbf"),
        ("RTNETLINK answers: Operation not supported", "needs namespaces, bridges, veth pairs"),
    ],
)
def test_what_the_system_refuses_is_said_with_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, advice: str
) -> None:
    fake = tmp_path / "ip"
    fake.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 2\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(EnvironmentMissing, match="the system refuses `ip netns list`") as caught:
        namespaces.namespaces()
    assert words in str(caught.value)
    assert advice in str(caught.value)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("lab", "three.toml", "--rate", "1gbit"), "--rate is for the default fabrics, three.toml says by itself"),
        (("lab", "missing.toml"), "missing.toml"),
        (("lab", "--rate", "0mbit"), "it must be more than 0"),
        (("lab", "--algorithm", "rign"), "did you mean 'ring'"),
        (("bisect", "--cut", "h3-sw=66mbit"), "--cut is for the lab: add --lab"),
        (("bisect", "--lab", "--ranks", "3"), "--ranks is not for the lab: leave it out"),
        (("bisect", "--lab", "three.toml", "--hosts", "3"), "--hosts is for a lab without SPEC.toml"),
        (("bisect", "--late", "x=1s"), "'x' is no rank"),
        (("bisect", "--late", "1"), "expected NAME=VALUE, such as 2=200ms"),
        (("bisect", "--late", "9=1s", "--ranks", "2", "--backend", "gloo"), "--late 9: there are 2 ranks"),
    ],
)
def test_bad_usage_is_one_sentence(arguments: tuple[str, ...], words: str) -> None:
    result = validate(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
