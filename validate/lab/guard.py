"""Removes a lab once its process is gone, even where that was killed: `python -m validate.lab.guard PREFIX`.

It reads a pipe that nobody writes to, and which ends with the process that holds the other end.
"""

from __future__ import annotations

import signal
import sys

from validate.lab.namespaces import namespaces, remove


def main(prefix: str) -> int:
    """Wait for the end of standard input, then remove the run of that prefix; 1 where something is still there."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    remove(prefix)
    return int(any(name.startswith(prefix) for name in namespaces()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
