"""Captures a machine as raw text with its provenance: runs commands, asks NVML, NCCL and /sys, understands none of it.

A command that is missing, fails, hangs or prints without end is recorded, never raised, and the others go on. What
names the machine (host, serial numbers, UUIDs, addresses) is replaced before anything is kept or read.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from topo.capture_nvml import capture_nvml
from topo.captures import LOG_FILE
from topo.commands import RawText, run_command
from topo.errors import CaptureError
from topo.redact import Redactor
from topo.sources import Source, installed_sources

MAX_FILE_BYTES = 64 * 2**10

GPU_QUERY = (
    "index,name,pci.bus_id,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max,"
    "utilization.gpu"
)
NEWER_GPU_QUERY = "index,name,pci.bus_id,compute_cap,mig.mode.current"
"""What older drivers do not know: they refuse a whole query for one such column."""


COMMANDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("nvidia-smi-topo-m.txt", ("nvidia-smi", "topo", "-m")),
    ("nvidia-smi-topo-mp.txt", ("nvidia-smi", "topo", "-mp")),
    ("nvidia-smi-topo-p2p-r.txt", ("nvidia-smi", "topo", "-p2p", "r")),
    ("nvidia-smi-L.txt", ("nvidia-smi", "-L")),
    ("nvidia-smi-query-gpu.csv", ("nvidia-smi", f"--query-gpu={GPU_QUERY}", "--format=csv")),
    ("nvidia-smi-query-gpu-newer.csv", ("nvidia-smi", f"--query-gpu={NEWER_GPU_QUERY}", "--format=csv")),
    ("nvidia-smi-nvlink-s.txt", ("nvidia-smi", "nvlink", "-s")),
    ("nvidia-smi-nvlink-R.txt", ("nvidia-smi", "nvlink", "-R")),
    ("nvidia-smi-nvlink-c.txt", ("nvidia-smi", "nvlink", "-c")),
    ("nvidia-smi-nvlink-e.txt", ("nvidia-smi", "nvlink", "-e")),
    ("lspci-vvv.txt", ("lspci", "-D", "-vvv")),
    ("rocm-smi-showtopo.txt", ("rocm-smi", "--showtopo")),
)
"""What is run, and the file that --save-capture keeps its text in."""

SYSFS_FILE = "sysfs.json"

SYSFS_FILES = (
    "sys/devices/system/node/node[0-9]*/cpulist",
    "sys/devices/system/node/node[0-9]*/distance",
    "sys/class/net/*/speed",
    "sys/class/net/*/operstate",
    "sys/class/net/*/type",
    "sys/class/infiniband/*/ports/*/rate",
    "sys/class/infiniband/*/ports/*/state",
    "sys/class/infiniband/*/ports/*/link_layer",
    "sys/kernel/iommu_groups/*/type",
    "proc/cpuinfo",
    "proc/cmdline",
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
"""PCI functions that are kept: network, display, accelerators; with them go the bridges above."""

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_CMDLINE_WORD = re.compile(r"\S*(?:iommu|pci=|acs)\S*")


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

    @property
    def log(self) -> str:
        """What was run, and what became of it, a line each."""
        return "".join(f"{raw.file}: {' '.join(raw.command)}: {raw.problem or 'ok'}\n" for raw in self.commands)


Run = Callable[[str, Sequence[str]], RawText]

MAX_AT_ONCE = 4
"""Commands that run side by side: nvidia-smi takes seconds where no daemon keeps the driver awake."""


def capture(root: Path = Path("/"), run: Run | None = None, sources: Sequence[Source] | None = None) -> Capture:
    """This machine as raw texts; `root`, `run` and `sources` (NVML and all that are installed) stand in for it."""
    from concurrent.futures import ThreadPoolExecutor

    if sources is None:
        sources = (capture_nvml, *installed_sources()) if run is None else ()
    with ThreadPoolExecutor(MAX_AT_ONCE) as pool:
        texts = [pool.submit(run or run_command, *command) for command in COMMANDS]
        told = [text.result() for text in (*texts, *map(pool.submit, sources))]
    redact = Redactor([platform.node()])
    return Capture(tuple(replace(raw, text=redact(raw.text)) for raw in told), redact(read_sysfs(root)))


def read_sysfs(root: Path = Path("/")) -> str:
    """The snapshot of /sys and /proc below `root`, as the JSON document that `readers.sysfs` reads."""
    from topo.readers import sysfs

    kept = _kept_functions(root)
    links = _links(root, kept)
    paths = [path for pattern in SYSFS_FILES for path in sorted(root.glob(pattern))]
    addresses = {path.name for path in kept} | set(_ADDRESS.findall(" ".join(links.values())))
    paths += [root / "sys/bus/pci/devices" / address / name for address in sorted(addresses) for name in PCI_FILES]
    files = {str(path.relative_to(root)): text for path in paths if (text := _text(path)) is not None}
    for name, cut in (("proc/cpuinfo", _first_processor), ("proc/cmdline", _words_on_iommu)):
        if name in files:
            files[name] = cut(files[name])
    return sysfs.render(files, links, _affinity(), platform.machine())


def _kept_functions(root: Path) -> list[Path]:
    """The PCI functions of a class that is kept."""
    functions = sorted(root.glob("sys/bus/pci/devices/*"))
    return [path for path in functions if (_text(path / "class") or "").startswith(PCI_CLASSES)]


def _links(root: Path, functions: Sequence[Path]) -> Mapping[str, str]:
    """The symbolic links of NICs, and of PCI functions (through the bridges above) and their IOMMU groups."""
    paths = [path for pattern in SYSFS_LINKS for path in sorted(root.glob(pattern))]
    paths += [path for function in functions for path in (function, function / "iommu_group")]
    return {str(path.relative_to(root)): os.readlink(path) for path in paths if path.is_symlink()}


def save(captured: Capture, folder: Path) -> None:
    """Writes the raw texts to a folder that is new or empty, with a log of what was run and what failed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise CaptureError("not empty: captures are never mixed, give a new folder", source=str(folder))
        for file, text in captured.files():
            (folder / file).write_text(text, encoding="utf-8")
        (folder / LOG_FILE).write_text(captured.log, encoding="utf-8")
    except OSError as error:
        raise CaptureError(f"cannot be written ({error.strerror})", source=str(folder)) from None


def _words_on_iommu(cmdline: str) -> str:
    """The kernel's options that are about IOMMU and PCI: the others may name the machine. A cut, not a parse."""
    return " ".join(_CMDLINE_WORD.findall(cmdline))


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
