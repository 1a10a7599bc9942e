"""Removes a lab once its process is gone, even where that was killed: `python -m validate.lab.guard PREFIX`.

It reads a pipe that nobody writes to, and which ends with the process that holds the other end.
"""

from __future__ import annotations

import signal
import sys
import time

from validate.lab.namespaces import POLL_S, namespaces, processes, remove

NOTICING_S = 5.0


def main(prefix: str) -> int:
    """Wait for the end of standard input, then remove the run of that prefix; 1 where something is still there."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    _let_end(prefix)
    remove(prefix)
    return int(any(name.startswith(prefix) for name in namespaces()))


def _let_end(prefix: str) -> None:
    """Wait a little for processes that notice by themselves that nobody waits for them, and tidy up behind them."""
    deadline = time.monotonic() + NOTICING_S
    names = [name for name in namespaces() if name.startswith(prefix)]
    while time.monotonic() < deadline and any(processes(name) for name in names):
        time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
