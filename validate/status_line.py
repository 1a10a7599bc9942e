"""One line on a terminal's stderr that says how far something is, gone when it is done."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sim.cli_options import SECONDS_BEFORE_PROGRESS

_CLEAR = "\r\033[K"


class StatusLine:
    """Shows the last words it was told, once two seconds have passed, where stderr is a terminal; else nothing."""

    def __init__(self) -> None:
        self._begin_s = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._shown = ""

    def tell(self, words: str) -> None:
        """Show these words in place of the last ones, cut to the width of the screen."""
        if not self._is_terminal or time.monotonic() - self._begin_s < SECONDS_BEFORE_PROGRESS:
            return
        line = words[: _width() - 1]
        if line != self._shown:
            self._shown = line
            sys.stderr.write(f"{_CLEAR}{line}")
            sys.stderr.flush()

    def close(self) -> None:
        """Wipe the line away."""
        if self._shown:
            self._shown = ""
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


@contextmanager
def status_line() -> Iterator[StatusLine]:
    """A status line that is wiped away however the block ends."""
    line = StatusLine()
    try:
        yield line
    finally:
        line.close()
