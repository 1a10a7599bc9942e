"""Text of unknown origin, checked before anything parses it: a file, or standard input."""

from __future__ import annotations

import re
import stat
import sys
from pathlib import Path

from topo.errors import CaptureError

MAX_BYTES = 32 * 2**20
"""Larger inputs are refused before they are read: no capture of one machine comes near it."""

_BINARY_MAGIC = {
    b"\x1f\x8b": "a gzip archive: unpack it first",
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"\x28\xb5\x2f\xfd": "a zstd archive: unpack it first",
    b"\x89PNG": "a PNG image: the text itself is needed",
    b"\xff\xd8\xff": "a JPEG image: the text itself is needed",
    b"%PDF": "a PDF: the text itself is needed",
}
_HTML = re.compile(r"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)


def read_file(path: Path) -> str:
    """The text of a file; CaptureError where it is missing, no regular file, too large, empty or no text."""
    try:
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
            raise CaptureError("no regular file: give a file or a folder of captures", source=str(path))
        _check_size(status.st_size, str(path))
        with path.open("rb") as stream:
            return decode(stream.read(MAX_BYTES + 1), str(path))
    except OSError as error:
        raise CaptureError(f"cannot be read ({error.strerror})", source=str(path)) from None


def read_stdin() -> str:
    """The text on standard input, checked like a file's."""
    # A program that is started without one has None there.
    if sys.stdin is None:
        raise CaptureError("closed: nothing can be read", source="standard input")
    return decode(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input")


def decode(content: bytes, source: str) -> str:
    """The bytes as text: UTF-8, or UTF-16 with its mark (as PowerShell redirects); CaptureError where they are none."""
    _check_size(len(content), source)
    if not content.strip():
        raise CaptureError("empty: capture it again", source=source)
    for magic, what in _BINARY_MAGIC.items():
        if content.startswith(magic):
            raise CaptureError(f"this is {what}", source=source)
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    if encoding != "utf-16" and b"\x00" in content:
        raise CaptureError(f"binary, byte {content.index(0)} is zero: expected the text of a capture", source=source)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise CaptureError(f"byte {error.start} is no {error.encoding} text: save it as UTF-8", source=source) from None
    if _HTML.match(text):
        raise CaptureError("an HTML page: save the raw text instead (on GitHub: Raw)", source=source)
    return text


def _check_size(num_bytes: int, source: str) -> None:
    if num_bytes > MAX_BYTES:
        raise CaptureError(
            f"larger than {MAX_BYTES // 2**20} MiB: no capture of a machine is so large, check the file", source=source
        )
