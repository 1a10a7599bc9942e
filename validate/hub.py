"""Where the processes of somebody else's launcher meet: rank 0 listens, the others report and are told what to do.

One line of JSON goes each way for every report, so that nothing depends on torch or on what is measured.
"""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from topo.errors import EnvironmentMissing
from validate.progress import Report
from validate.words import listed

HELLO = "toposcope"
PORTS_TRIED = 16
"""Where the first port is taken, one of the next few is used; who comes tries them all."""

PATIENCE_S = 5.0
"""So long one exchange may take."""

MAX_LINE_BYTES = 256 * 2**20
"""Schedules of large runs are long; nothing else is."""


@dataclass(slots=True)
class Hub:
    """What rank 0 knows of all: their last reports on its own clock, and their hosts.

    `plan` is sent to whoever comes; `stop` to all once it is set: "" is a good end, anything else a failure.
    """

    num_ranks: int
    plan: dict[str, Any]
    stop: str | None = None
    reports: dict[int, Report] = field(default_factory=dict)
    hosts: dict[int, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """What a process is told for its report."""
        rank = int(message["rank"])
        with self._lock:
            self.hosts[rank] = str(message.get("host", ""))
            if message.get("report"):
                plain = dict(message["report"])
                age_s = float(plain.pop("age_s"))
                self.reports[rank] = Report(**plain, at_s=time.monotonic() - age_s)
        answer: dict[str, Any] = {"hello": HELLO, "stop": self.stop}
        if message.get("wants_plan"):
            answer["plan"] = self.plan
        return answer

    def seen(self) -> dict[int, Report]:
        """A copy of the reports."""
        with self._lock:
            return dict(self.reports)

    def where(self, ranks: tuple[int, ...]) -> str:
        """On which hosts these ranks run, in words; "" where nobody has said."""
        parts = [f"rank {rank} ran on {self.hosts[rank]}" for rank in ranks if self.hosts.get(rank)]
        return f"; {listed(parts)}" if parts else ""

    @contextlib.contextmanager
    def open(self, address: str, port: int) -> Iterator[int]:
        """Listens within it; the port. EnvironmentMissing where none of those that the others try is free."""
        hub = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = PATIENCE_S

            def handle(self) -> None:
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    message = json.loads(self.rfile.readline(MAX_LINE_BYTES))
                    if message.get("hello") == HELLO:
                        self.wfile.write(json.dumps(hub.answer(message)).encode() + b"\n")

        host = address if address.startswith("127.") else ""
        server = _bound(Handler, host, port)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="hub", daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def _bound(handler: type[socketserver.StreamRequestHandler], host: str, port: int) -> _Server:
    for number in range(port, port + PORTS_TRIED):
        with contextlib.suppress(OSError):
            return _Server((host, number), handler)
    raise EnvironmentMissing(
        f"ports {port} to {port + PORTS_TRIED - 1} are all taken on rank 0's host: set MASTER_PORT to another one"
    )


def ask(address: str, port: int, message: dict[str, Any]) -> dict[str, Any] | None:
    """What the hub answers; None where there is none, or something else listens there."""
    try:
        with socket.create_connection((address, port), timeout=PATIENCE_S) as connection:
            connection.sendall(json.dumps({"hello": HELLO, **message}).encode() + b"\n")
            with connection.makefile("rb") as stream:
                answer = json.loads(stream.readline(MAX_LINE_BYTES))
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) and answer.get("hello") == HELLO else None


def find(address: str, port: int, message: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
    """The port that the hub has, and its answer; None where it does not answer on any."""
    for number in range(port, port + PORTS_TRIED):
        answer = ask(address, number, message)
        if answer is not None:
            return number, answer
    return None
