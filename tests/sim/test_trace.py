"""Traces: held to the documented format of Chrome's trace events, and to the run that they show."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sim import playback as followed
from sim import trace as module
from sim.trace import trace
from tests.sim.pages import GIB, MIB, STAR, simulated
from topo.cli import main
from topo.errors import ScheduleError
from topo.load import load_topology

Event = dict[str, Any]
NAMES = {"process_name": "name", "process_sort_index": "sort_index", "thread_name": "name"}
NAMES["thread_sort_index"] = "sort_index"
CASES = [
    ("dgx-h100", ("ring", "parameter-server")),
    ("pcie-4gpu", ("ring", "tree", "parameter-server")),
    (STAR, ("tree",)),
]
by_case = pytest.mark.parametrize(("machine", "algorithms"), CASES)


def traced(machine: str, algorithms: tuple[str, ...], sizes: tuple[int, ...] = (MIB,)) -> dict[str, Any]:
    text, notes = trace(*simulated(load_topology(machine), algorithms, sizes))
    assert all("stretched" in sentence for sentence in notes)
    found: dict[str, Any] = json.loads(text)
    return found


def tracks(document: dict[str, Any]) -> dict[tuple[str, str], list[Event]]:
    """The events by the names of their process and thread."""
    names: dict[tuple[int, int | None], str] = {}
    for event in document["traceEvents"]:
        if event["name"] in ("process_name", "thread_name"):
            names[event["pid"], event.get("tid")] = event["args"]["name"]
    found = defaultdict(list)
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            found[names[event["pid"], None], names[event["pid"], event["tid"]]].append(event)
    return found


@by_case
def test_every_event_is_as_the_format_wants_it(machine: str, algorithms: tuple[str, ...]) -> None:
    """The JSON object form: metadata and complete events with the keys and types that the format's document lists."""
    document = traced(machine, algorithms)
    assert document["displayTimeUnit"] in ("ms", "ns")
    for event in document["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert event["args"].keys() == {NAMES[event["name"]]}
        else:
            assert event["ph"] == "X"
            assert isinstance(event["tid"], int)
            assert isinstance(event["cat"], str)
            assert event["ts"] >= 0
            assert event["dur"] >= 0


@by_case
def test_no_track_shows_two_things_at_once(machine: str, algorithms: tuple[str, ...]) -> None:
    for name, events in tracks(traced(machine, algorithms)).items():
        spans = [(round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)) for event in events]
        assert spans == sorted(spans), name
        assert all(before[1] <= after[0] for before, after in pairwise(spans)), name


@by_case
def test_links_carry_the_bytes_of_the_prediction(machine: str, algorithms: tuple[str, ...]) -> None:
    found = tracks(traced(machine, algorithms))
    _, predictions, _ = simulated(load_topology(machine), algorithms, (MIB,))
    for run in predictions:
        carried: dict[str, int] = defaultdict(int)
        for (process, thread), events in found.items():
            if process == f"{run.algorithm} 1 MiB: links":
                carried[thread.partition(" ")[0]] += sum(event["args"]["bytes"] for event in events)
        assert carried == {load.link: pytest.approx(load.num_bytes) for load in run.link_loads}


def test_a_track_for_each_gpu_and_channel_with_what_it_sends() -> None:
    found = tracks(traced("dgx-h100", ("ring",), (MIB, GIB)))
    sent = found["ring 1 GiB: GPU3 sends", "channel 0"]
    assert [event["args"]["step"] for event in sent] == list(range(14))
    assert {event["args"]["to"] for event in sent} == {"GPU4"}
    assert sent[0]["args"] == {
        "bytes": GIB // 8,
        "protocol": "simple",
        "step": 0,
        "chunk": 3,
        "channel": 0,
        "op": "reduce",
        "from": "GPU3",
        "to": "GPU4",
        "landed_us": sent[0]["args"]["landed_us"],
        "example_value": 4,
    }


def test_only_the_largest_size_is_traced() -> None:
    processes = {process for process, _ in tracks(traced(STAR, ("ring",), (MIB, GIB, 1024)))}
    assert all("1 GiB" in process for process in processes)


def test_a_long_run_is_cut_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_EVENTS", 100)
    text, notes = trace(*simulated(load_topology(STAR), ("ring",), (MIB,)))
    assert sum(event["ph"] == "X" for event in json.loads(text)["traceEvents"]) == 99
    assert notes == ["the trace of ring holds its first 33 of 112 transfers"]


def test_a_run_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "MOST_TRANSFERS", 100)
    with pytest.raises(ScheduleError, match="fewer nodes, channels or chunks"):
        trace(*simulated(load_topology(STAR), ("ring",), (MIB,)))


def test_the_option_writes_the_file(tmp_path: Path) -> None:
    target = tmp_path / "t.json"
    result = CliRunner().invoke(main, ["simulate", "dgx-h100", "--size", "1M", "--trace", str(target)])
    assert result.exit_code == 0, result.output
    assert json.loads(target.read_text())["otherData"]["simulated"] is True
