"""`-o FILE` leaves what is no regular file in place, and a regular one whole, with its mode."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import click
import pytest

from topo.cli_common import write_atomically


def test_a_pipe_is_written_into_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=write_atomically, args=(pipe, "text"), daemon=True)
    writer.start()
    assert pipe.read_text() == "text"
    writer.join(10)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_a_device_stays_a_device() -> None:
    write_atomically(Path(os.devnull), "text")
    assert stat.S_ISCHR(os.lstat(os.devnull).st_mode)


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o600)
    write_atomically(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("where", ["", "nowhere/file"])
def test_what_cannot_be_written_is_one_sentence(where: str, tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="cannot be written"):
        write_atomically(tmp_path / where, "text")
