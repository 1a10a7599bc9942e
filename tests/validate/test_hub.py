"""Where processes meet: reports go in, orders come out, and strangers are not understood."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from topo.errors import EnvironmentMissing
from validate import hub as module
from validate.hub import PORTS_TRIED, Hub, ask, find

HERE = "127.0.0.1"


def report(rank: int, age_s: float = 0.0) -> dict:
    fields = {"rank": rank, "pid": 0, "state": "running", "count": 3, "job": "x", "job_number": 1, "error": ""}
    return {"rank": rank, "host": f"node{rank}", "report": {**fields, "age_s": age_s}}


def test_reports_arrive_and_orders_are_given() -> None:
    hub = Hub(2, {"run": 1})
    with hub.open(HERE, 31_000) as port:
        assert ask(HERE, port, {"rank": 1, "wants_plan": True}) == {
            "hello": "toposcope",
            "stop": None,
            "plan": {"run": 1},
        }
        assert hub.seen() == {}
        ask(HERE, port, report(1, age_s=2.0))
        found = hub.seen()[1]
        assert (found.rank, found.count, found.job) == (1, 3, "x")
        assert time.monotonic() - found.at_s >= 2.0
        hub.stop = "enough"
        answer = ask(HERE, port, report(0))
        assert answer is not None
        assert answer["stop"] == "enough"
    assert hub.where((1,)) == "; rank 1 ran on node1"
    assert hub.where((7,)) == ""
    assert ask(HERE, port, report(0)) is None


def test_where_the_first_port_is_taken_by_a_stranger_the_next_one_is_found() -> None:
    with socket.socket() as stranger:
        stranger.bind((HERE, 0))
        stranger.listen()
        taken = stranger.getsockname()[1]
        stop = threading.Event()

        def shrug() -> None:
            stranger.settimeout(0.1)
            while not stop.is_set():
                try:
                    connection, _ = stranger.accept()
                except TimeoutError:
                    continue
                connection.close()

        thread = threading.Thread(target=shrug)
        thread.start()
        try:
            with Hub(1, {}).open(HERE, taken) as port:
                found = find(HERE, taken, report(0))
                assert found is not None
                assert found[0] == port != taken
        finally:
            stop.set()
            thread.join()


def test_what_is_no_report_gets_no_answer() -> None:
    with Hub(1, {}).open(HERE, 31_100) as port, socket.create_connection((HERE, port), timeout=10) as stranger:
        stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert stranger.recv(100) == b""


def test_without_a_free_port_rank_0_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("taken")

    monkeypatch.setattr(module, "_Server", refuse)
    with (
        pytest.raises(EnvironmentMissing, match=f"ports 5 to {5 + PORTS_TRIED - 1} are all taken"),
        Hub(1, {}).open(HERE, 5),
    ):
        pass
