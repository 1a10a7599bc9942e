"""Runs one command of somebody else's for a limited time and a limited amount of text, and leaves nothing behind."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

TIMEOUT_S = 30.0
MAX_OUTPUT_BYTES = 8 * 2**20
"""What is longer is dropped: `lspci -vvv` of the largest machines has some 2 MiB."""

_READ_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class RawText:
    """What one command printed, or why it printed nothing (`problem` is empty where it ran and gave 0)."""

    file: str
    command: tuple[str, ...]
    text: str = ""
    problem: str = ""


def run_command(
    file: str, command: Sequence[str], timeout_s: float = TIMEOUT_S, max_bytes: int = MAX_OUTPUT_BYTES
) -> RawText:
    """What a command prints (both streams where it fails), in the C locale, within these limits.

    One that is missing, fails, hangs or prints too much is recorded as a problem, never raised; it is ended together
    with all that it started.
    """
    arguments = tuple(command)
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except FileNotFoundError:
        return RawText(file, arguments, problem="not installed")
    except OSError as error:
        return RawText(file, arguments, problem=f"could not be started ({error.strerror})")
    with process:
        try:
            output, errors, problem = _drained(process, time.monotonic() + timeout_s, timeout_s, max_bytes)
        finally:
            _end(process)
    if problem:
        return RawText(file, arguments, problem=problem)
    text = output.decode(errors="replace")
    if process.returncode == 0:
        return RawText(file, arguments, text)
    text += errors.decode(errors="replace")
    return RawText(file, arguments, text, problem=f"ended with status {process.returncode}")


def _drained(
    process: subprocess.Popen[bytes], deadline_s: float, timeout_s: float, max_bytes: int
) -> tuple[bytes, bytes, str]:
    """All that the process prints on each stream until it ends, or the problem that stopped the reading."""
    late = f"gave no answer within {timeout_s:g} s"
    assert process.stdout is not None, "both streams are pipes"
    assert process.stderr is not None, "both streams are pipes"
    kept = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as selector:
        for number in kept:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline_s - time.monotonic()))
            if not ready:
                return b"", b"", late
            for key, _ in ready:
                chunk = os.read(key.fd, _READ_BYTES)
                if not chunk:
                    selector.unregister(key.fd)
                kept[key.fd] += chunk
            if sum(map(len, kept.values())) > max_bytes:
                return b"", b"", f"printed more than {max_bytes / 2**20:g} MiB"
    try:
        process.wait(max(0.0, deadline_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        return b"", b"", late
    output, errors = (bytes(content) for content in kept.values())
    return output, errors, ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills the process and whatever it started, as far as that still runs in its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
