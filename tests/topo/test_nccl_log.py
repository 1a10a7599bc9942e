"""NCCL logs: every capture gives what it is known to show, and each generation's lines are read by their own rule."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import NO_CORPUS, calls, corpus_dir, corpus_files
from topo.errors import CaptureError
from topo.readers import nccl_log
from topo.readers.nccl_log.facts import Communicator, NcclLog

LOGS = corpus_files("nccl-log/*.txt")
needs_logs = pytest.mark.skipif(not LOGS, reason=NO_CORPUS)
every_log = pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)


def read(path: Path) -> NcclLog:
    return nccl_log.read(path.read_text(encoding="utf-8"), path.name)


def expected_of(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.with_name(f"{path.stem}.expected.json").read_text(encoding="utf-8"))
    return loaded


def main_of(log: NcclLog) -> Communicator:
    assert log.main is not None
    return log.main


def said(*words: str, pid: int = 10, dev: int = 0, host: str = "h0", tid: int | None = None) -> str:
    """Lines of one rank's thread."""
    return "".join(f"{host}:{pid}:{tid or pid + 100} [{dev}] NCCL INFO {line}\n" for line in words)


# --- real captures ---


@needs_logs
@every_log
def test_rings_ranks_and_nodes_of_a_capture(path: Path) -> None:
    expected, summary = expected_of(path), nccl_log.summary(read(path))
    for key, known in (("num_ranks", expected["nranks"]), ("num_nodes", expected["nnodes"])):
        assert known is None or summary[key] == known
    rings = expected.get("channels_from_ring_lines")
    known_rings = list(rings.values()) if rings else expected["channels"]
    assert known_rings is None or summary["rings"] == known_rings
    if expected.get("channel_ids") and not rings:
        assert summary["ring_channels"] == expected["channel_ids"]


@needs_logs
@every_log
def test_trees_of_a_capture(path: Path) -> None:
    summary = nccl_log.summary(read(path))
    tree_of = dict(zip(summary["tree_channels"], summary["trees"], strict=True))
    for printed in expected_of(path)["trees"] or []:
        for channel, words in re.findall(r"\[(\d+)\] (\S+)", printed["printed"]):
            down, rank, up = words.partition("|")[0].split("->")
            tree = tree_of[int(channel)]
            assert tree["up"][int(rank)] == int(up)
            assert tree["down"][int(rank)] == [int(child) for child in down.split("/")]


@needs_logs
@every_log
def test_transports_and_links_of_a_capture(path: Path) -> None:
    expected, log = expected_of(path), read(path)
    assert nccl_log.summary(log)["transports"] == expected["transports"]
    if "links" in expected:
        shown = {
            (link["src"], link["dst"], link["via"], link["dir"], link["conn"], channel)
            for link in expected["links"]
            for channel in link["channels"]
        }
        found = {
            (c.src, c.dst, c.transport, c.direction, c.index, c.channel)
            for communicator in log.communicators
            for c in communicator.connections
        }
        assert found == shown


@needs_logs
@every_log
def test_the_graph_lines_of_a_capture(path: Path) -> None:
    """Each search holds the channels it announces, and each tree is whole; a capture repeats them for each rank."""
    expected, log = expected_of(path), read(path)
    titles = [line for line in expected["graph_lines"] if line.startswith("Pattern")]
    assert len(log.searches) == len(titles)
    assert all(len(search.channels) == search.num_channels for search in log.searches)
    trees = {line for line in expected["graph_lines"] if line.startswith("=== System")}
    assert bool(trees) == bool(log.systems)
    assert all(tree.complete for tree in log.systems)


@needs_logs
@every_log
def test_only_torn_lines_stay_unread(path: Path) -> None:
    log = read(path)
    torn = expected_of(path).get("torn_records_not_counted", [])
    assert bool(log.unread) == bool(torn)
    assert {row.line for row in log.unread if row.words.startswith("Trees")} == ({9, 60} if torn else set())


@needs_logs
@every_log
def test_versions_and_channel_counts_of_a_capture(path: Path) -> None:
    expected, log = expected_of(path), read(path)
    if log.versions:
        assert expected["nccl_version"] == log.versions[0]
    line = expected["coll_channels_line"]
    if line and expected["channels"] is not None:
        counts = main_of(log).channel_counts
        assert counts is not None
        numbers = [counts.collective, counts.collnet, counts.nvls, counts.p2p, counts.p2p_per_peer]
        assert [number for number in numbers if number is not None] == [int(n) for n in re.findall(r"\b\d+\b", line)]


@needs_logs
def test_the_work_of_a_log_grows_with_its_lines() -> None:
    path = next(path for path in LOGS if "64ranks" in path.name)
    text = path.read_text(encoding="utf-8")
    assert calls(lambda: nccl_log.read(text)) < 150 * text.count("\n")


@needs_logs
def test_no_other_format_is_claimed() -> None:
    root = corpus_dir()
    assert root is not None
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.parent.name not in ("nccl-log", "nccl-tests"):
            assert not nccl_log.sniff(path.read_text(encoding="utf-8", errors="replace")), path
    claimed = [path for path in corpus_files("nccl-tests/*.txt") if nccl_log.sniff(path.read_text(encoding="utf-8"))]
    assert claimed
    for path in claimed:
        assert main_of(read(path)).num_ranks, path


# --- one line, any generation ---


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("Ring 00 :    0   2   1", (0, 2, 1)),
        ("Channel 00 :    0   2   1", (0, 2, 1)),
        ("Channel 00/04 :    0   2   1", (0, 2, 1)),
        ("Channel 00/04 : 0 2 1", (0, 2, 1)),
        ("Channel 00/64 : 0", (0,)),
    ],
)
def test_a_printed_ring_of_any_version(line: str, ranks: tuple[int, ...]) -> None:
    ring = main_of(nccl_log.read(said("Trees [0] -1/-1/-1->0->-1", line))).rings[0]
    assert (ring.channel, ring.ranks, ring.source) == (0, ranks, "printed")


@pytest.mark.parametrize(
    "line",
    [
        "Channel 00/02 : 0 1 2 3 1...",
        "Channel 00/02 : 0 1 2 3 ...",
        "Channel 00/02 :    0   1   2   4",
        "Channel 00/02 :    0   1   2   2",
        "Channel 00/02 :    " + "   ".join(map(str, range(20))),
    ],
)
def test_a_ring_that_is_cut_is_never_taken_for_a_whole_one(line: str) -> None:
    main = main_of(nccl_log.read(said(line)))
    assert main.rings == ()
    assert main.open_rings == (0,)
    assert main.num_ranks is None


def test_a_cut_ring_is_put_together_from_what_ranks_say_of_their_neighbours() -> None:
    order = [0, *range(24, 0, -1)]
    lines = "".join(
        said(f"Ring 00 : {order[place - 1]} -> {rank} -> {order[(place + 1) % 25]}", pid=rank, dev=rank)
        for place, rank in enumerate(order)
    )
    ring = main_of(nccl_log.read(said("Channel 00/01 : " + " ".join(map(str, order[:20]))) + lines)).rings[0]
    assert (list(ring.ranks), ring.source) == (order, "neighbours")


def test_neighbours_that_contradict_the_printed_beginning_give_no_ring() -> None:
    lines = "".join(said(f"Ring 00 : {(r - 1) % 25} -> {r} -> {(r + 1) % 25}", pid=r, dev=r) for r in range(25))
    main = main_of(nccl_log.read(said("Channel 00/01 : 0 2 1 " + " ".join(map(str, range(3, 20)))) + lines))
    assert main.rings == ()


def test_a_cut_ring_is_completed_by_first_connections_only_where_they_close() -> None:
    comm = "".join(
        said(f"comm 0x{rank + 1:x} rank {rank} nranks 22 cudaDev 0 busId 1000 - Init COMPLETE", pid=rank)
        for rank in range(22)
    )
    ring = "Channel 00/01 :    " + "   ".join(map(str, range(20)))
    sends = [said(f"Channel 00 : {r}[1000] -> {(r + 1) % 22}[2000] via P2P/IPC", pid=r) for r in range(22)]
    tree = said("Channel 00 : 5[1000] -> 1[2000] via P2P/IPC", pid=5)
    whole = main_of(nccl_log.read(said(ring, pid=0) + "".join(sends) + tree + comm))
    assert (whole.rings[0].ranks, whole.rings[0].source) == (tuple(range(22)), "connections")
    torn = main_of(nccl_log.read(said(ring, pid=0) + "".join(sends[:7] + sends[8:]) + tree + comm))
    assert (torn.rings, torn.open_rings) == ((), (0,))


ranks = st.integers(min_value=0, max_value=300)
ranks_or_none = st.integers(min_value=-1, max_value=300)


cells = st.tuples(ranks_or_none, st.tuples(ranks_or_none, ranks_or_none, ranks_or_none))


@given(st.lists(cells, min_size=1, max_size=8), ranks)
def test_trees_read_the_same_in_every_notation(trees: list[tuple[int, tuple[int, int, int]]], rank: int) -> None:
    new, old = "{down}->{rank}->{up}", "{up}->{rank}->{down}"
    parts = [(up, "/".join(map(str, down))) for up, down in trees]
    texts = [
        "Trees " + " ".join(f"[{c}] " + form.format(down=down, rank=rank, up=up) for c, (up, down) in enumerate(parts))
        for form in (new, old, f"{new}|{old}")
    ]
    logs = [said(words) for words in texts]
    logs.append(said(*(f"Tree {c} : {up} -> {rank} -> {down}" for c, (up, down) in enumerate(parts))))
    for log in map(nccl_log.read, logs):
        assert not log.unread
        found = [(tree.up[rank], tree.down[rank]) for tree in main_of(log).trees]
        assert found == trees


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Ring 00 : 6 -> 2 via NET/IB/0", (0, None, 6, 2, "NET/IB/0", None)),
        ("Ring 01 : 6 -> 2 [receive] via NET/IB/0", (1, None, 6, 2, "NET/IB/0", "receive")),
        ("Ring 01 : 3[3] -> 1[1] via P2P/IPC", (1, None, 3, 1, "P2P/IPC", None)),
        ("Channel 02 : 3[b0] -> 0[80] via direct shared memory", (2, None, 3, 0, "direct shared memory", None)),
        ("Channel 02/0 : 3[b000] -> 0[8000] via P2P/CUMEM/read", (2, 0, 3, 0, "P2P/CUMEM/read", None)),
        ("Channel 02 : 1[1] -> 2[2] via SHM/direct/direct", (2, None, 1, 2, "SHM/direct/direct", None)),
        ("Channel 11/1 : 1[1] -> 2[2] via P2P/MNNVL", (11, 1, 1, 2, "P2P/MNNVL", None)),
        ("Channel 00/0 : 0[0] -> 1[1] via C2C", (0, 0, 0, 1, "C2C", None)),
        (
            "Channel 00/0 : 8[0] -> 0[0] [send] via NET/AWS Libfabric/1(2)/GDRDMA/Shared",
            (0, 0, 8, 0, "NET/AWS Libfabric/1(2)/GDRDMA/Shared", "send"),
        ),
        (
            "Channel 00/0 : 8[0] -> 0[0] [send] via NET/IB/2/GDRDMA(PCI)",
            (0, 0, 8, 0, "NET/IB/2/GDRDMA(PCI)", "send"),
        ),
        ("Channel 03 : 4[40] -> 0[40] [send] via NET/UCX/0 comm 0x2b nRanks 08", (3, None, 4, 0, "NET/UCX/0", "send")),
        ("CollNet 00/0 : 2 [receive] via COLLNET/SHARP/5/GDRDMA", (0, 0, 2, None, "COLLNET/SHARP/5/GDRDMA", "receive")),
        ("Coll 00 : 2 [send] via COLLNET/SHARP/5", (0, None, 2, None, "COLLNET/SHARP/5", "send")),
    ],
)  # fmt: skip
def test_a_connection_of_any_version(line: str, expected: tuple[object, ...]) -> None:
    (one,) = main_of(nccl_log.read(said(line))).connections
    assert (one.channel, one.index, one.src, one.dst, one.transport, one.direction) == expected


@pytest.mark.parametrize(
    "line",
    [
        "Channel 00/0 : 3[201d0] -> 0[",
        "Channel 00/0 : 3[201d0]",
        "Channel 00/24 :    0   1   x",
        "Ring 00 : 1 -> 2",
        "Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0",
        "Trees [0] 1->0->-1",
        "Trees [0] 1/-1/-1->0->-1|-1->0->2/-1/-1",
        "Tree 0 : -1 -> 0",
        "NVLS Head 0: 0 x",
        "24 coll channels, 32 p2p channels, 3",
        "comm 0x1 rank 4 nranks 4 cudaDev 0 busId 1 - Init COMPLETE",
        "comm 0x1 rank 0 nranks 4 cudaDev 0 busId 1x0 - Init COMPLETE",
        "comm 0x1 rank 0 nRanks 4 nNodes 2x localRanks 2 localRank 0 MNNVL 0",
        "Channel 900/0 : 3[1] -> 0[2] via P2P/IPC",
        "Channel 00/0 : 99999[1] -> 0[2] via P2P/IPC",
        "Pattern 4, crossNic 0, nChannels",
        "Pattern 4, crossNic 0, nChannels 1, bw 1.2.3/1.0, type NVL/PIX, sameChannels 1",
        f"Channel 00/{'1' * 5000} :    0   1",
        "AllReduce: 64 Bytes -> Algo RING proto",
    ],
)
def test_what_cannot_be_read_is_listed_with_its_line(line: str) -> None:
    log = nccl_log.read(said("Channel 00/01 :    0   1") + said(line))
    assert [row.line for row in log.unread] == [2]
    assert log.unread[0].reason
    assert log.unread[0].words


def test_a_line_of_trees_that_ends_where_nccls_buffer_ends_loses_its_last_tree() -> None:
    words = "Trees " + " ".join(f"[{channel}] 100/-1/-1->101->102" for channel in range(64))
    log = nccl_log.read(said(words[:1028]))
    assert len(log.unread) == 1
    assert 30 < len(main_of(log).trees) < 64


@pytest.mark.parametrize("prefix", [
    "",
    "    ",
    "> ",
    " 9: ",
    "[1,13]<stdout>:",
    "[155] ",
    "[rank3]: ",
    "[default3]:",
    "worker-1: ",
    "pytorch ",
    "[pod/job-0/main] ",
    "2025-06-01T10:26:31.123456789Z stdout F ",
    "[2025-06-01 10:26:31] ",
    "\x1b[36m(pid=77)\x1b[0m ",
    "12  ",
])  # fmt: skip
def test_whatever_a_launcher_puts_in_front(prefix: str) -> None:
    lines = said("Channel 00/01 :    0   1") + said(
        "Channel 00/0 : 1[1] -> 0[0] via SHM/direct/direct", pid=11, host="h1"
    )
    text = "".join(f"{prefix}{line}\r\n" for line in lines.splitlines())
    main = main_of(nccl_log.read(text))
    assert main.rings[0].ranks == (0, 1)
    assert [(place.rank, place.host, place.pid) for place in main.places] == [(0, "h0", 10), (1, "h1", 11)]


def test_lines_as_container_runtimes_keep_them_and_between_progress_bars() -> None:
    line = said("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC").strip()
    kept = '{"log":"' + line.replace(">", "\\u003e") + '\\n","stream":"stdout","time":"2025-06-01T10:26:31Z"}'
    log = nccl_log.read(f"{kept}\n 10%|#   |\r{line}\r 20%|##  |\n")
    assert log.transports == {"P2P/IPC": 2}
    assert [connection.line for connection in main_of(log).connections] == [1, 2]


@pytest.mark.parametrize("cut_to", ["[0] NCCL INFO ", "NCCL INFO ", ""])
def test_prefixes_that_somebody_cut_off(cut_to: str) -> None:
    text = f"{cut_to}Channel 00/01 :    0   1\n{cut_to}Channel 00/0 : 0[0] -&gt; 1[1] via P2P/IPC   \n"
    log = nccl_log.read(text)
    assert main_of(log).rings[0].ranks == (0, 1)
    assert log.transports == {"P2P/IPC": 1}


def test_records_that_meet_on_one_line_count_only_where_they_are_whole() -> None:
    whole = said("Channel 01 : 0[10] -> 1[20] via P2P/IPC").strip()
    text = f"{said('Channel 00 : 0[10] -> 1[20] via P2P/IPC').strip()}{whole}\n"
    log = nccl_log.read(text)
    assert [c.channel for c in main_of(log).connections] == [1]
    assert [(row.line, row.reason) for row in log.unread] == [(1, "another process wrote into this line")]


@pytest.mark.parametrize("text", ["", "hello", "h:1:1 [0] NCCL INFO Launch mode Parallel\n", "NCCL INFO\n" * 3])
def test_what_is_no_log_is_refused(text: str) -> None:
    assert not nccl_log.sniff(text)
    with pytest.raises(CaptureError, match=r"a\.log: no log of NCCL: expected lines with NCCL INFO"):
        nccl_log.read(text, "a.log")


@given(st.text(alphabet="0123456789 ->/[]:|.abChanelTrsRigvP2\nNIFO+=(),xm", max_size=400))
def test_no_text_makes_it_stumble(noise: str) -> None:
    nccl_log.read(said("Channel 00/01 :    0   1") + said(*noise.split("\n")) + noise)
