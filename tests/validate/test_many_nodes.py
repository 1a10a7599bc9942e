"""The lines that start a run on several nodes."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from topo.cli import main
from validate.many_nodes import lines

WORDS = ["validate", "run", "dgx-h100", "--nodes", "4", "--backend", "nccl", "--dry-run"]


def test_each_launcher_has_its_line_without_what_only_prints_it() -> None:
    comment, srun, mpirun, _, torchrun = lines(WORDS, 4, 8).splitlines()
    assert "32 processes on 4 nodes" in comment
    assert srun == "srun --nodes 4 --ntasks-per-node 8 topo validate run dgx-h100 --nodes 4 --backend nccl"
    assert mpirun.startswith("mpirun -np 32 --map-by ppr:8:node -x MASTER_ADDR=HOST topo validate run dgx-h100")
    assert torchrun.startswith("torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29500")
    assert torchrun.endswith("-m topo.start validate run dgx-h100 --nodes 4 --backend nccl")


def test_words_with_blanks_stay_together() -> None:
    assert "'my machine.xml'" in lines(["validate", "run", "my machine.xml"], 2, 1)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: nothing is measured")
def test_a_dry_run_for_several_nodes_needs_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["topo", *WORDS])
    result = CliRunner().invoke(main, WORDS, prog_name="topo")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == lines(WORDS, 4, 8)
