"""The language of changes: every verb, what it refuses, and which changes contradict each other."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.change_verbs import VERBS, parse_changes
from topo.changes import (
    AddNic,
    Break,
    JoinBy,
    Lanes,
    Late,
    Nodes,
    PeerToPeer,
    Put,
    ReplaceGpu,
    Scale,
    ServeFrom,
    SetVariable,
    require_consistent,
)
from topo.errors import ChangeError
from topo.fabric import Fabric

READ = [
    ("break GPU0-GPU1", (Break("GPU0-GPU1"),)),
    ("lanes GPU3-NVS0=11", (Lanes("GPU3-NVS0", 11),)),
    ("lanes GPU3-NVS0 = 11", (Lanes("GPU3-NVS0", 11),)),
    ("scale nvlink bandwidth x0.5", (Scale("nvlink", "bandwidth", 0.5),)),
    ("scale nvlink bandwidth \N{MULTIPLICATION SIGN} 2", (Scale("nvlink", "bandwidth", 2.0),)),
    ("SCALE fabric latency x3", (Scale("fabric", "latency", 3.0),)),
    ("set pcie generation=5", (Put("pcie", "generation", 5),)),
    ("set pcie generation=5 width=8", (Put("pcie", "generation", 5), Put("pcie", "width", 8))),
    ("set nic rate=400Gb/s", (Put("nic", "bandwidth", 50e9),)),
    ("set fabric latency=2us", (Put("fabric", "latency", 2e-6),)),
    ("add nic to node0 rate=400Gb/s", (AddNic("node0", 50e9),)),
    ("add nic to GPU1 rate=200Gb/s count=2", (AddNic("GPU1", 25e9, 2),)),
    ("nodes 2,4, 8", (Nodes((2, 4, 8)),)),
    ("nodes 1-4", (Nodes((1, 2, 3, 4)),)),
    ("nodes 8, 2 - 4", (Nodes((8, 2, 3, 4)),)),
    ("nodes 5-5", (Nodes((5,)),)),
    ("fabric fat-tree:2", (JoinBy(Fabric("fat-tree", oversubscription=2.0)),)),
    ("replace gpu with b200", (ReplaceGpu("b200"),)),
    ("late GPU5 by 2ms", (Late("GPU5", 2e-3),)),
    ("env NCCL_ALGO=Ring", (SetVariable("NCCL_ALGO", "Ring"),)),
    ("p2p off", (PeerToPeer(False),)),
    ("server host", (ServeFrom("host"),)),
    ("server GPU0, GPU1", (ServeFrom("GPU0,GPU1"),)),
    ("break GPU0-GPU1;  p2p   off", (Break("GPU0-GPU1"), PeerToPeer(False))),
]


@pytest.mark.parametrize(("text", "changes"), READ, ids=[text for text, _ in READ])
def test_a_change_is_read(text: str, changes: tuple[object, ...]) -> None:
    assert parse_changes(text) == changes


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_reads_its_own_example(name: str) -> None:
    assert VERBS[name].example.startswith(name)
    assert VERBS[name].usage.startswith(name)
    assert parse_changes(VERBS[name].example)


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_alone_says_what_it_takes(name: str) -> None:
    with pytest.raises(ChangeError) as refused:
        parse_changes(name)
    assert VERBS[name].usage in str(refused.value)
    assert VERBS[name].example in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("brek GPU0-GPU1", "did you mean 'break'"),
        ("", "empty change"),
        ("p2p off;", "empty change"),
        ("lanes GPU0-GPU1=0", "write `break GPU0-GPU1`"),
        ("lanes GPU0-GPU1=many", "lanes PART=N"),
        ("scale nvlink speed x2", "known are bandwidth, latency"),
        ("scale nvlink bandwidth x0", "x0: expected a factor"),
        ("scale nvlink bandwidth xnan", "xnan: expected a factor"),
        ("scale nvlink bandwidth 0.5", "xFACTOR"),
        ("set pcie generations=5", "did you mean 'generation'"),
        ("set pcie generation=five", "generation=five: expected a whole number"),
        ("set nic rate=400", "it has no unit"),
        ("set nic rate=400Gb/s please", "set PART"),
        ("add gpu to node0 rate=400Gb/s", "add nic to PLACE"),
        ("add nic to node0 rate=400Gb/s count=1000", "at most 64"),
        ("nodes 2,2", "stands twice"),
        ("nodes 1-4,3", "stands twice"),
        ("nodes 4-1", "write 1-4"),
        ("nodes 0-4", "expected a whole number from 1"),
        ("nodes 1-", "nodes=1-"),
        ("nodes -4", "nodes=-4"),
        ("nodes 1-9999999", "at most 1000000"),
        ("nodes 1-5000", "topo sweep takes more"),
        ("nodes two", "nodes=two"),
        ("nodes 9999999", "at most"),
        ("fabric fat-treee:2", "did you mean 'fat-tree'"),
        ("late GPU5 by 1e308s", "1e308s: expected at most a day, 86400s"),
        ("late GPU5 by 86401s", "at most a day"),
        ("set fabric latency=1e300s", "at most a day"),
        ("late GPU5 by 2", "it has no unit"),
        ("late GPU5", "late PART by DURATION"),
        ("env PATH=x", "only NCCL's own variables"),
        ("p2p maybe", "p2p on|off"),
    ],
)
def test_what_cannot_be_read_says_where_and_why(text: str, says: str) -> None:
    with pytest.raises(ChangeError) as refused:
        parse_changes(text)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "lanes GPU0-GPU1=2; lanes GPU0-GPU1=1",
        "lanes gpu0-gpu1=2; lanes GPU0-GPU1=2",
        "nodes 2; nodes 4",
        "fabric flat; fabric rail",
        "p2p on; p2p off",
        "p2p off; env NCCL_P2P_DISABLE=0",
        "env NCCL_ALGO=Ring; env NCCL_ALGO=Tree",
        "late GPU5 by 1ms; late GPU5 by 2ms",
        "server host; server GPU0",
        "set pcie generation=4; set pcie generation=5",
        "set pcie generation=4 generation=5",
        "replace gpu with b200; replace gpu with h100",
        "break GPU0-GPU1; break GPU0-GPU1",
        "lanes GPU0-GPU1=2; break GPU0-GPU1",
        "lanes GPU0-GPU1=2; set GPU0-GPU1 lanes=3",
    ],
)
def test_what_contradicts_is_refused(text: str) -> None:
    with pytest.raises(ChangeError, match="keep one"):
        parse_changes(text)


def test_what_adds_up_is_no_contradiction() -> None:
    text = (
        "add nic to node0 rate=400Gb/s; add nic to node0 rate=400Gb/s; scale nic bandwidth x2; scale nic bandwidth x2"
    )
    require_consistent(text, parse_changes(text))


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_in_one_sentence(text: str) -> None:
    with suppress(ChangeError):
        assert parse_changes(text)


@given(
    st.sampled_from(sorted(VERBS)),
    st.text(alphabet="GPU0123456789-=x.,: NVSabckB/s;", max_size=40),
)
def test_any_words_behind_a_verb_are_read_or_refused(name: str, rest: str) -> None:
    with suppress(ChangeError):
        assert parse_changes(f"{name} {rest}")
