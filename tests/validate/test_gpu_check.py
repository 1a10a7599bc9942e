"""The script for a machine with GPUs, as far as it goes without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from validate.backends.gpus import num_gpus

SCRIPT = ROOT / "tests" / "gpu" / "check.sh"


@pytest.mark.skipif(num_gpus() > 0, reason="here is a GPU: run the script itself")
def test_without_a_gpu_the_script_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHON": sys.executable, "TMPDIR": str(tmp_path)}
    command = ["bash", str(SCRIPT), str(tmp_path / "result.json")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "torch sees no GPU here" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_script_asks_for_nothing_that_the_command_does_not_know() -> None:
    from validate.cli_run import run

    known = {option for parameter in run.params for option in parameter.opts}
    lines = [line for line in SCRIPT.read_text().splitlines() if "measure " in line and "--backend" in line]
    used = {word for line in lines for word in line.split() if word.startswith("-")}
    assert len(lines) >= 8
    assert used <= known | {"--ranks"}
