"""Captures a machine as raw text with its provenance: runs commands, reads /sys, and understands none of it.

A command that is missing, fails or hangs is recorded, never raised. Names of hosts, addresses and serial numbers are
not asked for, so they cannot be stored.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from topo.errors import CaptureError

TIMEOUT_S = 30.0
MAX_FILE_BYTES = 64 * 2**10

GPU_QUERY = ",".join(
    (
        "index",
        "name",
        "pci.bus_id",
        "compute_cap",
        "pcie.link.gen.current",
        "pcie.link.gen.max",
        "pcie.link.width.current",
        "pcie.link.width.max",
    )
)

COMMANDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("nvidia-smi-topo-m.txt", ("nvidia-smi", "topo", "-m")),
    ("nvidia-smi-topo-p2p-r.txt", ("nvidia-smi", "topo", "-p2p", "r")),
    ("nvidia-smi-nvlink-s.txt", ("nvidia-smi", "nvlink", "-s")),
    ("nvidia-smi-query-gpu.csv", ("nvidia-smi", f"--query-gpu={GPU_QUERY}", "--format=csv")),
    ("rocm-smi-showtopo.txt", ("rocm-smi", "--showtopo")),
)
"""What is run, and the file that --save-capture keeps its text in."""

SYSFS_FILE = "sysfs.json"
LOG_FILE = "capture-log.txt"

SYSFS_FILES = (
    "sys/devices/system/node/node[0-9]*/cpulist",
    "sys/devices/system/node/node[0-9]*/distance",
    "sys/class/net/*/speed",
    "sys/class/net/*/operstate",
    "sys/class/net/*/type",
    "sys/class/infiniband/*/ports/*/rate",
    "sys/class/infiniband/*/ports/*/state",
    "sys/class/infiniband/*/ports/*/link_layer",
    "proc/cpuinfo",
)
SYSFS_LINKS = ("sys/class/net/*", "sys/class/infiniband/*")
PCI_FILES = (
    "class",
    "vendor",
    "device",
    "numa_node",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
)
CPUINFO_LINES = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")
PCI_CLASSES = ("0x02", "0x03", "0x12")
"""PCI functions that are kept: network, display, accelerators."""


@dataclass(frozen=True, slots=True)
class RawText:
    """What one command printed, or why it printed nothing (`problem` is empty where it ran and gave 0)."""

    file: str
    command: tuple[str, ...]
    text: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Capture:
    """A machine as raw texts: of each command, and the snapshot of /sys as its JSON document."""

    commands: tuple[RawText, ...]
    sysfs: str

    def files(self) -> Iterator[tuple[str, str]]:
        """Name and text of every file that a saved capture holds of it, but for the log."""
        yield from ((raw.file, raw.text) for raw in self.commands if raw.text)
        yield SYSFS_FILE, self.sysfs

    def text_of(self, file: str) -> RawText:
        """What the command behind that file name printed."""
        return next(raw for raw in self.commands if raw.file == file)


Run = Callable[[str, Sequence[str]], RawText]


def capture(root: Path = Path("/"), run: Run | None = None) -> Capture:
    """This machine as raw texts; `root` and `run` stand in for it in tests."""
    runner = run or run_command
    return Capture(tuple(runner(file, command) for file, command in COMMANDS), read_sysfs(root))


def run_command(file: str, command: Sequence[str], timeout_s: float = TIMEOUT_S) -> RawText:
    """What a command prints (both streams where it fails), in the C locale and for at most `timeout_s`."""
    arguments = tuple(command)
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            arguments, capture_output=True, stdin=subprocess.DEVNULL, env=environment, timeout=timeout_s, check=False
        )
    except FileNotFoundError:
        return RawText(file, arguments, problem="not installed")
    except subprocess.TimeoutExpired:
        return RawText(file, arguments, problem=f"gave no answer within {timeout_s:g} s")
    except OSError as error:
        return RawText(file, arguments, problem=f"could not be started ({error.strerror})")
    text = done.stdout.decode(errors="replace")
    if done.returncode == 0:
        return RawText(file, arguments, text)
    text += done.stderr.decode(errors="replace")
    return RawText(file, arguments, text, problem=f"ended with status {done.returncode}")


def read_sysfs(root: Path = Path("/")) -> str:
    """The snapshot of /sys and /proc below `root`, as the JSON document that `readers.sysfs` reads."""
    from topo.readers import sysfs

    paths = [path for pattern in SYSFS_FILES for path in sorted(root.glob(pattern))]
    paths.extend(_pci_files(root))
    files = {str(path.relative_to(root)): text for path in paths if (text := _text(path)) is not None}
    if "proc/cpuinfo" in files:
        files["proc/cpuinfo"] = _first_processor(files["proc/cpuinfo"])
    links = {
        str(path.relative_to(root)): os.readlink(path)
        for pattern in SYSFS_LINKS
        for path in sorted(root.glob(pattern))
        if path.is_symlink()
    }
    return sysfs.render(files, links, _affinity(), platform.machine())


def save(captured: Capture, folder: Path) -> None:
    """Writes the raw texts to a folder that is new or empty, with a log of what was run and what failed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise CaptureError("not empty: captures are never mixed, give a new folder", source=str(folder))
        log = [f"{' '.join(raw.command)}: {raw.problem or 'ok'}" for raw in captured.commands]
        for file, text in captured.files():
            (folder / file).write_text(text, encoding="utf-8")
        (folder / LOG_FILE).write_text("\n".join(log) + "\n", encoding="utf-8")
    except OSError as error:
        raise CaptureError(f"cannot be written ({error.strerror})", source=str(folder)) from None


def _pci_files(root: Path) -> Iterator[Path]:
    for function in sorted(root.glob("sys/bus/pci/devices/*")):
        if (_text(function / "class") or "").startswith(PCI_CLASSES):
            yield from (function / name for name in PCI_FILES)


def _text(path: Path) -> str | None:
    """A small file's text, None where it cannot be read (many files of /sys say so by an error)."""
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_FILE_BYTES).decode(errors="replace").strip()
    except OSError:
        return None


def _first_processor(cpuinfo: str) -> str:
    """The first processor's lines that name it: the others repeat them. A cut, not a parse."""
    lines = cpuinfo.split("\n\n", maxsplit=1)[0].splitlines()
    return "\n".join(line for line in lines if line.startswith(CPUINFO_LINES))


def _affinity() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
