"""topo discover, show and presets as a user runs them, and how any command fails."""

from __future__ import annotations

import csv
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from topo.cli import main
from topo.errors import Deadlock, EnvironmentMissing
from topo.fabric import FABRICS
from topo.presets import PRESETS
from topo.writers import WRITERS

MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n"


def topo(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="topo", input=stdin)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, as the console script starts it."""
    code = "import sys; from topo.cli import main; main(prog_name='topo')"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
        timeout=60,
    )


def fake_nvidia_smi(folder: Path, script: str) -> str:
    """A folder with an nvidia-smi that does as told, put in front of PATH."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_discover_reads_nvidia_smi_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "matrix.txt").write_text(MATRIX)
    script = f'[ "$*" = "topo -m" ] && cat "{tmp_path}/matrix.txt" || exit 1'
    done = run("discover", "--format", "json", PATH=fake_nvidia_smi(tmp_path, script))
    assert done.returncode == 0
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document["matrix"]["GPU0"]["GPU1"] == "PIX"
    assert document["gpu_ids"] == ["GPU0", "GPU1"]


def test_discover_without_gpus_gives_processes_and_says_so(tmp_path: Path) -> None:
    script = "echo 'NVIDIA-SMI has failed because of the driver'; exit 9"
    done = run("discover", "--format", "json", PATH=fake_nvidia_smi(tmp_path, script))
    assert done.returncode == 0
    document = json.loads(done.stdout)
    kinds = [device["kind"] for device in document["devices"]]
    assert kinds.count("process") == document["num_ranks"] >= 1
    assert {"cpu", "nic"} <= set(kinds)
    assert len(done.stderr.splitlines()) == 1
    assert "no NVIDIA GPU" in done.stderr
    assert "NVIDIA-SMI has failed" in done.stderr


def test_discover_keeps_what_it_reads(tmp_path: Path) -> None:
    folder = str(tmp_path / "kept")
    first = topo("discover", "--save-capture", folder, "--format", "json")
    assert first.exit_code == 0
    again = topo("discover", "--from", folder, "--format", "json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["devices"] == json.loads(first.stdout)["devices"]
    assert topo("discover", "--from", folder, "--save-capture", folder).exit_code == 2


def test_discover_and_show_print_the_same_document(tmp_path: Path) -> None:
    path = str(tmp_path / "m.txt")
    Path(path).write_text(MATRIX)
    assert topo("discover", "--from", path, "--format", "json").stdout == topo("show", path, "--as", "json").stdout


@pytest.mark.parametrize("form", WRITERS)
def test_show_writes_every_form_it_offers(form: str, tmp_path: Path) -> None:
    shown = topo("show", "dgx-h100", "--as", form)
    assert shown.exit_code == 0
    assert shown.stderr == ""
    path = tmp_path / "out"
    assert topo("show", "dgx-h100", "--as", form, "-o", str(path)).exit_code == 0
    assert path.read_text(encoding="utf-8") == shown.stdout


@pytest.mark.parametrize("name", ["m.JSON", "m.xml", "m", "m.v2"])
def test_any_suffix_will_do_with_a_form(name: str, tmp_path: Path) -> None:
    assert topo("show", "dgx-h100", "--as", "matrix", "-o", str(tmp_path / name)).exit_code == 0
    assert (tmp_path / name).read_text().startswith("\tGPU0")
    assert topo("show", "dgx-h100", "-o", str(tmp_path / name)).exit_code == (2 if name == "m.v2" else 0)


def test_the_help_of_a_fabric_names_them_all() -> None:
    said = " ".join(topo("show", "--help").stdout.split())
    assert not [name for name in FABRICS if name not in said]
    assert not [key for key in ("bandwidth=", "latency=", "nodes_per_leaf=") if key not in said]


def test_the_form_follows_from_the_suffix(tmp_path: Path) -> None:
    assert topo("show", "dgx-h100", "-o", str(tmp_path / "m.dot")).exit_code == 0
    assert (tmp_path / "m.dot").read_text().startswith("graph ")
    assert stat.S_IMODE((tmp_path / "m.dot").stat().st_mode) & 0o400
    assert [path.name for path in tmp_path.iterdir()] == ["m.dot"]


@pytest.mark.parametrize("name", ["dgx-h100", "dgx1-v100", "pcie-4gpu", "switch:1024,bandwidth=200GB/s"])
def test_a_drawing_fits_80_columns_and_names_every_gpu(name: str) -> None:
    drawn = topo("show", name).stdout
    assert max(map(len, drawn.splitlines())) <= 80
    assert "\x1b" not in drawn
    assert "GPU0" in drawn


def test_a_drawing_shows_what_hangs_below_what() -> None:
    lines = topo("show", "dgx-h100").stdout.splitlines()
    assert lines[0] == "dgx-h100: 8 GPUs, 8 NICs, 2 NUMA nodes"
    assert lines[2].startswith("├─ numa0/switch0  PCIe switch")
    assert lines[3].startswith("│  ├─ GPU0  H100 SXM5")
    assert lines[3].endswith("pcie x16 63.02 GB/s")
    assert "  NVS0 - GPU0..GPU7: 450 (18 links) each" in lines


def test_clusters_are_written_out() -> None:
    shown = topo("show", "dgx-h100", "--nodes", "2", "--as", "json")
    assert json.loads(shown.stdout)["num_ranks"] == 16
    assert "written out" in shown.stderr


def test_presets_in_every_format() -> None:
    rows = list(csv.DictReader(topo("presets", "--format", "csv").stdout.splitlines()))
    assert {"preset", "num_gpus", "description"} == set(rows[0])
    assert {"dgx1-v100", "dgx-a100", "dgx-h100", "dgx-b200", "pcie-4gpu", "pcie-8gpu"} <= {
        row["preset"] for row in rows
    }
    document = json.loads(topo("presets", "--format", "json").stdout)
    assert document["schema"] == "presets/1"
    assert document["rows"][0]["num_gpus"] == 8
    assert topo("presets", "--format", "md").stdout.startswith("| preset | GPUs |")
    assert topo("presets").stdout.startswith("preset")


def test_presets_are_a_line_each_that_fits_80_columns() -> None:
    lines = topo("presets").stdout.splitlines()
    assert len(lines) == 1 + len(PRESETS)
    assert not [line for line in lines if len(line) > 80]


BAD = {
    "no topology": ["show"],
    "unknown command": ["shwo"],
    "unknown option": ["show", "dgx-h100", "--gpu", "0"],
    "unknown form": ["show", "dgx-h100", "--as", "pdf"],
    "unknown preset": ["show", "dgx-h10"],
    "no such file": ["show", "none.xml"],
    "GPU 9 of 8": ["show", "dgx-h100", "--gpus", "9"],
    "no nodes": ["show", "dgx-h100", "--nodes", "0"],
    "unknown fabric": ["show", "dgx-h100", "--nodes", "2", "--fabric", "fat"],
    "no unit": ["show", "switch:8,bandwidth=200"],
    "unknown unit": ["show", "switch:8,bandwidth=200GBps"],
    "a fabric for one node": ["show", "dgx-h100", "--fabric", "rail"],
    "two nodes for NCCL": ["show", "dgx-h100", "--nodes", "2", "--as", "nccl-xml"],
    "unknown suffix": ["show", "dgx-h100", "-o", "m.png"],
    "output nowhere": ["show", "dgx-h100", "-o", "/nonexistent/folder/x"],
    "capture nowhere": ["discover", "--from", "/nonexistent"],
    "not writable": ["discover", "--save-capture", "/proc/nowhere"],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_usage_is_one_sentence_and_status_2(name: str) -> None:
    result = topo(*BAD[name])
    assert result.exit_code == 2
    assert result.stdout == ""
    *notes, error = result.stderr.splitlines()
    assert error.startswith("topo: error: ")
    assert not [note for note in notes if not note.startswith("topo: 2 x dgx-h100 written out")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shwo"], "did you mean 'show'?"),
        (["show", "dgx-h100", "--node", "2", "--gpuss", "1"], "Did you mean"),
        (["show", "dgx-h10"], "did you mean 'dgx-h100'?"),
        (["show"], "(see topo show --help)"),
        (["show", "dgx-h100", "-o", "m.png"], "give --as, or one of .txt (text), .json (json), .xml (nccl-xml), "),
        (["show", "dgx-h100", "--fabric", "rail"], "--fabric rail joins nodes, and there is one: add --nodes 2"),
    ],
)
def test_bad_usage_says_what_is_near(arguments: list[str], words: str) -> None:
    assert words in topo(*arguments).stderr


@pytest.mark.parametrize("content", ["", "\0\1\2", "<html></html>", "<system>", '{"schema": "topology/1"}', "words"])
def test_bad_input_is_one_sentence_without_a_traceback(content: str) -> None:
    result = topo("show", "-", stdin=content)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("topo: error: standard input")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (EnvironmentMissing("no torch here"), 3),
        (Deadlock("3 transfers never finish"), 2),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
    ],
)
def test_an_error_decides_the_exit_status(error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("topo.load.load_topology", fail)
    result = topo("show", "dgx-h100")
    assert result.exit_code == status
    assert len(result.stderr.splitlines()) == 1 or isinstance(error, KeyboardInterrupt)


def test_a_finding_is_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def finding(*_: object, **__: object) -> None:
        click.get_current_context().exit(1)

    monkeypatch.setattr("topo.load.load_topology", finding)
    assert topo("show", "dgx-h100").exit_code == 1


def test_a_reader_that_has_had_enough_is_no_error() -> None:
    code = "from topo.cli import main; main(['show', 'dgx-h100', '--as', 'json'])"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


def test_help_loads_little() -> None:
    code = (
        "import json, sys\n"
        "from topo.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    pass\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = json.loads(done.stderr)
    assert not {"networkx", "numpy", "torch", "rich", "msgspec", "simpy", "sim", "validate"} & set(modules)
    assert len(modules) < 250, "170 in all; click alone loads 104"
    for name in ("discover", "presets", "show"):
        assert f"\n  {name} " in done.stdout
