"""Where the command line meets the outside: streams that cannot be written, names that are no text, absurd numbers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

STAR = "switch:8,bandwidth=200GB/s,latency=1us"


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("topo presets >/dev/full", 2),
        ("topo presets --format json >/dev/full", 2),
        ("topo presets >&-", 0),
        (f"topo simulate {STAR} --size 1M >&- 2>&-", 0),
        ("topo show nosuch 2>/dev/full", 2),
        (f"topo discover --from {'a' * 300}", 2),
        (f"topo simulate {STAR} --size 1M --chunks 1000000000000", 2),
        (f"topo simulate {STAR} --size 1M --channels 1000000", 2),
        (f"topo simulate {STAR} --size 1M --collective all_gather --algorithm tree", 2),
        ("topo validate run --ranks 1000000 --size 1K -n 1", 2),
        ("topo validate run --ranks 2 --size 1K --timeout nan", 2),
        ("topo validate run --ranks 2 --size 1K --tolerance nan", 2),
        ("topo validate run --ranks 2 --size 1K -o /nowhere/at/all", 2),
    ],
)
def test_borders_give_a_sentence_or_nothing(command: str, status: int) -> None:
    done = shell(command)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 3


def test_an_encoding_without_lines_still_draws() -> None:
    done = shell("topo show dgx-h100", PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr


def test_an_alias_names_its_collective() -> None:
    one, other = (shell(f"topo simulate {STAR} --size 1M --collective {name}") for name in ("allreduce", "all_reduce"))
    assert one.stdout == other.stdout != ""


def test_a_pair_of_gpus_that_is_not_shown_is_not_priced(tmp_path: Path) -> None:
    path = tmp_path / "part.txt"
    path.write_text("\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV18\tNV18\n")
    done = shell(f"topo simulate {path} --size 1G")
    assert done.returncode == 2
    assert done.stdout == ""


def test_a_capability_below_zero_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sm.xml"
    path.write_text(
        '<system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">'
        '<pci busid="0000:01:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">'
        '<gpu dev="0" sm="-1" rank="0"/></pci></cpu></system>'
    )
    done = shell(f"topo simulate {path} --size 1M")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("when", ["while it is imported", "while it runs", "while it ends"])
def test_an_interrupt_gives_no_traceback_whenever_it_comes(tmp_path: Path, when: str) -> None:
    strike = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)\n"
    stands_in = {"while it is imported": "click.py", "while it runs": "simpy.py"}
    (tmp_path / stands_in.get(when, "unused.py")).write_text(strike)
    at_exit = f"import atexit; atexit.register(exec, {strike!r}, {{}}); " if when == "while it ends" else ""
    words = ["topo", "simulate", "switch:2,bandwidth=1GB/s"]
    start = f"import sys; sys.argv = {words}; from topo.start import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", at_exit + start],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in (-signal.SIGINT, 130)
