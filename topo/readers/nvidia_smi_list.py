"""`nvidia-smi -L`: which GPUs there are and what they are called, with their MIG devices. UUIDs are not kept."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from topo.errors import CaptureError
from topo.readers.plain_text import Line, cleaned_lines, command_in, lines_with

FORMAT = "nvidia-smi -L"

_GPU = re.compile(r"(?<!\w)(?<!for )GPU\s*(\d{1,3})\s*:\s*(\S.*?)\s*\(\s*UUID\s*:\s*([^)]*)\)?\s*$")
_UUID = re.compile(r"\bUUID\b")
_MIG = re.compile(r"\bMIG\s+(\d+[cg][\w.+]*)\s+Device\s+(\d{1,3})\s*:")
_OF_ANOTHER_OUTPUT = re.compile(r"\bLink\s*\d+\s*[:,]|\bNVLink\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One slice of a GPU: its profile (`3g.20gb`) and its number on the GPU."""

    profile: str
    number: int
    line: int


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """One GPU: NVML's index, its product's name, and its MIG devices (none where MIG is off)."""

    gpu: int
    name: str
    mig_devices: tuple[MigDevice, ...]
    line: int


@dataclass(frozen=True, slots=True)
class GpuListFacts:
    """The GPUs of one machine, each once however often the text shows it."""

    gpus: tuple[ListedGpu, ...]
    source: str = ""


def sniff(text: str) -> bool:
    """Whether the text holds a list of GPUs, not only the same lines as headings of `nvidia-smi nvlink`."""
    if not any(_GPU.search(line) for line in lines_with(text, _UUID)):
        return False
    try:
        return bool(_drafts(cleaned_lines(text)))
    except CaptureError:
        return False


def read(text: str, source: str = "") -> GpuListFacts:
    """The facts of the list.

    One GPU that stands several times (the lists of several containers) is one GPU, known by its UUID. CaptureError,
    with file and line, where there is no list, or one index stands for two GPUs.
    """
    drafts = _drafts(cleaned_lines(text, source))
    if not drafts:
        raise CaptureError(
            f"no list of GPUs: expected the output of {FORMAT}, lines such as GPU 0: NVIDIA H100 80GB HBM3 (UUID: ...)",
            source=source,
            line=1,
        )
    by_index: dict[int, _Draft] = {}
    for draft in drafts:
        first = by_index.setdefault(draft.gpu, draft)
        if (first.name, first.uuid) != (draft.name, draft.uuid):
            raise CaptureError(
                f"GPU {draft.gpu} stands for two GPUs (the other in line {first.line}): expected the list of one "
                "machine, give one file for each",
                source=source,
                line=draft.line,
            )
        if first is not draft:
            first.mig_devices += draft.mig_devices
    gpus = (ListedGpu(draft.gpu, draft.name, tuple(draft.mig_devices), draft.line) for draft in by_index.values())
    return GpuListFacts(tuple(gpus), source)


@dataclass(slots=True)
class _Draft:
    """A GPU's line and what follows it, while the list is read; `run` counts outputs, as a command begins one."""

    gpu: int
    name: str
    uuid: str
    line: int
    run: int
    mig_devices: list[MigDevice] = field(default_factory=list)


def _drafts(lines: tuple[Line, ...]) -> list[_Draft]:
    """The GPUs of the list, without those of an output in which such lines are headings."""
    drafts: list[_Draft] = []
    headings: set[int] = set()
    run, last = 0, -1
    for line in lines:
        match = _GPU.search(line.text)
        if match is not None:
            run += int(match[1]) <= last
            last = int(match[1])
            drafts.append(_Draft(last, match[2], match[3].strip(), line.number, run))
        elif command_in(line.text) is not None:
            run, last = run + 1, -1
        elif _OF_ANOTHER_OUTPUT.search(line.text):
            headings.add(run)
        elif drafts and (mig := _MIG.search(line.text)):
            drafts[-1].mig_devices.append(MigDevice(mig[1], int(mig[2]), line.number))
    return [draft for draft in drafts if draft.run not in headings]
